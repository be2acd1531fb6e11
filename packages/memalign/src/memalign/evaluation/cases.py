"""A case and its annotations, a labelled case with the judge's verdict on it, and the groups that cases come in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from memalign.keys import first_spellings
from memalign.metrics import Estimate
from memalign.types import Feedback
from memalign.values import Value

__all__ = [
    "ScoredCase",
    "annotations_by_case",
    "clusters",
    "estimate",
    "labels_by_source",
    "labels_of_several",
    "same_value",
]

FEWEST_GROUPS = 10
"""Groups from which on there is an interval: fewer do not show how far the cases of one go together."""


def annotations_by_case(
    rows: Sequence[Feedback], contents: Mapping[str, str] | None = None
) -> dict[str, list[Feedback]]:
    """All annotations on each case, by its first id: the same content under two ids is one case, as in a memory.

    Args:
        rows: People's rows.
        contents: The content hashes of cases that a judge knows, by id: rows on them may have no content.
    """
    annotations: dict[str, list[Feedback]] = {}
    first: dict[str, str] = {}  # of every id and of every content
    for row in rows:
        content = (
            row.example.content_hash
            if row.example is not None
            else (contents or {}).get(row.id, row.id)
        )
        case = first.get(row.id) or first.get(content) or row.id
        first[row.id] = first[content] = case
        annotations.setdefault(case, []).append(row)
    return annotations


def labels_by_source(annotations: Sequence[Feedback]) -> dict[str, Value]:
    """One label a person, also if they saw the same content under two ids. An unknown source is a person too."""
    person = first_spellings(row.source for row in annotations)
    return {person[row.source]: row.value for row in annotations if row.value is not None}


def labels_of_several(cases: Iterable[Sequence[Feedback]]) -> list[list[Value]]:
    """The labels of each case that two or more people labelled, from the annotations on each."""
    return [list(labels.values()) for labels in map(labels_by_source, cases) if len(labels) > 1]


def same_value(value: Value, label: Value, tolerance: float = 0.0) -> bool:
    """Whether a verdict is the people's label.

    White space around free text does not count, and of floats a difference up to `ValueType.tolerance`.
    """
    if isinstance(value, str) or isinstance(label, str):
        return isinstance(value, str) and isinstance(label, str) and value.strip() == label.strip()
    return value == label or abs(value - label) <= tolerance


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoredCase:
    """One labelled case and the judge's verdict; `value` is None exactly when `error` says why there is none.

    Attributes:
        id: The example's id.
        label: The label that counts among people's, by the judge's label policy.
        value: The judge's verdict.
        rationale: The judge's reason.
        error: Why there is no verdict.
        group: What several cases share (a document, a customer), or None.
        system: Where the case comes from, such as a week or a version of the application, or None.
        confidence: The probability of the verdict, in [0, 1], or None.
        tolerance: How far apart a float and its label may be and still agree; see `ValueType.tolerance`.
    """

    id: str
    label: Value
    value: Value | None = None
    rationale: str | None = None
    error: str | None = None
    group: str | None = None
    system: str | None = None
    confidence: float | None = None
    tolerance: float = 0.0

    @property
    def correct(self) -> bool | None:
        """Whether the verdict is the label; None when there is no verdict."""
        return None if self.value is None else same_value(self.value, self.label, self.tolerance)


def clusters(cases: Sequence[ScoredCase]) -> list[str] | None:
    """The group of each case, a case without one being its own group; None when no case has a group."""
    if not any(case.group for case in cases):
        return None
    return [f"group {case.group}" if case.group else f"case {case.id}" for case in cases]


def estimate(
    value: float | None,
    groups: Sequence[str] | None,
    interval: Callable[[], tuple[float, float] | None],
) -> Estimate:
    """The figure with its interval, or with the reason why these groups, one name a case, give none."""
    if value is None:
        return Estimate(value=None)
    if groups is not None and (count := len(set(groups))) < FEWEST_GROUPS:
        few = f"too few groups for an interval: there are {count}, and {FEWEST_GROUPS} are needed"
        return Estimate(value=value, no_interval=few)
    low, high = interval() or (None, None)
    return Estimate(value=value, low=low, high=high)
