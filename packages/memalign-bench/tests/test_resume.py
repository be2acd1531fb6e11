"""What an earlier run left is taken over where its judges were taught the same cases, and nowhere else."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench_support.runs import cell, go, lines_of, plan_of
from memalign_bench.estimate import estimate_run
from memalign_bench.methods.base import Fitted, Setting, Verdict
from memalign_bench.raw import Fit, RawFolder, View
from memalign_bench.tasks import Case
from tests.support.endpoint import Endpoint

LEARNING = ("majority", "neighbours-vote", "memalign")
METHODS = (*LEARNING, "zero-shot")


def changed(config: Path, case_id: str, change: Callable[[dict[str, Any]], object]) -> None:
    """The data, with another row for that case."""
    path = config.parent / "tasks" / "tone.jsonl"
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    for row in rows:
        if row["id"] == case_id:
            change(row)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def left(config: Path, **changes: object) -> int:
    done, total = plan_of(config, **changes).counts(RawFolder(config.parent / "raw"))
    return total - done


class TestAnotherSplit:
    def test_judges_taught_by_other_cases_judge_anew(self, config: Path, endpoint: Endpoint) -> None:
        go(config, methods=METHODS, stages=(0, 4), test=0)
        outcome = go(config, methods=METHODS, stages=(0, 4), test=0, train=20)
        fresh = config.parent / "fresh"
        go(config, raw=fresh, methods=METHODS, stages=(0, 4), test=0, train=20)
        for method in LEARNING:
            assert any(f"{method}@4: learned again" in note for note in outcome.notes)
            assert lines_of(config, method, 4) == lines_of(config, method, 4, fresh)

    def test_the_untaught_zero_shot_judge_keeps_its_verdicts(self, config: Path, endpoint: Endpoint) -> None:
        go(config, methods=("zero-shot",), stages=(0,), test=0)
        assert left(config, methods=("zero-shot",), stages=(0,), test=0, train=20) == 0

    def test_zero_shot_verdicts_on_teaching_cases_go(self, config: Path, endpoint: Endpoint) -> None:
        go(config, methods=("zero-shot",), stages=(0,), test=0)
        outcome = go(config, methods=("zero-shot", "majority"), stages=(0, 20), test=0, train=20)
        tested = {case.id for case in plan_of(config, train=20, test=0).splits["tone", 0].test}
        assert {line.id for line in lines_of(config, "zero-shot", 0)} == tested
        assert any("zero-shot@0" in note and "taken out" in note for note in outcome.notes)

    def test_verdicts_on_cases_of_other_data_stay(self, config: Path, endpoint: Endpoint) -> None:
        go(config, methods=("zero-shot",), stages=(0,), test=0)
        there = lines_of(config, "zero-shot", 0)
        path = config.parent / "tasks" / "tone.jsonl"
        path.write_text("".join(path.read_text("utf-8").splitlines(keepends=True)[:20]), "utf-8")
        go(config, methods=("zero-shot",), stages=(0,), test=0, train=1)
        plan, kept = plan_of(config, train=1, test=0), {line.id for line in lines_of(config, "zero-shot", 0)}
        assert kept - {case.id for case in plan.tasks["tone"].cases}, "some of them are not in this data"
        assert {line.id for line in there} - kept <= {case.id for case in plan.splits["tone", 0].train}

    def test_cases_beyond_a_smaller_test_stay(self, config: Path, endpoint: Endpoint) -> None:
        go(config, methods=("zero-shot",), stages=(0,), test=0)
        there = lines_of(config, "zero-shot", 0)
        assert not go(config, methods=("zero-shot", "majority"), stages=(0, 8), test=6).notes
        assert lines_of(config, "zero-shot", 0) == there

    def test_what_learning_takes_is_estimated_again(self, config: Path, endpoint: Endpoint) -> None:
        go(config, methods=("memalign",), stages=(4,))
        plan = plan_of(config, methods=("memalign",), stages=(4,), train=20)
        (estimate,) = estimate_run(plan, RawFolder(config.parent / "raw"))
        assert estimate.usage.calls > estimate.judgments == 6


class TestChangedData:
    def test_other_words_on_taught_cases_teach_another_judge(self, config: Path, endpoint: Endpoint) -> None:
        go(config)
        fifth = plan_of(config).splits["tone", 0].train[4]
        changed(config, fifth.id, lambda row: row.update(rationale="It does not say when."))
        cells = {str(batch.cell) for batch in plan_of(config).batches(RawFolder(config.parent / "raw"))}
        assert cells == {f"tone seed 0 {method}@8" for method in ("majority", "nearest", "memalign")}

    def test_only_a_relabelled_case_is_judged_again(self, config: Path, endpoint: Endpoint) -> None:
        go(config)
        case = plan_of(config).splits["tone", 0].test[0]
        changed(config, case.id, lambda row: row.update(value=not case.label))
        assert left(config) == 7
        assert go(config).judged == 7
        assert left(config) == 0
        assert {line.id: line.label for line in lines_of(config, "memalign", 8)}[case.id] is not case.label

    def test_only_a_reworded_case_is_judged_again(self, config: Path, endpoint: Endpoint) -> None:
        go(config)
        case = plan_of(config).splits["tone", 0].test[0]
        changed(config, case.id, lambda row: row.update(outputs="Another reply."))
        assert left(config) == 7
        assert go(config).judged == 7
        assert left(config) == 0

    def test_a_line_without_its_content_stands(self, config: Path, endpoint: Endpoint) -> None:
        go(config)
        raw = RawFolder(config.parent / "raw")
        zero_shot = cell("zero-shot", 0)
        raw.replace(zero_shot, [msgspec.structs.replace(line, content="") for line in raw.lines(zero_shot)])
        assert left(config) == 0


@pytest.mark.parametrize("kept", [True, False])
def test_lines_of_unknown_teaching_are_judged_anew(config: Path, endpoint: Endpoint, kept: bool) -> None:
    go(config)
    raw = RawFolder(config.parent / "raw")
    fit = raw.fit(cell("majority", 8))
    assert fit is not None
    raw.write_fit(cell("majority", 8), msgspec.structs.replace(fit, taught=""))
    if not kept:
        next((config.parent / "raw").rglob("majority@8.fit.json")).unlink()
    assert left(config) == 6
    assert go(config).judged == 6
    again = raw.fit(cell("majority", 8))
    assert again is not None
    assert again.taught == fit.taught
    assert left(config) == 0


@dataclass
class Restless:
    """A method that never learns the same twice, and fails on one case."""

    fails: str = ""
    learned: int = 0
    name = "gepa"
    views: frozenset[View] = frozenset({"unseen"})

    async def learn(self, setting: Setting, train: Sequence[Case], before: Fitted | None) -> Fitted:
        self.learned += 1
        assert self.learned < 50, "it learns without end"
        return _Learned(fit=Fit(id=f"state {self.learned}"), fails=self.fails)


@dataclass(frozen=True)
class _Learned:
    fit: Fit
    fails: str

    async def judge(self, case: Case, view: View) -> Verdict:
        return Verdict(value=None, error="it declined") if case.id == self.fails else Verdict(value=True)

    async def close(self) -> None: ...


class TestAMethodThatLearnsSomethingElseEachTime:
    @pytest.fixture
    def method(self, config: Path, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> Restless:
        method = Restless()
        monkeypatch.setattr("memalign_bench.run._Runner._method", lambda self, name: method)
        return method

    def test_a_varying_method_learns_once_a_run(self, config: Path, method: Restless) -> None:
        go(config, methods=("gepa",), stages=(2, 4, 8), test=3)
        outcome = go(config, methods=("gepa",), stages=(2, 4, 8), test=6)
        assert (outcome.judged, method.learned) == (3 * 6, 2 * 3)
        for stage in (2, 4, 8):
            assert len({line.fit for line in lines_of(config, "gepa", stage)}) == 1

    def test_a_failed_case_is_left_to_later_runs(self, config: Path, method: Restless) -> None:
        method.fails = plan_of(config).splits["tone", 0].test[0].id
        go(config, methods=("gepa",), stages=(2, 4, 8))
        outcome = go(config, methods=("gepa",), stages=(2, 4, 8))
        assert (outcome.judged, outcome.failed, method.learned) == (3 * 6, 3, 2 * 3)
