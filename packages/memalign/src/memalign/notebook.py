"""What a notebook shows: values as small cards of HTML, and a progress bar.

Every text is escaped. Colours are the notebook's own, so that a card is readable in light and dark.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any

__all__ = ["NotebookProgress", "card", "facts", "notebook_progress", "table"]

ROWS = 20  # of a table
_LONGEST = 400  # characters of a cell
_FRAME = 0.2  # seconds

_LINE = "1px solid rgba(128,128,128,.35)"
_TABLE = "border:none;color:inherit;font-size:inherit"  # an old browser mode gives tables colours of their own
_CELL = "text-align:left;vertical-align:top;padding:2px 12px 2px 0;white-space:pre-wrap;background:none"


def card(title: str, beside: str, *parts: str) -> str:
    """A bordered block: a bold title, words beside it, and the `parts`, which are HTML; empty ones are left out."""
    head = f'<div><b style="font-size:1.1em">{escape(title)}</b> <span style="opacity:.7">{escape(beside)}</span></div>'
    body = "".join(f'<div style="margin-top:6px">{part}</div>' for part in parts if part)
    return f'<div style="border:{_LINE};border-radius:6px;padding:8px 12px;max-width:60em">{head}{body}</div>'


def facts(rows: Iterable[tuple[str, object]]) -> str:
    """Names and values below each other; those without a value are left out."""
    lines = [
        f'<tr style="background:none"><td style="{_CELL};opacity:.7">{escape(name)}</td>'
        f'<td style="{_CELL}">{_text(value)}</td></tr>'
        for name, value in rows
        if value not in (None, "", ())
    ]
    return f'<table style="{_TABLE}">{"".join(lines)}</table>' if lines else ""


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, title: str = "") -> str:
    """A table, of many rows the first; "" without rows. The title says how many there are."""
    if not rows:
        return ""
    if title:
        part = f" ({ROWS} of {len(rows):,})" if len(rows) > ROWS else ""
        title = f"<div><b>{escape(title)}{part}</b></div>"
    head = "".join(f'<th style="{_CELL};border-bottom:{_LINE}">{escape(name)}</th>' for name in columns)
    body = "".join(
        f'<tr style="background:none">{"".join(f"<td style={chr(34)}{_CELL}{chr(34)}>{_text(cell)}</td>" for cell in row)}</tr>'
        for row in rows[:ROWS]
    )
    return f'{title}<table style="{_TABLE}"><tr style="background:none">{head}</tr>{body}</table>'


def _text(value: object) -> str:
    text = "" if value is None else str(value)
    return escape(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…")


class NotebookProgress:
    """A progress callback (phase, done, total) that draws a bar for each phase, by `show(html, display_id, first=…)`."""

    def __init__(self, show: Callable[..., object], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._show, self._clock = show, clock
        self._name = f"memalign-{id(self):x}"
        self._phases: dict[str, tuple[int, int, float, float]] = {}
        self._drawn = 0.0
        self._lock = threading.Lock()

    def __call__(self, phase: str, done: int, total: int) -> None:
        """Note how far a phase has come."""
        with self._lock:
            now, first = self._clock(), not self._phases
            _, _, started, _ = self._phases.get(phase, (0, 0, now, now))
            new = phase not in self._phases
            self._phases[phase] = (done, total, started, now)
            if first or new or (total and done >= total) or now - self._drawn >= _FRAME:
                self._drawn = now
                self._show(self._html(), self._name, first=first)

    def _html(self) -> str:
        rows = []
        for phase, (done, total, started, now) in self._phases.items():
            value = f' value="{done}" max="{total}"' if total else ""
            amount = f"{done:,} of {total:,}" if total else f"{done:,}"
            rows.append(
                f'<div>{escape(phase.replace("_", " "))} <progress{value} style="width:16em;vertical-align:middle">'
                f"</progress> {amount}, {now - started:.0f} s</div>"
            )
        return "".join(rows)


def notebook_progress() -> NotebookProgress | None:
    """A bar in the cell that runs, where this process is a notebook's kernel; None anywhere else."""
    ipython: Any = sys.modules.get("IPython")  # a kernel has loaded it
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or getattr(shell, "kernel", None) is None:
        return None
    from IPython.display import HTML, display, update_display

    def show(html: str, name: str, *, first: bool) -> None:
        (display if first else update_display)(HTML(html), display_id=name)

    return NotebookProgress(show)
