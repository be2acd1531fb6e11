"""Explaining a judgment: the very prompt that the model was sent, from the file of
judgments and the registry."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import HELD_OUT, Run, creating, jsonl, missing, read_jsonl
from tests.support.endpoint import Endpoint

EXPLAIN = "explain tone out.jsonl {} --examples held_out.jsonl"


@pytest.fixture
def judged(memalign: Run, aligned: str, held_out: Path) -> Path:
    memalign("judge tone held_out.jsonl -o out.jsonl --concurrency", 1, code=0)
    return Path("out.jsonl")


def test_it_shows_the_very_prompt_what_decided_and_what_it_cost(
    memalign: Run, aligned: str, held_out: Path, judged: Path, endpoint: Endpoint
) -> None:
    sent = {body["messages"][-1]["content"]: body for body in endpoint.requests}
    calls = len(endpoint.requests)
    for name in ("h-1", "h-2"):
        told = memalign(EXPLAIN.format(name), "--json").json
        prompt = told["prompt"]
        body = sent[prompt["user"]]
        assert body["messages"][0]["content"] == prompt["system"]
        assert body["response_format"]["json_schema"]["schema"] == prompt["schema"]
        assert told["same_prompt"] is True
    shown = memalign(EXPLAIN.format("h-1"), code=0).out
    assert not missing(
        shown,
        "your rule G1: When a customer",
        "G1 (t-1@ana) applies",
        "1 call",
        "version",
        "--- system",
    )
    taught = memalign(EXPLAIN.format("t-2"), says="experts gave this item")
    assert "--- system" not in taught.out
    assert len(endpoint.requests) == calls


def test_the_judging_version_is_found_after_changes(
    memalign: Run, aligned: str, held_out: Path, judged: Path
) -> None:
    explain = EXPLAIN.format("h-1")
    first = memalign(explain, "--json").json
    for change in ("--retire", "--restore", "--retire"):
        memalign("guideline tone G1", change, code=0)
    again = memalign(explain, "--json").json
    assert again["prompt"] == first["prompt"]
    # Or the one that was restored to it.
    assert again["version"] in (first["version"], first["version"] + 2)
    memalign("delete tone --yes", code=0)
    memalign(*creating("tone", instructions="Is {{ outputs }} kind?"), code=0)
    none = "no version of 'tone' in the registry gave these judgments"
    memalign(explain, code=2, says=none)


def test_what_cannot_be_explained_says_why(
    memalign: Run, aligned: str, held_out: Path, judged: Path, tmp_path: Path
) -> None:
    first, *others = HELD_OUT
    changed = first | {"outputs": "Something else."}
    jsonl(tmp_path / "changed.jsonl", [changed, *others])
    down = {"value": None, "error": "ModelUnavailable: down"}
    jsonl(tmp_path / "failed.jsonl", [read_jsonl(judged)[0] | down])
    for arguments, said in (
        ("out.jsonl h-9 --examples held_out.jsonl", "no judgment for 'h-9'"),
        ("out.jsonl h-1 --examples changed.jsonl", "has changed since"),
        ("none.jsonl h-1 --examples held_out.jsonl", "no such file"),
        (
            "failed.jsonl h-1 --examples held_out.jsonl",
            "was not judged: ModelUnavailable",
        ),
    ):
        memalign(f"explain tone {arguments}", code=2, says=said)
