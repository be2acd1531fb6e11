"""Requests made from the API's own description: none may end in an error of ours, and no
answer may differ from it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import hypothesis
import pytest
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
)

from server_support import world
from server_support.reviewing import FEEDBACK
from tests.support.patience import PATIENCE

ALL_OF_THEM = list(hypothesis.HealthCheck)
CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance]


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def address(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    with world.database(request.param, tmp_path_factory.mktemp("fuzzing")) as url:
        registry = world.opened(url)
        registry.create(world.judge("tone"))
        registry.align("tone", FEEDBACK)
        with world.listening(world.server(url)) as address:
            yield address


@pytest.mark.parametrize("examples", [4, pytest.param(100, marks=pytest.mark.slow)])
def test_no_request_ends_in_an_error_of_ours(address: str, examples: int) -> None:
    """Every operation is tried so many times, half of them on a judge that is there."""
    faults: list[str] = []
    for result in schemathesis.openapi.from_url(
        f"{address}/api/v1/openapi.json"
    ).get_all_operations():
        assert isinstance(result, Ok), result
        operation = result.ok()

        @hypothesis.given(
            case=operation.as_strategy(), real=hypothesis.strategies.booleans()
        )
        @hypothesis.settings(
            max_examples=examples,
            deadline=None,
            database=None,
            suppress_health_check=ALL_OF_THEM,
        )
        def one(case: Any, real: bool) -> None:
            if real and "judge" in case.path_parameters:
                case.path_parameters["judge"] = "tone"
            case.call_and_validate(checks=CHECKS, timeout=PATIENCE)

        try:
            one()
        except (AssertionError, BaseExceptionGroup, httpx2.HTTPError) as error:
            faults.append(f"{operation.method.upper()} {operation.path}: {error}")
    assert faults == []
