"""How long a test waits for what must come: long enough for any machine, so that only
what never comes fails."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 600.0
"""Seconds."""


def takes_linear_time(call: Callable[[str], object], text: str) -> bool:
    """Whether `call` of a text takes no more than eight times what it takes of an eighth of it.

    That is threefold for accidents; the square would be 64 times. Counted in seconds of this
    thread's own work, so that a busy machine changes nothing.
    """

    def seconds(part: str) -> float:
        started = time.thread_time()
        call(part)
        return time.thread_time() - started

    eighth = text[: len(text) // 8]
    part = min(seconds(eighth), seconds(eighth))
    whole = min(seconds(text), seconds(text))
    return whole < 24 * part + 0.02
