"""The raw answers that could not be used, for whoever looks for what went wrong. They are shown, and never kept.

Errors are kept in judgments and ledgers, where an erased text must not live on: they never repeat an answer. This log
does, at level DEBUG, which is off unless somebody turns it on.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["asked_about", "logger", "show_raw"]

logger = logging.getLogger("memalign.raw_answers")


_about: ContextVar[str] = ContextVar("memalign_asked_about", default="")


@contextmanager
def asked_about(what: str) -> Iterator[None]:
    """In this block, and in the tasks that it starts, models are asked about `what`: an item's id, keys of feedback."""
    token = _about.set(what)
    try:
        yield
    finally:
        _about.reset(token)


def show_raw(where: str, problem: str, answer: object) -> None:
    """Log an answer that failed: what it is about, where it came from, why it failed, and all of it."""
    if logger.isEnabledFor(logging.DEBUG):
        text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False, default=str)
        about = f"{_about.get()}: " if _about.get() else ""
        logger.debug("%s%s: %s\n%s", about, where, problem, text)
