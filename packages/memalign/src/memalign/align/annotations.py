"""Rows of feedback are checked and become annotations in memory; the policy says which of them count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from memalign.align.forget import forget_lessons
from memalign.errors import InputError, InvalidRows, RowError
from memalign.io import FeedbackFile, FeedbackSource, Given, check_feedback
from memalign.judge import Judge
from memalign.judge.spec import misfit
from memalign.memory import Annotation, Case, Memory
from memalign.types import Example, Feedback, FeedbackKey

__all__ = ["NO_ROWS", "Refuse", "add_annotations", "checked_rows", "refreshed", "sort_rows", "without_disputed"]

replace = msgspec.structs.replace

NO_ROWS = FeedbackFile(rows=(), lines=())

Refuse = Callable[[Feedback], str | None]
"""Why a row may not be learned, or None."""


def checked_rows(
    judge: Judge,
    feedback: FeedbackSource,
    *,
    skip_invalid: bool = False,
    refuse: Refuse | None = None,
) -> FeedbackFile:
    """The rows that the judge can learn from; no model is asked.

    Raises InvalidRows when a row cannot be used, unless `skip_invalid`; a row that `refuse` gives a reason for is one.
    """
    known = {case.id: case.example.content_hash for case in judge.memory.cases}
    given = Given.of(feedback, remembered=judge.columns).kept()
    if given.nothing:
        return NO_ROWS
    file = check_feedback(given, value_type=judge.value_type, skip_invalid=skip_invalid, known=known)

    numbered = list(zip(file.rows, file.lines, strict=True))
    faults = [RowError(line=n, id=row.id, reason=why) for row, n in numbered if (why := misfit(judge, row))]
    if refuse is not None:
        faults += [RowError(line=n, id=str(row.key), reason=why) for row, n in numbered if (why := refuse(row))]
        faults.sort(key=lambda fault: fault.line)
    if not faults:
        return file
    if not skip_invalid:
        raise InvalidRows(given.name, faults)
    bad = {fault.line for fault in faults}
    return FeedbackFile(
        rows=tuple(row for row, line in numbered if line not in bad),
        lines=tuple(line for _, line in numbered if line not in bad),
        invalid=(*file.invalid, *faults),
        notes=file.notes,
    )


def sort_rows(memory: Memory, rows: Sequence[Feedback]) -> dict[FeedbackKey, Literal["new", "changed", "unchanged"]]:
    """Key → new, changed or unchanged, for every row."""
    status: dict[FeedbackKey, Literal["new", "changed", "unchanged"]] = {}
    for row in rows:
        known = memory.annotation(row.key)
        status[row.key] = "new" if known is None else "unchanged" if known.says(row) else "changed"
    return status


def add_annotations(memory: Memory, rows: Sequence[Feedback]) -> Memory:
    """`memory` with these rows as pending annotations; a row of a known key replaces that annotation and what it taught.

    Raises InputError when a row shows other content for a known id (files are checked for that before).
    """
    if not rows:
        return memory
    memory = forget_lessons(memory, [row.key for row in rows if memory.annotation(row.key)], why="the feedback changed")
    cases = {case.id: case for case in memory.cases}
    for row in rows:
        case, example = cases.get(row.id), row.example
        if case is None:
            if example is None:
                raise InputError(f"{row.key}: the row has no content, and the judge knows no case {row.id!r}")
            # What a person added to the row belongs to their annotation, not to the case.
            case = Case(example=Example(id=example.id, **example.content), annotations=())
        elif example is not None and example.content_hash != case.example.content_hash:
            raise InputError(f"{row.key}: the judge knows case {row.id!r} with other content; give it another id")
        others = [annotation for annotation in case.annotations if annotation.source != row.source]
        cases[row.id] = replace(
            case, annotations=tuple(sorted((*others, Annotation.of(row)), key=lambda annotation: annotation.source))
        )
    added = {row.key for row in rows}
    return replace(
        memory,
        cases=tuple(cases[name] for name in sorted(cases)),
        # Feedback that comes back is no longer withdrawn.
        tombstones=tuple(stone for stone in memory.tombstones if stone.key not in added),
    )


def refreshed(memory: Memory, rows: Sequence[Feedback]) -> Memory:
    """`memory` whose annotations have the times and further fields of these rows, where they say what is known already.

    Such a row teaches nothing new, but its time may decide which label counts. What a row does not give is kept.
    """
    told = {row.key: row for row in rows if row.created_at is not None or row.meta}

    def fresh(annotation: Annotation) -> Annotation:
        row = told.get(annotation.key)
        if row is None or not annotation.says(row):
            return annotation
        return replace(annotation, created_at=row.created_at or annotation.created_at, meta=row.meta or annotation.meta)

    return memory.with_annotations(new for each in memory.annotations() if (new := fresh(each)) != each)


def without_disputed(memory: Memory) -> Memory:
    """`memory` in which no guideline was written from a label that does not count; see `Memory.label`.

    Whose label counts is derived, so an annotation that counts again is pending without any change.
    """
    disputed = {entry.key for entry in memory.ledger() if entry.state == "disputed"}
    exposed = {key for guideline in memory.guidelines for key in guideline.exposed_to}
    exposed |= {key for each in memory.annotations() if each.outcome for key in each.outcome.exposed_to}
    taught = disputed & exposed
    return forget_lessons(memory, taught, why="to be derived again without disputed feedback") if taught else memory
