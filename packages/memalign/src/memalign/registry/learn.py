"""From the latest version to the next one, while others commit too: nothing that was paid for is paid for twice."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from memalign.align import AlignResult, MemAlign
from memalign.errors import InvalidRows, VersionConflict
from memalign.io import FeedbackSource, OwnVerdicts, RowSource
from memalign.judge import Judge, Progress
from memalign.models.calls import Calls
from memalign.models.dry_run import DryRun
from memalign.registry.database import Database
from memalign.registry.erased_hashes import ALLOW, ErasedHashes
from memalign.registry.judge_rows import settings_of
from memalign.registry.paid_answers import PaidAnswers
from memalign.types import Feedback, FeedbackKey, Usage

__all__ = ["Latest", "Step", "align_step", "conflict", "estimate_learning", "learn_and_commit"]

Step = Callable[[Judge, Calls], Awaitable[AlignResult]]
"""What is learned or forgotten, of the latest version, with the calls that this takes."""


@dataclass(frozen=True, kw_only=True)
class Latest:
    """The latest version of a judge: `load` gives its number and the judge, `commit` writes the one after a number."""

    name: str
    database: Database
    load: Callable[[], tuple[int, Judge]]
    commit: Callable[[Judge, int], int]


async def learn_and_commit(latest: Latest, step: Step, *, optimizer: MemAlign, attempts: int) -> AlignResult:
    """The result of `step`, committed if the latest version is still the one that it began with.

    When somebody else committed first, `step` is done again on the newer version; requests that were answered before
    are answered from what is kept. Raises VersionConflict after so many `attempts`.
    """
    # In threads: waiting for a lock must not stop the loop on which judgments run. And before anything is paid for.
    await asyncio.to_thread(latest.database.check_writable)
    started, spent = time.perf_counter(), Usage()
    # Before the version is read: an erase that comes later ends the keeping, and one that came before left no text.
    answers = await asyncio.to_thread(PaidAnswers, latest.database, latest.name)
    calls = optimizer.calls(answers)
    for _ in range(attempts):
        parent, judge = await asyncio.to_thread(latest.load)
        result = await step(judge, calls)
        spent += result.usage
        number = parent
        if result.changed or settings_of(result.judge) != settings_of(judge):
            try:
                number = await asyncio.to_thread(latest.commit, result.judge, parent)
            except VersionConflict:
                continue
        await asyncio.to_thread(answers.committed)
        result = replace(result, usage=spent, seconds=time.perf_counter() - started)
        return replace(result, version=number, parent=parent, taken_up=answers.taken_up)
    raise conflict(latest.name, attempts)


async def estimate_learning(latest: Latest, step: Step, *, optimizer: MemAlign) -> Usage:
    """What `step` would ask of models and cost, without what is kept already. Nothing is asked or committed."""
    answers = await asyncio.to_thread(PaidAnswers, latest.database, latest.name)
    _, judge = await asyncio.to_thread(latest.load)
    dry_run = DryRun(dimensions=judge.memory.matrix.shape[1] or 8)
    await step(judge, optimizer.calls(answers, dry_run))
    return dry_run.usage


def align_step(
    optimizer: MemAlign,
    feedback: FeedbackSource,
    *,
    skip_invalid: bool,
    erased: Callable[[], ErasedHashes] | None,
    own_verdicts: OwnVerdicts | None,
    progress: Progress | None = None,
) -> Step:
    """The step that learns `feedback`; `erased` looks up what was erased here (None: it may come back)."""
    source = RowSource.of(feedback)  # every attempt reads it

    async def learn(judge: Judge, calls: Calls) -> AlignResult:
        hashes = None if erased is None else await asyncio.to_thread(erased)
        refused: dict[FeedbackKey, str] = {}

        def refuse(row: Feedback) -> str | None:
            reason = hashes.row_refusal(row, judge.memory) if hashes else None
            return refused.setdefault(row.key, reason) if reason else None

        options: dict[str, Any] = {"skip_invalid": skip_invalid, "own_verdicts": own_verdicts, "progress": progress}
        try:
            return await optimizer.align(judge, source, refuse=refuse, calls=calls, **options)
        except InvalidRows as error:
            if refused:
                raise InvalidRows(error.source, error.rows, hint=ALLOW) from None
            raise

    return learn


def conflict(name: str, attempts: int) -> VersionConflict:
    """The error where somebody else was quicker every time."""
    return VersionConflict(
        f"somebody else committed a version of {name!r} first, {attempts} times in a row; nothing was changed, try "
        "again"
    )
