"""Judges whose model is a decision model: one request for the verdict, with a yes/no
question for each guideline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from memalign import Guideline, Judge
from memalign.errors import ConfigurationError, ModelRejected
from memalign.memory import Memory
from memalign.testing import ScriptedDecisionModel
from tests.support.keys import keys
from tests.support.scripted import scripted

RULES = (
    Guideline(id="G1", text="Say sorry.", supported_by=keys("t-1@ana")),
    Guideline(id="G2", text="Be brief.", supported_by=keys("t-2@ana")),
)
SORRY = "Does the item go against this guideline of experts: Say sorry?"
BRIEF = "Does the item go against this guideline of experts: Be brief?"
YES = {"true": 0.8, "false": 0.2}


def deciding(told: Mapping[str, Any], verdict: Any = None) -> ScriptedDecisionModel:
    """A decision model with one answer a question, and one for the verdict."""
    return ScriptedDecisionModel(
        lambda _, asked: verdict if asked.key == "value" else told.get(asked.text, 0.5)
    )


def judge(model: Any, *, value_type: Any = bool, memory: Memory | None = None) -> Judge:
    memory = Memory(guidelines=RULES) if memory is None else memory
    return scripted(model=model, feedback_value_type=value_type, memory=memory)[0]


def test_verdict_and_a_question_for_each_guideline_are_one_request() -> None:
    model = deciding({SORRY: 0.9, BRIEF: 0.2}, YES)
    judge(model)(outputs="x")
    assert model.calls == [3]
    asked = {}
    for state, question in model.asked:
        assert state == '<<<\noutputs: "x"\n>>>', "the item alone, fenced"
        asked[question.key] = question
    verdict = asked["value"]
    assert (verdict.kind, verdict.labels) == ("choice", ("true", "false"))
    assert "Good? {{ outputs }}" in verdict.text
    assert "Be brief." in verdict.text
    assert (asked["G2"].text, asked["G2"].kind) == (BRIEF, "yes_no")


def test_the_answers_are_a_verdict_with_findings() -> None:
    made = judge(deciding({SORRY: 0.9, BRIEF: 0.2}, YES))(outputs="x")
    assert (made.value, made.confidence) == (True, 0.8)
    assert (made.decided_by, made.model) == ("model", "scripted-decision")
    sorry, brief = made.findings
    assert (sorry.guideline, sorry.probability) == ("G1", 0.9)
    assert (brief.guideline, brief.probability) == ("G2", 0.2)
    assert (made.guideline_ids, made.rationale) == (("G1",), "Against G1: Say sorry.")
    assert "model" in made.usage.seconds


def test_where_nothing_is_broken_the_reason_says_so() -> None:
    made = judge(deciding({SORRY: 0.1, BRIEF: 0.2}, YES))(outputs="x")
    assert (made.guideline_ids, made.rationale) == ((), "It goes against no guideline.")


def test_a_refused_question_is_named_and_the_others_stay() -> None:
    made = judge(deciding({SORRY: "not about people", BRIEF: 0.9}, YES))(outputs="x")
    (finding,) = made.findings
    assert finding.guideline == "G2"
    assert made.notes == ("no answer on G1: not about people",)


def test_of_a_pair_only_the_verdict_is_asked() -> None:
    model = deciding({}, {"A": 0.7, "B": 0.3})
    sides = {"A": "We are sorry.", "B": "Read the terms."}
    made = judge(model, value_type="A|B")(outputs=sides)
    # Which side a guideline speaks against is no question of yes or no.
    assert model.calls == [1]
    assert (made.value, made.confidence, made.findings) == ("A", 0.7, ())


@pytest.mark.parametrize(
    ("value_type", "chances", "kind", "value"),
    [
        ("good|fair|poor", {"fair": 0.6, "poor": 0.4}, "choice", "fair"),
        ("int:1..5", {"4": 0.5, "5": 0.5}, "score", 4),
        ("int:1..5", {"1": 0.5, "5": 0.5}, "score", 3),
    ],
)
def test_every_closed_value_type_is_a_typed_question(
    value_type: str, chances: Mapping[str, float], kind: str, value: Any
) -> None:
    model = deciding({}, chances)
    made = judge(model, value_type=value_type, memory=Memory())(outputs="x")
    assert made.value == value
    assert model.asked[0][1].kind == kind


def test_its_requests_wait_no_longer_than_the_judge_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = deciding({}, YES)
    waits = list[float | None]()
    decide = model.decide

    async def timed(*question: Any, **how: Any) -> Any:
        waits.append(how.get("timeout"))
        return await decide(*question)

    monkeypatch.setattr(model, "decide", timed)
    judge(model).replace(parameters={"timeout": 9})(outputs="x")
    assert waits == [9]


def test_what_it_cannot_do_is_said() -> None:
    for value_type in (str, "float:0..1"):
        with pytest.raises(ConfigurationError, match="other values need a chat model"):
            judge(deciding({}, {}), value_type=value_type)(outputs="x")
    with pytest.raises(ModelRejected, match="too long"):
        judge(deciding({SORRY: 0.9}, "too long"))(outputs="x")
    row = {"id": "t-1", "outputs": "x", "value": True, "rationale": "Good."}
    with pytest.raises(ConfigurationError, match="reflection_model"):
        judge(deciding({}, YES), memory=Memory()).align([row])
