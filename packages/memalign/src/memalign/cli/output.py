"""What commands print: results for people or for programs on stdout, everything else on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memalign.terminal import plain

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

    from memalign.types import Usage
    from memalign.values import Value

__all__ = [
    "Output",
    "cost_text",
    "counted",
    "facts",
    "label_text",
    "listed",
    "open_console",
    "print_json",
    "shorten",
    "table",
    "usage_text",
]


_TITLE = 100  # characters


@dataclass(frozen=True)
class Output:
    """Results on stdout, for people or as one JSON document; everything else on stderr."""

    json: bool = False

    def give(self, data: Mapping[str, Any] | Sequence[Any], *parts: RenderableType) -> None:
        """Print the result of a command: `data` as JSON, or for people the `parts`, lines and tables."""
        if self.json:
            print_json(data)
            return
        console = open_console(stderr=False)
        for place, part in enumerate(parts):
            drawn = not isinstance(part, str)
            if place and (drawn or not isinstance(parts[place - 1], str)):
                console.print()
            console.print(_text(part) if isinstance(part, str) else part, soft_wrap=not drawn)

    def say(self, line: str) -> None:
        """A line on stderr."""
        open_console(stderr=True).print(_text(line), soft_wrap=True)

    @contextmanager
    def progress(
        self, *, size: bool = False, detail: Callable[[int, int], str] | None = None, transient: bool = False
    ) -> Iterator[Callable[[str, int, int], None]]:
        """A progress callback (phase, done, total): bars on a terminal, a line now and then elsewhere.

        With `size`, the numbers are bytes. A total of 0 is not known. `detail`, given done and total, has more to say. Bars that
        are `transient` disappear at the end.
        """
        from memalign.cli.progress import bars, lines

        console = open_console(stderr=True)
        if console.is_terminal:
            with bars(console, size=size, detail=detail, transient=transient) as update:
                yield update
        else:
            yield lines(self.say, size=size, detail=detail)


def print_json(data: Mapping[str, Any] | Sequence[Any]) -> None:
    """Print one JSON document on stdout."""
    import msgspec

    from memalign.types import as_json

    builtins = msgspec.to_builtins(as_json(data))
    text = json.dumps(builtins, ensure_ascii=False, indent=2)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        text = json.dumps(builtins, indent=2)  # what this stdout cannot spell, as escapes
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def open_console(*, stderr: bool) -> Console:
    """Stdout or stderr, for text that is nobody's markup."""
    from rich.console import Console

    console = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not console.is_terminal and console.width < 120:
        console.width = 120  # a file has no edge, but a line must stay readable
    return console


def _text(line: str) -> RenderableType:
    from rich.text import Text

    return Text(plain(line))


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    title: str | None = None,
    limit: int | None = None,
    rest: str = "--json has all",
) -> Table:
    """A table whose cells are plain text; long cells are folded.

    With `limit` the title says how many rows there are, and where the `rest` of them is.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    rows = list(rows)
    if limit is not None and len(rows) > limit:
        title = f"{title or ''} ({limit} of {len(rows):,}; {rest})".strip()
    made = Table(box=SIMPLE_HEAD, show_edge=False, title=title, title_justify="left", title_style="bold")
    made.min_width = min(len(title or ""), _TITLE)  # Rich folds a title that is wider than its table
    last = len(columns) - 1
    for place, column in enumerate(columns):
        made.add_column(column, overflow="fold", ratio=1 if place == last else None)
    for row in rows[:limit]:
        made.add_row(*(cell if isinstance(cell, Text) else Text(plain("" if cell is None else cell)) for cell in row))
    return made


def facts(rows: Iterable[tuple[object, object]]) -> Table:
    """Names and values below each other."""
    made = table(("", ""), rows)
    made.show_header = False
    return made


def shorten(text: str | None, limit: int = 160) -> str:
    """`text` on one line and not longer than `limit`."""
    line = " ".join((text or "").split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def listed(names: Sequence[object], limit: int = 30) -> str:
    """`a, b, c and 7 more`."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(map(str, names[:limit])) + more


def label_text(value: Value | None) -> str:
    """A label as files write it: `true`, `4`, `Refuted`."""
    from memalign.values import value_text  # it loads msgspec, which help can do without

    return value_text(value)


def counted(count: int, noun: str) -> str:
    """`1 version`, `2 versions`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def usage_text(usage: Usage, seconds: float | None = None) -> str:
    """`12 calls, 3,400 tokens in (1,200 cached), 210 out, 3.2 s, $0.0003`."""
    cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
    parts = [counted(usage.calls, "call"), f"{usage.input_tokens:,} tokens in{cached}", f"{usage.output_tokens:,} out"]
    if seconds is not None:
        parts.append(f"{seconds:.1f} s")
    parts.append("cost unknown" if usage.cost is None else cost_text(usage))
    return ", ".join(parts)


def cost_text(usage: Usage) -> str:
    """`$0.0003`, or `unknown`."""
    return "unknown" if usage.cost is None else f"${usage.cost:.2g}"
