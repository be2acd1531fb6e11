"""Webhooks: signed, retried, told once, and sent to no address that they should not reach."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update
from typer.testing import CliRunner

from memalign.errors import ConfigurationError, InputError
from memalign_server import Settings
from memalign_server.command import app as serve
from memalign_server.store import Store
from memalign_server.store.work_tables import deliveries
from memalign_server.work import webhooks
from memalign_server.work.delivering import Post, check_url, deliver_due
from server_support import world
from test_jobs import FEEDBACK, SOON, ended

HOOKS = "/api/v1/teams/main/webhooks"


@dataclass
class Receiver:
    """A server on loopback that notes what it is told; it answers with the statuses in turn, the last one for ever."""

    statuses: list[int] = field(default_factory=lambda: [204])
    told: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    url: str = ""

    def wait(self, count: int) -> None:
        until = time.monotonic() + SOON
        while len(self.told) < count and time.monotonic() < until:
            time.sleep(0.02)
        assert len(self.told) >= count


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            made.told.append(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(made.statuses.pop(0) if len(made.statuses) > 1 else made.statuses[0])
            self.send_header("location", "http://127.0.0.1:1/elsewhere")
            self.end_headers()

        def log_message(self, *_given: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        made.url = f"http://127.0.0.1:{server.server_port}/hook?a=1"
        yield made
        server.shutdown()
        thread.join()


@pytest.fixture
def client(tmp_path: Path) -> Iterator[world.Browser]:
    world.registry(tmp_path)
    with world.Browser(world.server(tmp_path, private_webhooks=True), base_url=world.ADDRESS) as made:
        yield made


@pytest.fixture
def numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Addresses in numbers, which ask nobody, without the guard of the tests."""
    plain = socket.getaddrinfo

    def numeric(host: str, port: int, **more: Any) -> Any:
        if host == "localhost" or not host:
            return plain(host, port, **more)
        shown = host if ":" in host else socket.inet_ntoa(socket.inet_aton(host))
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (shown, port))]

    monkeypatch.setattr(socket, "getaddrinfo", numeric)


def aligned(client: world.Browser) -> dict[str, Any]:
    return ended(client, client.post("/api/v1/judges/tone/align", json={"feedback": FEEDBACK}).json())


def state_of(client: world.Browser, hook: str, state: str) -> dict[str, Any]:
    until = time.monotonic() + SOON
    found: list[dict[str, Any]] = []
    while time.monotonic() < until:
        found = client.get(f"{HOOKS}/{hook}/deliveries").json()
        if found and found[0]["state"] == state and found[0]["tries"]:
            return found[0]
        time.sleep(0.05)
    raise AssertionError(found)


def test_the_end_of_work_is_told_and_signed(client: world.Browser, receiver: Receiver) -> None:
    made = client.post(HOOKS, json={"url": receiver.url, "events": ["align.done"]}).json()
    job = aligned(client)
    receiver.wait(1)
    headers, body = receiver.told[0]
    assert json.loads(body)["data"] == {"judge": "tone", "job": job["id"], "state": "done"}
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    key = made["secret"].removeprefix("whsec_").encode()
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"
    assert abs(int(headers["webhook-timestamp"]) - time.time()) < SOON
    assert state_of(client, made["id"], "delivered")["answer"] == "204 No Content"


def test_no_word_of_a_case_is_told(client: world.Browser, receiver: Receiver) -> None:
    client.post(HOOKS, json={"url": receiver.url})
    aligned(client)
    receiver.wait(1)
    assert b"transit" not in receiver.told[0][1]


def test_only_what_was_asked_for_is_told(client: world.Browser, receiver: Receiver) -> None:
    client.post(HOOKS, json={"url": receiver.url, "events": ["unalign.done", "align.failed"]})
    aligned(client)
    ended(client, client.post("/api/v1/judges/tone/unalign", json={"keys": ["t-1"]}).json())
    receiver.wait(1)
    assert [json.loads(body)["type"] for _, body in receiver.told] == ["unalign.done"]


