"""A case and its annotations, a labelled case with the judge's verdict, and the groups of cases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from memalign.keys import first_spellings
from memalign.types import Feedback
from memalign.values import Value

__all__ = [
    "Cases",
    "ScoredCase",
    "annotations_by_case",
    "clusters",
    "labels_by_source",
    "labels_of_several",
    "same_value",
    "with_verdict",
]


def annotations_by_case(
    rows: Iterable[Feedback], contents: Mapping[str, str] | None = None
) -> dict[str, list[Feedback]]:
    """Collect the annotations on each case by its first id; one content under two ids is one case.

    Args:
        rows: People's rows.
        contents: The content hashes of cases that a judge knows, by id: rows on them may have no
            content.
    """
    known = contents or {}
    annotations: dict[str, list[Feedback]] = {}
    first: dict[str, str] = {}  # the case of every id and of every content
    for row in rows:
        content = known.get(row.id, row.id)
        if row.example is not None:
            content = row.example.content_hash
        case = first.get(row.id) or first.get(content, row.id)
        first[row.id] = case
        first[content] = case
        annotations.setdefault(case, []).append(row)
    return annotations


def labels_by_source(annotations: Sequence[Feedback]) -> dict[str, Value]:
    """Return one label for each person who gave one; an unknown source is a person too."""
    person = first_spellings(row.source for row in annotations)
    return {
        person[row.source]: row.value for row in annotations if row.value is not None
    }


def labels_of_several(cases: Iterable[Sequence[Feedback]]) -> list[list[Value]]:
    """Return the labels of each case that two or more people labelled.

    Args:
        cases: The annotations on each case.
    """
    labels = [list(labels_by_source(annotations).values()) for annotations in cases]
    return [given for given in labels if len(given) > 1]


def same_value(value: Value, label: Value, tolerance: float = 0.0) -> bool:
    """Return whether a verdict is the people's label.

    White space around free text does not count, and of floats a difference up to
    `ValueType.tolerance`.
    """
    if isinstance(value, str) and isinstance(label, str):
        return value.strip() == label.strip()
    if isinstance(value, str) or isinstance(label, str):
        return False
    return value == label or abs(value - label) <= tolerance


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoredCase:
    """One labelled case and the judge's verdict; `value` is None exactly when `error` says why.

    Attributes:
        id: The example's id.
        label: The label that counts among people's, by the judge's label policy.
        value: The judge's verdict.
        rationale: The judge's reason.
        error: Why there is no verdict.
        group: What several cases share (a document, a customer), or None.
        system: Where the case comes from, such as a week or a version of the application, or None.
        confidence: The probability of the verdict, in [0, 1], or None.
        tolerance: How far apart a float and its label may be and still agree.
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
        """True if the verdict is the label; None when there is no verdict."""
        return (
            None
            if self.value is None
            else same_value(self.value, self.label, self.tolerance)
        )


Cases = Sequence[ScoredCase]


def with_verdict(cases: Cases) -> list[ScoredCase]:
    """Return the cases that the judge gave a verdict on."""
    return [case for case in cases if case.value is not None]


def clusters(cases: Cases) -> list[str] | None:
    """Return the group of each case, or None when no case has one.

    A case without a group is a group of its own.
    """
    if not any(case.group for case in cases):
        return None
    return [
        f"group {case.group}" if case.group else f"case {case.id}" for case in cases
    ]
