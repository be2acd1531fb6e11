"""A server without people: open to this machine, and to nobody who pretends to be on it."""

from __future__ import annotations

import socket
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from memalign.errors import RegistryError
from memalign_server.store import Store
from server_support import world

if TYPE_CHECKING:
    from pathlib import Path

    from fastapi.testclient import TestClient


def test_everything_is_open_on_this_machine_and_safe(local: TestClient) -> None:
    assert local.get("/health").json() == {"status": "ok"}
    assert [judge["name"] for judge in local.get("/api/v1/judges").json()] == ["tone"]
    assert local.get("/api/v1/judges", headers={"host": "evil.example"}).status_code == 421, "a name that is rebound"
    for path in ("/health", "/api/v1/judges", "/nowhere"):
        headers = local.get(path).headers
        assert "script-src 'self'" in headers["content-security-policy"]
        assert (headers["x-content-type-options"], headers["cache-control"]) == ("nosniff", "no-store")


@pytest.mark.parametrize("path", ["/health", "/api/v1/judges", "/judges/tone/review"])
def test_a_database_that_is_down_may_answer_later(
    path: str, local: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(_store: Store) -> AbstractContextManager[None]:
        raise RegistryError("postgresql://olga@db.internal is down")

    monkeypatch.setattr(Store, "read", down)
    answer = local.get(path, headers={"accept": "text/html"})
    assert (answer.status_code, "the database does not answer just now" in answer.text) == (503, True)
    assert "db.internal" not in answer.text


def test_nobody_is_added_by_a_page_of_an_open_server(local: TestClient) -> None:
    for name, role in (("ana", "reviewer"), ("ana", "owner"), ("local", "owner")):
        refused = local.post("/judges/tone/experts", data={"name": name, "role": role})
        assert (refused.status_code, "memalign serve --add-owner NAME" in refused.text) == (409, True)
    page = local.get("/judges/tone/setup?open=experts").text
    assert "Everybody on this machine can use this server" in page
    assert ("memalign serve --add-owner" in page, "Make a link" in page) == (True, False)


def test_a_proxy_opens_no_server_without_people(local: TestClient) -> None:
    for header in ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"):
        for path in ("/", "/judges/tone/review", "/api/v1/judges"):
            refused = local.get(path, headers={header: "for=203.0.113.7", "host": "127.0.0.1:8321"})
            assert (refused.status_code, "memalign serve --add-owner" in refused.text) == (403, True), path


def test_a_bare_proxy_opens_no_server_without_people(tmp_path: Path) -> None:
    # nginx, unless it is told otherwise, speaks HTTP/1.0, names the server itself, and adds no header.
    world.registry(tmp_path)
    with world.listening(world.server(tmp_path)) as address:
        place = urlsplit(address)
        with socket.create_connection((str(place.hostname), place.port or 80)) as connection:
            connection.sendall(f"GET / HTTP/1.0\r\nHost: {place.netloc}\r\nConnection: close\r\n\r\n".encode())
            refused = b"".join(iter(lambda: connection.recv(65536), b""))
    assert refused.split(b"\r\n")[0].endswith(b"403 Forbidden")
    assert b"memalign serve --add-owner" in refused
