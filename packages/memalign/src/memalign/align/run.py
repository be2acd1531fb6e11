"""One run of the pipeline while it runs: its cost, its progress, and what its steps report."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from memalign.align.annotations import sort_rows
from memalign.align.result import (
    AlignResult,
    BrokenLock,
    Impact,
    RowReport,
    conflicts_in,
)
from memalign.io import FeedbackFile
from memalign.judge import Judge, Progress
from memalign.memory import Memory
from memalign.models.calls import Calls
from memalign.types import FeedbackKey, Guideline, Usage

__all__ = ["AlignRun"]


@dataclass(kw_only=True)
class AlignRun:
    """One run of the pipeline. Its steps add to it; the judges are values that never change.

    Attributes:
        before: The judge that it was given.
        calls: Its model calls.
        progress: Is told how far a step is.
        file: The rows that it learns from.
        removed: The feedback that it forgets.
        usage: The cost so far.
        impact: What changed on past cases.
        broken: Locked cases that the new judge gets wrong.
        held: The judge to keep if a locked case is broken.
        notes: What else there is to tell.
        started: When it began, by the performance counter.
    """

    before: Judge
    calls: Calls
    progress: Progress | None = None
    file: FeedbackFile = field(default_factory=lambda: FeedbackFile(rows=(), lines=()))
    removed: Sequence[FeedbackKey] = ()
    usage: Usage = field(default_factory=Usage)
    impact: Impact | None = None
    broken: tuple[BrokenLock, ...] = ()
    held: Judge | None = None
    notes: list[str] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)

    def spend(self, usage: Usage) -> None:
        """Add the cost of a call."""
        self.usage += usage

    def failure(self, error: Exception) -> str:
        """Return why a call failed, and add what it cost."""
        self.spend(getattr(error, "usage", None) or Usage())
        return f"{type(error).__name__}: {error}"

    def tell(self, phase: str, done: int, total: int) -> None:
        """Show how far a step is."""
        if self.progress is not None:
            self.progress(phase, done, total)

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Add the seconds of a step."""
        started = time.perf_counter()
        yield
        self.usage += Usage(seconds={phase: time.perf_counter() - started})

    def result(self, judge: Judge) -> AlignResult:
        """Return the report on `judge`, which the run made of the one before."""
        before = self.before.memory
        after = judge.memory
        return AlignResult(
            judge=judge,
            rows=self._rows(judge),
            guidelines=_only_in(after, before),
            forgotten=_only_in(before, after),
            removed=tuple(self.removed),
            conflicts=conflicts_in(after),
            impact=self.impact,
            broken=self.broken,
            held=self.held,
            notes=tuple(self.notes),
            stopped=self.calls.stopped,
            usage=self.usage,
            seconds=time.perf_counter() - self.started,
            changed=judge != self.before,
        )

    def _rows(self, judge: Judge) -> tuple[RowReport, ...]:
        """Return what became of every row, by line."""
        status = sort_rows(self.before.memory, self.file.rows)
        ledger = {entry.key: entry for entry in judge.memory.ledger()}
        rows = []
        for bad in self.file.invalid:
            report = RowReport(
                line=bad.line,
                key=bad.id or "",
                status="invalid",
                reason=bad.reason,
            )
            rows.append(report)
        for line, row in zip(self.file.lines, self.file.rows, strict=True):
            entry = ledger[row.key]
            report = RowReport(
                line=line,
                key=str(row.key),
                status=status[row.key],
                state=entry.state,
                reason=entry.reason,
            )
            rows.append(report)
        rows.sort(key=lambda row: row.line)
        return tuple(rows)


def _only_in(memory: Memory, other: Memory) -> tuple[Guideline, ...]:
    """Return the guidelines of a memory that another one has not."""
    known = {guideline.id for guideline in other.guidelines}
    new = []
    for guideline in memory.guidelines:
        if guideline.id not in known:
            new.append(guideline)
    return tuple(new)
