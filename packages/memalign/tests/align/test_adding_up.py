"""From remarks to a verdict that adds up: checks are written, answered, weighed, named, and forgotten with their remark."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from memalign import Example, Judge, Judgment
from memalign.judge.findings import finding_text, reason
from memalign.models.base import ChatRequest, Limits
from memalign.testing import ScriptedYesNoModel

DATE, CASE = "Does the reply name a day?", "Is the reply about a delivery?"


def row(number: int) -> dict[str, Any]:
    dated = number % 2 == 0
    return {
        "id": f"t-{number}",
        "source": "ana",
        "inputs": f"Where is parcel {number}?",
        "outputs": f"It comes on {number + 1} May." if dated else f"It comes soon, number {number}.",
        "value": dated,
        "rationale": "Names the day." if dated else "Which day?",
    }


def has_day(item: str) -> bool:
    return " May" in item.rsplit("outputs:", 1)[1]


def answer(request: ChatRequest) -> Any:
    """A model that passes everything, and sees a day where it is asked for one."""
    if request.schema_name == "judgment":
        return {"rationale": "It answers.", "value": True}
    dated = "Names the day" in request.user
    if request.schema_name == "checks":
        return {"checks": [{"question": DATE, "answer": "yes" if dated else "no"}, {"question": CASE, "answer": "yes"}]}
    if request.schema_name == "rule":
        return {"when": "a customer asks when", "because": "it names the day" if dated else "it names no day"}
    return {"changes": []}


def taught(*, numbers: Iterable[int] = range(24)) -> Judge:
    limits = Limits(shard_size=1, brief=True)

    def margin(item: str, question: str) -> float:
        return (3.0 if has_day(item) else -3.0) if question == DATE else 2.0

    model = ScriptedYesNoModel(answer, margin=margin, limits=limits)
    judge = Judge(
        name="replies",
        feedback_value_type=bool,
        model=model,
        instructions="Is the reply good?\n{{ inputs }}\n{{ outputs }}",
        retrieval_k=0,
    )
    return judge.align([row(number) for number in numbers]).judge


def judged(judge: Judge, outputs: str) -> Judgment:
    return judge(Example(id="new", inputs="Where is my bicycle?", outputs=outputs))


def test_what_was_taught_decides_and_is_named() -> None:
    judge = taught()
    for outputs, label in (("It comes on 9 May.", True), ("It comes quickly.", False)):
        made = judged(judge, outputs)
        assert (made.value, made.own_value, made.decided_by) == (label, True, "calibrator")
        assert made.rationale == "It answers."
        first = made.findings[0]
        assert (first.check, first.answer) == (DATE, "yes" if label else "no")
        assert first.margin is not None
        assert first.contribution is not None
        assert first.contribution > 0.5
        assert str(first.taught_by[0]).endswith("@ana")
        assert finding_text(first).startswith(f"{first.guideline} (")
        assert f"{first.contribution:+.1f}" in finding_text(first)
        told = reason(made) or ""
        assert told.splitlines()[0] == finding_text(first)
        assert told.endswith("The model's own verdict: true. It answers.")
        assert any(each.guideline is None for each in made.findings), "what nobody taught is named as what it is"


def test_few_remarks_make_the_checks_count_as_expected() -> None:
    judge = taught(numbers=range(4))
    made = judged(judge, "It comes quickly.")
    assert (made.value, made.own_value, made.calibrated_value, made.decided_by) == (True, True, False, "model")
    assert made.findings[0].check == DATE
    assert reason(made) == "It answers."


def test_one_label_throughout_leaves_the_model_to_decide() -> None:
    judge = taught(numbers=range(0, 24, 2))
    made = judged(judge, "It comes quickly.")
    assert (made.value, made.own_value, made.calibrated_value, made.decided_by) == (True, True, False, "model")
    assert made.findings[0].check == DATE
    assert reason(made) == "It answers."


def test_what_was_withdrawn_speaks_no_more() -> None:
    judge = taught()
    left = judge.unalign(source="ana").judge
    made = judged(left, "It comes quickly.")
    assert (made.value, made.findings, made.calibrated_value) == (True, (), None)
