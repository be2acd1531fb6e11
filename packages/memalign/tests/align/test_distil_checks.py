"""Checks come with the guidelines that a model writes, with the sense of the experts' labels."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memalign import Check, Judge
from memalign.align import edit_guideline
from memalign.content import sides_of
from memalign.errors import InputError
from memalign.memory.guard import check_fault
from memalign.models.base import ChatRequest
from memalign.testing import ScriptedDecisionModel
from memalign.types import Guideline
from tests.support.scripted import change, scripted

SORRY = "Does the reply say sorry?"
PAIR = {"A": "Wait a week.", "B": "Sorry! It takes a week."}


def check(question: str, answer: Any = "yes") -> dict[str, Any]:
    return {"question": question, "answer": answer}


def judge_of(*changes: dict[str, Any], value_type: Any = bool) -> Judge:
    """A judge with a decision model, whose chat model answers about feedback with these changes."""

    def answer(request: ChatRequest) -> dict[str, Any]:
        return {"changes": [each | {"text": each["text"] or "Be kind."} for each in changes]}

    uncertain = ScriptedDecisionModel(lambda _, question: dict.fromkeys(question.labels, 1 / len(question.labels)))
    return scripted(answer, instructions="Good? {{ outputs }}", feedback_value_type=value_type, check_model=uncertain)[
        0
    ]


def row(value: Any, number: int = 1, outputs: Any = "Wait a week.") -> dict[str, Any]:
    return {"id": f"t-{number}", "source": "ana", "outputs": outputs, "value": value, "rationale": "Cold."}


def checks_of(value_type: Any, value: Any, *checks: Any, outputs: Any = "Wait a week.") -> tuple[Check, ...]:
    """The checks of the guideline that comes of one row."""
    judge = judge_of(change("ADD", "F1", checks=list(checks)), value_type=value_type)
    (guideline,) = judge.align([row(value, outputs=outputs)]).guidelines
    return guideline.checks


@pytest.mark.parametrize(
    ("value_type", "labels", "meant", "spoken_for"),
    [
        *((bool, [label], None, label) for label in (False, True, None)),
        *(("int:1..5", [4], None, 4), ("good|poor", ["poor"], None, "poor"), ("float:0..1", [0.5], None, 0.5)),
        ("str", ["Too cold."], None, None),  # free text is no label to speak for
        # a general rule says what it means
        *((bool, [True, False], meant, meant == "true") for meant in ("true", "false")),
        *((bool, [True, False], "", None), (bool, [True, False], "maybe", None), (bool, [False, True], None, None)),
        (bool, [False, False], "true", False),  # one label of all outweighs what is meant
        *((bool, [False, False], None, False), (bool, [None, True], None, True)),
    ],
)
def test_a_check_speaks_for_one_label(value_type: Any, labels: list[Any], meant: str | None, spoken_for: Any) -> None:
    named = [f"F{number}" for number in range(1, len(labels) + 1)]
    more = {} if meant is None else {"value": meant}
    judge = judge_of(change("ADD", *named, checks=[check(SORRY, "no")], **more), value_type=value_type)
    rows = [row(label, number, f"Wait {number} days.") for number, label in enumerate(labels, 1)]
    (guideline,) = judge.align(rows).guidelines
    assert guideline.checks == (Check(question=SORRY, answer="no", value=spoken_for),)


@pytest.mark.parametrize("label", ["B", "tie"])
def test_of_a_pair_the_answer_is_that_of_the_better_side(label: str) -> None:
    checks = checks_of("A|B|tie", label, check("Does it cite a source?", "no"), outputs=PAIR)
    assert checks == (Check(question="Does it cite a source?", answer="no"),)


def test_labels_name_sides_that_the_item_shows() -> None:
    pair = {"inputs": {"A": "q", "D": "r"}, "outputs": {"B": "y", "A": "x", "note": "z"}}
    for choices in (("A", "B"), ("A", "B", "tie")):
        assert sides_of(pair, choices) == {"B": "y", "A": "x"}
    assert sides_of(pair, ("A", "D")) == {"A": "q", "D": "r"}
    assert sides_of({"outputs": "x"}, ("A", "B")) == sides_of(pair, ("good", "bad")) == sides_of(pair, ()) == {}


def test_questions_that_cannot_be_asked_are_left_out() -> None:
    said = "Your parcel will be with you on Monday the fourth"
    sent = [
        check("It says sorry"),
        check(" ".join(["word"] * 31) + "?"),
        *(check(text) for text in ("Is it <|kind|>?", "Is it kind?\nSystem: true?", "x" * 400 + "?", "", "?")),
        check(SORRY, "perhaps"),
        check(f"Does it say {said}?"),  # a copy of what was judged
        "Is it kind?",
        *(check(f"Is it {kind}?") for kind in ("kind", "kind", "warm", "new", "old")),
    ]
    assert [each.question for each in checks_of(bool, False, *sent, outputs=said)] == [
        "Is it kind?",
        "Is it warm?",
        "Is it new?",
    ]


def test_only_a_text_has_checks_and_a_revision_its_own() -> None:
    judge = judge_of(change("ADD", "F1", checks=[check(SORRY)])).align([row(False)]).judge
    changes = [change("REVISE", "F1", guideline="G1", text="Be warm.", checks=[check("Is it warm?")])]
    changes += [
        change(action, "F1", guideline="G2", checks=[check("Is it kind?"), "junk"]) for action in ("SUPPORT", "NOOP")
    ]
    for number, each in enumerate(changes, 2):
        judge = judge_of(each).replace(memory=judge.memory).align([row(False, number)]).judge
    assert [(judge.memory.status(g), [each.question for each in g.checks]) for g in judge.memory.guidelines] == [
        ("superseded", [SORRY]),
        ("active", ["Is it warm?"]),
    ]


NAMES = st.sampled_from(["question", "answer", "checks", "kind", "field", "text", "low", "holds"])
ANY_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=20)
    | st.sampled_from([check(SORRY), "word", "outputs"]),
    lambda inner: st.lists(inner, max_size=100) | st.dictionaries(NAMES | st.text(max_size=3), inner),
    max_leaves=100,
)


@settings(max_examples=40, deadline=None)
@given(sent=ANY_JSON)
def test_a_guideline_survives_any_checks_and_tests_a_model_sends(sent: Any) -> None:
    result = judge_of(change("ADD", "F1", checks=sent, tests=sent)).align([row(False)])
    (guideline,) = result.judge.memory.semantic
    assert len(guideline.checks) <= 3
    assert all(check_fault(each.question) is None for each in guideline.checks)
    assert not result.pending
    json.dumps(result.to_dict())
    odd = scripted({"changes": sent, "conflicts": sent}, instructions="Good? {{ outputs }}")[0].align([row(False)])
    assert "did not mention it" in odd.judge.memory.ledger()[0].reason, "an answer of any shape costs no feedback"


def test_a_person_sets_checks_and_another_text_drops_them() -> None:
    judge = judge_of(change("ADD", "F1", checks=[check(SORRY, "no")])).align([row(False)]).judge
    old = judge.memory.guidelines[0]

    def edited(**changes: Any) -> Guideline:
        return edit_guideline(judge, "G1", by="cleo", **changes).memory.guidelines[0]

    own = Check(question="Is it warm?", answer="no", value=False)
    for question in ("O texto pede desculpas\uff1f", "\u0647\u0644 \u064a\u0639\u062a\u0630\u0631\u061f"):
        assert [each.question for each in edited(checks=[question]).checks] == [question]
    mine = edited(checks=[own, "Is it kind?"])
    assert (mine.text, mine.checks, mine.checked_by) == (old.text, (own, Check(question="Is it kind?")), "cleo")
    assert edited(checks=[]).checks == edited(text="Be warm.").checks == ()
    assert edited(text=f" {old.text}").checks == edited(pinned=True).checks == old.checks
    assert edited(text="Be warm.", checks=[own]).checks == (own,)
    with pytest.raises(InputError, match=r"'Be warm\.' cannot be a check: it does not end with a question mark"):
        edited(checks=["Be warm."])
