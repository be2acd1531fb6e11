"""What an align or an evaluation costs: said before, limited on the way, and never paid twice."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Run, creating, jsonl, latest
from tests.support import paying
from tests.support.endpoint import Body, Endpoint, Fault

ROWS = paying.rows(12)
PRICE = "input=100,output=400"  # dollars for a million tokens: cents a call


@pytest.fixture
def priced(memalign: Run, endpoint: Endpoint) -> str:
    endpoint.answer = paying.answer
    memalign(*creating("tone", "--price", PRICE), code=0)
    return "tone"


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return jsonl(tmp_path / "rows.jsonl", ROWS)


def test_an_align_dry_run_estimates_without_a_call(
    memalign: Run, priced: str, rows: Path, endpoint: Endpoint
) -> None:
    estimate = memalign("align tone rows.jsonl --dry-run --json", code=0).json[
        "estimate"
    ]
    said = memalign("align tone rows.jsonl --dry-run").out
    figures = r"about \d+ calls?, [\d,]+ tokens in, [\d,]+ out, \$[\d.]+ "
    assert re.match(figures + r"\(an estimate that assumes", said)
    jsonl(rows.with_name("bad.jsonl"), [ROWS[0] | {"value": "perhaps"}])
    # It refuses what aligning would.
    memalign("align tone bad.jsonl --dry-run", code=2, says="line 1 (t-ana-0)")
    assert endpoint.requests == []
    assert latest() == 1
    usage = memalign("align tone rows.jsonl --json").json["usage"]
    assert usage["calls"] == len(endpoint.requests)
    for name, most in (("calls", 1.3), ("input_tokens", 1.6), ("cost", 2)):
        assert 0.7 * usage[name] <= estimate[name] <= most * usage[name]
    again = memalign("align tone rows.jsonl --dry-run")
    assert again.out == "no model call is needed\n", "all is learned"


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
    jsonl(rows.with_name("few.jsonl"), paying.rows(3, source="ben"))
    memalign("align tone few.jsonl", code=0)
    endpoint.requests.clear()
    command = "evaluate tone rows.jsonl --against zero-shot -o out.jsonl --json"
    dry = memalign(command, "--dry-run", code=0)
    assert endpoint.requests == []
    assert not Path("out.jsonl").exists()
    memalign(command, code=0)
    assert dry.json["estimate"]["calls"] == len(endpoint.requests) == 24


def test_a_limit_stops_only_the_current_align(
    memalign: Run,
    priced: str,
    rows: Path,
    endpoint: Endpoint,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Twelve rows take six calls.
    monkeypatch.setattr("memalign.models.provider_model.RECORD_TOKENS", 64_000)
    stopped = memalign("align tone rows.jsonl --max-cost 0.25 --json", code=1).json
    assert 0 < stopped["usage"]["cost"] <= 0.25
    assert stopped["usage"]["calls"] == len(endpoint.requests) > 1
    assert 0 < len(stopped["pending"]) < 12
    said = "one more call would pass the limit of $0.25"
    for entry in stopped["pending"]:
        assert entry["reason"] == f"SpendLimitReached: {said}; align again to go on"
    memalign("align tone --max-cost 0.25", code=1, says=f"stopped: {said}")
    for _ in range(30):
        repeated = memalign("align tone --max-cost 0.25 --json")
        assert 0 <= repeated.json["usage"]["cost"] <= 0.25
        if repeated.code == 0:
            break
    counts = memalign("show tone --ledger --json").json["ledger"]["counts"]
    assert counts == {"learned": 12}


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
        message = {"content": json.dumps(paying.answer(body))}
        return Fault(body={"choices": [{"message": message}]})

    endpoint.answer = uncounted
    unknown = "the server counts no tokens"
    memalign("align tone rows.jsonl --max-cost 1", code=2, says=unknown)
    assert len(endpoint.requests) == 1
    kept = "no model call is needed: an earlier run paid for 1 answer, and kept what"
    memalign("align tone rows.jsonl --dry-run", code=0, says=kept)
    reused = "reused 1 answer that an interrupted run had paid for"
    memalign("align tone rows.jsonl", code=0, says=reused)
    assert len(endpoint.requests) == 1


def test_a_stopped_evaluation_resumes_with_the_same_command(
    memalign: Run, priced: str, rows: Path, endpoint: Endpoint
) -> None:
    whole = memalign("evaluate tone rows.jsonl --json").json["evaluation"]
    limit = whole["usage"]["cost"] / 2
    endpoint.requests.clear()
    command = f"evaluate tone rows.jsonl -o out.jsonl --max-cost {limit}"
    stopped = memalign(command, "--json", code=1)
    evaluation = stopped.json["evaluation"]
    assert evaluation["usage"]["cost"] <= limit
    assert 0 < evaluation["unscored"] < 12
    assert "NotJudged: one more call would pass the limit" in stopped.err
    while memalign(command).code:
        pass
    assert len(endpoint.requests) == 12
