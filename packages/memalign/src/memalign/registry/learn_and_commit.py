"""From the latest version to the next one, while others commit too: nothing that was paid for is paid for twice."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from memalign.align import AlignResult, MemAlign
from memalign.errors import InvalidRows, VersionConflict
from memalign.io import FeedbackSource, Given, OwnVerdicts
from memalign.judge import Judge, Progress
from memalign.judge.paid_calls import PaidCalls
from memalign.judge.rehearsal import Rehearsal
from memalign.registry import versions
from memalign.registry.database import Database
from memalign.registry.erased_hashes import ALLOW, ErasedHashes
from memalign.registry.judge_rows import settings_of
from memalign.types import Feedback, FeedbackKey, Usage

__all__ = ["Rules", "Step", "aligning", "conflict", "estimate_learning", "learn_and_commit"]

Step = Callable[[Judge, PaidCalls], Awaitable[AlignResult]]
"""What is learned or forgotten, of the latest version, with the calls that this takes."""

_LOOK, _PATIENCE = 0.05, 600.0  # seconds between two looks at whether it is our turn, and until nobody waits for it


async def learn_and_commit(
    database: Database,
    name: str,
    step: Step,
    *,
    load: Callable[[], tuple[int, Judge]],
    commit: Callable[[Judge, int], int],
    optimizer: MemAlign,
    attempts: int,
    forgets: bool = False,
) -> AlignResult:
    """The result of `step`, committed if the latest version is still the one that it began with.

    When somebody else committed first, `step` is done again on the newer version. Requests that were answered then are
    answered from what is kept. Meanwhile no other align of the judge commits; edits may. After so many `attempts` raises
    VersionConflict. Where it `forgets`, no kept answer of the judge stays.
    """
    # Before anything is paid for. In threads: waiting for a lock must not stop the loop on which judgments run.
    await asyncio.to_thread(database.check_writable)
    judge_number = await asyncio.to_thread(_number_of, database, name)
    started, spent = time.perf_counter(), Usage()
    # Before the version is read: an erase that comes later then finds the file, and one that came before left no text.
    with await asyncio.to_thread(database.kept_answers, judge_number) as answers:
        calls = optimizer.calls(answers)
        async with AsyncExitStack() as stack:
            ours = False
            for _ in range(attempts):
                latest, judge = await asyncio.to_thread(load)
                result = await step(judge, calls)
                spent += result.usage
                number = latest
                if result.changed or settings_of(result.judge) != settings_of(judge):
                    if not ours:
                        await stack.enter_async_context(_turn(database, judge_number))
                        ours = True
                    try:
                        number = await asyncio.to_thread(commit, result.judge, latest)
                    except VersionConflict:
                        continue
                    if forgets:
                        await asyncio.to_thread(database.forget_kept, judge_number)
                await asyncio.to_thread(answers.committed)
                result = replace(result, usage=spent, seconds=time.perf_counter() - started)
                return replace(result, version=number, parent=latest, taken_up=answers.taken_up)
    raise conflict(name, attempts)


async def estimate_learning(
    database: Database, name: str, step: Step, *, load: Callable[[], tuple[int, Judge]], optimizer: MemAlign
) -> Usage:
    """What `step` would ask of models and cost, without what is kept already; nothing is asked and nothing committed."""
    judge_number = await asyncio.to_thread(_number_of, database, name)
    answers = _Earlier(await asyncio.to_thread(database.earlier_answers, judge_number))
    _, judge = await asyncio.to_thread(load)
    vector = next((case.vector for case in judge.memory.cases if case.vector), None)
    rehearsal = Rehearsal(dimensions=8 if vector is None else len(vector) // 4)
    await step(judge, optimizer.calls(answers, rehearsal))
    return rehearsal.usage


class _Earlier:
    """The answers that stopped aligns have kept, for one that asks nothing: there is nothing to keep."""

    def __init__(self, answers: Mapping[str, bytes]) -> None:
        self._answers = answers

    def find(self, key: str) -> bytes | None:
        return self._answers.get(key)

    def keep(self, key: str, answer: bytes) -> None:
        """Nothing: what a rehearsal answers is made up."""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Which rows may be learned: see `MemAlign.align`. `erased` looks up what was erased here (None: it may come back)."""

    skip_invalid: bool = False
    erased: Callable[[], ErasedHashes] | None = None


def aligning(
    optimizer: MemAlign,
    feedback: FeedbackSource,
    rules: Rules,
    *,
    own_verdicts: OwnVerdicts | None = None,
    progress: Progress | None = None,
) -> Step:
    """The step that learns `feedback`, beside the `own_verdicts` that the judge gave before."""
    source = Given.of(feedback).kept()  # every attempt reads it

    async def learn(judge: Judge, calls: PaidCalls) -> AlignResult:
        erased = None if rules.erased is None else await asyncio.to_thread(rules.erased)
        refused: dict[FeedbackKey, str] = {}

        def refuse(row: Feedback) -> str | None:
            reason = erased.row_refusal(row, judge.memory) if erased else None
            return refused.setdefault(row.key, reason) if reason else None

        options: dict[str, Any] = {"skip_invalid": rules.skip_invalid, "own_verdicts": own_verdicts}
        try:
            return await optimizer.align(judge, source, refuse=refuse, progress=progress, calls=calls, **options)
        except InvalidRows as error:
            if refused:
                raise InvalidRows(error.source, error.rows, hint=ALLOW) from None
            raise

    return learn


def conflict(name: str, attempts: int) -> VersionConflict:
    """The error where somebody else was quicker every time."""
    return VersionConflict(
        f"somebody else committed a version of {name!r} first, {attempts} times in a row; nothing was changed, try again"
    )


@asynccontextmanager
async def _turn(database: Database, judge: int) -> AsyncIterator[None]:
    """Inside, no other align of the judge commits, in this process or another one.

    It spares work and guards nothing: whoever waited for ten minutes goes on without it.
    """
    turn = database.turn(judge)
    until = time.monotonic() + _PATIENCE
    try:
        while not await asyncio.to_thread(turn.take) and time.monotonic() < until:  # noqa: ASYNC110  # others are in other processes
            await asyncio.sleep(_LOOK)
        yield
    finally:
        turn.leave()


def _number_of(database: Database, name: str) -> int:
    with database.read() as connection:
        return versions.find(connection, name)[0]
