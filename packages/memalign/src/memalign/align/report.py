"""The report of an align: rows and their states, what is new and gone, what people do not agree on."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from memalign.align.annotations import NO_ROWS
from memalign.align.result import AlignResult, Conflict, Impact, LockCheck, RowReport
from memalign.io import FeedbackFile
from memalign.judge import Judge, Progress
from memalign.judge.calibrator import calibrator_of
from memalign.judge.decision import check_model_of
from memalign.judge.paid_calls import PaidCalls
from memalign.memory import FeedbackConflict, Memory
from memalign.types import FeedbackKey, Guideline, Usage
from memalign.values import Value

__all__ = ["Run", "calibrator_note", "conflicts"]


@dataclass(kw_only=True)
class Run:
    """One run of the pipeline: what it was given, and what its stages have to report so far."""

    given: Judge
    calls: PaidCalls
    progress: Progress | None = None
    file: FeedbackFile = NO_ROWS
    status: Mapping[FeedbackKey, Literal["new", "changed", "unchanged"]] = field(default_factory=dict)
    removed: Sequence[FeedbackKey] = ()
    learned: bool = False
    usage: Usage = field(default_factory=Usage)
    impact: Impact | None = None
    locks: tuple[LockCheck, ...] = ()
    notes: list[str] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)

    def spend(self, usage: Usage, notes: Iterable[str] = ()) -> None:
        """Add what a step cost, and what it has to say."""
        self.usage += usage
        self.notes += notes

    def result(self, judge: Judge) -> AlignResult:
        """The report on `judge`, which the run made of the given one."""
        before, after = ({g.id: g for g in each.memory.guidelines} for each in (self.given, judge))
        new: tuple[Guideline, ...] = tuple(g for name, g in after.items() if name not in before)
        return AlignResult(
            judge=judge,
            rows=self._rows(judge),
            guidelines=new,
            forgotten=tuple(g for name, g in before.items() if name not in after),
            removed=tuple(self.removed),
            conflicts=conflicts(judge.memory),
            impact=self.impact,
            locks=self.locks,
            notes=tuple(self.notes),
            stopped=self.calls.stopped,
            usage=self.usage,
            seconds=time.perf_counter() - self.started,
            changed=judge != self.given,
        )

    def _rows(self, judge: Judge) -> tuple[RowReport, ...]:
        ledger = {entry.key: entry for entry in judge.memory.ledger()}
        good = (
            RowReport(
                line=line,
                key=str(row.key),
                status=self.status[row.key],
                state=ledger[row.key].state,
                reason=ledger[row.key].reason,
            )
            for row, line in zip(self.file.rows, self.file.lines, strict=True)
        )
        bad = (RowReport(line=e.line, key=e.id or "", status="invalid", reason=e.reason) for e in self.file.invalid)
        return tuple(sorted((*good, *bad), key=lambda row: row.line))


def calibrator_note(judge: Judge) -> list[str]:
    """Which verdict the memory's own cases say is better, the model's own or the calibrator's; nothing where there is one only."""
    if check_model_of(judge) is None or (calibrator := calibrator_of(judge)) is None or not calibrator.fitted:
        return []
    worth = calibrator.worth
    if not worth.n:
        return []
    decides = "the calibrator decides" if worth.decides else "the model's own verdict stands"
    unit = "agreement" if judge.value_type.numeric else "share right"
    note = (
        f"{decides}: on {worth.n} taught cases, each hidden in turn, the {unit} of the model's own verdict is "
        f"{worth.model:.2f} and that of the calibrator {worth.calibrator:.2f} (it fixes {worth.fixed} and breaks {worth.broken})"
    )
    return [note]


def conflicts(memory: Memory) -> tuple[Conflict, ...]:
    """Every content on which people gave different labels, by the id of its first case; then comments that contradict."""
    found: dict[str, Conflict] = {}
    for case in memory.cases:
        all_of_it = memory.annotations_on(case)
        labels: dict[FeedbackKey, Value | None] = {a.key: a.value for a in all_of_it if a.value is not None}
        if len(set(labels.values())) > 1:
            ids = tuple(dict.fromkeys(annotation.id for annotation in all_of_it))
            conflict = Conflict(ids=ids, annotations=labels, label=memory.label(case), reason=memory.label_reason(case))
            found.setdefault(case.example.content_hash, conflict)
    return (*found.values(), *(_contradiction(memory, conflict) for conflict in memory.conflicts))


def _contradiction(memory: Memory, conflict: FeedbackConflict) -> Conflict:
    annotations = {key: memory.annotation(key) for key in conflict.feedback}
    return Conflict(
        kind="comments",
        ids=tuple(dict.fromkeys(key.id for key in conflict.feedback)),
        annotations={key: annotation.value for key, annotation in annotations.items() if annotation is not None},
        reason=conflict.about,
    )
