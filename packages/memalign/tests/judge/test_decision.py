"""Judges with a decision model: beside a chat model that gives the verdict, or as the model that judges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from memalign import Check, Guideline, Judge
from memalign.errors import ConfigurationError, ModelRejected, ModelUnavailable
from memalign.judge.code_tests import sentence
from memalign.judge.spec import base_fingerprint_of
from memalign.memory import Answers, Memory
from memalign.models.base import Limits, Question
from memalign.testing import ScriptedChatModel, ScriptedDecisionModel
from memalign.types import CodeTest, Usage
from tests.support.keys import keys
from tests.support.learning import ScriptedEmbeddedModel
from tests.support.scripted import case, scripted

SORRY, MONEY, HARM = "Does the reply apologise?", "Does the reply promise money?", "Did the customer lose something?"
PAIR = {"A": "We are sorry.", "B": "Read the terms."}


def guideline(number: int, *checks: Check, **changes: Any) -> Guideline:
    return Guideline(
        id=f"G{number}", text=f"Rule {number}.", supported_by=keys(f"t-{number}@ana"), checks=checks, **changes
    )


def asks(question: str, answer: Any = "yes", value: Any = True) -> Check:
    return Check(question=question, answer=answer, value=value)


RULES = (guideline(1, asks(SORRY), asks(HARM)), guideline(2, asks(MONEY, "no", value=False)))


def deciding(told: Mapping[str, Any], verdict: Any = None) -> ScriptedDecisionModel:
    """A decision model with one answer a question, and one for the verdict."""
    return ScriptedDecisionModel(lambda _, asked: verdict if asked.key == "value" else told.get(asked.text, 0.5))


def judge(model: Any, *, check_model: Any = None, value_type: Any = bool, memory: Memory | None = None) -> Judge:
    memory = Memory(guidelines=RULES) if memory is None else memory
    return scripted(model=model, check_model=check_model, feedback_value_type=value_type, memory=memory)[0]


def chat(value: Any = True) -> ScriptedChatModel:
    return ScriptedChatModel(lambda _: {"findings": [], "rationale": "It answers.", "value": value})


def with_cases(bare: Judge, *, right: bool, count: int = 20) -> Judge:
    """The judge, asked about `count` cases: its own verdict is `right`, or always true; SORRY tells."""
    cases = []
    for number in range(count):
        label, name = number % 2 == 0, f"c-{number:02}"
        answers = Answers(
            judge=base_fingerprint_of(bare),
            margins={SORRY: 3.0 if label else -3.0, HARM: 3.0 if label else -3.0},
            verdict=label if right else True,
        )
        cases.append(case(name, label, answers=answers, outputs=f"text {number}"))
    return bare.replace(memory=Memory(cases=tuple(cases), guidelines=RULES))


class TestBesideAChatModel:
    def test_every_question_is_asked_in_one_request(self) -> None:
        model = deciding({SORRY: 0.9, HARM: 0.2, MONEY: {"yes": 0.1, "no": 0.1, "n/a": 0.8}})
        made = judge(chat(), check_model=model)(outputs="x")
        assert model.calls == [3]
        assert {state for state, _ in model.asked} == {'<<<\noutputs: "x"\n>>>'}, "the item alone, fenced"
        asked = {(each.check, each.guideline, each.answer, each.probability) for each in made.findings}
        assert asked >= {(SORRY, "G1", "yes", 0.9), (HARM, "G1", "no", 0.2), (MONEY, "G2", "n/a", 0.1)}
        assert (made.value, made.own_value, made.decided_by, made.rationale) == (True, True, "model", "It answers.")
        assert made.usage.calls == 2
        assert "checks" in made.usage.seconds

    def test_without_a_question_or_a_verdict_nothing_is_asked(self) -> None:
        model = deciding({})
        made = judge(chat(), check_model=model, memory=Memory(guidelines=(guideline(1),)))(outputs="x")
        with pytest.raises(ModelUnavailable):
            judge(ScriptedChatModel([ModelUnavailable("down")]), check_model=model)(outputs="x")
        assert (model.calls, made.value) == ([], True)

    @pytest.mark.parametrize("failure", [ModelUnavailable("down", usage=Usage(calls=2)), ModelRejected("no")])
    def test_a_check_model_that_fails_takes_no_verdict_along(self, failure: Exception) -> None:
        made = judge(chat(), check_model=ScriptedDecisionModel(lambda *_: failure))(outputs="x")
        assert (made.value, made.findings, made.error) == (True, (), None)
        assert made.notes[-1].startswith("no answer to checks: ")

    def test_a_refused_question_is_named_and_the_others_stay(self) -> None:
        model = deciding({SORRY: "not about people", HARM: 0.9, MONEY: 0.9})
        made = judge(chat(), check_model=model)(outputs="x")
        assert {finding.check for finding in made.findings if finding.guideline} == {HARM, MONEY}
        assert made.notes[-1] == "no answer to a check of G1: not about people"


class TestWhoDecides:
    def test_the_models_own_verdict_elsewhere_and_confidence_is_of_what_is_delivered(self) -> None:
        model = deciding({SORRY: 0.02, HARM: 0.02})
        made = with_cases(judge(chat(value=True), check_model=model), right=True)(outputs="a new text")
        assert (made.value, made.decided_by) == (True, "model")
        sure = with_cases(judge(chat(value=False), check_model=model), right=True)(outputs="a new text")
        assert (sure.confidence or 0) > 0.9 > (made.confidence or 1), "checks that contradict make it less sure"

    def test_below_ten_cases_nothing_is_claimed(self) -> None:
        model = deciding({SORRY: 0.02, HARM: 0.02})
        made = with_cases(judge(chat(), check_model=model), right=False, count=9)(outputs="a new text")
        assert (made.value, made.decided_by, made.confidence) == (True, "model", None)
        contributions = {each.check: each.contribution for each in made.findings}
        assert (contributions[SORRY] or 0) < 0, "what experts meant counts from the first comment on"


class TestSides:
    def told(self, state: str, question: Question) -> Any:
        if question.key == "value":
            return {"A": 0.7, "B": 0.3}
        return 0.9 if "sorry" in state else 0.2

    def test_each_side_of_a_pair_is_asked_alone(self) -> None:
        model = ScriptedDecisionModel(self.told)
        one = judge(chat("A"), check_model=model, value_type="A|B")
        made = one(outputs=PAIR)
        assert model.calls == [3, 3]
        assert {state for state, _ in model.asked} == {f'<<<\noutputs: "{side}"\n>>>' for side in PAIR.values()}
        asked = [finding for finding in made.findings if finding.guideline]
        assert {(finding.answer, finding.probability) for finding in asked} == {(None, None)}
        turned = one(outputs=dict(reversed(PAIR.items())))
        assert turned.findings == made.findings, "the order in which the item has its sides is of no account"

    def test_swapped_sides_turn_the_sign(self) -> None:
        memory = Memory(guidelines=(guideline(1, asks(SORRY, value=None)),), cases=(case("c", "A", outputs=PAIR),))
        one = judge(chat("A"), check_model=ScriptedDecisionModel(self.told), value_type="A|B", memory=memory)
        swapped = one.replace(model=chat("B"))(outputs={"A": PAIR["B"] + " ", "B": PAIR["A"]})
        for made in (one(outputs={"A": PAIR["A"] + " ", "B": PAIR["B"]}), swapped):
            (contribution,) = (each.contribution for each in made.findings if each.check == SORRY)
            assert (contribution or 0) > 0, "it speaks for the side that says sorry, and so does each verdict"

    def test_a_decision_model_compares_the_sides_in_a_request_of_its_own(self) -> None:
        model = ScriptedDecisionModel(self.told)
        made = judge(model, value_type="A|B")(outputs=PAIR)
        assert model.calls == [3, 3, 1]
        assert all(side in model.asked[-1][0] for side in PAIR.values())
        assert made.value == "A"
        assert made.confidence == pytest.approx(0.7)


class TestAsTheModel:
    def test_verdict_and_questions_are_one_request(self) -> None:
        model = deciding({SORRY: 0.9, HARM: 0.8, MONEY: 0.9}, {"true": 0.8, "false": 0.2})
        made = judge(model)(outputs="x")
        assert model.calls == [4]
        assert (made.value, made.confidence, made.decided_by, made.model) == (True, 0.8, "model", "scripted-decision")
        verdict = next(question for _, question in model.asked if question.key == "value")
        assert "Good? {{ outputs }}" in verdict.text
        assert "Rule 2." in verdict.text
        assert (verdict.kind, verdict.labels) == ("choice", ("true", "false"))
        # The reason is put into words from the findings.
        assert made.guideline_ids == ("G1",), "every answer is as expected; G2 expects no money"
        assert made.rationale == f"G1: Rule 1. Here: {SORRY} yes; {HARM} yes."
        silent = judge(deciding({SORRY: 0.1, HARM: 0.1, MONEY: 0.9}, {"true": 0.8, "false": 0.2}))(outputs="x")
        assert (silent.guideline_ids, bool(silent.rationale)) == ((), True)

    @pytest.mark.parametrize(
        ("value_type", "chances", "kind", "value"),
        [
            ("good|fair|poor", {"fair": 0.6, "poor": 0.4}, "choice", "fair"),
            ("int:1..5", {"4": 0.5, "5": 0.5}, "score", 4),
            ("int:1..5", {"1": 0.5, "5": 0.5}, "score", 3),
        ],
    )
    def test_every_closed_value_type_is_a_typed_question(
        self, value_type: str, chances: Mapping[str, float], kind: str, value: Any
    ) -> None:
        model = deciding({}, chances)
        made = judge(model, value_type=value_type, memory=Memory())(outputs="x")
        assert made.value == value
        assert model.asked[0][1].kind == kind

    def test_its_requests_wait_no_longer_than_the_judge_may(self, monkeypatch: pytest.MonkeyPatch) -> None:
        model, waits = deciding({}, {"true": 0.8}), list[float | None]()
        decide = model.decide

        async def timed(*question: Any, timeout: float | None = None) -> Any:  # noqa: ASYNC109  # the protocol's
            waits.append(timeout)
            return await decide(*question)

        monkeypatch.setattr(model, "decide", timed)
        judge(model).replace(parameters={"timeout": 9})(outputs="x")
        assert waits == [9]

    def test_what_it_cannot_do_is_said(self) -> None:
        for value_type in (str, "float:0..1"):
            with pytest.raises(ConfigurationError, match="other values need a chat model"):
                judge(deciding({}, {}), value_type=value_type)(outputs="x")
        with pytest.raises(ModelRejected, match="no verdict: too long"):
            judge(deciding({SORRY: 0.9}, "too long"))(outputs="x")
        with pytest.raises(ConfigurationError, match="reflection_model"):
            judge(deciding({}, {"true": 1.0}), memory=Memory()).align(
                [{"id": "t-1", "outputs": "x", "value": True, "rationale": "Good."}]
            )


def test_it_gives_a_reason_and_answers_its_own_questions() -> None:
    limits = Limits(brief=True, shard_size=1)
    model = ScriptedEmbeddedModel(lambda _: {"rationale": "r", "value": True}, decide=lambda *_: 0.9, limits=limits)
    made = judge(model)(outputs="x")
    assert (made.value, made.rationale, model.decisions.calls) == (True, "r", [3])
    assert len(model.requests) == 1


def test_tests_of_code_count_as_answers_and_are_never_asked() -> None:
    test = CodeTest(kind="contains", text="sorry")
    rule = guideline(1, Check(question=sentence(test), answer="yes", value=True, test=test))
    model = deciding({}, {"true": 0.6, "false": 0.4})
    bare = judge(model, memory=Memory(guidelines=(rule,)))
    own = Answers(judge=base_fingerprint_of(bare), verdict=True)
    cases = tuple(
        case(f"c-{n:02}", n % 2 == 1, answers=own, outputs=f"text {n}" + " sorry" * (n % 2)) for n in range(20)
    )
    one = bare.replace(memory=Memory(guidelines=(rule,), cases=cases))
    assert one(outputs="we are sorry").value is True
    made = one(outputs="read the terms")
    assert (made.value, made.decided_by) == (False, "calibrator")
    assert [question.key for _, question in model.asked] == ["value", "value"]
