"""Whether labels bear a test out: what it says of labelled cases, and how rare that would be by chance."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cache
from math import comb
from typing import NamedTuple

from memalign.content import sides_of
from memalign.judge.code_tests import Reading, holds
from memalign.memory import Annotation, Memory
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


class LabelledCase(NamedTuple):
    """A case as tests read it: its label, the item, and the feedback on it."""

    label: Value
    reading: Reading
    feedback: tuple[Annotation, ...]


class Column(NamedTuple):
    """A test's answers over some cases as bit masks: where it holds, where it fails; neither where it is silent."""

    yes: int
    no: int

    def table(self, outcome: int) -> tuple[int, int, int, int]:
        """Return how many cases have yes and the outcome, yes without it, no with it, no without it."""
        right = (self.yes & outcome).bit_count()
        wrong = (self.yes & ~outcome).bit_count()
        missed = (self.no & outcome).bit_count()
        rest = (self.no & ~outcome).bit_count()
        return right, wrong, missed, rest

    def turned(self) -> Column:
        """Return the answers of the contrary."""
        return Column(self.no, self.yes)


def labelled_cases(
    memory: Memory, value_type: ValueType, ids: Collection[str] | None = None
) -> list[LabelledCase]:
    """Return the cases with an effective label, of these ids or all, each content once.

    Empty for numbers, free text, and items of which the labels name sides: there code decides nothing.
    """
    if value_type.numeric or not value_type.closed:
        return []
    named = memory.cases if ids is None else filter(None, map(memory.case, ids))
    firsts = {first.id: first for case in named for first in memory.duplicates(case.example)[:1]}
    cases = []
    for _, case in sorted(firsts.items()):
        if sides_of(case.example.content, value_type.choices):
            return []
        label = memory.label(case)
        if label is not None:
            cases.append(
                LabelledCase(label, Reading(case.example.content), memory.annotations_on(case))
            )
    return cases


def column_of(cases: Sequence[LabelledCase], test: CodeTest) -> Column:
    """Return what a test says of each case."""
    answers = [holds(test, case.reading) for case in cases]
    return Column(
        _mask(answer is True for answer in answers), _mask(answer is False for answer in answers)
    )


def outcome_of(cases: Sequence[LabelledCase], value: Value | None) -> int:
    """Return the cases whose label is `value`, as a bit mask."""
    return _mask(case.label == value for case in cases)


def _mask(bits: Iterable[bool]) -> int:
    return sum(1 << place for place, bit in enumerate(bits) if bit)


@cache
def chance(table: tuple[int, int, int, int]) -> float:
    """Return the probability that labels dealt at random agree so well that yes means the outcome (Fisher's test)."""
    yes, yes_else, no, _ = table
    total, drawn, right = sum(table), yes + yes_else, yes + no
    ways = sum(
        comb(right, k) * comb(total - right, drawn - k) for k in range(yes, min(drawn, right) + 1)
    )
    return ways / comb(total, drawn)


def decidable(cases: Sequence[LabelledCase]) -> bool:
    """Return whether labels can bear any test out: one that is right about every case would be rare by chance."""
    every = (1 << len(cases)) - 1
    for label in {case.label for case in cases}:
        yes = outcome_of(cases, label)
        right_on_all = Column(yes, every & ~yes)
        if chance(right_on_all.table(yes)) <= ALPHA:
            return True
    return False
