"""A gate: what passes, what fails, and what the cases do not tell."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from memalign import Judge
from memalign.align.edit import lock
from memalign.errors import InputError, ModelUnavailable
from memalign.evaluation import GateResult, MissingEvidence, gate, junit_xml, markdown
from memalign.models.base import ChatRequest
from memalign.testing import Answer, HashEmbedding, ScriptedChatModel
from memalign.types import Feedback

ITEM = re.compile(r"item (\d+)")


def judge_that(wrong: Callable[[int], bool], *, name: str = "tone", **changes: Any) -> tuple[Judge, ScriptedChatModel]:
    """A judge that says the label, even numbers true, but for the items that it gets `wrong`."""

    def answer(request: ChatRequest) -> Answer:
        number = int(ITEM.findall(request.user)[-1])
        return {"rationale": "Read.", "value": (number % 2 == 0) != wrong(number)}

    model = ScriptedChatModel(answer)
    settings: dict[str, Any] = {"instructions": "Polite? {{ outputs }}", "feedback_value_type": bool} | changes
    return Judge(name=name, model=model, embedding_model=HashEmbedding(), **settings), model


def labelled(count: int, **more: Any) -> list[Feedback]:
    return [
        Feedback(id=f"h-{number}", outputs=f"item {number}", value=number % 2 == 0, source="ana", **more)
        for number in range(count)
    ]


def never(_: int) -> bool:
    return False


def outcomes(found: GateResult) -> dict[str, str]:
    return {each.demand: each.outcome for each in found.criteria}


class TestMinimum:
    def test_the_whole_interval_must_reach_it(self) -> None:
        judge, _ = judge_that(lambda number: number % 10 == 0)
        for least, outcome in ((0.6, "pass"), (0.78, "inconclusive"), (0.95, "regression")):
            found = gate(judge, labelled(200), minimum={"exact_match": least, "kappa": least})
            assert outcomes(found)[f"kappa at least {least}"] == outcome
            assert found.outcome == outcome

    def test_a_right_judge_passes_and_a_constant_fails(self) -> None:
        right, _ = judge_that(never)
        constant, _ = judge_that(lambda number: number % 2 == 1)
        demands = {"kappa": 0.6, "balanced_accuracy": 0.7}
        assert set(outcomes(gate(right, labelled(60), minimum=demands)).values()) == {"pass"}
        assert gate(right, labelled(4), minimum=demands).outcome == "inconclusive"
        assert set(outcomes(gate(constant, labelled(60), minimum=demands)).values()) == {"regression"}

    def test_of_an_error_less_is_better(self) -> None:
        def answer(request: ChatRequest) -> Answer:
            number = int(ITEM.findall(request.user)[-1])
            return {"rationale": "Read.", "value": 3 + number % 2}

        judge = Judge(
            name="rank",
            instructions="Rank {{ outputs }}",
            feedback_value_type="int:1..5",
            model=ScriptedChatModel(answer),
        )
        rows = [Feedback(id=f"h-{n}", outputs=f"item {n}", value=1 + n % 5) for n in range(50)]
        assert gate(judge, rows, minimum={"mae": 3}).outcome == "pass"
        assert gate(judge, rows, minimum={"mae": 0.5}).outcome == "regression"

    def test_an_inconclusive_gate_says_how_many_more_cases(self) -> None:
        judge, _ = judge_that(lambda number: number % 10 == 0)
        found = gate(judge, labelled(50), minimum={"exact_match": 0.85})
        assert found.outcome == "inconclusive"
        assert re.search(r"about \d+ cases more would settle it", str(found))

    def test_one_label_throughout_gives_no_kappa(self) -> None:
        judge, _ = judge_that(never)
        rows = [row for row in labelled(40) if row.value]
        found = gate(judge, rows, minimum={"kappa": 0.5})
        assert found.outcome == "inconclusive"
        assert "give no figure" in str(found)

    @pytest.mark.parametrize(
        ("demand", "message"),
        [
            ({}, "nothing is demanded"),
            ({"minimum": {"f1": 0.5}}, "bool has no 'f1'; it has exact_match"),
            ({"not_worse_than": 5}, "belong together"),
            ({"minimum": {"kappa": float("nan")}}, "no number"),
            ({"minimum": {"exact_match": 85}}, "exact_match is at most 1"),
        ],
    )
    def test_an_impossible_demand_is_wrong_use(self, demand: dict[str, Any], message: str) -> None:
        judge, _ = judge_that(never)
        with pytest.raises(InputError, match=message):
            gate(judge, labelled(20), **demand)


class TestBaseline:
    def test_only_a_worse_judge_is_stopped(self) -> None:
        base, _ = judge_that(lambda number: number % 10 == 0, instructions="Polite, then? {{ outputs }}")
        worse, _ = judge_that(lambda number: number % 3 == 0)
        same, _ = judge_that(lambda number: number % 10 == 1)
        assert gate(worse, labelled(200), baseline=base, not_worse_than=5).outcome == "regression"
        assert gate(same, labelled(600), baseline=base, not_worse_than=5).outcome == "pass"
        few = gate(same, labelled(40), baseline=base, not_worse_than=5)
        assert few.outcome == "inconclusive"
        assert few.comparison is not None
        assert few.comparison.broken

    def test_groups_widen_the_interval(self) -> None:
        base, _ = judge_that(never, instructions="Polite, then? {{ outputs }}")
        worse, _ = judge_that(lambda number: number < 20)
        rows = [
            Feedback(id=f"h-{n}", outputs=f"item {n}", value=n % 2 == 0, meta={"group": str(n // 20)})
            for n in range(200)
        ]
        alone = [Feedback(id=row.id, outputs=row.outputs, value=row.value) for row in rows]
        assert gate(worse, alone, baseline=base, not_worse_than=3).outcome == "regression"
        assert gate(worse, rows, baseline=base, not_worse_than=3).outcome == "inconclusive"


class TestCases:
    def test_taught_cases_do_not_count(self) -> None:
        judge, model = judge_that(never)
        rows = labelled(60)
        model_calls = len(model.requests)
        taught = judge.align([Feedback(id=row.id, outputs=row.outputs, value=row.value) for row in rows[:10]]).judge
        model.requests.clear()
        found = gate(taught, rows, minimum={"kappa": 0.3})
        assert found.taught == 10
        assert found.evaluation.n == 50
        assert found.evaluation.seen == 0
        assert model_calls == 0
        with pytest.raises(InputError, match="all 10 cases are in the judge's memory"):
            gate(taught, rows[:10], minimum={"kappa": 0.3})

    def test_a_broken_lock_is_a_regression(self) -> None:
        judge, _ = judge_that(never)
        taught = judge.align([Feedback(id="t-1", outputs="item 1", value=True, source="ana")]).judge
        locked = lock(taught, "t-1")
        found = gate(locked, labelled(60), minimum={"kappa": 0.3})
        assert found.outcome == "regression"
        assert outcomes(found)["locked cases hold"] == "regression"
        assert "t-1 broken" in str(found)

    def test_a_score_near_the_label_keeps_a_lock(self) -> None:
        def near(request: ChatRequest) -> Answer:
            return {"changes": []} if "changes" in request.schema["properties"] else {"rationale": "", "value": 0.79}

        for label, outcome in ((0.8, "pass"), (0.2, "regression")):
            judge = Judge(
                name="score",
                instructions="Rate {{ outputs }}",
                feedback_value_type="float:0..1",
                model=ScriptedChatModel(near),
                embedding_model=HashEmbedding(),
            )
            taught = judge.align([Feedback(id="t-1", outputs="item 1", value=label, source="ana")]).judge
            rows = [Feedback(id=f"h-{n}", outputs=f"item {n + 10}", value=n / 40) for n in range(20)]
            assert outcomes(gate(lock(taught, "t-1"), rows, minimum={"mae": 1}))["locked cases hold"] == outcome

    def test_a_case_without_a_verdict_passes_nobody(self) -> None:
        def down(_: ChatRequest) -> Answer:
            raise ModelUnavailable("HTTP 503")

        judge, _ = judge_that(never)
        with pytest.raises(MissingEvidence, match="60 of 60 cases have no verdict; the first, h-0: ModelUnavailable"):
            gate(judge.replace(model=ScriptedChatModel(down)), labelled(60), minimum={"kappa": 0.3})


class TestEvidence:
    def test_evidence_once_gathered_needs_no_model(self, tmp_path: Path) -> None:
        judge, model = judge_that(lambda number: number % 10 == 0)
        first = gate(judge, labelled(60), minimum={"kappa": 0.5}, evidence=tmp_path / "evidence")
        assert len(model.requests) == 60
        again = gate(judge, labelled(60), minimum={"kappa": 0.5}, evidence=tmp_path / "evidence")
        offline = gate(judge, labelled(60), minimum={"kappa": 0.5}, evidence=tmp_path / "evidence", offline=True)
        assert len(model.requests) == 60
        assert first.criteria == again.criteria == offline.criteria

    @pytest.mark.parametrize(
        ("changes", "what"),
        [
            ({"instructions": "Kind? {{ outputs }}"}, "the instructions changed"),
            ({"parameters": {"temperature": 0.5}}, "the settings changed"),
            ({"parameters": {"calibrate": False}}, "the settings changed"),
        ],
    )
    def test_evidence_on_another_judge_is_stale(self, tmp_path: Path, changes: dict[str, Any], what: str) -> None:
        judge, _ = judge_that(never)
        gate(judge, labelled(60), minimum={"kappa": 0.5}, evidence=tmp_path)
        with pytest.raises(MissingEvidence, match=f"is stale: {what}; measure it again without --offline"):
            gate(judge.replace(**changes), labelled(60), minimum={"kappa": 0.5}, evidence=tmp_path, offline=True)

    def test_evidence_from_another_embedding_model_is_stale(self, tmp_path: Path) -> None:
        judge, _ = judge_that(never)
        taught = judge.align([Feedback(id="t-1", outputs="item 1000", value=True, source="ana")]).judge
        gate(taught, labelled(60), minimum={"kappa": 0.5}, evidence=tmp_path)
        for changes in ({"embedding_model": HashEmbedding(16)}, {"retrieval_k": 2}):
            with pytest.raises(MissingEvidence, match="is stale: the settings changed"):
                gate(
                    taught.replace(**changes),
                    labelled(60),
                    minimum={"kappa": 0.5},
                    evidence=tmp_path,
                    offline=True,
                )

    def test_a_renamed_judge_is_the_same_judge(self, tmp_path: Path) -> None:
        judge, _ = judge_that(never)
        gate(judge, labelled(60), minimum={"kappa": 0.5}, evidence=tmp_path)
        renamed, model = judge_that(never, name="warmth")
        found = gate(renamed, labelled(60), minimum={"kappa": 0.5}, evidence=tmp_path, offline=True)
        assert (found.judge, found.outcome, model.requests) == ("warmth", "pass", [])
        gate(renamed, labelled(80), minimum={"kappa": 0.5}, evidence=tmp_path)
        assert len(model.requests) == 20
        gate(judge, labelled(80), minimum={"kappa": 0.5}, evidence=tmp_path, offline=True)

    def test_evidence_on_other_labels_or_memory_is_stale(self, tmp_path: Path) -> None:
        judge, model = judge_that(never)
        gate(judge, labelled(60), minimum={"kappa": 0.5}, evidence=tmp_path)
        other = [row if row.id != "h-3" else Feedback(id="h-3", outputs="item 3", value=True) for row in labelled(60)]
        with pytest.raises(MissingEvidence, match="the labelled cases changed"):
            gate(judge, other, minimum={"kappa": 0.5}, evidence=tmp_path, offline=True)
        calls = len(model.requests)
        gate(judge, other, minimum={"kappa": 0.5}, evidence=tmp_path)
        assert len(model.requests) == calls, "a label changes no verdict"
        gate(judge, other, minimum={"kappa": 0.5}, evidence=tmp_path, offline=True)
        taught = judge.align([Feedback(id="t-1", outputs="item 1000", value=True, source="ana")]).judge
        with pytest.raises(MissingEvidence, match="the memory changed"):
            gate(taught, other, minimum={"kappa": 0.5}, evidence=tmp_path, offline=True)

    def test_several_label_files_share_a_folder(self, tmp_path: Path) -> None:
        judge, model = judge_that(never)
        gate(judge, labelled(60), minimum={"kappa": 0.5}, evidence=tmp_path)
        found = gate(judge, labelled(80), minimum={"kappa": 0.5}, evidence=tmp_path)
        assert found.asked.calls == 20
        for count in (60, 80):
            kept = gate(judge, labelled(count), minimum={"kappa": 0.5}, evidence=tmp_path, offline=True)
            assert (kept.evaluation.n, kept.asked.calls) == (count, 0)
        assert len(model.requests) == 80

    def test_missing_evidence_of_the_baseline_is_named_so(self, tmp_path: Path) -> None:
        judge, _ = judge_that(never)
        gate(judge, labelled(60), minimum={"kappa": 0.5}, evidence=tmp_path)
        base = judge.replace(instructions="Kind? {{ outputs }}")
        with pytest.raises(MissingEvidence, match=r"of the baseline: the evidence on tone .* the instructions changed"):
            gate(judge, labelled(60), baseline=base, not_worse_than=5, evidence=tmp_path, offline=True)

    def test_a_failed_call_is_asked_for_again(self, tmp_path: Path) -> None:
        judge, model = judge_that(never)

        def shaky(request: ChatRequest) -> Answer:
            if "item 7" in request.user:
                raise ModelUnavailable("HTTP 503")
            return {"rationale": "Read.", "value": int(ITEM.findall(request.user)[-1]) % 2 == 0}

        broken = judge.replace(model=ScriptedChatModel(shaky, name=model.name))
        with pytest.raises(MissingEvidence, match="1 of 60"):
            gate(broken, labelled(60), minimum={"kappa": 0.5}, evidence=tmp_path)
        gate(judge, labelled(60), minimum={"kappa": 0.5}, evidence=tmp_path)
        assert len(model.requests) == 1

    def test_other_peoples_files_are_left_alone(self, tmp_path: Path) -> None:
        judge, _ = judge_that(never)
        (tmp_path / "evidence.json").write_text('{"mine": true}', "utf-8")
        with pytest.raises(InputError, match=r"evidence\.json cannot be read"):
            gate(judge, labelled(60), minimum={"kappa": 0.5}, evidence=tmp_path)
        assert (tmp_path / "evidence.json").read_text("utf-8") == '{"mine": true}'


class TestReports:
    @staticmethod
    def found() -> GateResult:
        base, _ = judge_that(never, instructions="Polite, then? {{ outputs }}")
        judge, _ = judge_that(lambda number: number % 3 == 0)
        return gate(judge, labelled(60), minimum={"kappa": 0.3}, baseline=base, not_worse_than=5)

    def test_junit_has_a_case_a_criterion(self) -> None:
        found = self.found()
        for how, failures, skipped in (("skipped", 1, 1), ("failure", 2, 0), ("pass", 1, 0)):
            suite = ET.fromstring(junit_xml(found, inconclusive=how))[0]
            assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == (
                "2",
                f"{failures}",
                f"{skipped}",
            )
            assert len(suite.findall("testcase/failure")) == failures

    def test_markdown_escapes_what_comes_from_data(self) -> None:
        base, _ = judge_that(never, instructions="Polite, then? {{ outputs }}")
        judge, _ = judge_that(lambda number: number == 3)
        rows = [Feedback(id=f"<b>|{row.id}", outputs=row.outputs, value=row.value) for row in labelled(20)]
        text = markdown(gate(judge, rows, baseline=base, not_worse_than=5))
        assert "Broken: \\<b\\>\\|h-3" in text
        assert "❔ inconclusive" in text

    def test_all_of_it_is_json(self) -> None:
        plain = json.loads(json.dumps(self.found().to_dict()))
        assert plain["outcome"] == "regression"
        assert plain["criteria"][1]["found"]["high"] < -0.05
