"""Judging large files from the command line: what is said on the way, and what stops a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run, jsonl, latest, read_jsonl
from tests.support.endpoint import Answer, Body, Endpoint, bad_request, user_of
from tests.support.rows import RawRow
from tests.support.spans import Step, otlp


def items(count: int) -> list[RawRow]:
    return [
        {"id": f"n-{n}", "inputs": "Where is it?", "outputs": f"Reply {n}."}
        for n in range(count)
    ]


def test_a_stopped_run_says_how_to_go_on(
    memalign: Run,
    tone: str,
    tmp_path: Path,
    endpoint: Endpoint,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # This server has no price.
    listed = "memalign.models.provider_model.list_price"
    monkeypatch.setattr(listed, lambda *_, **__: 0.01)
    jsonl(tmp_path / "many.jsonl", items(30))
    command = "judge tone many.jsonl -o out.jsonl --max-cost 0.1 --concurrency 1"
    stopped = memalign(command, "--json", code=1)
    told = stopped.json
    assert (told["n"], told["failed"], told["not_judged"]) == (30, 0, 20)
    said = "one more call would pass the limit of $0.1 ($0.1 spent); run it again"
    assert said in stopped.err
    again = memalign(command, code=1)
    counts = "10 judged into out.jsonl, 10 there already, 10 not judged, 10 calls"
    assert again.out.startswith(counts)
    memalign(command, code=0)
    assert len(endpoint.requests) == 30, "no call is made twice"
    judged = [line["id"] for line in read_jsonl("out.jsonl")]
    assert judged == [item["id"] for item in items(30)]


def test_a_key_that_is_wrong_is_one_sentence_and_commits_nothing(
    memalign: Run, tone: str, tmp_path: Path, feedback: Path, endpoint: Endpoint
) -> None:
    wrong = "Incorrect API key"
    endpoint.answer = bad_request(wrong, "invalid_api_key", status=401)
    jsonl(tmp_path / "many.jsonl", items(300))
    refused = memalign("judge tone many.jsonl -o out.jsonl --concurrency 2", code=2)
    assert max(endpoint.max_in_flight, len(endpoint.requests)) <= 2
    assert refused.err.count(wrong) == 1
    assert memalign("align tone feedback.jsonl", code=2).err.count(wrong) == 1
    assert latest() == 1


def test_many_examples_need_a_file_for_their_judgments(
    memalign: Run, tone: str, tmp_path: Path, endpoint: Endpoint
) -> None:
    jsonl(tmp_path / "many.jsonl", items(1_001))
    jsonl(tmp_path / "few.jsonl", items(60))
    too_many = "many.jsonl has 1,001 examples, too many for the screen"
    memalign("judge tone many.jsonl", code=2, says=too_many)
    assert not endpoint.requests
    some = "Judgments (40 of 60; to keep all: -o OUT.jsonl)"
    memalign("judge tone few.jsonl", says=some)


def test_failures_are_summed_up_by_reason(
    memalign: Run, tone: str, tmp_path: Path, endpoint: Endpoint
) -> None:
    def answer(body: Body) -> Answer:
        number = int(user_of(body).split("Reply ")[1].split(".")[0])
        if number % 2:
            return bad_request("odd")
        return {"rationale": "Fine.", "value": True}

    endpoint.answer = answer
    jsonl(tmp_path / "many.jsonl", items(20))
    judged = memalign("judge tone many.jsonl -o out.jsonl", code=1)
    assert "10 judged into out.jsonl, 10 failed" in judged.out
    assert judged.err.count("failed: ") == 1
    assert "and 5 more: ModelRejected" in judged.err


def test_a_dry_run_asks_nobody(
    memalign: Run, tone: str, tmp_path: Path, endpoint: Endpoint
) -> None:
    jsonl(tmp_path / "many.jsonl", items(3_000))
    said = memalign("judge tone many.jsonl --dry-run", code=0)
    assert said.out.startswith("about 3,000 calls, ")
    assert "memalign edit tone --price" in said.out
    memalign("edit tone --price input=1,output=1", code=0)
    priced = memalign("judge tone many.jsonl --dry-run --json").json
    assert priced["estimate"]["cost"] > 0
    assert not endpoint.requests
    jsonl(tmp_path / "bad.jsonl", [{"id": "a", "outputs": "x"}])
    lacking = "has no column for inputs. Its columns are id, outputs"
    memalign("judge tone bad.jsonl --dry-run", code=2, says=lacking)


TRACE = "5b8efff798038103d269b633813fc60c"
STEPS = [
    Step(
        parent=None,
        name="support",
        inputs="Thanks!",
        outputs="Any time, enjoy your day!",
    )
]


def test_judge_takes_a_file_of_spans_as_examples(
    memalign: Run, tone: str, tmp_path: Path
) -> None:
    (tmp_path / "spans.json").write_text(json.dumps(otlp(STEPS)), "utf-8")
    memalign("judge tone spans.json -o judged.jsonl", code=0)
    judgment = read_jsonl("judged.jsonl")[-1]
    assert judgment["id"] == TRACE
    assert isinstance(judgment["value"], bool)
