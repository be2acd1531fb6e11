"""Whether labels bear a test out: its agreement with them is too rare by chance, over all tests that were tried."""

from __future__ import annotations

import statistics
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from math import comb
from typing import NamedTuple

from memalign.content import each_side, sides_of
from memalign.judge.code_tests import Reading
from memalign.memory import Annotation, Memory
from memalign.types import FeedbackKey
from memalign.values import Value, ValueType

__all__ = [
    "ALPHA",
    "Column",
    "LabelledCase",
    "chance",
    "chance_limit",
    "column",
    "labelled_cases",
    "least_chance",
    "outcome",
]

ALPHA = 0.05
"""The share of memories in which anything at all may be admitted that only chance bears out."""


class LabelledCase(NamedTuple):
    """A case as tests read it: its label, the item or its two sides with their names, and the feedback on it."""

    label: Value
    readings: tuple[Reading, ...]
    sides: tuple[str, ...]
    feedback: tuple[Annotation, ...]

    @property
    def decided(self) -> bool:
        """Whether the label is one of its sides, where it has any."""
        return not self.sides or self.label in self.sides


class Column(NamedTuple):
    """A test's answers over some cases, a bit a case: where it holds, and where it fails.

    Of a pair: where it holds of the first side alone, and of the second side alone. Neither bit is set of a case that
    says nothing.
    """

    yes: int
    no: int

    def table(self, outcome: int) -> tuple[int, int, int, int]:
        """How many cases have yes and the outcome, yes without it, no with it, no without it."""
        return (
            (self.yes & outcome).bit_count(),
            (self.yes & ~outcome).bit_count(),
            (self.no & outcome).bit_count(),
            (self.no & ~outcome).bit_count(),
        )


def labelled_cases(
    memory: Memory, value_type: ValueType, keys: Collection[FeedbackKey] | None = None
) -> list[LabelledCase]:
    """The cases with an effective label, each content once; with `keys` those that this feedback is about."""
    cases = []
    for case in memory.cases:
        label, feedback = memory.label(case), memory.annotations_on(case)
        counts = keys is None or any(annotation.key in keys for annotation in feedback)
        if label is not None and counts and memory.duplicates(case.example)[0] is case:
            sides = sides_of(case.example.content, value_type.choices)
            names = tuple(name for name in value_type.choices if name in sides) if len(sides) == 2 else ()
            readings = tuple(map(Reading, each_side(case.example.content, value_type.choices)))
            cases.append(LabelledCase(label, readings, names, feedback))
    return cases


def column(cases: Sequence[LabelledCase], decides: Callable[[Reading], bool | None]) -> Column:
    """What `decides` says of each case."""
    answers = [tuple(map(decides, case.readings)) if case.decided else () for case in cases]
    return Column(
        _mask(answer in ((True,), (True, False)) for answer in answers),
        _mask(answer in ((False,), (False, True)) for answer in answers),
    )


def outcome(cases: Sequence[LabelledCase], value: Value | None, value_type: ValueType) -> int:
    """The cases, a bit each, whose label is `value`; of sides the first, of numbers on its side of the median."""
    if value_type.numeric and value is not None:
        middle = statistics.median(float(case.label) for case in cases)
        return _mask((float(case.label) > middle) == (float(value) > middle) for case in cases)
    return _mask(case.label == (case.sides[0] if case.sides else value) for case in cases)


def _mask(bits: Iterable[bool]) -> int:
    return sum(1 << place for place, bit in enumerate(bits) if bit)


# -- chance ------------------------------------------------------------------------------------------------------------


@cache
def _tail(drawn: int, right: int, total: int, at_least: int) -> float:
    """The probability that of `drawn` of `total` cases, of which `right` have the outcome, at least so many have it."""
    ways = sum(comb(right, k) * comb(total - right, drawn - k) for k in range(at_least, min(drawn, right) + 1))
    return ways / comb(total, drawn)


def chance(table: tuple[int, int, int, int], *, sides: bool) -> float:
    """The probability that labels dealt at random agree so well with the answers that yes means the outcome.

    Fisher's exact test, which takes the labels' shares as they are; of sides the sign test.
    """
    yes, yes_else, no, no_else = table
    if sides:
        told_apart = sum(table)
        return float(sum(comb(told_apart, k) for k in range(yes + no_else, told_apart + 1)) / 2**told_apart)
    return _tail(yes + yes_else, yes + no, sum(table), yes)


def least_chance(table: tuple[int, int, int, int], *, sides: bool) -> float:
    """The least of these that any labels with the same shares could give, in either sense."""
    drawn, right, total = table[0] + table[1], table[0] + table[2], sum(table)
    if sides:
        return float(0.5**total)
    return min(
        _tail(drawn, right, total, min(drawn, right)), _tail(drawn, total - right, total, min(drawn, total - right))
    )


def chance_limit(least: Iterable[float], alpha: float) -> float:
    """What a test's chance may be at most: `alpha` shared out over all candidates that could pass at all.

    Bonferroni's correction as Tarone (1990, Biometrics 46:515) counts: a candidate that no labels with these shares
    could have admitted was not tried.

    Args:
        least: `least_chance` of every candidate.
        alpha: The probability that any of them passes by chance.
    """
    ordered = sorted(least)
    for tried in range(1, len(ordered) + 1):
        if bisect_right(ordered, alpha / tried) <= tried:
            return alpha / tried
    return alpha
