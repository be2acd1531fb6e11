"""Every route for every kind of person: who gets in, and who is told nothing."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from fastapi.testclient import TestClient

from server_support import world
from server_support.reviewing import post

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.types import Message, Scope

ANYBODY = {
    "GET /health", "GET /sign-in", "POST /sign-out", "GET /join/{secret}", "POST /join/{secret}",
    "GET /openid/start", "GET /openid/callback",
}  # fmt: skip
OWNERS = {
    "POST /people", "POST /people/{member}/link", "POST /people/{member}/remove", "POST /token", "POST /judges",
    "POST /judges/{judge}/pull", "GET /judges/{judge}/erase", "POST /judges/{judge}/erase",
    "GET /judges/{judge}/receipts/{job}", "POST /judges/{judge}/delete",
    "POST /api/v1/judges/{judge}/erase",
}  # fmt: skip
TEAM = {
    "GET /", "GET /account", "POST /language", "GET /judges/{judge}/review", "POST /judges/{judge}/review",
    "GET /judges/{judge}/review/next", "POST /judges/{judge}/review/undo", "POST /judges/{judge}/review/words",
    "GET /judges/{judge}/settle", "POST /judges/{judge}/teach",
    "GET /judges/{judge}/jobs/{job}", "POST /judges/{judge}/jobs/{job}/again", "GET /judges/{judge}/changed",
    "GET /judges/{judge}/memory", "POST /judges/{judge}/guidelines",
    "POST /judges/{judge}/withdraw", "GET /judges/{judge}/trust",
    "GET /judges/{judge}/data", "POST /judges/{judge}/data",
    "GET /judges/{judge}/download/{name}", "GET /api/v1/openapi.json", "GET /api/v1/me", "GET /api/v1/judges",
    "POST /api/v1/judges/{judge}/judge", "POST /api/v1/judges/{judge}/cases/{case}/thumb",
    "POST /api/v1/judges/{judge}/cases", "GET /api/v1/judges/{judge}/cases",
    "PUT /api/v1/judges/{judge}/cases/{case}/answer", "POST /api/v1/judges/{judge}/teach",
    "POST /api/v1/judges/{judge}/align", "POST /api/v1/judges/{judge}/unalign",
    "GET /api/v1/judges/{judge}/jobs/{job}",
}  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[world.Shared]:
    """One server for all cells: what a cell changes, such as the token of programs, no other cell needs."""
    with world.shared_server(tmp_path_factory.mktemp("matrix")) as made:
        yield made


@pytest.fixture(scope="module")
def clients(site: world.Shared) -> dict[str, TestClient]:
    people = {name: site.signed_in(name) for name in ("reviewer", "owner")}
    return {**people, "program": site.program(), "nobody": TestClient(site.app, base_url=world.ADDRESS)}


def routes(app: Any) -> set[str]:
    """Every route of the application, as its method and path."""
    found: list[Any] = []
    for route in app.routes:  # those of a router lie behind one entry in newer versions of FastAPI
        found += route.effective_route_contexts() if hasattr(route, "effective_route_contexts") else [route]
    return {f"{method} {route.path}" for route in found if getattr(route, "methods", None) for method in route.methods}


def test_every_route_has_its_cell(site: world.Shared) -> None:
    assert routes(site.app) == ANYBODY | TEAM | OWNERS
    assert len(ANYBODY | TEAM | OWNERS) == len(ANYBODY) + len(TEAM) + len(OWNERS)


@pytest.mark.parametrize("route", sorted(ANYBODY | TEAM | OWNERS))
def test_a_route_admits_whom_it_is_for(route: str, site: world.Shared, clients: dict[str, TestClient]) -> None:
    method, path = route.split()
    path = re.sub(r"\{(\w+)\}", lambda name: "tone" if name[1] == "judge" else "none", path)
    for person, client in clients.items():
        if route == "POST /sign-out" and person in ("reviewer", "owner"):
            continue  # it would end what the other cells need
        status = client.request(
            method, path, follow_redirects=False, headers={"accept": "application/json"}
        ).status_code
        if route == "POST /token" and person == "owner":
            assert status == 200  # and the program's token is replaced
            clients["program"] = site.program()
        elif person == "program" and not path.startswith(("/api/", "/health")):
            assert status == 401  # it is for the API alone
        elif route not in ANYBODY and person == "nobody":
            assert status == 401
        elif route in OWNERS and person == "reviewer":
            assert status == 403, person
        else:
            assert status not in (401, 403, 500), person


@pytest.mark.parametrize("path", ["/api/v1/judges/tone/align", "/judges/tone/data"])
@pytest.mark.parametrize("form", ["application/json", "multipart/form-data; boundary=x"])
def test_no_byte_of_nobodys_body_is_read(path: str, form: str, site: world.Shared) -> None:
    statuses = list[int]()

    async def receive() -> Message:
        raise AssertionError("the body was read")

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    headers = {"host": "127.0.0.1", "content-type": form, "content-length": "1000000"}
    scope: Scope = {
        "type": "http", "http_version": "1.1", "method": "POST", "scheme": "http", "path": path, "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8321),
    }  # fmt: skip
    asyncio.run(site.app(scope, receive, send))
    assert statuses == [401]


def test_a_reviewer_speaks_for_nobody_else(site: world.Shared) -> None:
    reviewer = site.signed_in("reviewer")
    row = {**world.ROWS[0], "source": "owner"}
    assert reviewer.post("/api/v1/judges/tone/align", json={"feedback": [row]}).status_code == 403
    assert reviewer.post("/api/v1/judges/tone/unalign", json={"source": "owner"}).status_code == 403
    assert reviewer.post("/api/v1/judges/tone/unalign", json={"keys": ["t-1"]}).status_code == 403


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1"])
def test_a_team_sends_keys_nowhere_else(host: str, tmp_path: Path) -> None:
    with world.shared_server(tmp_path, host=host) as site:
        form: dict[str, Any] = {"name": "leak", "instructions": "Good? {{ outputs }}", "value_type": "bool"}
        refused = post(site.signed_in("owner"), "/judges", **form, model="openai:m@http://10.0.0.1/v1")
    assert (refused.status_code, "keys would go there" in refused.text) == (422, True)
