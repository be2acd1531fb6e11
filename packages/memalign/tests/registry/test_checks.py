"""Checks and answers in a registry: kept, compared, and erased with the guideline that they belong to."""

from __future__ import annotations

import msgspec
import pytest

from memalign import Check, Registry
from memalign.cli.history import diff_text
from memalign.memory import Answers, Expectation, Memory
from tests.support.keys import keys
from tests.support.places import Place
from tests.support.registry import all_versions, case, judge, memory_of

replace = msgspec.structs.replace

LONG = "Does the letter name the clinic on the hill where the operation went so badly wrong?"
SHORT = "Is it frank?"
PLAIN = "Is it short?"


def taught(*, asks: str = LONG) -> Memory:
    """G1 is t-1's and asks something of its words; G2 is t-2's. Both were asked about t-2, t-1 and t-3."""
    memory = memory_of(case("t-1", "ana"), case("t-2", "ben"), case("t-3", "cleo"), size=1)
    first, second, third = memory.guidelines
    checks = (Check(question=asks, answer="no", value=False), Check(question=SHORT))
    of = {
        "t-1": Answers(judge="0123", margins={PLAIN: 0.5}, verdict=True, exposed_to=keys("t-2@ben", "t-3@cleo")),
        "t-2": Answers(
            judge="0123", margins={asks: 1.5, SHORT: -0.1}, verdict=True, exposed_to=keys("t-1@ana", "t-3@cleo")
        ),
        "t-3": Answers(judge="0123", margins={asks: -2.0, PLAIN: 3.25}, verdict=False, exposed_to=keys("t-2@ben")),
    }
    return replace(
        memory,
        cases=tuple(replace(one, answers=of[one.id]) for one in memory.cases),
        guidelines=(
            replace(first, checks=checks),
            replace(second, checks=(Check(question=PLAIN),)),
            third,
        ),
    )


def test_checks_and_answers_come_back_unchanged(registry: Registry) -> None:
    registry.create(judge(taught()))
    loaded = registry.load("helpfulness").memory
    assert loaded == taught()
    assert loaded.hash == taught().hash
    assert loaded.hash != replace(taught(), cases=memory_of(*taught().cases).cases[:2]).hash


def test_what_guidelines_written_without_a_case_expect_comes_back_unchanged(registry: Registry) -> None:
    (first, *others) = taught().cases
    expected = (Expectation(label=True, checks=((PLAIN, 1), (SHORT, -1))), Expectation(checks=((LONG, 1),)))
    answers = replace(first.answers or Answers(judge="0123"), expected=expected)
    memory = replace(taught(), cases=(replace(first, answers=answers), *others))
    registry.create(judge(memory))
    assert registry.load("helpfulness").memory == memory


def test_an_erase_removes_questions_and_answers_everywhere(registry: Registry, place: Place) -> None:
    registry.create(judge(taught()))
    registry.save(judge(replace(taught(), next_guideline=9)))
    assert LONG.encode() in place.bytes()
    receipt = registry.erase("helpfulness", ["t-1"], rederive=False)
    assert receipt.complete, receipt.left
    assert not [text for text in (LONG, SHORT, "frank", "rule number 1") if text.encode() in place.bytes()]
    for version in all_versions(registry).values():
        left = {one.id: one.answers for one in version.memory.cases}
        assert left["t-2"] is None, "its verdict was made with the erased guideline, its answers were to its questions"
        assert left["t-3"] == Answers(judge="0123", margins={PLAIN: 3.25}, verdict=False, exposed_to=keys("t-2@ben"))


def test_a_verdict_made_beside_an_erased_case_goes(registry: Registry) -> None:
    registry.create(judge(taught()))
    registry.erase("helpfulness", ["t-2"], rederive=False)
    left = registry.load("helpfulness").memory.case("t-3")
    assert left is not None
    assert left.answers == Answers(judge="0123", margins={LONG: -2.0})


def test_a_question_that_a_survivor_asks_too_stays(registry: Registry, place: Place) -> None:
    memory = taught()
    first, second, third = memory.guidelines
    shared = replace(third, checks=first.checks[:1])
    registry.create(judge(replace(memory, guidelines=(first, second, shared))))
    registry.erase("helpfulness", ["t-1"], rederive=False)
    assert LONG.encode() in place.bytes()
    left = registry.load("helpfulness").memory.case("t-2")
    assert left is not None
    assert left.answers == Answers(judge="0123", margins={LONG: 1.5})


def test_a_check_with_erased_words_takes_its_guideline(registry: Registry, place: Place) -> None:
    memory = memory_of(case("t-1", "ana", says=LONG), case("t-2", "ben"), size=1)
    first, second = memory.guidelines
    copied = replace(second, checks=(Check(question=LONG),))
    registry.create(judge(replace(memory, guidelines=(first, copied))))
    receipt = registry.erase("helpfulness", ["t-1"], rederive=False)
    assert receipt.copied == ("G2",)
    assert LONG.encode() not in place.bytes()


@pytest.mark.parametrize("asks", [LONG, "Is it about the clinic?"])
def test_a_question_left_behind_by_erasing_is_found(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, asks: str
) -> None:
    registry.create(judge(taught(asks=asks)))
    # As if forgetting knew nothing of answers.
    monkeypatch.setattr("memalign.memory.model.with_live_answers", lambda memory: memory)
    receipt = registry.erase("helpfulness", ["t-1"], rederive=False)
    assert "memalign_rows.body, answers (2 rows)" in receipt.left
    assert not receipt.complete


def test_a_diff_lists_checks_that_came_and_went(registry: Registry) -> None:
    memory = taught()
    first, second, third = memory.guidelines
    registry.create(judge(memory))
    changed = replace(first, checks=(first.checks[0], Check(question=PLAIN, value=True)))
    registry.save(judge(replace(memory, guidelines=(changed, second, replace(third, pinned_by="dora")))))
    found = registry.diff("helpfulness", 1, 2)
    said = diff_text(found).splitlines()
    assert said[1:4] == ["  ~ G1 the checks", f"    - {SHORT}  [yes]", f"    + {PLAIN}  [yes speaks for true]"]
    one, other = found.to_dict()["guidelines"]
    assert one["fields"] == ["checks"]
    assert one["checks_added"] == [{"question": PLAIN, "answer": "yes", "value": True, "test": None}]
    assert one["checks_removed"] == [{"question": SHORT, "answer": "yes", "value": None, "test": None}]
    assert other["fields"] == ["pinned_by"]
    assert "checks_added" not in other


def test_a_new_guideline_is_listed_with_its_checks(registry: Registry) -> None:
    registry.create(judge())
    registry.save(judge(taught()))
    said = diff_text(registry.diff("helpfulness", 1, 2))
    assert f"rule number 1  [active, from t-1@ana]\n    + {LONG}  [no speaks for false]\n    + {SHORT}  [yes]" in said
    gone = diff_text(registry.diff("helpfulness", 2, 1))
    assert SHORT not in gone


def test_history_counts_feedback_and_guidelines_but_no_answers(registry: Registry) -> None:
    memory = taught()
    blank = replace(memory, cases=tuple(replace(one, answers=None) for one in memory.cases))
    registry.create(judge(blank))
    registry.save(judge(memory))
    assert [each.summary for each in registry.history("helpfulness")] == [
        "3 feedback added, 3 guidelines added (G1, G2, G3)",
        "bookkeeping only",
    ]
