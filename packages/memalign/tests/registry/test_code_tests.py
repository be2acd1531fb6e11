"""Tests that code decides in a registry: kept, and gone with the words and labels that they came from."""

from __future__ import annotations

import msgspec

from memalign import Check, Registry
from memalign.align.learned_tests import mined, with_mined
from memalign.judge.code_tests import sentence
from memalign.memory import Annotation, Case, Memory
from memalign.registry.bundle import bundle_of, load_bundle
from memalign.types import CodeTest, Example
from memalign.values import ValueType
from tests.support.learning import without
from tests.support.places import Place
from tests.support.registry import case, judge, memory_of

replace = msgspec.structs.replace
FIELDS = ("inputs", "outputs")
PASSWORD = "Zimtsternchen"


def test_a_test_comes_back_from_registry_and_bundle(registry: Registry) -> None:
    first, *others = memory_of(case("t-1", "ana"), size=1).guidelines
    code = CodeTest(kind="number", text="euros", low=5.0, high=9.5)
    checks = (Check(question=sentence(code), value=True, test=code),)
    memory = replace(memory_of(case("t-1", "ana"), size=1), guidelines=(replace(first, checks=checks), *others))
    registry.create(judge(memory))
    assert registry.load("helpfulness").memory == memory
    assert load_bundle(bundle_of(judge(memory))).memory == memory


def taught() -> Memory:
    """Every second reply has the password, which all comments name."""
    cases = []
    for number in range(12):
        name, good = f"t-{number:02d}", bool(number % 2)
        reply = f"It is {PASSWORD if good else 'Anis'}, number {number}."
        annotation = Annotation(id=name, source="ana", value=good, rationale=f"only {PASSWORD} will do")
        example = Example(id=name, inputs=f"case {number}", outputs=reply)
        cases.append(Case(example=example, annotations=(annotation,)))
    return Memory(cases=tuple(cases))


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
