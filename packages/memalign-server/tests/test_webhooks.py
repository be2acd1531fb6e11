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

from memalign.errors import InputError
from memalign_server.store import Store
from memalign_server.store.work_tables import deliveries
from memalign_server.work import webhooks
from memalign_server.work.delivering import check_url, deliver_due
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
    assert await deliver_due(store, private=False) == 1
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
