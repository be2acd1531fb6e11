"""Asking a judge about past cases, and what follows for the guidelines that are on trial."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from memalign.align.consolidate import consolidate
from memalign.align.known import asked_about
from memalign.errors import InputError, ModelError
from memalign.judge import Judge, Progress
from memalign.memory import Case, Memory
from memalign.models import resolve
from memalign.types import Usage

if TYPE_CHECKING:
    from memalign.values import Value

__all__ = ["Answer", "Trials", "agrees", "leave_out", "new_guidelines", "without"]

replace = msgspec.structs.replace

Answer = tuple["Value | None", str | None, Usage]
"""A verdict, or why there is none, and what it cost."""


class Trials:
    """Questions to a judge's model, as many at once as it takes, counted for progress."""

    def __init__(self, judge: Judge, total: int, progress: Progress | None, *, phase: str = "admit") -> None:
        self.total, self.progress, self.phase, self.done = total, progress, phase, 0
        self.slots = asyncio.Semaphore(resolve(judge.model).limits.concurrency)
        self.usage = Usage()

    async def known(self, value: Value) -> Answer:
        """An answer that is there already."""
        self._count()
        return value, None, Usage()

    async def ask(self, judge: Judge, case: Case) -> Answer:
        """The judge's verdict, or why there is none."""
        async with self.slots:
            try:
                judgment = await asked_about(judge, case).ajudge(case.example)
            except (ModelError, InputError) as error:
                spent = (error.usage if isinstance(error, ModelError) else None) or Usage()
                self.usage += spent
                return None, f"{type(error).__name__}: {error}", spent
            finally:
                self._count()
        spent = replace(judgment.usage, seconds={})
        self.usage += spent
        return judgment.value, judgment.error, spent

    def _count(self) -> None:
        self.done += 1
        self.total = max(self.total, self.done)
        if self.progress is not None:
            self.progress(self.phase, self.done, self.total)


def without(judge: Judge, cases: Sequence[Case]) -> Judge:
    """`judge` as if it had never met the cases."""
    met = [duplicate.id for case in cases for duplicate in judge.memory.duplicates(case.example)]
    return judge.replace(memory=judge.memory.hiding(met)) if met else judge


def new_guidelines(before: Memory, after: Memory) -> frozenset[str]:
    """What a model wrote since and is in force now, or would be once the others of these are left out, by id."""
    there = {guideline.id for guideline in before.guidelines}
    found: frozenset[str] = frozenset()
    while True:
        left = leave_out(after, found) if found else after
        shown = (*left.semantic, *left.demoted)
        new = frozenset(g.id for g in shown if g.id not in there and g.origin == "distilled" and not g.pinned)
        if not new:
            return found
        found |= new


def agrees(judge: Judge, case: Case, value: Value | None) -> bool:
    """Whether the value agrees with the experts' label."""
    label = judge.memory.label(case)
    return value is not None and label is not None and judge.value_type.agree(label, value)


def leave_out(memory: Memory, ids: Iterable[str], locked_case: str | None = None) -> Memory:
    """`memory` with these guidelines out of force, for a locked case or by admission; what stood behind them steps in."""
    out = frozenset(ids)
    why = {"left_out": "admission" if locked_case is None else "lock", "left_out_for": locked_case}
    return consolidate(
        replace(
            memory,
            guidelines=tuple(
                replace(g, status="retired", status_by=None, superseded_by=None, overridden_by=None, **why)
                if g.id in out
                else g
                for g in memory.guidelines
            ),
        )
    )
