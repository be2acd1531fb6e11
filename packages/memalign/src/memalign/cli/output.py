"""What commands print: results on stdout, for people or as JSON; everything else on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

    from memalign.types import CodeTest, Usage
    from memalign.values import Value


_READABLE = 14  # letters of a cell in which words stay whole


def show(*parts: RenderableType, stderr: bool = False) -> None:
    """Print lines and tables, with an empty line around each table.

    A table that is too wide for the terminal becomes a list of its rows.
    """
    from rich.table import Table

    console = open_console(stderr=stderr)
    for place, part in enumerate(parts):
        drawn = not isinstance(part, str)
        if place and (drawn or not isinstance(parts[place - 1], str)):
            console.print()
        if (
            isinstance(part, Table)
            and part.show_header
            and _needed_width(part) > console.width
        ):
            part = _stacked(part)  # noqa: PLW2901
        console.print(part if drawn else _text(part), soft_wrap=not drawn)


def _text(value: object) -> Text:
    """Return a value as text in which nothing is markup."""
    from rich.text import Text

    from memalign.content.normal import (
        printable,
    )  # it loads msgspec, which help can do without

    return Text(printable(value))


def _needed_width(table: Table) -> int:
    """Return the width of a terminal in which no cell is folded to a few letters a line."""
    width = 0
    for column in table.columns:
        cells = [column.header, *column.cells]
        longest = max(len(str(cell)) for cell in cells)
        width += min(longest, _READABLE) + 2
    return width


def _stacked(table: Table) -> str:
    """Write each row of a table as lines, one for each cell that is not empty."""
    names = [str(column.header) for column in table.columns]
    rows = zip(*(column.cells for column in table.columns), strict=True)
    blocks = [str(table.title)] if table.title else []
    for row in rows:
        lines = [
            f"{name}: {cell}"
            for name, cell in zip(names, row, strict=True)
            if str(cell)
        ]
        blocks.append("\n  ".join(lines))
    return "\n".join(blocks)


def say(line: str) -> None:
    """Print a line on stderr."""
    show(line, stderr=True)


def print_json(data: Mapping[str, Any] | Sequence[Any]) -> None:
    """Print one JSON document on stdout."""
    import msgspec

    from memalign.types import as_json

    # What this stdout cannot spell is written as escapes.
    unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    text = json.dumps(
        msgspec.to_builtins(as_json(data)), ensure_ascii=not unicode, indent=2
    )
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def open_console(*, stderr: bool) -> Console:
    """Open stdout or stderr for text in which nothing is markup."""
    from rich.console import Console

    console = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not console.is_terminal and console.width < 120:
        console.width = 120  # a file has no edge, but a line must stay readable
    return console


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    title: str | None = None,
    limit: int | None = None,
    rest: str = "--json has all",
) -> Table:
    """Make a table of plain text.

    Args:
        columns: The names of the columns.
        rows: The cells of each row; None is an empty cell.
        title: What stands above it.
        limit: How many rows are shown; of more, the title says how many there are.
        rest: Where the others are.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    rows = list(rows)
    if limit is not None and len(rows) > limit:
        title = f"{title or ''} ({limit} of {len(rows):,}; {rest})".strip()
    drawn = Table(
        box=SIMPLE_HEAD,
        show_edge=False,
        title=title,
        title_justify="left",
        title_style="bold",
    )
    drawn.min_width = len(
        title or ""
    )  # Rich folds a title that is wider than its table
    for column in columns:
        drawn.add_column(
            column, overflow="fold", ratio=1 if column == columns[-1] else None
        )
    for row in rows[:limit]:
        drawn.add_row(*(_text("" if cell is None else cell) for cell in row))
    return drawn


def fact_table(rows: Iterable[tuple[object, object]]) -> Table:
    """Make a table of names and values, without headings."""
    drawn = table(("name", "value"), rows)
    drawn.show_header = False
    return drawn


def shorten(text: str | None, limit: int = 160) -> str:
    """Put `text` on one line that is not longer than `limit`."""
    line = " ".join((text or "").split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def listed(names: Sequence[object], limit: int = 30) -> str:
    """Write `a, b, c and 7 more`."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(map(str, names[:limit])) + more


def top(
    lines: Sequence[str], limit: int = 20, rest: str = "--json lists them all"
) -> list[str]:
    """Return as many lines as a screen holds, and a line that says how many more there are."""
    more = len(lines) - limit
    if more <= 0:
        return list(lines)
    return [*lines[:limit], f"… and {more:,} more like these; {rest}"]


def label_text(value: Value | None) -> str:
    """Write a label as files do: `true`, `4`, `Refuted`."""
    from memalign.values import (
        value_text,
    )  # it loads msgspec, which help can do without

    return value_text(value)


def conflict_text(
    ids: Sequence[object], annotations: Mapping[Any, Value | None], label: Value | None
) -> str:
    """Write who says what of a case, and which label counts.

    Args:
        ids: The case's ids.
        annotations: The label by the key of each feedback.
        label: The label that counts, if there is one.
    """
    labels = listed(
        [f"{key}: {label_text(value)}" for key, value in annotations.items()]
    )
    counts = "no label" if label is None else label_text(label)
    return f"conflict on {listed(ids)}: {labels}; {counts} counts"


def code_test_text(test: CodeTest) -> str:
    """Write a test with the answer that matters: `The reply has "sorry"  [yes for true]`."""
    from memalign.judge.code_tests import sentence

    return f"{sentence(test)}  [{'yes' if test.holds else 'no'} for {label_text(test.value)}]"


def counted(count: int, noun: str) -> str:
    """Write `1 version`, `2 versions`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def usage_text(usage: Usage, seconds: float | None = None) -> str:
    """Write `12 calls, 3,400 tokens in (1,200 cached), 210 out, 3.2 s, $0.0003`."""
    from memalign.values import dollars  # as for labels

    tokens = f"{usage.input_tokens:,} tokens in"
    if usage.cached_tokens:
        tokens += f" ({usage.cached_tokens:,} cached)"
    parts = [counted(usage.calls, "call"), tokens, f"{usage.output_tokens:,} out"]
    if seconds is not None:
        parts.append(f"{seconds:.1f} s")
    parts.append("cost unknown" if usage.cost is None else dollars(usage.cost))
    return ", ".join(parts)
