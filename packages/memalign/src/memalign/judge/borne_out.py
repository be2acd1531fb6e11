"""Whether labels bear a test out: what it says of labelled cases, and how probable by chance."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cache
from math import comb
from typing import NamedTuple

from memalign.content import sides_of
from memalign.judge.code_tests import Reading, holds
from memalign.memory import Annotation, Case, Memory
from memalign.types import CodeTest
from memalign.values import Value, ValueType

__all__ = [
    "ALPHA",
    "Column",
    "LabelledCase",
    "chance",
    "column_of",
    "decidable",
    "labelled_cases",
    "outcome_of",
]

ALPHA = 0.05
"""The share of memories in which anything at all may be admitted that only chance bears out."""

Table = tuple[int, int, int, int]
"""How many cases have yes and the outcome, yes without it, no with it, no without it."""


class LabelledCase(NamedTuple):
    """A case as tests read it: its label, the item, and the feedback on it."""

    label: Value
    reading: Reading
    feedback: tuple[Annotation, ...]


class Column(NamedTuple):
    """A test's answers over some cases, as bit masks; a case in neither mask has no answer.

    Attributes:
        yes: The cases in which it holds.
        no: The cases in which it fails.
    """

    yes: int
    no: int

    def table(self, outcome: int) -> Table:
        """Return how the answers and an outcome, a bit mask of cases, agree."""
        yes_and = (self.yes & outcome).bit_count()
        no_and = (self.no & outcome).bit_count()
        return (
            yes_and,
            self.yes.bit_count() - yes_and,
            no_and,
            self.no.bit_count() - no_and,
        )

    def turned(self) -> Column:
        """Return the answers of the contrary."""
        return Column(self.no, self.yes)


def labelled_cases(
    memory: Memory, value_type: ValueType, ids: Collection[str] | None = None
) -> list[LabelledCase]:
    """Return the cases with an effective label, each content once, ordered by id.

    There are none for numbers, free text, and items of which the labels name sides: there code
    decides nothing.

    Args:
        memory: Holds the cases.
        value_type: What the judge may answer.
        ids: Which cases; None for all.
    """
    if value_type.numeric or not value_type.closed:
        return []
    firsts: dict[str, Case] = {}
    for case in memory.cases:
        if ids is None or case.id in ids:
            first = memory.duplicates(case.example)[0]
            firsts[first.id] = first
    cases = []
    for name in sorted(firsts):
        case = firsts[name]
        content = case.example.content
        if sides_of(content, value_type.choices):
            return []
        label = memory.label(case)
        if label is not None:
            cases.append(
                LabelledCase(label, Reading(content), memory.annotations_on(case))
            )
    return cases


def column_of(cases: Sequence[LabelledCase], test: CodeTest) -> Column:
    """Return what a test says of each case."""
    answers = [holds(test, case.reading) for case in cases]
    yes = _mask(answer is True for answer in answers)
    return Column(yes, _mask(answer is False for answer in answers))


def outcome_of(cases: Sequence[LabelledCase], value: Value | None) -> int:
    """Return the cases with a label, as a bit mask."""
    return _mask(case.label == value for case in cases)


def _mask(bits: Iterable[bool]) -> int:
    return sum(bit << place for place, bit in enumerate(bits))


@cache
def chance(table: Table) -> float:
    """Return how probable it is that labels dealt at random agree as well (Fisher's exact test)."""
    yes, yes_else, no, _ = table
    total = sum(table)
    drawn = yes + yes_else
    right = yes + no
    ways = 0
    for count in range(yes, min(drawn, right) + 1):
        ways += comb(right, count) * comb(total - right, drawn - count)
    return ways / comb(total, drawn)


def decidable(cases: Sequence[LabelledCase]) -> bool:
    """Return whether labels can bear any test out.

    They can if a test that is right about every case would be rare by chance.
    """
    every = (1 << len(cases)) - 1
    for label in {case.label for case in cases}:
        yes = outcome_of(cases, label)
        if chance(Column(yes, every & ~yes).table(yes)) <= ALPHA:
            return True
    return False
