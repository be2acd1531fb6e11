"""`memalign next`: what to label next, and why."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import FEEDBACK, HELD_OUT, Run, answer, jsonl, missing
from tests.support.endpoint import Endpoint, bad_request, user_of

FIELDS = "judge version cases ranked left_out failed usage"


@pytest.fixture
def new(tmp_path: Path) -> Path:
    rows = [*HELD_OUT[:2], HELD_OUT[0] | {"id": "h-9"}, FEEDBACK[1]]
    return jsonl(tmp_path / "new.jsonl", rows)


def test_it_says_what_to_label_next_and_why(
    memalign: Run, aligned: str, new: Path, endpoint: Endpoint
) -> None:
    ran = memalign("next tone new.jsonl -n 5", code=0)
    assert "unlike every case" in ran.out or "nothing unusual about it" in ran.out
    assert not missing(
        ran.out,
        "h-1",
        "compared 2 cases, 2 left out as already in memory or copies, 2 calls",
    )
    assert len(endpoint.requests) == 2
    memalign("judge tone new.jsonl -o out.jsonl", code=0)
    asked = len(endpoint.requests)
    judged = memalign("next tone new.jsonl --judged out.jsonl --json", code=0).json
    assert len(endpoint.requests) == asked, "judgments that exist are used"
    again = memalign("next tone new.jsonl --json").json
    assert judged | {"usage": None} == again | {"usage": None}
    assert list(judged) == FIELDS.split()
    assert list(judged["cases"][0]) == ["id", "reason", "score"]


def test_a_case_that_fails_is_named(
    memalign: Run, aligned: str, new: Path, endpoint: Endpoint
) -> None:
    endpoint.answer = lambda body: (
        bad_request("no such thing") if "Lovely" in user_of(body) else answer(body)
    )
    ran = memalign("next tone new.jsonl", code=1, says="1 not judged")
    assert "failed: h-2: " in ran.err
