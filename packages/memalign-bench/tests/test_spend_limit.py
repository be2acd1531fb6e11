"""A run spends no more than it may: at its spend limit it asks nothing more, and keeps what it has paid for."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from bench_support.runs import cell, go, lines_of
from memalign_bench.raw import RawFolder
from tests.support.endpoint import Endpoint

if TYPE_CHECKING:
    import pytest


def test_a_run_stops_at_its_spend_limit(config: Path, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMALIGN_CONCURRENCY", "2")
    outcome = go(config, methods=("zero-shot",), stages=(0,), spend_limit=0.0001)
    assert "spend limit" in (outcome.stopped or "")
    judged = len(lines_of(config, "zero-shot", 0))
    assert 0 < judged < 6
    assert len(endpoint.requests) == judged
    assert go(config, methods=("zero-shot",), stages=(0,)).judged == 6 - judged


def test_a_spend_limit_while_learning_keeps_no_judge(
    config: Path, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMALIGN_CONCURRENCY", "3")
    endpoint.latency = 0.05
    outcome = go(config, methods=("memalign-all-stages",), stages=(8,), spend_limit=1e-6)
    assert "spend limit" in (outcome.stopped or "")
    assert (outcome.judged, outcome.notes) == (0, [])
    assert 0 < len(endpoint.requests) <= 3
    assert len(list((config.parent / "memo" / "calls").rglob("*.json"))) == len(endpoint.requests)
    assert RawFolder(config.parent / "raw").fit(cell("memalign-all-stages", 8)) is None


def test_a_stopped_runs_lessons_are_not_asked_again(
    config: Path, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMALIGN_CONCURRENCY", "3")
    go(config, methods=("memalign",), stages=(8,), spend_limit=1e-6)
    outcome = go(config, methods=("memalign",), stages=(8,))
    assert (outcome.judged, outcome.failed, outcome.stopped) == (6, 0, None)
    calls = len(endpoint.requests)
    go(config, raw=config.parent / "elsewhere", memo="another memo", methods=("memalign",), stages=(8,))
    assert len(endpoint.requests) == 2 * calls


def test_remembered_calls_are_not_spent_again(config: Path, endpoint: Endpoint) -> None:
    first = go(config, methods=("memalign",), stages=(8,))
    assert first.cost
    shutil.rmtree(config.parent / "raw")
    again = go(config, methods=("memalign",), stages=(8,), spend_limit=first.cost / 100)
    assert (again.cost, again.stopped, again.judged) == (0.0, None, 6)
    assert (
        sum(line.cost or 0.0 for line in lines_of(config, "memalign", 8)) > 0
    )  # a judgment's own cost is what it once was


def test_a_spend_limit_needs_known_costs(config: Path, endpoint: Endpoint) -> None:
    outcome = go(config, methods=("zero-shot",), stages=(0,), spend_limit=1.0, prices=None)
    assert "prices" in (outcome.stopped or "")
    assert len(endpoint.requests) == len(lines_of(config, "zero-shot", 0))  # what was asked is kept


def test_a_cost_that_nobody_knows_is_not_nought(config: Path, endpoint: Endpoint) -> None:
    outcome = go(config, methods=("zero-shot",), stages=(0,), prices=None)
    assert (outcome.judged, outcome.cost) == (6, None)
