"""What a notebook shows: how far a run has come, and values as HTML."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any

__all__ = ["html_view", "notebook_progress"]

_FRAME = 0.2  # seconds from one picture of the progress to the next


def notebook_progress() -> Callable[[str, int, int], None] | None:
    """Return what draws a line for each phase of a run in a notebook's cell.

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
        name = phase.replace("_", " ")
        lines[phase] = f"{name}: {done:,} of {total:,}"
        now = time.monotonic()
        if done == total or now - drawn >= _FRAME:
            drawn = now
            text = "\n".join(lines.values())
            picture.update({"text/plain": text}, raw=True)

    return draw


def html_view(
    lines: Iterable[str],
    head: Sequence[str] = (),
    rows: Iterable[Sequence[object]] = (),
) -> str:
    """Write lines of text and a table as HTML, in which nothing that comes from data is markup.

    Args:
        lines: Text above the table, one block a line.
        head: The names of the columns.
        rows: The cells of each row; None is an empty cell.
    """
    parts = [f"<div>{escape(line)}</div>" for line in lines]
    body = "".join(_html_row("td", row) for row in rows)
    if body:
        header = _html_row("th", head)
        parts.append(f"<table><thead>{header}</thead><tbody>{body}</tbody></table>")
    return "\n".join(parts)


def _html_row(tag: str, cells: Sequence[object]) -> str:
    written = ""
    for cell in cells:
        text = ""
        if cell is not None:
            text = escape(str(cell))
        written += f'<{tag} style="text-align: left">{text}</{tag}>'
    return f"<tr>{written}</tr>"
