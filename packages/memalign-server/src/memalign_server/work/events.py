"""What happens to a job, as server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from starlette.concurrency import run_in_threadpool

from memalign_server.work.jobs import Job, Jobs

__all__ = ["events_of"]

_LOOK = 0.25  # seconds
_PING = 15.0  # seconds without news, after which a line keeps proxies from closing the connection


async def events_of(jobs: Jobs, job: str, told_as: Callable[[Job], Mapping[str, Any]]) -> AsyncIterator[str]:
    """`progress` events whenever something moved, then one `done`, `failed` or `cancelled`; each with the job as `told_as` gives it.

    Who was disconnected connects again and goes on: an event tells the state, not a difference.
    """
    told, quiet = "", 0.0
    while (found := await run_in_threadpool(jobs.find, job)) is not None:
        text = json.dumps(await run_in_threadpool(told_as, found), ensure_ascii=False)
        if text != told:
            told, quiet = text, 0.0
            yield f"event: {found.state if found.ended else 'progress'}\ndata: {text}\n\n"
        if found.ended:
            return
        await asyncio.sleep(_LOOK)
        quiet += _LOOK
        if quiet >= _PING:
            quiet = 0.0
            yield ": still here\n\n"
