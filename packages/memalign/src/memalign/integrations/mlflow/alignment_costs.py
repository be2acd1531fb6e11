"""What an alignment is about to ask and cost, said before it asks."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import memalign
from memalign import aio
from memalign.judge.rehearsal import Rehearsal
from memalign.types import Usage

__all__ = ["Run", "rehearsal_of", "say_before", "shown_to_somebody"]

Run = Callable[[None, Rehearsal], Coroutine[Any, Any, Any]]
"""An alignment, without progress, that asks a rehearsal."""

_logger = logging.getLogger(__name__)


def shown_to_somebody() -> bool:
    """Whether a person watches: a terminal or a notebook."""
    return sys.stderr.isatty() or "ipykernel" in sys.modules


def rehearsal_of(core: memalign.Judge) -> Rehearsal:
    """What stands in for the models of an alignment."""
    vector = next((case.vector for case in core.memory.cases if case.vector), None)
    return Rehearsal(dimensions=8 if vector is None else len(vector) // 4)


def say_before(core: memalign.Judge, run: Run) -> None:
    """Say about how many calls, tokens and dollars `run` will take: to who watches, else to the log at level INFO.

    Where nobody would read it, nothing is reckoned.
    """
    watched = shown_to_somebody()
    if not watched and not _logger.isEnabledFor(logging.INFO):
        return
    rehearsal = rehearsal_of(core)
    aio.run(run(None, rehearsal))
    if not rehearsal.usage.calls:
        return
    text = f"memalign: aligning {core.name} takes about {_words(rehearsal.usage)}"
    if watched:
        sys.stderr.write(f"{text}\n")
    else:
        _logger.info("%s", text)


def _words(usage: Usage) -> str:
    cost = "at an unknown price" if usage.cost is None else f"${usage.cost:.2g}"
    calls = "1 call" if usage.calls == 1 else f"{usage.calls:,} calls"
    return f"{calls}, {usage.input_tokens:,} tokens in, {usage.output_tokens:,} out, {cost}"
