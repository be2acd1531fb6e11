"""Checks, code tests and answers in a registry: kept, compared, and erased with their guideline."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from memalign import Check, Registry
from memalign.cli.history import diff_text
from memalign.judge.code_tests import sentence
from memalign.memory import Answers, Expectation, Memory
from memalign.registry.bundle import bundle_of, load_bundle
from memalign.types import CodeTest
from tests.support.keys import keys
from tests.support.places import Place
from tests.support.registry import all_versions, case, judge, memory_of

replace = msgspec.structs.replace

LONG = "Does the letter name the clinic on the hill where the operation went so badly wrong?"
SHORT = "Is it frank?"
PLAIN = "Is it short?"


def of(margins: dict[str, float | None], **fields: Any) -> Answers:
    return Answers(judge="0123", margins=margins, **fields)


def taught() -> Memory:
    """G1 is t-1's and asks something of its words; G2 is t-2's. Both were asked about t-2, t-1 and t-3."""
    memory = memory_of(case("t-1", "ana"), case("t-2", "ben"), case("t-3", "cleo"), size=1)
    first, second, third = memory.guidelines
    checks = (Check(question=LONG, answer="no", value=False), Check(question=SHORT))
    answers = {
        "t-1": of({PLAIN: 0.5}, verdict=True, exposed_to=keys("t-2@ben", "t-3@cleo")),
        "t-2": of({LONG: 1.5, SHORT: -0.1}, verdict=True, exposed_to=keys("t-1@ana", "t-3@cleo")),
        "t-3": of({LONG: -2.0, PLAIN: 3.25}, verdict=False, exposed_to=keys("t-2@ben")),
    }
    return replace(
        memory,
        cases=tuple(replace(case, answers=answers[case.id]) for case in memory.cases),
        guidelines=(replace(first, checks=checks), replace(second, checks=(Check(question=PLAIN),)), third),
    )


def test_checks_tests_and_answers_come_back_unchanged(registry: Registry) -> None:
    (first, *others) = taught().cases
    expected = (Expectation(label=True, checks=((PLAIN, 1), (SHORT, -1))), Expectation(checks=((LONG, 1),)))
    answers = replace(first.answers or Answers(judge="0123"), expected=expected)
    rule, *rules = taught().guidelines
    code = CodeTest(kind="number", text="euros", low=5.0, high=9.5)
    rule = replace(rule, checks=(*rule.checks, Check(question=sentence(code), value=True, test=code)))
    memory = replace(taught(), cases=(replace(first, answers=answers), *others), guidelines=(rule, *rules))
    registry.create(judge(memory))
    loaded = registry.load("helpfulness").memory
    assert (loaded, loaded.hash) == (memory, memory.hash)
    assert load_bundle(bundle_of(judge(memory))).memory == memory


@pytest.mark.parametrize(
    ("erased", "shared", "answers"),
    [
        # The verdict on t-2 was made with the erased guideline, and its answers were to its questions.
        ("t-1", False, {"t-2": None, "t-3": of({PLAIN: 3.25}, verdict=False, exposed_to=keys("t-2@ben"))}),
        ("t-2", False, {"t-3": of({LONG: -2.0})}),  # its verdict was made beside t-2
        ("t-1", True, {"t-2": of({LONG: 1.5})}),  # G3 asks the question of G1, too
    ],
)
def test_an_erase_takes_questions_and_verdicts_that_no_survivor_has(
    registry: Registry, place: Place, *, erased: str, shared: bool, answers: dict[str, Answers | None]
) -> None:
    first, second, third = taught().guidelines
    third = replace(third, checks=first.checks[:1] if shared else ())
    registry.create(judge(replace(taught(), guidelines=(first, second, third))))
    registry.save(judge(replace(taught(), guidelines=(first, second, third), next_guideline=9)))
    receipt = registry.erase("helpfulness", [erased], rederive=False)
    assert receipt.complete, receipt.left
    asked = erased != "t-1" or shared
    assert (LONG.encode() in place.bytes()) == asked
    assert (SHORT.encode() in place.bytes()) == (erased != "t-1")
    for version in all_versions(registry).values():
        found = {case.id: case.answers for case in version.memory.cases}
        assert answers.items() <= found.items()


CODE = CodeTest(kind="ends", text=LONG)


@pytest.mark.parametrize("check", [Check(question=LONG), Check(question=sentence(CODE), test=CODE)])
def test_a_question_or_literal_with_erased_words_takes_its_guideline(
    registry: Registry, place: Place, check: Check
) -> None:
    memory = memory_of(case("t-1", "ana", says=LONG), case("t-2", "ben"), size=1)
    first, second = memory.guidelines
    registry.create(judge(replace(memory, guidelines=(first, replace(second, checks=(check,))))))
    receipt = registry.erase("helpfulness", ["t-1"], rederive=False)
    assert receipt.copied == ("G2",)
    assert LONG.encode() not in place.bytes()
    left = registry.load("helpfulness").memory.pending
    assert [str(annotation.key) for annotation in left] == ["t-2@ben"], "whose rule it was waits to be learned again"


def test_a_diff_lists_checks_that_came_and_went(registry: Registry) -> None:
    memory = taught()
    first, second, third = memory.guidelines
    changed = replace(first, checks=(first.checks[0], Check(question=PLAIN, value=True)))
    registry.create(judge())
    registry.save(judge(memory))
    registry.save(judge(replace(memory, guidelines=(changed, second, replace(third, pinned_by="dora")))))
    said = diff_text(registry.diff("helpfulness", 2, 3)).splitlines()
    assert said[1].startswith("  ~ G1 rule number 1  [")
    assert said[2:4] == [f"    - {SHORT}  [yes]", f"    + {PLAIN}  [yes for true]"]
    new = diff_text(registry.diff("helpfulness", 1, 2))
    assert f"rule number 1  [active, from t-1@ana]\n    + {LONG}  [no for false]\n    + {SHORT}  [yes]" in new
    assert SHORT not in diff_text(registry.diff("helpfulness", 2, 1))
