"""`memalign scorecard`: a table of several judges over one file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.support.endpoint import Endpoint, bad_request, user_of

SETTINGS = ("--value-type", "bool", "--model", "openai:test")


@pytest.fixture
def safety(memalign: Run, tone: str) -> str:
    made = memalign("create", "safety", "--instructions", "Is it safe?\n{{ outputs }}", *SETTINGS)
    assert made.code == 0, made.err
    return "safety"


def test_a_table_says_what_each_judge_said(memalign: Run, tone: str, safety: str, held_out: Path) -> None:
    ran = memalign("scorecard", held_out, tone, safety)
    assert ran.code == 0, ran.err
    assert "h-1" in ran.out
    assert "true 100%" in ran.out
    assert "3 examples, 6 calls" in ran.out
    data = memalign("scorecard", held_out, "tone@1", safety, "--json").json
    assert [each["judge"] for each in data["judges"]] == ["tone@1", "safety"]
    assert data["cases"][0] == {"id": "h-1", "values": {"tone@1": True, "safety": True}, "errors": {}}


def test_a_folder_is_resumed(memalign: Run, tone: str, safety: str, held_out: Path, endpoint: Endpoint) -> None:
    folder = held_out.parent / "scores"
    assert memalign("scorecard", held_out, tone, safety, "-o", folder).code == 0
    asked = len(endpoint.requests)
    again = memalign("scorecard", held_out, tone, safety, "-o", folder)
    assert again.code == 0
    assert len(endpoint.requests) == asked
    assert str(folder) in again.out
    lines = (folder / "scorecard.jsonl").read_text("utf-8").splitlines()
    assert json.loads(lines[0])["values"] == {"tone": True, "safety": True}


def test_which_judge_failed_on_which_example_is_said(
    memalign: Run, tone: str, safety: str, held_out: Path, endpoint: Endpoint
) -> None:
    answer = endpoint.answer

    def only_tone(body: dict[str, Any]) -> Any:
        failing = "reversed" in user_of(body) and "inputs:" not in user_of(body)
        return bad_request("no such thing") if failing else answer(body) if callable(answer) else answer

    endpoint.answer = only_tone
    ran = memalign("scorecard", held_out, tone, safety)
    assert ran.code == 1
    assert "failed: safety on h-1: " in ran.err
    assert "failed: tone" not in ran.err


def test_wrong_use_is_named(memalign: Run, tone: str, held_out: Path) -> None:
    twice = memalign("scorecard", held_out, tone, tone)
    assert twice.code == 2
    assert "a judge is named twice" in twice.err
    missing = memalign("scorecard", held_out, tone, "nobody")
    assert missing.code == 2
    assert "nobody" in missing.err


def test_a_spend_limit_that_cannot_hold_is_said(memalign: Run, tone: str, safety: str, held_out: Path) -> None:
    stopped = memalign("scorecard", held_out, tone, safety, "--max-cost", "1")
    assert stopped.code == 2
    assert "max_cost cannot hold: what a call of openai:test costs is not known" in stopped.err
    wrong = memalign("scorecard", held_out, tone, safety, "--max-cost", "0")
    assert wrong.code == 2
    assert "a number of dollars above 0" in wrong.err
