"""Every route for every kind of person: who gets in, and who is told nothing."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from fastapi.testclient import TestClient

from memalign_server.people.access import OWNER, TEAM
from server_support import world

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
    people = {name: site.signed_in(name) for name in ("reviewer", "owner")}
    return {
        **people,
        "program": site.program(),
        "nobody": TestClient(site.app, base_url=world.ADDRESS),
    }


def access_by_route(app: Any) -> dict[str, str]:
    """Every route of the application, by its method and path: for `anybody`, the `team` or an
    `owner`."""
    access: dict[str, str] = {}
    for route in (
        app.routes
    ):  # those of a router lie behind one entry in newer versions of FastAPI
        contexts = (
            route.effective_route_contexts()
            if hasattr(route, "effective_route_contexts")
            else [route]
        )
        for context in contexts:
            if getattr(context, "methods", None):
                calls = set(calls_of(context.dependant))
                admits = (
                    "owner"
                    if OWNER.dependency in calls
                    else "team"
                    if TEAM.dependency in calls
                    else "anybody"
                )
                access |= {
                    f"{method} {context.path}": admits for method in context.methods
                }
    return access


def calls_of(dependant: Any) -> Iterator[Any]:
    """The dependencies of a route, and theirs."""
    yield dependant.call
    for dependency in dependant.dependencies:
        yield from calls_of(dependency)


def test_every_route_is_a_decision(site: world.Shared) -> None:
    access = access_by_route(site.app)
    assert {route for route, admits in access.items() if admits == "anybody"} == DOORS
    changing = {
        route
        for route, admits in access.items()
        if admits == "team" and not route.startswith("GET ")
    }
    assert changing == BY_REVIEWERS


def test_every_route_admits_whom_it_is_for(
    site: world.Shared, clients: dict[str, TestClient]
) -> None:
    access = access_by_route(site.app)
    wrong: list[str] = []
    for route, admits in sorted(access.items()):
        method, path = route.split()
        path = re.sub(
            r"\{(\w+)\}", lambda name: "tone" if name[1] == "judge" else "none", path
        )
        for person, client in clients.items():
            if route == "POST /sign-out" and person in ("reviewer", "owner"):
                continue  # it would end what is needed below
            headers = {"accept": "application/json"}
            status = client.request(
                method, path, follow_redirects=False, headers=headers
            ).status_code
            if not is_right(route, admits, person, status):
                wrong.append(f"{route} gives {person} {status}")
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
    ways: tuple[tuple[str, Any], ...] = (
        ("cases", {"cases": [case]}),
        ("judge?keep=true", case),
    )
    for path, body in ways:
        assert (
            reviewer.post(f"/api/v1/judges/tone/{path}", json=body).status_code == 403
        )
        assert program.post(f"/api/v1/judges/tone/{path}", json=body).status_code < 300
    assert reviewer.post("/api/v1/judges/tone/judge", json=case).status_code == 200


def test_a_reviewer_speaks_for_nobody_else(clients: dict[str, TestClient]) -> None:
    rows = {"feedback": [{**world.ROWS[0], "source": "owner"}]}
    for path, body in (
        ("align", rows),
        ("unalign", {"source": "owner"}),
        ("unalign", {"keys": ["t-1"]}),
    ):
        assert (
            clients["reviewer"]
            .post(f"/api/v1/judges/tone/{path}", json=body)
            .status_code
            == 403
        )
