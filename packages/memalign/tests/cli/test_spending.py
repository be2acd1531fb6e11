"""What an align or an evaluation costs: said before, limited on the way, and never paid twice."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import INSTRUCTIONS, Run, jsonl
from tests.support import paying
from tests.support.endpoint import Body, Endpoint, Fault

ROWS = paying.rows(12)
PRICE = "input=100,output=400"  # dollars for a million tokens: cents a call


@pytest.fixture
def priced(memalign: Run, endpoint: Endpoint) -> str:
    endpoint.answer = paying.answer
    settings = (
        "--instructions",
        INSTRUCTIONS,
        "--value-type",
        "bool",
        "--model",
        "openai:test",
        "--price",
        PRICE,
    )
    memalign("create tone", *settings, code=0)
    return "tone"


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return jsonl(tmp_path / "rows.jsonl", ROWS)


def test_an_align_dry_run_estimates_without_a_call(
    memalign: Run, priced: str, rows: Path, endpoint: Endpoint
) -> None:
    dry = memalign("align tone rows.jsonl --dry-run --json", code=0)
    said = memalign("align tone rows.jsonl --dry-run").out
    assert re.match(
        r"about \d+ calls?, [\d,]+ tokens in, [\d,]+ out, \$[\d.]+ \(an estimate that assumes",
        said,
    )
    bad = jsonl(
        rows.with_name("bad.jsonl"),
        [{"id": "x", "inputs": "?", "outputs": "!", "value": "perhaps"}],
    )
    memalign(
        "align tone", bad, "--dry-run", code=2, says="line 1 (x)"
    )  # it refuses what aligning would
    assert endpoint.requests == []
    assert memalign("show tone --json").json["version"] == 1
    estimate = dry.json["estimate"]
    usage = memalign("align tone rows.jsonl --json").json["usage"]
    assert usage["calls"] == len(endpoint.requests)
    assert usage["calls"] * 0.7 <= estimate["calls"] <= usage["calls"] * 1.3
    assert (
        usage["input_tokens"] * 0.7
        <= estimate["input_tokens"]
        <= usage["input_tokens"] * 1.6
    )
    assert usage["cost"] * 0.7 <= estimate["cost"] <= usage["cost"] * 2
    assert (
        memalign("align tone rows.jsonl --dry-run").out == "no model call is needed\n"
    ), "all is learned"


def test_a_single_call_beyond_the_limit_is_not_made(
    memalign: Run, priced: str, rows: Path, endpoint: Endpoint
) -> None:
    memalign("edit tone --price input=100000,output=400000")
    stopped = memalign("align tone rows.jsonl --max-cost 0.5 --json")
    assert (stopped.code, endpoint.requests) == (1, [])
    assert "one more call would pass the limit of $0.5" in str(stopped.json)


def test_an_evaluate_dry_run_counts_every_call(
    memalign: Run, priced: str, rows: Path, endpoint: Endpoint
) -> None:
    memalign(
        "align tone",
        jsonl(rows.with_name("few.jsonl"), paying.rows(3, source="ben")),
    )
    endpoint.requests.clear()
    arguments = (
        "evaluate",
        priced,
        rows,
        "--against",
        "zero-shot",
        "-o",
        "out.jsonl",
        "--json",
    )
    dry = memalign(*arguments, "--dry-run", code=0)
    assert endpoint.requests == []
    assert not Path("out.jsonl").exists()
    memalign(*arguments, code=0)
    assert dry.json["estimate"]["calls"] == len(endpoint.requests) == 24


def test_a_limit_stops_only_the_current_align(
    memalign: Run,
    priced: str,
    rows: Path,
    endpoint: Endpoint,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "memalign.models.provider_model.RECORD_TOKENS", 64_000
    )  # twelve rows take six calls
    limit = 0.25
    stopped = memalign("align tone rows.jsonl --max-cost", limit, "--json", code=1)
    assert 0 < stopped.json["usage"]["cost"] <= limit
    assert stopped.json["usage"]["calls"] == len(endpoint.requests) > 1
    reasons = {entry["reason"] for entry in stopped.json["pending"]}
    assert 0 < len(stopped.json["pending"]) < 12
    assert reasons == {
        "SpendLimitReached: one more call would pass the limit of $0.25; align again to go on"
    }
    memalign(
        "align tone --max-cost",
        limit,
        code=1,
        says="stopped: one more call would pass the limit of $0.25",
    )
    codes = [1]
    while codes[-1] and len(codes) < 30:
        repeated = memalign("align tone --max-cost", limit, "--json")
        assert 0 <= repeated.json["usage"]["cost"] <= limit
        codes.append(repeated.code)
    assert codes[-1] == 0
    assert memalign("show tone --ledger --json").json["ledger"]["counts"] == {
        "learned": 12
    }


def test_a_limit_that_cannot_hold_loses_nothing(
    memalign: Run, priced: str, rows: Path, endpoint: Endpoint
) -> None:
    memalign("edit tone --price", "")
    unknown = "max_cost cannot hold: what a call of openai:test costs is not known"
    memalign("align tone rows.jsonl --max-cost 1", code=2, says=unknown)
    assert not endpoint.requests, "it is refused before anything is paid"
    memalign("align tone rows.jsonl", code=0)


def test_what_a_limit_could_not_count_is_kept_and_a_dry_run_says_so(
    memalign: Run, priced: str, rows: Path, endpoint: Endpoint
) -> None:
    def uncounted(body: Body) -> Fault:
        return Fault(
            body={
                "choices": [{"message": {"content": json.dumps(paying.answer(body))}}]
            }
        )

    endpoint.answer = uncounted
    memalign(
        "align tone rows.jsonl --max-cost 1",
        code=2,
        says="the server counts no tokens",
    )
    assert len(endpoint.requests) == 1
    kept = "no model call is needed: an earlier run paid for 1 answer, and kept what it got"
    memalign("align tone rows.jsonl --dry-run", code=0, says=kept)
    memalign(
        "align tone rows.jsonl",
        code=0,
        says="reused 1 answer that an interrupted run had paid for",
    )
    assert len(endpoint.requests) == 1


def test_a_stopped_evaluation_resumes_with_the_same_command(
    memalign: Run, priced: str, rows: Path, endpoint: Endpoint
) -> None:
    limit = (
        memalign("evaluate tone rows.jsonl --json").json["evaluation"]["usage"]["cost"]
        / 2
    )
    endpoint.requests.clear()
    arguments = ("evaluate", priced, rows, "-o", "out.jsonl", "--max-cost", limit)
    stopped = memalign(*arguments, "--json", code=1)
    assert stopped.json["evaluation"]["usage"]["cost"] <= limit
    assert 0 < stopped.json["evaluation"]["unscored"] < 12
    assert "NotJudged: one more call would pass the limit" in stopped.err
    while memalign(*arguments).code:
        pass
    assert len(endpoint.requests) == 12
