"""Judging large files from the command line: what is said on the way, and what stops a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run, jsonl
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
    monkeypatch.setattr(
        "memalign.models.provider_model.list_price", lambda *_, **__: 0.01
    )  # this server has no price
    many = jsonl(tmp_path / "many.jsonl", items(30))
    arguments = (
        "judge",
        tone,
        many,
        "-o",
        "out.jsonl",
        "--max-cost",
        "0.1",
        "--concurrency",
        "1",
    )
    stopped = memalign(*arguments, "--json", code=1)
    assert (stopped.json["n"], stopped.json["failed"], stopped.json["not_judged"]) == (
        30,
        0,
        20,
    )
    assert (
        "one more call would pass the limit of $0.1 ($0.1 spent); run it again"
        in stopped.err
    )
    again = memalign(*arguments, code=1)
    assert again.out.startswith(
        "10 judged into out.jsonl, 10 there already, 10 not judged, 10 calls"
    )
    memalign(*arguments, code=0)
    assert len(endpoint.requests) == 30, "no call is made twice"
    lines = (tmp_path / "out.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["id"] for line in lines] == [
        item["id"] for item in items(30)
    ]


def test_a_key_that_is_wrong_is_one_sentence_and_commits_nothing(
    memalign: Run, tone: str, tmp_path: Path, feedback: Path, endpoint: Endpoint
) -> None:
    endpoint.answer = bad_request(
        "Incorrect API key provided", "invalid_api_key", status=401
    )
    many = jsonl(tmp_path / "many.jsonl", items(300))
    refused = memalign(
        "judge tone", many, "-o", "out.jsonl", "--concurrency", "2", code=2
    )
    assert max(endpoint.max_in_flight, len(endpoint.requests)) <= 2
    assert refused.err.count("Incorrect API key") == 1
    assert (
        memalign("align tone feedback.jsonl", code=2).err.count("Incorrect API key")
        == 1
    )
    assert memalign("show tone --json").json["version"] == 1


def test_many_examples_need_a_file_for_their_judgments(
    memalign: Run, tone: str, tmp_path: Path, endpoint: Endpoint
) -> None:
    refused = memalign(
        "judge tone", jsonl(tmp_path / "many.jsonl", items(1_001)), code=2
    )
    assert "many.jsonl has 1,001 examples, too many for the screen" in refused.err
    assert not endpoint.requests
    shown = memalign("judge tone", jsonl(tmp_path / "few.jsonl", items(60)))
    assert "Judgments (40 of 60; to keep all: -o OUT.jsonl)" in shown.out


def test_failures_are_summed_up_by_reason(
    memalign: Run, tone: str, tmp_path: Path, endpoint: Endpoint
) -> None:
    def answer(body: Body) -> Answer:
        number = int(user_of(body).split("Reply ")[1].split(".")[0])
        return (
            bad_request("odd") if number % 2 else {"rationale": "Fine.", "value": True}
        )

    endpoint.answer = answer
    judged = memalign(
        "judge tone",
        jsonl(tmp_path / "many.jsonl", items(20)),
        "-o",
        "out.jsonl",
        code=1,
    )
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
    assert (
        memalign("judge tone many.jsonl --dry-run --json").json["estimate"]["cost"] > 0
    )
    assert not endpoint.requests
    bad = jsonl(tmp_path / "bad.jsonl", [{"id": "a", "outputs": "x"}])
    memalign(
        "judge tone",
        bad,
        "--dry-run",
        code=2,
        says="has no column for inputs. Its columns are id, outputs",
    )


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
    memalign("judge tone", tmp_path / "spans.json", "-o", "judged.jsonl", code=0)
    (judgment,) = (
        json.loads(line)
        for line in Path("judged.jsonl").read_text("utf-8").splitlines()[-1:]
    )
    assert judgment["id"] == TRACE
    assert isinstance(judgment["value"], bool)
