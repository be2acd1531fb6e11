"""What an align or an evaluation costs: said before, limited on the way, and never paid twice."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import INSTRUCTIONS, Run, jsonl
from tests.cli.test_process import interrupted
from tests.support import paying
from tests.support.endpoint import Endpoint
from tests.support.patience import PATIENCE

ROWS = paying.rows(12)
PRICE = "input=100,output=400"  # dollars for a million tokens: cents a call


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    with Endpoint(paying.answer) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        yield server


@pytest.fixture
def priced(memalign: Run, endpoint: Endpoint, tmp_path: Path) -> str:
    settings = ("--instructions", INSTRUCTIONS, "--value-type", "bool", "--model", "openai:test", "--price", PRICE)
    assert memalign("create", "tone", *settings).code == 0
    return "tone"


@pytest.fixture
def given(tmp_path: Path) -> Path:
    return jsonl(tmp_path / "given.jsonl", ROWS)


def unlabelled(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in ("rationale", "source", "created_at")}


def test_an_align_dry_run_estimates_without_a_call(memalign: Run, priced: str, given: Path, endpoint: Endpoint) -> None:
    dry = memalign("align", priced, given, "--dry-run", "--json")
    assert dry.code == 0, dry.err
    assert endpoint.requests == []
    assert memalign("show", priced, "--json").json["version"] == 1
    estimate = dry.json["estimate"]
    usage = memalign("align", priced, given, "--json").json["usage"]
    assert usage["calls"] == len(endpoint.requests)
    assert usage["calls"] * 0.7 <= estimate["calls"] <= usage["calls"] * 1.3
    assert usage["input_tokens"] * 0.7 <= estimate["input_tokens"] <= usage["input_tokens"] * 1.6
    assert usage["cost"] * 0.7 <= estimate["cost"] <= usage["cost"] * 2
    nothing = memalign("align", priced, given, "--dry-run", "--json").json["estimate"]
    assert (nothing["calls"], nothing["cost"]) == (0, 0.0), "all is learned"
    assert memalign("align", priced, given, "--dry-run").out == "no model call is needed\n"


def test_a_dry_run_says_it_is_an_estimate(memalign: Run, priced: str, given: Path, endpoint: Endpoint) -> None:
    said = memalign("align", priced, given, "--dry-run", "--max-cost", "0.01").out
    assert re.match(r"about \d+ calls?, [\d,]+ tokens in, [\d,]+ out, \$[\d.]+ \(an estimate that assumes", said)
    assert "--max-cost 0.01 would stop the run before its end" in said
    memalign("edit", priced, "--price", "")
    assert (
        "the model's price is unknown; set it with: memalign edit tone --price"
        in memalign("align", priced, given, "--dry-run").out
    )
    assert endpoint.requests == []


def test_a_single_call_beyond_the_limit_is_not_made(
    memalign: Run, priced: str, given: Path, endpoint: Endpoint
) -> None:
    memalign("edit", priced, "--price", "input=100000,output=400000")
    stopped = memalign("align", priced, given, "--max-cost", "0.5", "--json")
    assert (stopped.code, endpoint.requests) == (1, [])
    assert "one more call would pass the limit of $0.5" in str(stopped.json)
    assert re.search(r"\$\d{2,} \(", memalign("align", priced, given, "--dry-run").out), (
        "dollars are never powers of ten"
    )


def test_a_dry_run_refuses_what_aligning_would(memalign: Run, priced: str, tmp_path: Path) -> None:
    bad = jsonl(tmp_path / "bad.jsonl", [{"id": "x", "inputs": "?", "outputs": "!", "value": "perhaps"}])
    for more in ((), ("--dry-run",)):
        refused = memalign("align", priced, bad, *more)
        assert refused.code == 2
        assert "line 1 (x)" in refused.err


def test_an_evaluate_dry_run_counts_every_call(memalign: Run, priced: str, tmp_path: Path, endpoint: Endpoint) -> None:
    labelled = jsonl(tmp_path / "labelled.jsonl", [unlabelled(row) for row in ROWS])
    memalign("align", priced, jsonl(tmp_path / "few.jsonl", paying.rows(3, source="ben")))
    endpoint.requests.clear()
    arguments = ("evaluate", priced, labelled, "--against", "zero-shot", "--json")
    dry = memalign(*arguments, "-o", "out.jsonl", "--dry-run")
    assert dry.code == 0, dry.err
    assert endpoint.requests == []
    assert not (tmp_path / "out.jsonl").exists()
    assert memalign(*arguments, "-o", "out.jsonl").code == 0
    assert dry.json["estimate"]["calls"] == len(endpoint.requests) == 24
    spent = (tmp_path / "out.jsonl").read_bytes()
    again = memalign(*arguments, "-o", "out.jsonl", "--dry-run")
    assert again.json["estimate"]["calls"] == 12, "the judge's own are there"
    assert (tmp_path / "out.jsonl").read_bytes() == spent


def test_a_limit_stops_only_the_current_align(memalign: Run, priced: str, given: Path, endpoint: Endpoint) -> None:
    limit, spent = 0.4, 0.0
    stopped = memalign("align", priced, given, "--shard-size", "2", "--max-cost", limit, "--json")
    assert stopped.code == 1, stopped.err
    assert 0 < stopped.json["usage"]["cost"] <= limit
    assert stopped.json["usage"]["calls"] == len(endpoint.requests) > 1
    waiting = {entry["key"] for entry in stopped.json["pending"]}
    reasons = {entry["reason"] for entry in stopped.json["pending"]}
    assert 0 < len(waiting) < 12
    assert reasons == {"SpendLimitReached: one more call would pass the limit of $0.4; align again to go on"}
    went_on = stopped
    for _ in range(30):
        went_on = memalign("align", priced, "--shard-size", "2", "--max-cost", limit, "--json")
        assert 0 <= went_on.json["usage"]["cost"] <= limit
        spent += went_on.json["usage"]["cost"]
        if went_on.code == 0:
            break
        assert "one more call would pass the limit of $0.4" in went_on.json["stopped"]
    assert went_on.code == 0
    states = {entry["state"] for entry in memalign("show", priced, "--ledger", "--json").json["ledger"]["entries"]}
    assert states == {"learned"}


def test_a_limit_that_is_reached_is_told(memalign: Run, priced: str, given: Path) -> None:
    said = memalign("align", priced, given, "--max-cost", "0.4", "--shard-size", "2")
    assert said.code == 1
    assert (
        "stopped: one more call would pass the limit of $0.4; to try the pending feedback again: memalign align tone"
        in (said.out)
    )


def test_a_limit_that_cannot_hold_loses_nothing(memalign: Run, priced: str, given: Path, endpoint: Endpoint) -> None:
    memalign("edit", priced, "--price", "")
    refused = memalign("align", priced, given, "--max-cost", "1")
    assert refused.code == 2
    assert "max_cost cannot hold: what a call of openai:test costs is not known" in refused.err
    assert len(endpoint.requests) == 1
    done = memalign("align", priced, given)
    assert done.code == 0
    assert "reused 1 answer that an interrupted run had paid for" in done.err


@pytest.mark.parametrize("limit", ["0", "nan"])
@pytest.mark.parametrize("command", ["align", "judge", "evaluate"])
def test_a_limit_is_a_number_of_dollars(memalign: Run, priced: str, given: Path, command: str, limit: str) -> None:
    wrong = memalign(command, priced, given, "--max-cost", limit)
    assert wrong.code == 2
    assert "dollars above 0" in wrong.err


def test_a_stopped_evaluation_resumes_with_the_same_command(
    memalign: Run, priced: str, tmp_path: Path, endpoint: Endpoint
) -> None:
    labelled = jsonl(tmp_path / "labelled.jsonl", [unlabelled(row) for row in ROWS])
    limit = memalign("evaluate", priced, labelled, "--json").json["evaluation"]["usage"]["cost"] / 2
    endpoint.requests.clear()
    arguments = ("evaluate", priced, labelled, "-o", "out.jsonl", "--max-cost", limit)
    stopped = memalign(*arguments, "--json")
    assert stopped.code == 1
    assert stopped.json["evaluation"]["usage"]["cost"] <= limit
    assert 0 < stopped.json["evaluation"]["unscored"] < 12
    assert "NotJudged: one more call would pass the limit" in stopped.err
    while memalign(*arguments).code:
        pass
    assert len(endpoint.requests) == 12


def test_both_judges_share_an_evaluations_limit(memalign: Run, priced: str, tmp_path: Path) -> None:
    labelled = jsonl(tmp_path / "labelled.jsonl", [unlabelled(row) for row in ROWS])
    memalign("align", priced, jsonl(tmp_path / "few.jsonl", paying.rows(3, source="ben")))
    arguments = ("evaluate", priced, labelled, "--against", "zero-shot", "--json")
    free = memalign(*arguments).json
    first, second = (free[name]["usage"]["cost"] for name in ("evaluation", "base"))
    limit = first + second / 2
    stopped = memalign(*arguments, "--max-cost", limit)
    assert stopped.code == 1
    assert stopped.json["evaluation"]["unscored"] == 0
    assert 0 < stopped.json["base"]["unscored"] < 12


@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C is another thing there")
def test_an_interrupt_says_what_is_kept(memalign: Run, priced: str, given: Path, endpoint: Endpoint) -> None:
    answered = iter(range(1_000))
    waits = False

    def four(body: dict[str, Any]) -> Any:
        nonlocal waits
        if next(answered) < 4:
            endpoint.requests.pop()  # the helper below waits for the first request that is not answered
            return paying.answer(body)
        waits = True
        endpoint._stopped.wait(PATIENCE)
        return {}

    endpoint.answer = four
    arguments = ["align", priced, str(given), "--concurrency", "1", "--shard-size", "2"]
    stopped = interrupted(arguments, endpoint)
    assert waits
    assert stopped.returncode == 130
    assert "nothing was saved, and tone is still version 1; 4 answers already paid for: run the same command" in (
        stopped.stderr
    )
    endpoint.answer = paying.answer
    done = memalign(*arguments)
    assert done.code == 0
    assert "reused 4 answers that an interrupted run had paid for" in done.err
