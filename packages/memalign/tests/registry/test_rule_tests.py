"""Tests of guidelines in a registry: kept, compared, and erased with their guideline."""

from __future__ import annotations

import msgspec

from memalign import Registry
from memalign.cli.history import diff_text
from memalign.memory import Memory
from memalign.registry.bundle import bundle_of, load_bundle
from memalign.types import CodeTest
from tests.support.places import Place
from tests.support.registry import all_versions, case, erase, judge, memory_of

replace = msgspec.structs.replace

LONG = CodeTest(
    kind="contains",
    text="the clinic on the hill where the operation went so badly",
    value=False,
)
SHORT = CodeTest(kind="word", text="frank", holds=False, value=True)
BOUNDS = CodeTest(kind="number", text="euros", low=5.0, high=9.5, value=True)


def taught() -> Memory:
    """G1 is t-1's and reads words of it; G2 is t-2's."""
    memory = memory_of(
        case("t-1", "ana"), case("t-2", "ben"), case("t-3", "cleo"), size=1
    )
    first, second, third = memory.guidelines
    first = replace(first, tests=(LONG, SHORT))
    second = replace(second, tests=(BOUNDS,))
    return replace(memory, guidelines=(first, second, third))


def test_tests_come_back_unchanged(registry: Registry) -> None:
    memory = taught()
    registry.create(judge(memory))
    loaded = registry.load("helpfulness").memory
    assert (loaded, loaded.hash) == (memory, memory.hash)
    assert load_bundle(bundle_of(judge(memory))).memory == memory


def test_an_erase_takes_the_tests_of_what_it_takes(
    registry: Registry, place: Place
) -> None:
    registry.create(judge(taught()))
    registry.save(judge(replace(taught(), next_guideline=9)))
    receipt = erase(registry, "t-1")
    assert receipt.complete, receipt.left
    assert LONG.text.encode() not in place.bytes()
    for version in all_versions(registry).values():
        tests = [guideline.tests for guideline in version.memory.guidelines]
        assert tests in ([], [(BOUNDS,), ()])


def test_a_literal_with_erased_words_takes_its_guideline(
    registry: Registry, place: Place
) -> None:
    memory = memory_of(case("t-1", "ana", says=LONG.text), case("t-2", "ben"), size=1)
    first, second = memory.guidelines
    second = replace(second, tests=(LONG,))
    registry.create(judge(replace(memory, guidelines=(first, second))))
    receipt = erase(registry, "t-1")
    assert receipt.copied == ("G2",)
    assert LONG.text.encode() not in place.bytes()
    # Whose rule it was waits to be learned again.
    (left,) = registry.load("helpfulness").memory.pending
    assert str(left.key) == "t-2@ben"


def test_a_diff_lists_tests_that_came_and_went(registry: Registry) -> None:
    memory = taught()
    first, second, third = memory.guidelines
    first = replace(first, tests=(LONG, BOUNDS))
    third = replace(third, pinned_by="dora")
    registry.create(judge())
    registry.save(judge(memory))
    registry.save(judge(replace(memory, guidelines=(first, second, third))))
    lines = diff_text(registry.diff("helpfulness", 2, 3)).splitlines()
    assert lines[1].startswith("  ~ G1 rule number 1  [")
    assert lines[2:4] == [
        '    - The reply has the word "frank"  [no for true]',
        '    + The reply has a number of 5 to 9.5 with "euros"  [yes for true]',
    ]
