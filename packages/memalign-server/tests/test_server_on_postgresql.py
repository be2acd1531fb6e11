"""People and jobs with the server's tables in PostgreSQL: the same statements, in another database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

import test_api
import test_jobs
import test_people
import test_trust
from server_support import world


def named(test: Any) -> str:
    return str(getattr(test, "func", test).__name__)


@pytest.fixture
def url_there(tmp_path: Path) -> Iterator[str]:
    with world.database("postgresql", tmp_path) as url:
        yield url


@pytest.mark.parametrize(
    "statement",
    [
        test_people.test_a_link_used_twice_at_once_admits_one,
        test_people.test_a_session_ends_in_the_database,
        test_people.test_who_is_removed_is_out_and_finds_their_answers_again,
    ],
    ids=named,
)
def test_people_on_postgresql(statement: Callable[[world.Shared], None], url_there: str) -> None:
    with world.shared_server(url_there) as site:
        statement(site)


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
def test_work_on_postgresql(statement: Callable[[TestClient], None], url_there: str) -> None:
    world.opened(url_there).create(world.judge("tone"))
    with world.client(url_there) as client:
        statement(client)
        assert client.get("/judges/tone/trust/figures.json").status_code == 200
