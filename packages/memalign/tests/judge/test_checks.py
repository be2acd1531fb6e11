"""A judgment answers the checks of its guidelines and lists what it found; the verdict never hangs on the answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from memalign import Check, Example, Finding, Guideline, Judge
from memalign.content.sides import each_side
from memalign.errors import ModelUnavailable
from memalign.io.judged import JudgmentWriter, read_judgments
from memalign.judge.checks import MOST_CHECKS, which_checks
from memalign.memory import Memory
from memalign.models.base import ChatRequest, YesNoModel
from memalign.testing import ScriptedChatModel, ScriptedYesNoModel
from memalign.types import Usage
from tests.support.keys import keys

SORRY, MONEY, HARM = "Does the reply apologise?", "Does the reply promise money?", "Did the customer lose something?"
PAIR = {"A": "We are sorry.", "B": "Read the terms."}


def guideline(number: int, *questions: str, **changes: Any) -> Guideline:
    return Guideline(
        id=f"G{number}",
        text=f"Rule {number}.",
        supported_by=keys(f"t-{number}@ana"),
        checks=tuple(Check(question=question) for question in questions),
        **changes,
    )


TAUGHT = Memory(guidelines=(guideline(1, SORRY, HARM), guideline(2, MONEY)))


def judge(
    answer: Any = None, *, memory: Memory = TAUGHT, value_type: Any = bool, model: Any = None, **parameters: Any
) -> Judge:
    script = answer if callable(answer) else lambda _: answer
    return Judge(
        name="tone",
        instructions="Good? {{ outputs }}",
        feedback_value_type=value_type,
        model=model or ScriptedChatModel(script),
        memory=memory,
        parameters=parameters,
    )


def asked(one: Judge) -> list[ChatRequest]:
    assert isinstance(one.model, ScriptedChatModel)
    return one.model.requests


def answers(checks: object, value: Any = True) -> dict[str, Any]:
    return {"checks": checks, "rationale": "r", "value": value}


def given_answers(findings: tuple[Finding, ...]) -> dict[str, Any]:
    return {finding.check: finding.answer for finding in findings}


class TestWhichChecks:
    async def test_a_shared_question_is_asked_once(self) -> None:
        memory = Memory(guidelines=(guideline(1, SORRY), guideline(2, MONEY, SORRY)))
        checks, notes = await which_checks(judge(memory=memory))
        assert [(check.question, check.guideline) for check in checks] == [(SORRY, "G1"), (MONEY, "G2")]
        assert [str(each) for each in checks[0].taught_by] == ["t-1@ana", "t-2@ana"]
        assert notes == ()

    async def test_only_guidelines_in_force_ask(self) -> None:
        memory = Memory(guidelines=(guideline(1, SORRY, retired_by="cleo"), guideline(2, MONEY)))
        checks, _ = await which_checks(judge(memory=memory))
        assert [check.question for check in checks] == [MONEY]

    async def test_the_least_telling_checks_are_left_out(self) -> None:
        alike = [f"Does the reply name the price of {n} lamps?" for n in range(MOST_CHECKS)]
        alone = "Did grandmother's tortoise win the regatta?"
        rules = (guideline(1, *alike[:3]), guideline(2, alone), guideline(3, *alike[3:]))
        checks, notes = await which_checks(judge(memory=Memory(guidelines=rules)))
        assert [check.question for check in checks] == alike, "in their own order"
        assert notes == (f"1 of {MOST_CHECKS + 1} checks not asked: others say more",)

    async def test_those_of_a_pinned_guideline_are_always_asked(self) -> None:
        alike = [f"Does the reply name the price of {n} lamps?" for n in range(MOST_CHECKS)]
        alone = "Did grandmother's tortoise win the regatta?"
        memory = Memory(guidelines=(guideline(1, *alike), guideline(2, alone, pinned_by="cleo")))
        checks, _ = await which_checks(judge(memory=memory))
        assert len(checks) == MOST_CHECKS
        assert alone in [check.question for check in checks]


def weighing(
    margin: Callable[[str, str], Any], answer: Any = None, **settings: Any
) -> tuple[Judge, ScriptedYesNoModel]:
    reply = answer or {"rationale": "r", "value": True}
    model = ScriptedYesNoModel(reply if callable(reply) else lambda _: reply, margin=margin)
    return judge(model=model, **settings), model


class TestAnsweredWithOneToken:
    def test_each_check_is_asked_apart_with_its_margin(self) -> None:
        told = {SORRY: 2.5, HARM: -1.0, MONEY: 0.0}
        one, model = weighing(lambda _, question: told[question])
        made = one(outputs="x")
        assert isinstance(model, YesNoModel)
        assert [(each.answer, each.margin) for each in made.findings] == [("yes", 2.5), ("no", -1.0), ("no", 0.0)]
        assert model.asked == [('<<<\noutputs: "x"\n>>>', question) for question in told]
        assert made.usage.calls == 4
        assert "checks" in made.usage.seconds

    def test_the_verdict_is_asked_for_as_without_checks(self) -> None:
        one, model = weighing(lambda *_: 1.0)
        one(outputs="x")
        assert list(model.requests[0].schema["properties"]) == ["findings", "rationale", "value"]
        assert not any(question in model.requests[0].system for question in (SORRY, MONEY, HARM))

    def test_no_example_or_guideline_accompanies_a_question(self) -> None:
        one, model = weighing(lambda *_: 1.0)
        result = one.align([{"id": "t-9", "outputs": "x", "value": True}])
        model.asked.clear()
        result.judge(outputs="y")
        assert {item for item, _ in model.asked} == {'<<<\noutputs: "y"\n>>>'}

    def test_each_side_of_a_pair_is_asked_alone(self) -> None:
        def margin(item: str, _: str) -> float:
            return 2.0 if "sorry" in item else -1.0

        one, model = weighing(margin, {"rationale": "r", "value": "A"}, value_type="A|B")
        made = one(outputs=PAIR)
        assert [(each.answer, each.margin) for each in made.findings] == [(None, 3.0)] * 3
        assert {item for item, _ in model.asked} == {f'<<<\noutputs: "{side}"\n>>>' for side in PAIR.values()}
        turned = one(outputs=dict(reversed(PAIR.items())))
        assert turned.findings == made.findings, "the order in which the item has its sides is of no account"

    def test_a_failing_check_loses_no_verdict(self) -> None:
        failed = ModelUnavailable("down for a moment", usage=Usage(calls=2, input_tokens=9))
        one, _ = weighing(lambda _, question: failed if question == HARM else 1.0)
        made = one(outputs="x")
        assert (made.value, made.findings, made.error) == (True, (), None)
        assert "no answer to the checks of G1, G2: down for a moment" in made.notes
        assert made.usage.calls == 3

    def test_where_the_verdict_fails_nothing_more_is_asked(self) -> None:
        one, model = weighing(lambda *_: 1.0, lambda _: ModelUnavailable("down"))
        with pytest.raises(ModelUnavailable):
            one(outputs="x")
        assert not model.asked

    def test_samples_and_swapped_sides_ask_each_check_once(self) -> None:
        one, model = weighing(lambda *_: 1.0, {"rationale": "r", "value": "A"}, value_type="A|B", swap=True, samples=2)
        one(outputs=PAIR)
        assert (len(model.requests), len(model.asked)) == (4, 6)


class TestSides:
    def test_an_item_without_two_sides_is_one(self) -> None:
        for content in ({"outputs": "x"}, {"outputs": {"A": 1}}, {"outputs": {"A": 1, "B": 2, "C": 3}}):
            assert each_side(content, ("A", "B", "C")) == (content,)

    def test_every_field_with_both_sides_shows_one(self) -> None:
        content = {"inputs": "q", "outputs": {"B": "two", "A": "one"}, "expectations": {"A": 1, "B": 2}}
        assert each_side(content, ("A", "B", "tie")) == (
            {"inputs": "q", "outputs": "one", "expectations": 1},
            {"inputs": "q", "outputs": "two", "expectations": 2},
        )

    def test_nothing_beside_the_sides_tells_them_apart(self) -> None:
        content = {"outputs": {"note": "n", "A": "one", "B": "two"}}
        assert each_side(content, ("A", "B")) == (
            {"outputs": {"A": "one", "note": "n"}},
            {"outputs": {"A": "two", "note": "n"}},
        )


class TestFiles:
    @pytest.fixture
    def out(self, tmp_path: Path) -> Path:
        return tmp_path / "judged.jsonl"

    def test_findings_come_back_from_a_file(self, out: Path) -> None:
        told = iter([0.75, -2.0, 15.0])
        one, _ = weighing(lambda *_: next(told))
        made = one(outputs="x")
        assert [each.margin for each in made.findings] == [0.75, -2.0, 15.0]
        with JudgmentWriter(out, judge="f", examples=[Example(id="a", outputs="x")]) as writer:
            writer.write("a", made)
        assert read_judgments(out).judgments["a"] == msgspec.structs.replace(made, id="a")

    def test_a_file_without_findings_is_still_read(self, out: Path) -> None:
        out.write_text(json.dumps({"id": "a", "judge": "f", "value": True, "calibrated_value": False}) + "\n")
        made = read_judgments(out).judgments["a"]
        assert (made.value, made.own_value, made.calibrated_value) == (True, None, False)
        assert (made.decided_by, made.findings) == ("model", ())
