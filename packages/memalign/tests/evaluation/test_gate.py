"""A gate: what passes, what fails, and what the cases do not tell."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar
from xml.etree import ElementTree as ET

import pytest

from memalign import Judge
from memalign.errors import InputError, ModelUnavailable
from memalign.evaluation import GateResult, as_markdown, check_criteria, evaluate, gate, junit_xml, report
from memalign.models.base import ChatRequest
from memalign.testing import Answer, ScriptedChatModel
from memalign.types import Feedback, as_json
from tests.support.scripted import scripted

ITEM = re.compile(r"item (\d+)")


def judge_that(wrong: Callable[[int], bool], *, name: str = "tone", **changes: Any) -> tuple[Judge, ScriptedChatModel]:
    """A judge that says the label, even numbers true, but for the items that it gets `wrong`."""

    def answer(request: ChatRequest) -> Answer:
        number = int(ITEM.findall(request.user)[-1])
        return {"rationale": "Read.", "value": (number % 2 == 0) != wrong(number)}

    return scripted(answer, name=name, **changes)


def labelled(count: int, **more: Any) -> list[Feedback]:
    return [
        Feedback(id=f"h-{number}", outputs=f"item {number}", value=number % 2 == 0, source="ana", **more)
        for number in range(count)
    ]


def never(_: int) -> bool:
    return False


def decide(judge: Judge, rows: list[Feedback], against: Judge | None = None, **more: Any) -> GateResult:
    """The gate on the cases that neither judge has met."""
    demands = {name: more.pop(name) for name in ("minimum", "not_worse_than") if name in more}
    return gate(evaluate(judge, rows, against=against, unseen=True, **more), **demands)


def outcomes(found: GateResult) -> dict[str, str]:
    return {each.demand: each.outcome for each in found.criteria}


class TestMinimum:
    def test_the_whole_interval_must_reach_it(self) -> None:
        judge, _ = judge_that(lambda number: number % 10 == 0)
        for least, outcome in ((0.6, "pass"), (0.78, "too few cases"), (0.95, "worse")):
            found = decide(judge, labelled(200), minimum={"accuracy": least, "kappa": least})
            assert outcomes(found)[f"kappa at least {least}"] == outcome
            assert found.outcome == outcome

    def test_a_right_judge_passes_and_a_constant_fails(self) -> None:
        right, _ = judge_that(never)
        constant, _ = judge_that(lambda number: number % 2 == 1)
        demands = {"kappa": 0.6, "accuracy": 0.7}
        assert set(outcomes(decide(right, labelled(60), minimum=demands)).values()) == {"pass"}
        assert decide(right, labelled(4), minimum=demands).outcome == "too few cases"
        assert set(outcomes(decide(constant, labelled(60), minimum=demands)).values()) == {"worse"}

    def test_too_few_cases_or_labels_are_told(self) -> None:
        judge, _ = judge_that(lambda number: number % 10 == 0)
        result = decide(judge, labelled(50), minimum={"accuracy": 0.85})
        assert result.outcome == "too few cases"
        assert re.search(r"about \d+ more cases would settle it", str(result))
        alike = decide(judge_that(never)[0], [row for row in labelled(40) if row.value], minimum={"kappa": 0.5})
        assert (alike.outcome, "give no figure" in str(alike)) == ("too few cases", True)

    @pytest.mark.parametrize(
        ("demand", "message"),
        [
            ({}, "name at least one criterion"),
            ({"minimum": {"f1": 0.5}}, "bool has no 'f1'; it has accuracy"),
            ({"not_worse_than": 5}, "needs a judge to compare with"),
            ({"not_worse_than": 120, "against": True}, "points from 0 to less than 100"),
            ({"minimum": {"kappa": float("nan")}}, "can never reach nan"),
            ({"minimum": {"accuracy": 85}}, "accuracy is at most 1"),
        ],
    )
    def test_an_impossible_demand_is_wrong_use(self, demand: dict[str, Any], message: str) -> None:
        judge, _ = judge_that(never)
        with pytest.raises(InputError, match=message):
            check_criteria(judge, **{"minimum": {}} | demand)


class TestBaseline:
    def test_only_a_worse_judge_is_stopped(self) -> None:
        base, _ = judge_that(lambda number: number % 10 == 0, instructions="Polite, then? {{ outputs }}")
        worse, _ = judge_that(lambda number: number % 3 == 0)
        same, _ = judge_that(lambda number: number % 10 == 1)
        assert decide(worse, labelled(200), against=base, not_worse_than=5).outcome == "worse"
        assert decide(same, labelled(600), against=base, not_worse_than=5).outcome == "pass"
        few = evaluate(same, labelled(40), against=base, unseen=True)
        assert gate(few, not_worse_than=5).outcome == "too few cases"
        assert few.comparison is not None
        assert few.comparison.broken


class TestCases:
    def test_taught_cases_do_not_count(self) -> None:
        (judge, _), rows = judge_that(never), labelled(60)
        taught = judge.align([Feedback(id=row.id, outputs=row.outputs, value=row.value) for row in rows[:10]]).judge
        unseen = evaluate(taught, rows, unseen=True)
        assert (unseen.taught, unseen.n, unseen.seen) == (10, 50, 0)
        assert gate(unseen, minimum={"kappa": 0.3}).n == 50
        with pytest.raises(InputError, match="10 cases are in the judge's memory; use unseen=True"):
            gate(evaluate(taught, rows), minimum={"kappa": 0.3})
        with pytest.raises(InputError, match="all 10 cases are in the judge's memory"):
            decide(taught, rows[:10], minimum={"kappa": 0.3})

    def test_a_case_without_a_verdict_passes_nobody(self) -> None:
        def down(_: ChatRequest) -> Answer:
            raise ModelUnavailable("HTTP 503")

        judge, _ = judge_that(never)
        with pytest.raises(InputError, match="60 of 60 cases have no verdict, such as h-0: ModelUnavailable"):
            decide(judge.replace(model=ScriptedChatModel(down)), labelled(60), minimum={"kappa": 0.3})


class TestJudgmentsOfAFile:
    DEMAND: ClassVar[dict[str, Any]] = {"minimum": {"kappa": 0.5}}

    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        """What a judge that is never wrong said of sixty cases."""
        judge_that(never)[0].judge_many(labelled(60), out=tmp_path / "judged.jsonl")
        return tmp_path / "judged.jsonl"

    def test_they_need_no_model(self, tmp_path: Path) -> None:
        (judge, model), file = judge_that(lambda number: number % 10 == 0), tmp_path / "judged.jsonl"
        ways: list[dict[str, Any]] = [{"out": file}, {"out": file}, {"judged": file}]
        results = [decide(judge, labelled(60), **self.DEMAND, **way) for way in ways]
        assert len(model.requests) == 60
        assert results[0].criteria == results[1].criteria == results[2].criteria

    def test_those_of_another_judge_count_for_nothing(self, file: Path) -> None:
        judge, _ = judge_that(never)
        taught = judge.align([Feedback(id="t-1", outputs="item 1000", value=True, source="ana")]).judge
        changes: list[dict[str, Any]] = [
            {"instructions": "Kind? {{ outputs }}"},
            {"parameters": {"temperature": 0.5}},
            {"model": ScriptedChatModel(lambda _: {}, name="another")},
        ]
        for other in (taught, *(judge.replace(**change) for change in changes)):
            with pytest.raises(InputError, match="was judged by another judge, or by tone with another model"):
                decide(other, labelled(60), judged=file, **self.DEMAND)

    def test_another_name_or_label_asks_no_model(self, file: Path) -> None:
        renamed, model = judge_that(never, name="warmth")
        other = [row if row.id != "h-3" else Feedback(id="h-3", outputs="item 3", value=True) for row in labelled(60)]
        for rows in (labelled(60), other):
            result = decide(renamed, rows, judged=file, **self.DEMAND)
            assert (result.judge, result.outcome, model.requests) == ("warmth", "pass", [])

    def test_a_missing_or_changed_case_is_named(self, file: Path) -> None:
        changed = Feedback(id="h-3", outputs="item 30", value=True)
        for rows, message in (
            (labelled(80), "has no judgment for 'h-60' and of 19 others"),
            ([changed, *labelled(60)[4:]], "'h-3' has changed since it was"),
        ):
            with pytest.raises(InputError, match=message):
                decide(judge_that(never)[0], rows, judged=file, **self.DEMAND)

    def test_each_judge_finds_its_own_file(self, file: Path, tmp_path: Path) -> None:
        judge, model = judge_that(never)
        base = judge.replace(instructions="Kind? {{ outputs }}")
        base.judge_many(labelled(60), out=tmp_path / "base.jsonl")
        calls, files = len(model.requests), [tmp_path / "base.jsonl", file]
        assert decide(judge, labelled(60), base, not_worse_than=50, judged=files).outcome == "pass"
        assert len(model.requests) == calls


def test_a_result_is_junit_markdown_and_json() -> None:
    base, _ = judge_that(never, instructions="Polite, then? {{ outputs }}")
    judge, _ = judge_that(lambda number: number % 3 == 0)
    rows = [Feedback(id=f"<b>|{row.id}", outputs=row.outputs, value=row.value) for row in labelled(60)]
    evaluation = evaluate(judge, rows, against=base, unseen=True)
    result = gate(evaluation, minimum={"kappa": 0.3}, not_worse_than=5)
    suite = ET.fromstring(junit_xml(result))[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("2", "1", "1")
    assert len(suite.findall("testcase/failure")) == 1
    plain = json.loads(json.dumps(as_json(result)))
    assert plain["outcome"] == "worse"
    assert plain["criteria"][1]["figure"]["high"] < -0.05
    assert "- \\<b\\>\\|h-0\n" in as_markdown(report(judge, evaluation)), "nothing from data is markup"
