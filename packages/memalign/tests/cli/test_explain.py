"""Explaining a judgment: the very prompt that the model was sent, from the file of
judgments and the registry."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import HELD_OUT, Run, jsonl, missing
from tests.support.endpoint import Endpoint


@pytest.fixture
def judged(memalign: Run, aligned: str, held_out: Path) -> Path:
    memalign("judge tone held_out.jsonl -o out.jsonl --concurrency", 1, code=0)
    return Path("out.jsonl")


def test_it_shows_the_very_prompt_what_decided_and_what_it_cost(
    memalign: Run, aligned: str, held_out: Path, judged: Path, endpoint: Endpoint
) -> None:
    sent = {body["messages"][-1]["content"]: body for body in endpoint.requests}
    calls = len(endpoint.requests)
    for row in HELD_OUT[:2]:
        told = memalign(
            "explain tone out.jsonl", row["id"], "--examples", held_out, "--json"
        ).json
        body = sent[told["prompt"]["user"]]
        assert body["messages"][0]["content"] == told["prompt"]["system"]
        assert (
            body["response_format"]["json_schema"]["schema"] == told["prompt"]["schema"]
        )
        assert told["same_prompt"] is True
    shown = memalign("explain tone out.jsonl h-1 --examples held_out.jsonl", code=0).out
    assert not missing(
        shown,
        "your rule G1: When a customer",
        "G1 (t-1@ana) applies",
        "1 call",
        "version",
        "--- system",
    )
    taught = memalign(
        "explain tone out.jsonl t-2 --examples held_out.jsonl",
        says="experts gave this item",
    )
    assert "--- system" not in taught.out
    assert len(endpoint.requests) == calls


def test_the_judging_version_is_found_after_changes(
    memalign: Run, aligned: str, held_out: Path, judged: Path
) -> None:
    first = memalign("explain tone out.jsonl h-1 --examples held_out.jsonl --json").json
    for change in ("--retire", "--restore", "--retire"):
        memalign("guideline tone G1", change, code=0)
    again = memalign("explain tone out.jsonl h-1 --examples held_out.jsonl --json").json
    assert again["prompt"] == first["prompt"]
    assert again["version"] in (first["version"], first["version"] + 2), (
        "or the one that was restored to it"
    )
    memalign("delete tone --yes", code=0)
    settings = (
        "--instructions",
        "Is {{ outputs }} kind?",
        "--value-type",
        "bool",
        "--model",
        "openai:test",
    )
    memalign("create tone", *settings, code=0)
    none = "no version of 'tone' in the registry gave these judgments"
    memalign("explain tone out.jsonl h-1 --examples held_out.jsonl", code=2, says=none)


def test_what_cannot_be_explained_says_why(
    memalign: Run, aligned: str, held_out: Path, judged: Path, tmp_path: Path
) -> None:
    memalign(
        "explain tone out.jsonl h-9 --examples held_out.jsonl",
        code=2,
        says="no judgment for 'h-9'",
    )
    changed = jsonl(
        tmp_path / "changed.jsonl",
        [HELD_OUT[0] | {"outputs": "Something else."}, *HELD_OUT[1:]],
    )
    memalign(
        "explain tone out.jsonl h-1 --examples",
        changed,
        code=2,
        says="has changed since",
    )
    memalign(
        "explain tone",
        tmp_path / "none.jsonl",
        "h-1",
        "--examples",
        held_out,
        code=2,
        says="no such file",
    )
    lines = [json.loads(line) for line in judged.read_text("utf-8").splitlines()]
    failed = jsonl(
        tmp_path / "failed.jsonl",
        [lines[0] | {"value": None, "error": "ModelUnavailable: down"}],
    )
    memalign(
        "explain tone",
        failed,
        "h-1",
        "--examples",
        held_out,
        code=2,
        says="was not judged: ModelUnavailable",
    )
