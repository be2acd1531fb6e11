"""What commands print: results for people or for programs on stdout, everything else on stderr."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memalign.cli.guideline_words import precedence_words
from memalign.terminal import plain

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

    from memalign.memory import Memory
    from memalign.types import Guideline, Usage

__all__ = ["Output", "facts", "guideline_rows", "print_json", "shorten", "table", "usage_text"]


@dataclass(frozen=True)
class Output:
    """Results on stdout, for people or as one JSON document; everything else on stderr."""

    json: bool = False

    def give(self, data: Mapping[str, Any], *shown: RenderableType) -> None:
        """Print the result of a command: `data` as JSON, or what is `shown` to people."""
        if self.json:
            print_json(data)
            return
        console = _console(stderr=False)
        for place, part in enumerate(shown):
            drawn = not isinstance(part, str)
            if drawn and place:
                console.print()
            console.print(_text(part) if isinstance(part, str) else part, soft_wrap=not drawn)
            if drawn and place < len(shown) - 1 and isinstance(shown[place + 1], str):
                console.print()

    def say(self, line: str) -> None:
        """A line on stderr."""
        _console(stderr=True).print(_text(line), soft_wrap=True)

    @contextmanager
    def progress(
        self, *, size: bool = False, detail: Callable[[int, int], str] | None = None
    ) -> Iterator[Callable[[str, int, int], None]]:
        """A progress callback (phase, done, total): bars on a terminal, a line now and then elsewhere.

        With `size`, the numbers are bytes. A total of 0 is not known. `detail`, given done and total, has more to say.
        """
        console = _console(stderr=True)
        if not console.is_terminal:
            yield _line_by_line(console, size=size, detail=detail)
            return
        from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        counter = DownloadColumn() if size else MofNCompleteColumn()
        columns = (TextColumn("{task.description}"), BarColumn(), counter, TimeElapsedColumn())
        more = TextColumn("{task.fields[detail]}")
        with Progress(*columns, more, console=console) as bars:
            tasks: dict[str, Any] = {}
            shown = 0.0

            def show(phase: str, done: int, total: int) -> None:
                nonlocal shown
                now = time.monotonic()
                if phase in tasks and done < total and now - shown < _FRAME:
                    return  # a hundred thousand items need no bar drawn for each
                shown = now
                if phase not in tasks:
                    for task in bars.tasks:
                        # A phase that only told of its start is over now; an empty bar would say it failed.
                        bars.update(task.id, visible=task.completed > 0)
                    tasks[phase] = bars.add_task(phase, total=total or None, detail="")
                said = detail(done, total) if detail is not None else ""
                bars.update(tasks[phase], completed=done, total=total or None, detail=said)

            yield show


_FRAME = 0.1  # seconds
_MINUTE = 60.0


def _line_by_line(
    console: Console, *, size: bool, detail: Callable[[int, int], str] | None
) -> Callable[[str, int, int], None]:
    shown: dict[str, tuple[int, float]] = {}

    def show(phase: str, done: int, total: int) -> None:
        tenth = 10 * done // total if total else 0
        last, at = shown.get(phase, (-1, 0.0))
        # In a log: the start, the end, every tenth between, if it is long enough to wonder, and a line a minute.
        if (last == tenth or (0 < total < 20 and 0 < tenth < 10)) and time.monotonic() - at < _MINUTE:
            return
        shown[phase] = (tenth, time.monotonic())
        amount = f"{done} of {total}" if total else f"{done}"
        if size:
            amount = f"{done / 1e6:,.0f} of {total / 1e6:,.0f} MB"
        more = f", {said}" if detail is not None and (said := detail(done, total)) else ""
        console.print(_text(f"{phase}: {amount}{more}"), soft_wrap=True)

    return show


def print_json(data: Mapping[str, Any]) -> None:
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


def _console(*, stderr: bool) -> Console:
    from rich.console import Console

    console = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not console.is_terminal and console.width < 120:
        console.width = 120  # a file has no edge, but a line must stay readable
    return console


def _text(line: str) -> RenderableType:
    from rich.text import Text

    return Text(plain(line))


def shorten(text: str | None, limit: int = 160) -> str:
    """`text` on one line and not longer than `limit`."""
    line = " ".join((text or "").split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> Table:
    """A table whose cells are plain text; nothing is cut off, long cells are folded."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    made = Table(box=SIMPLE_HEAD, show_edge=False, title=title, title_justify="left", title_style="bold")
    last = len(columns) - 1
    for place, column in enumerate(columns):
        made.add_column(column, overflow="fold", ratio=1 if place == last else None)
    for row in rows:
        made.add_row(*(Text(plain("" if cell is None else cell)) for cell in row))
    return made


def facts(rows: Iterable[tuple[object, object]]) -> Table:
    """Names and values below each other."""
    made = table(("", ""), rows)
    made.show_header = False
    return made


def guideline_rows(guidelines: Iterable[Guideline], memory: Memory | None = None) -> list[tuple[object, ...]]:
    """Id, where it stands, text and origin of guidelines, for a table; of `memory`, where they are still in one."""
    rows: list[tuple[object, ...]] = []
    for guideline in guidelines:
        origin = "" if guideline.origin == "distilled" else f"by {guideline.origin}"
        sources = ", ".join(map(str, guideline.supported_by))
        precedence = precedence_words(guideline, memory)
        rows.append((guideline.id, precedence, guideline.text, "; ".join(filter(None, (origin, sources)))))
    return rows


def usage_text(usage: Usage, seconds: float | None = None) -> str:
    """`12 calls, 3,400 tokens in (1,200 cached), 210 out, 3.2 s, $0.0003`."""
    cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
    parts = [
        f"{usage.calls} call{'' if usage.calls == 1 else 's'}",
        f"{usage.input_tokens:,} tokens in{cached}",
        f"{usage.output_tokens:,} out",
    ]
    if seconds is not None:
        parts.append(f"{seconds:.1f} s")
    parts.append("cost unknown" if usage.cost is None else f"${usage.cost:.2g}")
    return ", ".join(parts)
