"""What a notebook shows: values as small cards of HTML, every text escaped, and how far a run has come."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

__all__ = ["card", "notebook_progress", "table"]

_ROWS = 20  # of a table
_LONGEST = 400  # characters of a cell
_FRAME = 0.2  # seconds from one picture of the progress to the next


def card(title: str, beside: str, *parts: str) -> str:
    """A bold title, words beside it, and the `parts`, which are HTML; empty ones are left out."""
    body = "".join(f"<div>{part}</div>" for part in parts if part)
    return f"<div><b>{escape(title)}</b> {escape(beside)}{body}</div>"


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, title: str = "") -> str:
    """A table, of many rows the first; "" without rows. The title says how many there are."""
    if not rows:
        return ""
    part = f" ({_ROWS} of {len(rows):,})" if len(rows) > _ROWS else ""
    lines = [columns, *rows[:_ROWS]] if columns else rows[:_ROWS]
    body = "".join(f"<tr>{''.join(map(_cell, line))}</tr>" for line in lines)
    return f"<div><b>{escape(title)}{part}</b></div><table>{body}</table>"


def _cell(value: object) -> str:
    text = "" if value is None else str(value)
    text = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    return f'<td style="text-align:left;vertical-align:top;white-space:pre-wrap">{escape(text)}</td>'


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
