"""The raw answers that could not be used, for whoever looks for what went wrong. They are shown, and never kept.

Errors are kept in judgments and ledgers, where an erased text must not live on: they never repeat an answer. This log
does, at level DEBUG, which is off unless somebody turns it on.
"""

from __future__ import annotations

import json
import logging

__all__ = ["logger", "show_raw"]

logger = logging.getLogger("memalign.raw_answers")


def show_raw(where: str, problem: str, answer: object) -> None:
    """Log an answer that failed: where it came from, why it failed, and all of it."""
    if logger.isEnabledFor(logging.DEBUG):
        text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False, default=str)
        logger.debug("%s: %s\n%s", where, problem, text)
