"""What feedback holds, before a judge learns from it: counts, agreement and conflicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from memalign.errors import RowError
from memalign.evaluation.cases import (
    annotations_by_case,
    labels_of_several,
    rows_by_person,
)
from memalign.io import FeedbackFile, FeedbackSource, label_notes, read_feedback
from memalign.judge import Judge, named_parts, task_of
from memalign.memory import Annotation, Memory
from memalign.memory.label_policy import policy_label
from memalign.metrics import krippendorff_alpha
from memalign.types import Feedback
from memalign.values import Value, ValueType, value_text

__all__ = [
    "ConflictingLabels",
    "FeedbackReview",
    "agreement_of_people",
    "review_feedback",
]


@dataclass(frozen=True)
class ConflictingLabels:
    """One content on which people differ: its ids, the values by key, and the label that counts."""

    ids: tuple[str, ...]
    annotations: dict[str, Value]
    label: Value | None


@dataclass(frozen=True, kw_only=True)
class FeedbackReview:
    """What a file of feedback holds.

    Attributes:
        rows: How many rows can be used, on how many `cases`, and how many are `labelled` and
            `commented`.
        labels: Rows by label; of bool and choices also the labels that nobody gave, which a judge
            cannot learn here.
        sources: Rows by person.
        duplicates: Groups of ids with the same content, which is one case.
        conflicts: Cases on which people differ.
        alpha: Krippendorff's; None for fewer than two compared cases, and when all labels are the
            same.
        compared: The cases that two or more people labelled.
        status: New, changed and unchanged rows, against a judge.
        invalid: The rows that cannot be used.
        notes: What else became of rows, such as how many are not filled in.
    """

    rows: int
    cases: int
    labelled: int
    commented: int
    labels: dict[str, int]
    sources: dict[str, int]
    duplicates: tuple[tuple[str, ...], ...]
    conflicts: tuple[ConflictingLabels, ...]
    alpha: float | None
    compared: int
    status: dict[str, int] | None
    invalid: tuple[RowError, ...]
    notes: tuple[str, ...] = ()


def review_feedback(
    feedback: FeedbackSource, value_type: ValueType | None, judge: Judge | None = None
) -> FeedbackReview:
    """Review a file or rows of feedback; no model is called.

    Args:
        feedback: Whatever feedback is read from.
        value_type: How labels are parsed; None keeps them as they are.
        judge: The judge that would learn from it.

    Raises:
        InputError: It cannot be read or is empty.
    """
    memory = Memory() if judge is None else judge.memory
    hashes = {case.id: case.example.content_hash for case in memory.cases}
    file = _read(feedback, value_type, judge, hashes)
    rows, misfits = _sort(file, judge)
    invalid = sorted([*file.invalid, *misfits], key=lambda error: error.line)
    cases = list(annotations_by_case(rows, hashes).values())
    ids = [_ids(case) for case in cases]
    compared = labels_of_several(cases)
    alpha = None
    if len(compared) > 1:
        alpha = agreement_of_people(compared, value_type)
    labels = _labels(rows)
    notes = label_notes(rows, value_type, _labels(memory.annotations()))
    commented = [row for row in rows if (row.rationale or "").strip()]
    sources = rows_by_person(row.source for row in rows)
    return FeedbackReview(
        rows=len(rows),
        cases=len(cases),
        labelled=len(labels),
        commented=len(commented),
        labels=_counts(labels, value_type),
        sources=dict(sources.most_common()),
        duplicates=tuple(names for names in ids if len(names) > 1),
        conflicts=_conflicts(cases, value_type, memory.authority),
        alpha=alpha,
        compared=len(compared),
        status=None if judge is None else _statuses(memory, rows),
        invalid=tuple(invalid),
        notes=(*file.notes, *notes),
    )


def _read(
    feedback: FeedbackSource,
    value_type: ValueType | None,
    judge: Judge | None,
    hashes: Mapping[str, str],
) -> FeedbackFile:
    """Read the rows as the judge would, if there is one; invalid rows are kept apart."""
    reads: dict[str, Any] = {}
    if judge is not None:
        reads = {"columns": judge.columns, "fields": named_parts(judge.instructions)}
    return read_feedback(
        feedback,
        value_type=value_type,
        hashes=hashes,
        skip_invalid=True,
        name="stdin",
        **reads,
    )


def _sort(
    file: FeedbackFile, judge: Judge | None
) -> tuple[list[Feedback], list[RowError]]:
    """Part the rows that a judge can learn from, and say of the others why it cannot."""
    if judge is None:
        return list(file.rows), []
    task = task_of(judge)
    rows = []
    misfits = []
    for row, line in zip(file.rows, file.lines, strict=True):
        reason = task.misfit(judge.memory, row)
        if reason:
            error = RowError(line=line, id=row.id, reason=reason)
            misfits.append(error)
        else:
            rows.append(row)
    return rows, misfits


def _labels(rows: Iterable[Feedback | Annotation]) -> list[Value]:
    """Return the labels of the rows that have one."""
    return [row.value for row in rows if row.value is not None]


def _ids(case: Sequence[Feedback]) -> tuple[str, ...]:
    """Return the ids of one case, each once."""
    names = dict.fromkeys(row.id for row in case)
    return tuple(names)


def _counts(labels: Iterable[Value], value_type: ValueType | None) -> dict[str, int]:
    """Return the labels with their counts; of bool and choices also those that nobody gave."""
    counts = Counter(map(value_text, labels))
    if value_type is None or value_type.kind not in ("bool", "choice"):
        return dict(counts.most_common())
    every = {}
    for label in value_type.labels:
        name = value_text(label)
        every[name] = counts[name]
    return every


def _conflicts(
    cases: Iterable[Sequence[Feedback]],
    value_type: ValueType | None,
    authority: Sequence[str],
) -> tuple[ConflictingLabels, ...]:
    """Return the cases that have labels of different meaning."""
    found = []
    for case in cases:
        values = {}
        for row in case:
            if row.value is not None:
                values[str(row.key)] = row.value
        if _differ(values.values(), value_type):
            label = policy_label(case, authority)
            conflict = ConflictingLabels(_ids(case), values, label)
            found.append(conflict)
    return tuple(found)


def _differ(values: Collection[Value], kind: ValueType | None) -> bool:
    """Return whether two of the values mean different labels; of numbers, the least and the most.

    White space around text does not count.
    """
    if values and kind is not None and kind.numeric:
        return not kind.agree(min(values), max(values))
    meant = set()
    for value in values:
        meant.add(value.strip() if isinstance(value, str) else value)
    return len(meant) > 1


def _statuses(memory: Memory, rows: Iterable[Feedback]) -> dict[str, int]:
    """Return how many rows are new to a judge, changed and unchanged."""
    statuses: Counter[str] = Counter()
    for row in rows:
        annotation = memory.annotation(row.key)
        if annotation is None:
            statuses["new"] += 1
        else:
            statuses["unchanged" if annotation.says(row) else "changed"] += 1
    return dict(statuses)


def agreement_of_people(
    units: Sequence[Sequence[Value]], value_type: ValueType | None
) -> float | None:
    """Return Krippendorff's alpha of people's labels, at the level of the value type.

    Args:
        units: The labels of each case, one for each person.
        value_type: Of int judges the level is ordinal, of float judges interval; else it is
            nominal.
    """
    levels: dict[str, Literal["ordinal", "interval"]] = {
        "int": "ordinal",
        "float": "interval",
    }
    kind = "" if value_type is None else value_type.kind
    return krippendorff_alpha(units, level=levels.get(kind, "nominal"))
