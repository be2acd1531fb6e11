"""Feedback on its way into an align: what was erased before is turned away, row by row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from memalign.align import AlignResult, RowReport
from memalign.errors import InvalidRows, RowError
from memalign.io import check_feedback, read_feedback
from memalign.judge import Judge
from memalign.registry.erased_hashes import ALLOW, ErasedHashes
from memalign.types import Feedback

__all__ = ["Screened", "screened"]

Given = str | Path | Iterable[Feedback | Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Screened:
    """Feedback that may be learned, and what to add to a report on it: rows turned away, and lines of the source.

    Where nothing was ever erased `feedback` is what was given, and its lines are right as they are (`lines` is None).
    """

    feedback: Given
    source: str = ""
    lines: tuple[int, ...] | None = None
    bad: tuple[RowError, ...] = ()

    @contextmanager
    def learning(self) -> Iterator[None]:
        """Inside, an InvalidRows about `feedback` becomes one about the file or list that it was taken from."""
        try:
            yield
        except InvalidRows as error:
            if self.lines is None:
                raise
            rows = [RowError(line=self.lines[row.line - 1], id=row.id, reason=row.reason) for row in error.rows]
            raise InvalidRows(self.source, rows) from None

    def reported(self, result: AlignResult) -> AlignResult:
        """The result with the lines of the source, and with the rows that were turned away."""
        if self.lines is None:
            return result
        rows = [msgspec.structs.replace(row, line=self.lines[row.line - 1]) for row in result.rows]
        rows += [RowReport(line=e.line, key=e.id or "", status="invalid", reason=e.reason) for e in self.bad]
        return replace(result, rows=tuple(sorted(rows, key=lambda row: row.line)))


def screened(judge: Judge, feedback: Given, erased: ErasedHashes | None, *, skip_invalid: bool) -> Screened:
    """Feedback without what was erased. Raises InvalidRows for that instead, unless `skip_invalid`."""
    if not erased or feedback == ():
        return Screened(feedback=feedback)
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
        annotation = judge.memory.annotation(row.key)
        content = row.content_hash if row.content else known.get(row.id)
        reason = (
            None
            if annotation and annotation.says(row)
            else erased.refusal(row.key, content, (row.rationale or "").strip())
        )
        if reason is None:
            kept.append((line, row))
        else:
            refused.append(RowError(line=line, id=str(row.key), reason=reason))
    if refused and not skip_invalid:
        raise InvalidRows(name, refused, hint=ALLOW)
    return Screened(
        feedback=tuple(row for _, row in kept),
        source=name,
        lines=tuple(line for line, _ in kept),
        bad=(*file.invalid, *refused),
    )