def test_a_receiver_that_fails_is_told_again(client: world.Browser, receiver: Receiver) -> None:
    receiver.statuses = [500, 204]
    hook = client.post(HOOKS, json={"url": receiver.url}).json()["id"]
    aligned(client)
    failed = state_of(client, hook, "waiting")
    assert failed["answer"].startswith("500")
    with client.app.state.server.store.write() as connection:  # type: ignore[attr-defined]  # ten seconds later
        connection.execute(update(deliveries).values(next_at=0.0))
    assert state_of(client, hook, "delivered")["tries"] == 2
    one, other = (headers["webhook-id"] for headers, _ in receiver.told)
    assert one == other  # by which a receiver knows that it heard this before


def test_after_the_last_try_it_has_failed(client: world.Browser, receiver: Receiver) -> None:
    receiver.statuses = [302]  # not followed: it could lead into a private network
    hook = client.post(HOOKS, json={"url": receiver.url}).json()["id"]
    aligned(client)
    state_of(client, hook, "waiting")
    with client.app.state.server.store.write() as connection:  # type: ignore[attr-defined]  # the tries in between
        connection.execute(update(deliveries).values(next_at=0.0, tries=7))
    assert state_of(client, hook, "failed")["tries"] == 8
    assert len(receiver.told) == 2


def test_what_waits_is_told_after_a_restart(tmp_path: Path, receiver: Receiver) -> None:
    world.registry(tmp_path)
    receiver.statuses = [500, 204]
    with world.Browser(world.server(tmp_path, private_webhooks=True), base_url=world.ADDRESS) as client:
        hook = client.post(HOOKS, json={"url": receiver.url}).json()["id"]
        aligned(client)
        state_of(client, hook, "waiting")
        with client.app.state.server.store.write() as connection:  # type: ignore[attr-defined]  # a test's application
            connection.execute(update(deliveries).values(next_at=time.time() + 5.0))
    with world.Browser(world.server(tmp_path, private_webhooks=True), base_url=world.ADDRESS) as client:
        with client.app.state.server.store.write() as connection:  # type: ignore[attr-defined]  # the same
            connection.execute(update(deliveries).values(next_at=0.0))
        assert state_of(client, hook, "delivered")["tries"] == 2


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1/x",
        "https://localhost/x",
        "https://[::1]/x",
        "https://[::ffff:127.0.0.1]/x",
        "https://10.1.2.3/x",
        "https://169.254.169.254/latest/meta-data",
        "https://0.0.0.0/x",
        "https://2130706433/x",
        "http://8.8.8.8/x",
        "ftp://8.8.8.8/x",
        "https://user:secret@8.8.8.8/x",
        "https:///x",
        "https://8.8.8.8:99999/x",
    ],
)
@pytest.mark.usefixtures("numbers")
def test_private_addresses_are_refused(url: str) -> None:
    with pytest.raises(InputError):
        check_url(url, private=False)


@pytest.mark.usefixtures("numbers")
def test_a_public_address_is_taken() -> None:
    check_url("https://8.8.8.8/x", private=False)


async def test_a_name_that_moved_inside_is_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Public when it was checked, and private when it is sent to: the address is looked up again.
    store = Store(world.registry(tmp_path).url)
    with store.write() as connection:
        made, _ = webhooks.add_webhook(connection, "main", "https://moves.example/x", ["*"])
        webhooks.tell(connection, kind="align", state="done", judge="tone", job="1")
    inside = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 443))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_given, **_more: inside)
    assert await deliver_due(store, Post()) == 1
    with store.read() as connection:
        (found,) = webhooks.deliveries_of(connection, made.id)
    assert "private network" in str(found.answer)


def test_a_removed_webhook_hears_nothing(client: world.Browser, receiver: Receiver) -> None:
    hook = client.post(HOOKS, json={"url": receiver.url}).json()["id"]
    assert [each["secret"] for each in client.get(HOOKS).json()] == [None]
    assert client.delete(f"{HOOKS}/{hook}").status_code == 204
    aligned(client)
    assert receiver.told == []
    assert client.delete(f"{HOOKS}/{hook}").status_code == 404


# -- by a proxy ------------------------------------------------------------------------------------------------------


@dataclass
class Proxy:
    """A proxy on loopback: it notes where it was asked to lead, and what the first bytes through its tunnel were."""

    url: str = ""
    asked: list[str] = field(default_factory=list)
    through: list[bytes] = field(default_factory=list)


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    made = Proxy()

    class Handler(BaseHTTPRequestHandler):
        def do_CONNECT(self) -> None:
            made.asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            made.through.append(self.connection.recv(4096))
            self.close_connection = True

        def do_POST(self) -> None:
            made.asked.append(f"{self.path} {self.headers['host']}")
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_given: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        made.url = f"http://127.0.0.1:{server.server_port}"
        yield made
        server.shutdown()
        thread.join()


