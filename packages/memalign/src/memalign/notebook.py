"""What a notebook shows: how far a run has come."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

__all__ = ["notebook_progress"]

_FRAME = 0.2  # seconds from one picture of the progress to the next


def notebook_progress() -> Callable[[str, int, int], None] | None:
    """A line for each phase of a run in the cell that runs, where this process is a notebook's kernel.

    Returns:
        What is called with a phase, how much of it is done and of how much; None anywhere else.
    """
    ipython: Any = sys.modules.get("IPython")  # a kernel has loaded it
    shell = ipython.get_ipython() if ipython is not None else None
    if getattr(shell, "kernel", None) is None:
        return None
    from IPython.display import display

    picture = display({"text/plain": ""}, raw=True, display_id=True)
    lines: dict[str, str] = {}
    drawn = 0.0

    def draw(phase: str, done: int, total: int) -> None:
        nonlocal drawn
        lines[phase] = f"{phase.replace('_', ' ')}: {done:,} of {total:,}"
        if done == total or time.monotonic() - drawn >= _FRAME:
            drawn = time.monotonic()
            picture.update({"text/plain": "\n".join(lines.values())}, raw=True)

    return draw
