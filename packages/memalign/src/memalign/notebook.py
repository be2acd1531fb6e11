"""What a notebook shows: values as small cards of HTML, and how far a run has come.

Every text is escaped. Colours are the notebook's own, so that a card is readable in light and dark.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any

__all__ = ["card", "facts", "notebook_progress", "table"]

_ROWS = 20  # of a table
_LONGEST = 400  # characters of a cell
_FRAME = 0.2  # seconds from one picture of the progress to the next

_LINE = "1px solid rgba(128,128,128,.35)"
_TABLE = "border:none;color:inherit;font-size:inherit"  # an old browser mode gives tables colours of their own
_ROW = "background:none"
_CELL = "text-align:left;vertical-align:top;padding:2px 12px 2px 0;white-space:pre-wrap;background:none"


def card(title: str, beside: str, *parts: str) -> str:
    """A bordered block: a bold title, words beside it, and the `parts`, which are HTML; empty ones are left out."""
    head = f'<div><b style="font-size:1.1em">{escape(title)}</b> <span style="opacity:.7">{escape(beside)}</span></div>'
    body = "".join(f'<div style="margin-top:6px">{part}</div>' for part in parts if part)
    return f'<div style="border:{_LINE};border-radius:6px;padding:8px 12px;max-width:60em">{head}{body}</div>'


def facts(rows: Iterable[tuple[str, object]]) -> str:
    """Names and values below each other; those without a value are left out."""
    return table((), [row for row in rows if row[1] not in (None, "", ())])


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, title: str = "") -> str:
    """A table, of many rows the first; "" without rows. The title says how many there are."""
    if not rows:
        return ""
    if title:
        part = f" ({_ROWS} of {len(rows):,})" if len(rows) > _ROWS else ""
        title = f"<div><b>{escape(title)}{part}</b></div>"
    head = _row("th", f"{_CELL};border-bottom:{_LINE}", columns) if columns else ""
    return f'{title}<table style="{_TABLE}">{head}{"".join(_row("td", _CELL, row) for row in rows[:_ROWS])}</table>'


def _row(tag: str, style: str, cells: Sequence[object]) -> str:
    texts = ["" if cell is None else str(cell) for cell in cells]
    texts = [text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…" for text in texts]
    written = "".join(f'<{tag} style="{style}">{escape(text)}</{tag}>' for text in texts)
    return f'<tr style="{_ROW}">{written}</tr>'


def notebook_progress() -> Callable[[str, int, int], None] | None:
    """A line for each phase of a run in the cell that runs, where this process is a notebook's kernel.

    Returns:
        What is called with a phase, how much of it is done and of how much; None anywhere else.
    """
    ipython: Any = sys.modules.get("IPython")  # a kernel has loaded it
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or getattr(shell, "kernel", None) is None:
        return None
    from IPython.display import display

    picture = display({"text/plain": ""}, raw=True, display_id=True)
    lines: dict[str, str] = {}
    drawn = 0.0

    def draw(phase: str, done: int, total: int) -> None:
        nonlocal drawn
        first = phase not in lines
        lines[phase] = f"{phase.replace('_', ' ')}: {done:,}" + (f" of {total:,}" if total else "")
        if first or done == total or time.monotonic() - drawn >= _FRAME:
            drawn = time.monotonic()
            picture.update({"text/plain": "\n".join(lines.values())}, raw=True)

    return draw
