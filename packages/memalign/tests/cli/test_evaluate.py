"""`memalign evaluate`: agreement with people, another model, a gate and a report."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Run
from tests.support.endpoint import Endpoint


def test_another_model_is_asked_and_compared_with_a_version(
    memalign: Run, aligned: str, held_out: Path, endpoint: Endpoint
) -> None:
    asked = len(endpoint.requests)
    ran = memalign("evaluate", aligned, held_out, "--model", "openai:other", "--against", "2", "--json")
    assert ran.code == 0, ran.err
    assert {request["model"] for request in endpoint.requests[asked:]} == {"test", "other"}
    assert ran.json["evaluation"]["model"] == "openai:other"
    assert ran.json["base"]["model"] == "openai:test"
    assert (ran.json["comparison"]["fixed"], ran.json["comparison"]["broken"]) == ([], [])
    assert "openai:other" not in memalign("show", aligned).out, "the judge keeps its own model"
