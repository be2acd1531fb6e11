"""Every route for every kind of person: who gets in, and who is told nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import APIRouter
from fastapi.testclient import TestClient

from memalign_server.people.access import ACCESS, Public
from memalign_server.people.roles import Role
from memalign_server.routing import check_access, guarded_router
from server_support import world

ROUTES = world.routes()
ROLES = {"viewer": Role.VIEWER, "reviewer": Role.REVIEWER, "owner": Role.OWNER}


@pytest.fixture(scope="module")
def site(people: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[world.Shared]:
    """One server for all cells: nothing here succeeds in changing it."""
    with world.shared_server(people, tmp_path_factory.mktemp("matrix")) as made:
        yield made


@pytest.fixture(scope="module")
def clients(site: world.Shared) -> dict[str, TestClient]:
    found = {name: site.by_token(name) for name in (*ROLES, "stranger")}
    return {**found, "nobody": TestClient(site.app, base_url=world.ADDRESS)}


def test_the_table_has_exactly_the_routes() -> None:
    assert set(ROUTES) == set(ACCESS)


@pytest.mark.parametrize("name", sorted(ROUTES))
def test_a_route_admits_whom_the_table_names(name: str, site: world.Shared, clients: dict[str, TestClient]) -> None:
    route, needs = ROUTES[name], ACCESS[name]
    for person, client in clients.items():
        answer = world.asked(client, route)
        status = answer.status_code
        where = f"{name} for {person}: {status}"
        if needs is Public.ANYONE:
            assert status not in (401, 403) or "csrf token" in answer.text, where
        elif person == "nobody":
            assert status == 401, where
        elif needs is Public.SIGNED_IN:
            assert status not in (401, 500), where
        elif person == "stranger":
            hidden = status == 404 and "of your" in answer.text
            assert hidden == world.names_a_team(route), where
            assert status != 401, where
        elif ROLES[person] >= needs:
            assert status not in (401, 403, 500), where
        else:
            assert status == 403, where


def test_a_route_without_a_line_stops_the_start() -> None:
    router = guarded_router()

    @router.get("/forgotten")
    def forgotten() -> None: ...

    with pytest.raises(RuntimeError, match="forgotten"):
        check_access([router])


def test_a_route_without_a_guard_stops_the_start() -> None:
    router = APIRouter()

    @router.get("/open")
    def open_() -> None: ...

    with pytest.raises(RuntimeError, match="without a guard"):
        check_access([router])


def test_a_tokens_role_narrows_its_persons(site: world.Shared) -> None:
    narrow = site.by_token("owner", Role.VIEWER)
    assert narrow.get("/judges/tone/trust").status_code == 200
    assert narrow.post("/api/v1/judges/tone/erase", json={"keys": ["t-1"]}).status_code == 403


def test_other_teams_judges_are_not_listed(site: world.Shared) -> None:
    for person, names in (("viewer", ["tone"]), ("stranger", ["other"])):
        found = site.by_token(person).get("/api/v1/judges").json()
        assert [each["name"] for each in found] == names


def test_a_bad_body_is_not_explained_to_nobody(site: world.Shared) -> None:
    answer = site.browser().post("/api/v1/judges/tone/align", content=b"{")
    assert answer.status_code == 401


def test_a_reviewer_speaks_for_nobody_else(site: world.Shared) -> None:
    reviewer = site.by_token("reviewer")
    row = {**world.ROWS[0], "source": "owner"}
    assert reviewer.post("/api/v1/judges/tone/align", json={"feedback": [row]}).status_code == 403
    assert reviewer.post("/api/v1/judges/tone/unalign", json={"source": "owner"}).status_code == 403
    assert reviewer.post("/api/v1/judges/tone/unalign", json={"keys": ["t-1"]}).status_code == 403


def test_a_shared_server_sends_keys_nowhere_else(site: world.Shared) -> None:
    form = {"name": "leak", "instructions": "Good? {{ outputs }}", "value_type": "bool"}
    refused = site.signed_in("owner").fill("/judges", "/account", **form, model="openai:m@http://10.0.0.1/v1")
    assert refused.status_code == 422
    assert "keys would go there" in refused.text


def test_keys_stay_here_behind_a_proxy_of_this_machine(people: Path, tmp_path: Path) -> None:
    with world.shared_server(people, tmp_path, host="127.0.0.1") as site:
        form = {"name": "leak", "instructions": "Good? {{ outputs }}", "value_type": "bool"}
        refused = site.signed_in("owner").fill("/judges", "/account", **form, model="openai:m@http://10.0.0.1/v1")
    assert refused.status_code == 422
    assert "keys would go there" in refused.text
