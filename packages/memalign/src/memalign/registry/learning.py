"""From the latest version to the next one, while others commit too: nothing that was paid for is paid for twice."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

from memalign.align import AlignResult, MemAlign
from memalign.errors import VersionConflict
from memalign.io.file_lock import lock_file
from memalign.judge import Judge
from memalign.judge.paid_calls import PaidCalls
from memalign.registry import versions
from memalign.registry.database import Database
from memalign.registry.judge_rows import settings_of
from memalign.registry.kept_answers import KeptAnswers, forget_kept
from memalign.types import Usage

__all__ = ["Step", "conflict", "learn_and_commit"]

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
    with await asyncio.to_thread(KeptAnswers, database.file, judge_number) as answers:
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
                        await stack.enter_async_context(_turn(database.file, judge_number))
                        ours = True
                    try:
                        number = await asyncio.to_thread(commit, result.judge, latest)
                    except VersionConflict:
                        continue
                    if forgets:
                        await asyncio.to_thread(forget_kept, database.file, judge_number)
                await asyncio.to_thread(answers.committed)
                result = replace(result, usage=spent, seconds=time.perf_counter() - started)
                return replace(result, version=number, parent=latest, taken_up=answers.taken_up)
    raise conflict(name, attempts)


def conflict(name: str, attempts: int) -> VersionConflict:
    """The error where somebody else was quicker every time."""
    return VersionConflict(
        f"somebody else committed a version of {name!r} first, {attempts} times in a row; nothing was changed, try again"
    )


@asynccontextmanager
async def _turn(registry: Path, judge: int) -> AsyncIterator[None]:
    """Inside, no other align of the judge commits, in this process or another one.

    It spares work and guards nothing: whoever waited for ten minutes, or may not write the file, goes on without it.
    """
    path = registry.with_name(f"{registry.name}-aligning-{judge}")
    until = time.monotonic() + _PATIENCE
    file = None
    while file is None and time.monotonic() < until:
        try:
            file = lock_file(path)
        except PermissionError:  # another user's
            break
        if file is None:
            await asyncio.sleep(_LOOK)
    try:
        yield
    finally:
        if file is not None:
            path.unlink(missing_ok=True)
            file.close()


def _number_of(database: Database, name: str) -> int:
    with database.read() as connection:
        return versions.find(connection, name)[0]