def names(monkeypatch: pytest.MonkeyPatch, **known: str) -> None:
    """These names have these addresses, and no other name has one."""
    plain = socket.getaddrinfo

    def lookup(host: Any, port: Any, *more: Any, **named: Any) -> Any:
        if str(host).replace(".", "").isdigit():
            return plain(host, port, *more, **named)
        if (address := known.get(str(host).partition(".")[0])) is None:
            raise socket.gaierror("no such name")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)


async def sent(tmp_path: Path, url: str, post: Post) -> Any:
    """What is known of one delivery to a URL."""
    store = Store(world.registry(tmp_path).url)
    with store.write() as connection:
        made, _ = webhooks.add_webhook(connection, "main", url, ["*"])
        webhooks.tell(connection, kind="align", state="done", judge="tone", job="1")
    assert await deliver_due(store, post) == 1
    with store.read() as connection:
        (found,) = webhooks.deliveries_of(connection, made.id)
    return found


async def test_a_proxy_leads_to_the_checked_address(
    tmp_path: Path, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    names(monkeypatch, hooks="8.8.4.4")
    await sent(tmp_path, "https://hooks.example/x", Post(proxy=proxy.url))
    assert proxy.asked == ["8.8.4.4:443"]
    assert b"hooks.example" in proxy.through[0]  # whose certificate it must be
    assert b"webhook-signature" not in proxy.through[0]


async def test_a_proxy_leads_into_no_private_network(
    tmp_path: Path, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    names(monkeypatch, inside="10.1.2.3")
    found = await sent(tmp_path, "https://inside.example/x", Post(proxy=proxy.url))
    assert "private network" in found.answer
    with pytest.raises(InputError, match="no address is known"):
        check_url("https://unknown.example/x", private=False, proxied=True)
    assert proxy.asked == []


async def test_private_names_are_the_proxys_where_allowed(
    tmp_path: Path, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    names(monkeypatch)
    found = await sent(tmp_path, "http://hooks.corp/x", Post(private=True, proxy=proxy.url))
    assert (found.state, proxy.asked) == ("delivered", ["http://hooks.corp/x hooks.corp"])


async def test_no_proxy_means_directly(
    tmp_path: Path, proxy: Proxy, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    found = await sent(tmp_path, receiver.url, Post(private=True, proxy=proxy.url))
    assert (found.state, len(receiver.told), proxy.asked) == ("delivered", 1, [])


async def test_without_the_setting_no_proxy_is_asked(
    tmp_path: Path, proxy: Proxy, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
    ):  # the command reads them, and a server made in Python does not
        monkeypatch.setenv(name, proxy.url)
    found = await sent(tmp_path, receiver.url, Post(private=True))
    assert (found.state, proxy.asked) == ("delivered", [])


@pytest.mark.parametrize(
    ("given", "used"),
    [("http://p.example:3128", "http://p.example:3128"), ("p.example:3128", "http://p.example:3128"), ("none", None)],
)
def test_serve_reads_the_proxy_from_the_environment(
    given: str, used: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Settings] = []
    monkeypatch.setattr("memalign_server.command._run", found.append)
    monkeypatch.setenv("HTTPS_PROXY", given)
    assert CliRunner().invoke(serve, []).exit_code == 0
    assert found[0].webhook_proxy == used
    assert given not in repr(found[0]) or given == "none"


def test_a_proxy_of_another_kind_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="--webhook-proxy none"):
        Settings(webhook_proxy="socks5://p.example:1080")


@pytest.mark.parametrize("url", ["http://[::1", "http://bücher:9/x", "http://127.0.0.1:9/a\x01"])
def test_a_url_nobody_can_send_is_refused(url: str) -> None:
    with pytest.raises(InputError):
        check_url(url, private=True)


@pytest.mark.parametrize("url", ["http://bücher:9/x", "http://127.0.0.1:9/a\x01"])
async def test_an_unsendable_url_stops_no_others(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names(monkeypatch, bücher="127.0.0.1")
    assert (await sent(tmp_path, url, Post(private=True))).tries == 1
