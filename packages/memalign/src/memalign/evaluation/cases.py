"""A case and its annotations, a labelled case with the judge's verdict, and the groups of cases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from memalign.evaluation.intervals import estimate_mean, share_interval
from memalign.keys import first_spellings
from memalign.metrics import Estimate
from memalign.types import Feedback
from memalign.values import Value

__all__ = [
    "Cases",
    "ScoredCase",
    "accuracy",
    "annotations_by_case",
    "clusters",
    "labels",
    "labels_by_source",
    "labels_of_several",
    "outcomes",
    "rows_by_person",
    "same_value",
    "verdicts",
    "with_verdict",
]


# -- annotations ----------------------------------------------------------------------------------


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
        name = row.id
        content = known.get(name, name)
        if row.example is not None:
            content = row.example.content_hash
        case = first.get(name) or first.get(content, name)
        first[name] = case
        first[content] = case
        given = annotations.setdefault(case, [])
        given.append(row)
    return annotations


def labels_by_source(annotations: Sequence[Feedback]) -> dict[str, Value]:
    """Return one label for each person who gave one; an unknown source is a person too."""
    person = first_spellings(row.source for row in annotations)
    given = {}
    for row in annotations:
        if row.value is not None:
            name = person[row.source]
            given[name] = row.value
    return given


def rows_by_person(sources: Iterable[str]) -> Counter[str]:
    """Count how often each person is named, by the first spelling of their name."""
    named = list(sources)
    first = first_spellings(named)
    return Counter(map(first.__getitem__, named))


def labels_of_several(cases: Iterable[Sequence[Feedback]]) -> list[list[Value]]:
    """Return the labels of each case that two or more people labelled.

    Args:
        cases: The annotations on each case.
    """
    shared = []
    for case in cases:
        given = list(labels_by_source(case).values())
        if len(given) > 1:
            shared.append(given)
    return shared


# -- labelled cases with verdicts -----------------------------------------------------------------


def same_value(value: Value, label: Value, tolerance: float = 0.0) -> bool:
    """Return whether a verdict is the people's label.

    White space around free text does not count, and of floats a difference up to
    `ValueType.tolerance`.
    """
    texts = [isinstance(each, str) for each in (value, label)]
    if all(texts):
        return str(value).strip() == str(label).strip()
    if any(texts):
        return False
    return value == label or abs(float(value) - float(label)) <= tolerance


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
        if self.value is None:
            return None
        return same_value(self.value, self.label, self.tolerance)

    @property
    def difference(self) -> float:
        """How far the judge's score is above people's, in units of the score."""
        return float(self.value or 0) - float(self.label)


Cases = Sequence[ScoredCase]


def with_verdict(cases: Cases) -> list[ScoredCase]:
    """Return the cases that the judge gave a verdict on."""
    return [case for case in cases if case.value is not None]


def labels(cases: Cases) -> list[Value]:
    """Return people's label of each case."""
    return [case.label for case in cases]


def verdicts(cases: Cases) -> list[Value | None]:
    """Return the judge's verdict on each case."""
    return [case.value for case in cases]


def outcomes(cases: Cases) -> list[bool]:
    """Return for each case whether the verdict is the label; a missing verdict is not."""
    return [bool(case.correct) for case in cases]


def clusters(cases: Cases) -> list[str] | None:
    """Return the group of each case, or None when no case has one.

    A case without a group is a group of its own.
    """
    names = []
    alone = True
    for case in cases:
        if case.group:
            alone = False
            names.append(f"group {case.group}")
        else:
            names.append(f"case {case.id}")
    return None if alone else names


def accuracy(cases: Cases) -> Estimate:
    """Return the share of cases whose verdict is the label, with its interval at 95 %.

    Args:
        cases: Cases with a verdict.
    """
    return estimate_mean(outcomes(cases), clusters(cases), share_interval)
