"""Every route for every kind of person: who gets in, and who is told nothing."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from fastapi.routing import iter_route_contexts
from fastapi.testclient import TestClient

from memalign_server.people.access import OWNER, TEAM
from server_support import world
from server_support.reviewing import call, expect

if TYPE_CHECKING:
    from starlette.types import Message, Scope

DOORS = {
    "GET /sign-in",
    "POST /sign-out",
    "GET /join/{secret}",
    "POST /join/{secret}",
    "GET /openid/start",
    "GET /openid/callback",
    "GET /health",
}
"""What is open to strangers."""
BY_REVIEWERS = {
    "POST /language", "POST /judges/{judge}/review", "POST /judges/{judge}/review/differ",
    "POST /judges/{judge}/review/words", "POST /judges/{judge}/review/undo",
    "POST /judges/{judge}/teach", "POST /judges/{judge}/teach/later",
    "POST /judges/{judge}/learned/confirm", "POST /judges/{judge}/learned/better",
    "POST /judges/{judge}/learned/take-back", "POST /judges/{judge}/learned/conflict",
    "POST /api/v1/judges/{judge}/judge",
    "POST /api/v1/judges/{judge}/align", "POST /api/v1/judges/{judge}/unalign",
}  # fmt: skip
"""How a reviewer may change something. A new route is for owners, or has its line here."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[world.Shared]:
    """One server for all cells: what a cell changes, such as the token of programs, no other
    cell needs."""
    with world.shared_server(tmp_path_factory.mktemp("matrix")) as made:
        yield made


@pytest.fixture(scope="module")
def clients(site: world.Shared) -> dict[str, TestClient]:
    return {
        "reviewer": site.signed_in("reviewer"),
        "owner": site.signed_in("owner"),
        "program": site.program(),
        "nobody": TestClient(site.app, base_url=world.ADDRESS),
    }


def access_by_route(app: Any) -> dict[str, str]:
    """Every route of the application, by its method and path: for `anybody`, the `team` or an
    `owner`."""
    access: dict[str, str] = {}
    for route in iter_route_contexts(app.routes):
        if not route.methods:
            continue
        calls = set(calls_of(route.dependant))
        admits = "team" if TEAM.dependency in calls else "anybody"
        if OWNER.dependency in calls:
            admits = "owner"
        for method in route.methods:
            access[f"{method} {route.path}"] = admits
    return access


def calls_of(dependant: Any) -> Iterator[Any]:
    """The dependencies of a route, and theirs."""
    yield dependant.call
    for dependency in dependant.dependencies:
        yield from calls_of(dependency)


def test_every_route_is_a_decision(site: world.Shared) -> None:
    doors = set[str]()
    by_reviewers = set[str]()
    for route, admits in access_by_route(site.app).items():
        if admits == "anybody":
            doors.add(route)
        elif admits == "team" and not route.startswith("GET "):
            by_reviewers.add(route)
    assert doors == DOORS
    assert by_reviewers == BY_REVIEWERS


def test_every_route_admits_whom_it_is_for(
    site: world.Shared, clients: dict[str, TestClient]
) -> None:
    access = access_by_route(site.app)
    wrong: list[str] = []
    for route, admits in sorted(access.items()):
        method, path = route.split()
        path = re.sub(r"\{\w+\}", "none", path.replace("{judge}", "tone"))
        for person, client in clients.items():
            if route == "POST /sign-out" and person in ("reviewer", "owner"):
                continue  # it would end what is needed below
            headers = {"accept": "application/json"}
            got = client.request(method, path, follow_redirects=False, headers=headers)
            if not is_right(route, admits, person, got.status_code):
                wrong.append(f"{route} gives {person} {got.status_code}")
    assert wrong == []
    assert len(access) > 30


def is_right(route: str, admits: str, person: str, status: int) -> bool:
    if person == "program" and " /api/" not in route and route != "GET /health":
        return status == 401  # its token is for the API alone
    if admits != "anybody" and person == "nobody":
        return status == 401
    if admits == "owner" and person == "reviewer":
        return status == 403
    return status not in (401, 403, 500)


@pytest.mark.parametrize(
    "path", ["/api/v1/judges/tone/align", "/judges/tone/setup/cases"]
)
@pytest.mark.parametrize(
    "form", ["application/json", "multipart/form-data; boundary=x"]
)
def test_no_byte_of_nobodys_body_is_read(
    path: str, form: str, site: world.Shared
) -> None:
    statuses = list[int]()

    async def receive() -> Message:
        raise AssertionError("the body was read")

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    headers = {"host": "127.0.0.1", "content-type": form, "content-length": "1000000"}
    scope: Scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8321),
    }
    asyncio.run(site.app(scope, receive, send))
    assert statuses == [401]


def test_a_reviewer_adds_no_case_by_whatever_way(shared: world.Shared) -> None:
    reviewer = shared.signed_in("reviewer")
    program = shared.program()
    case = {"id": "new", "inputs": "q", "outputs": "a"}
    ways: dict[str, Any] = {"cases": {"cases": [case]}, "judge?keep=true": case}
    for path, body in ways.items():
        expect(call(reviewer, path, **body), 403)
        assert call(program, path, **body).status_code < 300
    expect(call(reviewer, "judge", **case), 200)


def test_a_reviewer_speaks_for_nobody_else(clients: dict[str, TestClient]) -> None:
    reviewer = clients["reviewer"]
    of_another = world.ROWS[0] | {"source": "owner"}
    expect(call(reviewer, "align", feedback=[of_another]), 403)
    expect(call(reviewer, "unalign", source="owner"), 403)
    expect(call(reviewer, "unalign", keys=["t-1"]), 403)
