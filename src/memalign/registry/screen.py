"""Feedback on its way into an align: what was erased before is turned away, row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from memalign.align import AlignResult, RowReport
from memalign.errors import InvalidRows, RowError
from memalign.files import check_feedback, read_feedback
from memalign.judge import Judge
from memalign.records import Feedback
from memalign.registry.ledger import Erasures

__all__ = ["screened"]

Given = str | Path | Iterable[Feedback | Mapping[str, Any]]


def screened(
    judge: Judge, feedback: Given, erased: Erasures | None, *, skip_invalid: bool
) -> tuple[Given, Callable[[AlignResult], AlignResult]]:
    """Feedback without what was erased, and a function that adds to the result the rows that were turned away.

    Raises InvalidRows for them instead, unless `skip_invalid`. Without any erasure the feedback passes untouched.
    """
    if not erased or feedback == ():
        return feedback, lambda result: result
    known = {case.id: case.example.content_hash for case in judge.memory.cases}
    if isinstance(feedback, str | Path):
        name = str(feedback)
        file = read_feedback(feedback, value_type=judge.value_type, known=known, skip_invalid=skip_invalid)
    else:
        name = "feedback"
        file = check_feedback(feedback, value_type=judge.value_type, known=known, skip_invalid=skip_invalid)
    refused: list[RowError] = []
    kept: list[tuple[int, Feedback]] = []
    for line, row in zip(file.lines, file.rows, strict=True):
        voice = judge.memory.voice(row.key)
        content = row.content_hash if row.content else known.get(row.id)
        reason = None if voice and voice.says(row) else erased.refusal(row.key, content, (row.rationale or "").strip())
        if reason is None:
            kept.append((line, row))
        else:
            refused.append(RowError(line=line, id=row.key, reason=reason.reason))
    if refused and not skip_invalid:
        raise InvalidRows(name, refused)
    bad = [*file.invalid, *refused]

    def finish(result: AlignResult) -> AlignResult:
        rows = [msgspec.structs.replace(row, line=kept[row.line - 1][0]) for row in result.rows]
        rows += [RowReport(line=e.line, key=e.id or "", status="invalid", reason=e.reason) for e in bad]
        return replace(result, rows=tuple(sorted(rows, key=lambda row: row.line)))

    return tuple(row for _, row in kept), finish
