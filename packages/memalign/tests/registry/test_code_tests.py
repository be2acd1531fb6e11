"""Tests that code decides in a registry: kept, and gone with the words and labels that they came from."""

from __future__ import annotations

import msgspec

from memalign import Check, Feedback, Registry
from memalign.align.learned_tests import mined, with_mined
from memalign.judge.code_tests import sentence
from memalign.memory import Annotation, Case, Memory
from memalign.registry.bundle import bundle_of, load_bundle
from memalign.types import CodeTest
from memalign.values import ValueType
from tests.support.learning import without
from tests.support.places import Place
from tests.support.registry import case, judge, memory_of

replace = msgspec.structs.replace
FIELDS = ("inputs", "outputs")
PASSWORD = "Zimtsternchen"
CLOSING = "from the clinic on the hill where my operation went so badly wrong"


def test_a_test_comes_back_from_registry_and_bundle(registry: Registry) -> None:
    first, *others = memory_of(case("t-1", "ana"), size=1).guidelines
    code = CodeTest(kind="number", text="euros", low=5.0, high=9.5)
    checks = (Check(question=sentence(code), value=True, test=code),)
    memory = replace(memory_of(case("t-1", "ana"), size=1), guidelines=(replace(first, checks=checks), *others))
    registry.create(judge(memory))
    assert registry.load("helpfulness").memory == memory
    assert load_bundle(bundle_of(judge(memory))).memory == memory


def test_a_literal_with_erased_words_takes_its_guideline(registry: Registry, place: Place) -> None:
    memory = memory_of(case("t-1", "ana", says=CLOSING), case("t-2", "ben"), size=1)
    first, second = memory.guidelines
    code = CodeTest(kind="ends", text=CLOSING)
    copied = replace(second, checks=(Check(question=sentence(code), test=code),))
    registry.create(judge(replace(memory, guidelines=(first, copied))))
    receipt = registry.erase("helpfulness", ["t-1"], rederive=False)
    assert receipt.copied == ("G2",)
    assert CLOSING.encode() not in place.bytes()


def taught(n: int = 12) -> Memory:
    """Every second reply has the password, which all comments name."""
    rows = [
        Feedback(
            id=f"t-{number:02d}",
            inputs=f"case {number}",
            outputs=f"It is {PASSWORD if number % 2 else 'Anis'}, number {number}.",
            value=bool(number % 2),
            rationale=f"only {PASSWORD} will do",
            source="ana",
        )
        for number in range(n)
    ]
    return Memory(
        cases=tuple(Case(example=row.example, annotations=(Annotation.of(row),)) for row in rows if row.example)
    )


def test_a_mined_rule_goes_with_any_case_that_it_was_found_in(registry: Registry, place: Place) -> None:
    memory = with_mined(taught(), ValueType.of(bool), FIELDS)
    assert [guideline.text for guideline in memory.semantic] == [
        'Where the reply has the word "zimtsternchen": true.',
        'Where the reply does not have the word "zimtsternchen": false.',
    ]
    registry.create(judge(memory))
    registry.erase("helpfulness", ["t-03"], rederive=False)
    left = registry.load("helpfulness").memory
    assert left.guidelines == ()
    assert mined(left, ValueType.of(bool), FIELDS), "the labels that stay bear it out still"
    every = [one.id for one in left.cases]
    registry.erase("helpfulness", every, rederive=False)
    assert PASSWORD.lower().encode() not in place.bytes().lower()


def test_hiding_a_case_hides_what_was_found_in_it() -> None:
    memory = with_mined(taught(), ValueType.of(bool), FIELDS)
    assert without(memory, "t-03").semantic == ()
