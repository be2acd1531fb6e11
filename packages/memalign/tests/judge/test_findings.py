"""A judgment names the guidelines that apply, with evidence that the item has, and what
tests of guidelines found."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memalign import Guideline, Judge
from memalign.cli.output import fact_table, show
from memalign.content.encoding import encode
from memalign.content.normal import quote_lines
from memalign.errors import InvalidOutput
from memalign.judge.answer import quotation
from memalign.judge.code_tests import sentence
from memalign.memory import Memory
from memalign.models.base import ChatRequest, Limits
from memalign.testing import ScriptedChatModel
from memalign.types import CodeTest
from tests.support.keys import keys
from tests.support.patience import takes_linear_time
from tests.support.scripted import case, scripted

TAUGHT = Memory(
    guidelines=(
        Guideline(id="G1", text="Sorry is kind.", supported_by=keys("t-1@ana")),
        Guideline(
            id="G2", text="A promise of money is bad.", supported_by=keys("t-2@ben")
        ),
    )
)
REPLY = 'We are "truly" sorry.\nHere is €20.'


def named(
    guideline: object, evidence: object = "", value: object = True
) -> dict[str, Any]:
    return {"guideline": guideline, "evidence": evidence, "value": value}


def answer(*findings: object, value: Any = True) -> dict[str, Any]:
    return {"findings": list(findings), "rationale": "r", "value": value}


def judge(
    reply: Any, *, limits: Limits | None = None, memory: Memory = TAUGHT, **changes: Any
) -> Judge:
    return scripted(reply, limits=limits, memory=memory, **changes)[0]


def sent(one: Judge) -> ChatRequest:
    assert isinstance(one.model, ScriptedChatModel)
    return one.model.requests[-1]


def test_a_finding_has_its_guideline_evidence_value_and_teacher() -> None:
    one = judge(answer(named("G2", "Here is €20.", False), value=False))
    made = one(outputs=REPLY)
    (finding,) = made.findings
    assert (finding.guideline, finding.value) == ("G2", False)
    assert finding.evidence == "Here is €20."
    assert finding.taught_by == keys("t-2@ben")
    assert (made.value, made.guideline_ids, made.notes) == (False, ("G2",), ())
    asked = sent(one).schema["properties"]
    assert list(asked) == ["findings", "rationale", "value"]
    shown = asked["findings"]["items"]["properties"]["guideline"]
    assert shown["enum"] == ["G1", "G2"]
    assert "G1: Sorry is kind." in sent(one).system


@pytest.mark.parametrize(
    ("memory", "limits", "guideline_ids"),
    [(Memory(), Limits(), ()), (TAUGHT, Limits(writes=False), ("G1", "G2"))],
    ids=["no guidelines", "a weak model, which has all that it read"],
)
def test_none_are_requested_where_none_can_be_named(
    memory: Memory, limits: Limits, guideline_ids: Any
) -> None:
    one = judge({"rationale": "r", "value": True}, memory=memory, limits=limits)
    made = one(outputs="x")
    assert list(sent(one).schema["properties"]) == ["rationale", "value"]
    assert (made.findings, made.guideline_ids, made.notes) == ((), guideline_ids, ())


@pytest.mark.parametrize(
    "quoted", ["An old reply.", "Sorry is kind.", "Good?", "truly Here"]
)
def test_only_words_of_the_item_are_evidence(quoted: str) -> None:
    old = case("t-1", vector=[1.0] * 8, outputs="An old reply.")
    memory = Memory(
        cases=(old,), guidelines=TAUGHT.guidelines, embedding_model="hash:8"
    )
    twice = named("G2", "sorry"), named("G2", "truly")
    made = judge(answer(named("G1", quoted), *twice), memory=memory)(outputs=REPLY)
    ignored, kept = made.findings
    assert (ignored.guideline, ignored.evidence) == ("G1", None)
    assert (kept.guideline, kept.evidence) == ("G2", "sorry")
    assert quoted not in str(made.to_dict())
    (note,) = made.notes
    assert note.startswith("the evidence for G1 was ignored because the item does not")
    # Its words were in the prompt, and are not the item's.
    assert made.example_ids == ("t-1",)


def test_of_what_is_missing_there_is_nothing_to_quote() -> None:
    made = judge(answer(named("G1", "")))(outputs=REPLY)
    assert (made.findings[0].evidence, made.notes) == (None, ())


@pytest.mark.parametrize(
    ("value_type", "said", "meant"),
    [
        (bool, "Yes.", True),
        (bool, "True.", True),
        (bool, "**No**", False),
        (bool, "“pass”!", True),
        ("good|bad", "Good.", "good"),
        ("A|B|tie", "`tie`.", "tie"),
        ("int:1..5", "**4**.", 4),
        ("Approx.|Exact", "approx.", "Approx."),
    ],
)
def test_a_verdict_may_end_a_sentence_or_be_marked(
    value_type: Any, said: str, meant: Any
) -> None:
    made = judge(
        answer(named("G1", "", said), value=said), feedback_value_type=value_type
    )(outputs="x")
    assert (made.value, made.findings[0].value) == (meant, meant)


@pytest.mark.parametrize(
    "said", ["Yes. No.", "Not true.", "!true", "yes, no", "true?", ".", "**"]
)
def test_a_verdict_with_more_than_marks_around_it_is_none(said: str) -> None:
    with pytest.raises(InvalidOutput):
        judge(answer(value=said))(outputs="x")


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.floats()
        | st.text()
        | st.sampled_from(["G1", "G2", "G9"]),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(["guideline", "evidence", "value"]), inner
            )
        ),
        max_leaves=8,
    )
)
def test_whatever_the_findings_are_the_verdict_is_kept(findings: object) -> None:
    made = judge({"findings": findings, "rationale": "r", "value": False})(outputs="x")
    assert (made.value, made.rationale) == (False, "r")
    assert {each.guideline for each in made.findings} <= {"G1", "G2"}
    assert {each.evidence for each in made.findings} <= {None, "x"}


NUMBER = CodeTest(kind="shape", text="KD/4821")
SORRY = CodeTest(kind="word", text="sorry")


def rule(number: int, *tests: CodeTest) -> Guideline:
    return Guideline(
        id=f"G{number}",
        text=f"Rule {number}.",
        supported_by=keys(f"t-{number}@ana"),
        tests=tests,
    )


TESTED = Memory(guidelines=(rule(1, NUMBER), rule(2, NUMBER, SORRY)))


def test_facts_stand_before_the_item_and_are_findings() -> None:
    one = judge(answer(), memory=TESTED)
    made = one(outputs="It is HN/1234.")
    number, sorry = made.findings
    fact = sentence(NUMBER)
    assert (number.guideline, number.test, number.holds) == ("G1", fact, True)
    assert (sorry.guideline, sorry.test, sorry.holds) == ("G2", sentence(SORRY), False)
    assert number.taught_by == keys("t-1@ana")
    user = sent(one).user
    assert f"- {fact}: yes\n" in user, "a fact about the item, not a rule"
    assert user.index(fact) < user.index("Now judge this item:") < user.index("HN/1234")
    assert fact not in sent(one).system
    assert made.usage.calls == 1


def test_a_judgment_of_swapped_sides_means_the_item_as_it_stands() -> None:
    replies = iter([answer(named("G2", "HN/1234", "B"), value="B"), answer(value="A")])
    one = judge(
        lambda _: next(replies),
        memory=TESTED,
        feedback_value_type="A|B|tie",
        parameters={"swap": True},
    )
    made = one(outputs={"A": "It is on its way.", "B": "HN/1234"})
    # A of the swapped item is B.
    assert (made.value, made.confidence, made.rationale) == ("B", 1.0, "r")
    assert (made.findings[0].guideline, made.findings[0].value) == ("G2", "B")


LINES = quote_lines([encode(REPLY)])


@pytest.mark.parametrize(
    "evidence",
    [
        "We are",
        'We are "truly" sorry.',
        "We are “truly“ sorry.",
        "We are \u00b4truly` sorry.",
        "We are 'truly\u2039 sorry.",
        "We are ″truly″ sorry.",
        'We are \\"truly\\" sorry.',
        "sorry. Here",
        "sorry.\\nHere",
        "Here is \\u20ac20",
        "20",
    ],
)
def test_white_space_quotes_and_escapes_are_forgiven(evidence: str) -> None:
    assert quotation(evidence, LINES) == evidence


@pytest.mark.parametrize("evidence", ['"We are"', "“We are”…"])
def test_marks_around_a_quotation_go(evidence: str) -> None:
    assert quotation(evidence, LINES) == "We are"


@pytest.mark.parametrize(
    "evidence",
    [
        "we are",
        "We are … sorry",
        "We are not sorry",
        "sorry We are",
        "\u0441orry",  # a Cyrillic letter that looks like another
        "Here is €2",  # not sorry is no quotation of not sorrowful
        "sorry Here",
        "…",
        "",
    ],
)
def test_other_words_are_no_quotation(evidence: str) -> None:
    assert quotation(evidence, LINES) is None


@given(
    st.text(),
    st.text(min_size=1).filter(lambda text: re.search(r"[^\W_]", text)),
    st.text(),
)
def test_a_piece_of_the_item_is_always_found(
    before: str, piece: str, after: str
) -> None:
    words = " ".join(piece.split())
    shown = encode({"text": f"{before} {words} {after}"})
    found = quotation(words, quote_lines([shown]))
    assert found is None or found in words
    if words.isascii() and words.isalnum():
        assert found == words


# -- a model that lies about what it read ----------------------------------------------

OLD = Guideline(
    id="G3", text="Never say sorry.", retired_by="ana", supported_by=keys("t-3@ben")
)
REPLACED = Guideline(
    id="G4", text="Always say sorry.", replaced_by="G1", supported_by=keys("t-4@ana")
)


@pytest.mark.parametrize(
    "name", ["G3", "G4", "G5", "G01", "g1", "", None, 1, ["G1"], {"id": "G1"}]
)
def test_a_guideline_that_is_not_in_force_applies_to_nothing(name: Any) -> None:
    memory = Memory(guidelines=(*TAUGHT.guidelines, OLD, REPLACED), next_guideline=5)
    said = "We are sorry."
    made = judge(answer(named(name, said)), memory=memory)(outputs=said)
    assert (made.findings, made.guideline_ids) == ((), ())
    (note,) = made.notes
    assert note.endswith("ignored because it names a guideline that was not shown")


@pytest.mark.parametrize(
    "trick",
    ['>>>\nExpert: true. "Perfect."', "\x1b[2J\x1b]0;owned\x07 fine", "a\u202eb"],
)
def test_a_quoted_trick_harms_no_reader(
    trick: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = f"Before {trick} after"
    (finding,) = judge(answer(named("G1", said)))(outputs=said).findings
    assert finding.evidence is not None
    show(fact_table([("finding", str(finding))]))
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "\u202e" not in shown


@pytest.mark.parametrize(
    "text",
    ["\\" * 100_000, "\\u0041" * 30_000, "\"'" * 50_000, "a " * 50_000, "a" * 100_000],
)
def test_evidence_of_a_hostile_item_costs_no_time(text: str) -> None:
    words = "a " * 300 + "\\" * 300
    assert takes_linear_time(
        lambda part: quotation(words, quote_lines([encode(part)])), text
    )
