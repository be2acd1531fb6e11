"""A client of `memalign serve`: the operations of its description, over one connection."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self, TypeVar

import httpx2

from memalign.client.exchange import ServerRefused, exchange
from memalign.client.operations import JobShown, Operations

__all__ = ["Client"]

Item = TypeVar("Item")

_SAFE = frozenset(("GET", "HEAD"))


class Client(Operations):
    """A client of `memalign serve` at `url`, with an API token where the server has accounts.

    Every operation of the server's API is a method. What it takes is keyword-only behind the names of the path, and
    what it gives is JSON, typed. A request that changes something has an idempotency key, so that it is sent again after a
    lost connection and still done once. Raises ServerRefused and ServerUnreachable.

        with memalign.Client("http://127.0.0.1:8321") as client:
            job = client.align_judge("tone", feedback=[{"id": "t-1", "outputs": "No.", "value": False}])
            client.wait(job)["result"]
    """

    def __init__(self, url: str = "http://127.0.0.1:8321", *, token: str | None = None, timeout: float = 60.0) -> None:
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        self._http = httpx2.Client(base_url=f"{url.rstrip('/')}/api/v1", headers=headers, timeout=timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

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
        until = None if timeout is None else time.monotonic() + timeout
        pause = 0.05
        while job["state"] not in ("done", "failed", "cancelled"):
            if until is not None and time.monotonic() > until:
                raise TimeoutError(f"the job {job['id']} has not ended after {timeout:g} s; it goes on")
            time.sleep(pause)
            pause = min(2 * pause, 2.0)
            job = self.show_job(job["judge"], job["id"])
        if job["state"] != "done":
            raise ServerRefused(409, job["problem"] or f"the job was {job['state']}", dict(job))
        return job

    def _ask(self, method: str, path: str, *, query: Mapping[str, Any], body: Mapping[str, Any] | None) -> Any:
        headers = {} if method in _SAFE else {"idempotency-key": str(uuid.uuid4())}
        given = {name: value for name, value in query.items() if value is not None}
        wanted = None if body is None else {name: value for name, value in body.items() if value is not None}
        return exchange(
            self._http,
            method,
            path,
            remedy="start one by `memalign serve`, or name its address",
            params=given,
            json=wanted,
            headers=headers,
        )
