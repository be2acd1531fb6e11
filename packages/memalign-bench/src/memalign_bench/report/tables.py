"""Tables of a report as plain values, and how figures are written in them: once, for the page and for Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memalign.metrics import Estimate

__all__ = [
    "ABSENT",
    "Section",
    "Table",
    "amount",
    "dollars",
    "markdown",
    "plain",
    "points",
    "quality",
    "seconds",
    "shares",
]

ABSENT = "\N{EN DASH}"
_MINUS = "\N{MINUS SIGN}"


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table: what it shows, its columns, its rows of text, and what must be known to read it.

    The first `names` columns are words and stand to the left, and so does the last where it is a `remark`; the others
    are figures.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    names: int = 1
    remark: bool = False
    notes: tuple[str, ...] = ()

    def in_words(self, place: int) -> bool:
        """Whether the column at `place`, from 0, is words."""
        return place < self.names or (self.remark and place == len(self.columns) - 1)


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of a report: a heading, paragraphs, tables, and the names of the figures that belong to it."""

    id: str
    title: str
    words: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    figures: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether nothing was found to put into it."""
        return not (self.tables or self.commands)


def quality(found: Estimate) -> str:
    """A figure between -1 and 1 with its interval: `0.72 [0.63, 0.80]`."""
    if found.value is None:
        return ABSENT
    if found.low is None or found.high is None:
        return f"{_signed(found.value)} [no interval]"
    return f"{_signed(found.value)} [{_signed(found.low)}, {_signed(found.high)}]"


def points(found: Estimate) -> str:
    """A difference of shares in percentage points with its interval: `+4.6 [-1.2, +10.3]`."""
    if found.value is None:
        return ABSENT
    shown = _points(found.value)
    if found.low is None or found.high is None:
        return f"{shown} [no interval]"
    return f"{shown} [{_points(found.low)}, {_points(found.high)}]"


def amount(value: float | None) -> str:
    """A count or a mean of counts: `1,240`, `3.5`."""
    if value is None:
        return ABSENT
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.1f}"


def seconds(value: float | None) -> str:
    """Seconds with three digits that count: `0.021 s`, `4.37 s`, `312 s`; what no clock here resolves is `< 0.001 s`."""
    if value is None:
        return ABSENT
    if 0 < value < 0.001:
        return "< 0.001 s"
    return f"{value:,.0f} s" if value >= 100 else f"{value:.3g} s"


def dollars(value: float | None) -> str:
    """US dollars; `not known` is not nothing."""
    if value is None:
        return "not known"
    return "$0" if value == 0 else f"${value:,.2f}" if value >= 1 else f"${value:.2g}"


def shares(found: Mapping[str, float]) -> str:
    """Shares of labels: `true 62 %, false 38 %`."""
    return ", ".join(f"{plain(label)} {share * 100:.0f} %" for label, share in found.items()) or ABSENT


def plain(text: str, limit: int = 60) -> str:
    """A name or a label that may hold anything, on one line, without what no page shows."""
    shown = "".join(mark if mark.isprintable() else " " for mark in text)
    return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"


def markdown(title: str, sections: Sequence[Section]) -> str:
    """The words and tables of the sections as Markdown."""
    parts = [f"# {_escaped(title)}"]
    for section in sections:
        parts += [f"## {_escaped(section.title)}", *map(_escaped, section.words)]
        if section.commands:
            commands = "\n".join(command.replace("```", "") for command in section.commands)
            parts.append(f"```sh\n{commands}\n```")
        for table in section.tables:
            parts += [f"**{_escaped(table.title)}**", _markdown_table(table), *map(_escaped, table.notes)]
    return "\n\n".join(parts) + "\n"


def _markdown_table(table: Table) -> str:
    rule = ["---" if table.in_words(place) else "---:" for place in range(len(table.columns))]
    rows = [table.columns, tuple(rule), *table.rows]
    return "\n".join(
        "| " + " | ".join(cell if row is rows[1] else _escaped(cell) for cell in row) + " |" for row in rows
    )


def _escaped(text: str) -> str:
    """Text that Markdown shows as it is: names and labels may hold anything."""
    shown = " ".join(text.split()).replace("\\", "\\\\").replace("<", "&lt;")
    for mark in "|`*":
        shown = shown.replace(mark, f"\\{mark}")
    return shown.replace("](", "]\\(")  # no link; brackets of intervals stay


def _signed(value: float) -> str:
    shown = f"{value:.2f}"
    return shown.replace("-", _MINUS) if float(shown) else "0.00"


def _points(value: float) -> str:
    shown = f"{value * 100:+.1f}"
    return shown.replace("-", _MINUS) if float(shown) else "0.0"
