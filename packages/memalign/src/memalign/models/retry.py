"""One layer of retries: exponential back-off with jitter that honours Retry-After. The providers' own are off."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from memalign.errors import ModelError

__all__ = ["AttemptFailed", "Retry"]

T = TypeVar("T")

logger = logging.getLogger(__name__)

LONG_WAIT = 10.0
"""Seconds from which on a wait is a warning, which Python shows on stderr where no log is set up."""

_said_until: dict[str, float] = {}  # by model and address: all calls that wait side by side say it once


class AttemptFailed(Exception):
    """One attempt at a model call that failed: the caller gets `error` once there is no attempt left.

    `retry_after` is the wait that the provider asked for, in seconds; `denied` says that any other request would fail
    alike.
    """

    def __init__(
        self,
        error: type[ModelError],
        reason: str,
        *,
        advice: str = "",
        retry: bool = False,
        retry_after: float | None = None,
        denied: bool = False,
    ) -> None:
        super().__init__(reason)
        self.error, self.reason, self.advice = error, reason, advice
        self.retry, self.retry_after, self.denied = retry, retry_after, denied


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """How often to try, and how long to wait between attempts.

    `attempts` counts the first one. The wait before attempt n + 1 is between half and all of
    `base_seconds * 2 ** (n - 1)`, or what the provider asked for and a little more, never above `max_wait` seconds.
    """

    attempts: int = 5
    base_seconds: float = 1.0
    max_wait: float = 60.0

    def wait(self, attempt: int, requested: float | None = None) -> float:
        """Seconds to wait after attempt number `attempt` (from 1); `requested` is the provider's Retry-After."""
        if requested is not None:
            # Everybody who was told "in 20 seconds" would come back in the same instant without the addition.
            return min(requested + random.uniform(0, self.base_seconds), self.max_wait)
        return min(self.base_seconds * 2.0 ** (attempt - 1) * random.uniform(0.5, 1.0), self.max_wait)

    async def run(self, attempt: Callable[[int], Awaitable[T]], *, subject: str) -> T:
        """What `attempt` of a number from 1 returns, tried again while it raises an AttemptFailed to retry.

        Raises the failure's `error`, whose message names `subject` (model and address) and the attempts. Every other
        exception passes through.
        """
        number = 1
        while True:
            try:
                return await attempt(number)
            except AttemptFailed as failed:
                if not failed.retry or number >= self.attempts:
                    # Not how long it took: a hundred items on a server that is down are one reason, told once.
                    spent = f" ({number} attempts)" if number > 1 else ""
                    advice = f". {failed.advice}" if failed.advice else ""
                    message = f"{subject}: {failed.reason}{spent}{advice}"
                    raise failed.error(message, denied=failed.denied) from failed.__cause__
                seconds, now = self.wait(number, failed.retry_after), time.monotonic()
                if seconds >= LONG_WAIT and _said_until.get(subject, 0.0) <= now:
                    _said_until[subject] = now + seconds
                    what = "%s: %s; waiting %.0f s, then attempt %d of %d"
                    logger.warning(what, subject, failed.reason, seconds, number + 1, self.attempts)
            await asyncio.sleep(seconds)
            number += 1
