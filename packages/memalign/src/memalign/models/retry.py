"""One layer of retries, with jitter and Retry-After; the providers' own are off."""

from __future__ import annotations

import asyncio
import logging
import random
import time

import msgspec

from memalign.types import Usage

__all__ = ["Call", "Retry"]

logger = logging.getLogger(__name__)

LONG_WAIT = 10.0
"""Seconds from which on a wait is a warning, which Python shows on stderr where no log is set up.
Others are "info"."""

_said_until: dict[str, float] = {}
"""By model and address, so that calls that wait side by side say it once."""


class Call:
    """One call, with all its attempts and waits; its time starts with the first attempt.

    Attributes:
        total: The most seconds for the whole call.
        attempt: The most seconds for one attempt.
        spent: What its requests cost that were answered, of use or not.
    """

    def __init__(self, total: float, *, attempt: float) -> None:
        """Take the limits of a call.

        Args:
            total: The most seconds for the whole call.
            attempt: The most seconds for one attempt.
        """
        self.total = total
        self.attempt = attempt
        self.spent: list[Usage] = []
        self._end: float | None = None

    @property
    def started(self) -> bool:
        """True from the first attempt on."""
        return self._end is not None

    @property
    def left(self) -> float:
        """Start the clock if it is not running, and return the seconds that are left."""
        now = time.monotonic()
        if self._end is None:
            self._end = now + self.total
        return max(self._end - now, 0.0)


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """How often to try, and how long to wait between attempts.

    `attempts` counts the first one. The wait before attempt n + 1 is between half and all of
    `base_seconds * 2 ** (n - 1)`, or what the provider asked for and a little more, never above
    `max_wait` seconds. A provider that asks for more ends the call.
    """

    attempts: int = 5
    base_seconds: float = 1.0
    max_wait: float = 60.0

    def wait(self, attempt: int, requested: float | None = None) -> float:
        """Return the seconds to wait after an attempt.

        Args:
            attempt: The number of the attempt that failed, from 1.
            requested: The provider's Retry-After.
        """
        if requested is None:
            seconds = (
                self.base_seconds * 2.0 ** (attempt - 1) * random.uniform(0.5, 1.0)
            )
        else:
            # Otherwise all calls that were told "in 20 seconds" would return at the same instant.
            seconds = requested + random.uniform(0, self.base_seconds)
        return min(seconds, self.max_wait)

    async def pause(
        self, seconds: float, attempt: int, *, subject: str, reason: str
    ) -> None:
        """Wait after a failed attempt, and log it.

        Args:
            seconds: How long.
            attempt: The number of the attempt that failed, from 1.
            subject: Model and address.
            reason: Why it failed.
        """
        now = time.monotonic()
        level = logging.INFO
        if seconds >= LONG_WAIT and _said_until.get(subject, 0.0) <= now:
            _said_until[subject] = now + seconds
            level = logging.WARNING
        what = "%s: %s; waiting %.3g s, then attempt %d of %d"
        logger.log(level, what, subject, reason, seconds, attempt + 1, self.attempts)
        await asyncio.sleep(seconds)
