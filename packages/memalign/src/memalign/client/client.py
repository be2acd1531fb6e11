"""Clients of `memalign serve`: the operations of its description, called or awaited."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Self, cast

import httpx2

from memalign import aio
from memalign.client.exchange import LOST, ServerRefused, Tries, aexchange
from memalign.client.operation import Awaiting, Blocking, Request
from memalign.client.operations import JobShown, Operations

__all__ = ["AsyncClient", "Client"]

_URL = "http://127.0.0.1:8321"
_REMEDY = "start one by `memalign serve`, or name its address"
_SAFE = frozenset(("GET", "HEAD"))
_ENDED = frozenset(("done", "failed", "cancelled"))


class AsyncClient(Awaiting, Operations):
    """The client whose operations are awaited; otherwise it is like `Client`. It belongs to one event loop.

    async with memalign.AsyncClient("http://127.0.0.1:8321") as client:
        job = await client.align_judge("tone", feedback=[{"id": "t-1", "outputs": "No.", "value": False}])
        async for event in client.events(job):
            print(event["phase"], event["done"])
    """

    def __init__(self, url: str = _URL, *, token: str | None = None, timeout: float = 60.0) -> None:
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        self._http = httpx2.AsyncClient(base_url=f"{url.rstrip('/')}/api/v1", headers=headers, timeout=timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connection."""
        await self._http.aclose()

    async def each(self, operation: Callable[..., Awaitable[Any]], *path: Any, **query: Any) -> AsyncIterator[Any]:
        """Every item of a list, piece by piece: `async for version in client.each(client.list_versions, "tone")`."""
        cursor: str | None = None
        while True:
            page = await operation(*path, **query, cursor=cursor)
            for item in page["items"]:
                yield item
            cursor = page.get("next")
            if cursor is None:
                return

    async def wait(self, job: JobShown, *, timeout: float | None = None) -> JobShown:  # noqa: ASYNC109  # as `Client` has it
        """The job once it has ended. Raises ServerRefused for one that failed or was cancelled, and TimeoutError."""
        until = None if timeout is None else time.monotonic() + timeout
        pause = 0.05
        while job["state"] not in _ENDED:
            if until is not None and time.monotonic() > until:
                raise TimeoutError(f"the job {job['id']} has not ended after {timeout:g} s; it goes on")
            await asyncio.sleep(pause)
            pause = min(2 * pause, 2.0)
            job = await self.show_job(job["judge"], job["id"])
        if job["state"] != "done":
            raise ServerRefused(409, job["problem"] or f"the job was {job['state']}", dict(job))
        return job

    async def events(self, job: JobShown) -> AsyncIterator[JobShown]:
        """The job each time that something moved, and at last as it ended, whatever its end.

        A connection that is lost is made again. Raises ServerRefused and ServerUnreachable.
        """
        show = AsyncClient.show_job.request_of(job["judge"], job["id"])
        tries = Tries(self._http.base_url, _REMEDY)
        while True:
            try:
                async with self._http.stream("GET", f"{show.path}/events", timeout=None) as answer:
                    if not answer.is_success:
                        await answer.aread()
                        await asyncio.sleep(tries.refused(answer))
                        continue
                    async for line in answer.aiter_lines():
                        if not line.startswith("data: "):
                            continue
                        tries, job = Tries(self._http.base_url, _REMEDY), json.loads(line.removeprefix("data: "))
                        yield job
                        if job["state"] in _ENDED:
                            return
                pause = tries.lost(EOFError("it ends the events before the job has ended"))
            except LOST as error:
                pause = tries.lost(error)
            await asyncio.sleep(pause)

    async def _ask(self, request: Request) -> Any:
        return await aexchange(
            self._http,
            request.method,
            request.path,
            remedy=_REMEDY,
            params=request.query,
            json=request.body,
            headers={} if request.method in _SAFE else {"idempotency-key": str(uuid.uuid4())},
        )


class Client(Blocking, Operations):
    """A client of `memalign serve` at `url`, with an API token where the server has accounts.

    Every operation of the server's API is a method. What it takes is keyword-only behind the names of the path, and
    what it gives is JSON, typed. A request that changes something has an idempotency key, so that it is sent again after a
    lost connection and still done once. Raises ServerRefused and ServerUnreachable.

        with memalign.Client("http://127.0.0.1:8321") as client:
            job = client.align_judge("tone", feedback=[{"id": "t-1", "outputs": "No.", "value": False}])
            client.wait(job)["result"]
    """

    def __init__(self, url: str = _URL, *, token: str | None = None, timeout: float = 60.0) -> None:
        self._client = AsyncClient(url, token=token, timeout=timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        aio.run(self._client.aclose())

    def each(self, operation: Callable[..., Any], *path: Any, **query: Any) -> Iterator[Any]:
        """Every item of a list, piece by piece: `client.each(client.list_versions, "tone")`."""
        cursor: str | None = None
        while True:
            page = operation(*path, **query, cursor=cursor)
            yield from page["items"]
            cursor = page.get("next")
            if cursor is None:
                return

    def wait(self, job: JobShown, *, timeout: float | None = None) -> JobShown:
        """The job once it has ended. Raises ServerRefused for one that failed or was cancelled, and TimeoutError."""
        return aio.run(self._client.wait(job, timeout=timeout))

    def events(self, job: JobShown) -> Iterator[JobShown]:
        """The job each time that something moved, and at last as it ended; see `AsyncClient.events`."""
        events = self._client.events(job)
        try:
            while (event := aio.run(_following(events))) is not None:
                yield event
        finally:
            aio.run(_closed(events))

    def _ask(self, request: Request) -> Any:
        return aio.run(self._client._ask(request))  # noqa: SLF001  # one client, called or awaited


async def _following(events: AsyncIterator[JobShown]) -> JobShown | None:
    return await anext(events, None)


async def _closed(events: AsyncIterator[JobShown]) -> None:
    await cast("Any", events).aclose()
