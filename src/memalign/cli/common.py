"""What all commands share: options, exit codes, output for people and for programs, the registry."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalign.errors import InputError, InvalidRows, JudgeNotFound, RowError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

    from memalign.judge import Judge
    from memalign.records import Guideline, Usage
    from memalign.registry import Registry

__all__ = [
    "FAILURES",
    "INTERRUPTED",
    "WRONG",
    "Concurrency",
    "EmbeddingModel",
    "JsonOutput",
    "Name",
    "Output",
    "RegistryUrl",
    "RetrievalK",
    "UnusedRegistryUrl",
    "Version",
    "confirmed",
    "interruptible",
    "open_registry",
    "plain",
    "read_input",
    "shorten",
    "table",
    "usage_text",
]

DONE, FAILURES, WRONG, INTERRUPTED = 0, 1, 2, 130
"""Exit codes: done; done, with failures that are named; wrong use or bad input; Ctrl-C."""

DEFAULT_REGISTRY = "sqlite:///memalign.db"
_COMMON = "Every command"

_registry_help = "Where judges are kept; the default is a file in the working directory."
RegistryUrl = Annotated[
    str,
    typer.Option("--registry", metavar="URL", envvar="MEMALIGN_REGISTRY", help=_registry_help, rich_help_panel=_COMMON),
]
UnusedRegistryUrl = Annotated[str, typer.Option("--registry", envvar="MEMALIGN_REGISTRY", hidden=True)]
JsonOutput = Annotated[
    bool, typer.Option("--json", metavar="", help="JSON on stdout; all else on stderr.", rich_help_panel=_COMMON)
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The judge's name.", show_default=False)]
Version = Annotated[
    int | None,
    typer.Option("--version", metavar="N", min=1, help="A version of the judge instead of the newest."),
]
RetrievalK = Annotated[
    int | None,
    typer.Option("-k", "--retrieval-k", metavar="N", min=0, help="How many past cases a judgment is shown."),
]
EmbeddingModel = Annotated[
    str | None,
    typer.Option("--embedding-model", metavar="M", help="Finds similar cases; the default runs in this process."),
]
Concurrency = Annotated[
    int | None,
    typer.Option("--concurrency", metavar="N", min=1, help="Calls in flight; the default is the model's own."),
]


# -- what a command prints ------------------------------------------------------------------------------------------


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
        for part in shown:
            console.print(_text(part) if isinstance(part, str) else part)

    def say(self, line: str) -> None:
        """A line on stderr."""
        _console(stderr=True).print(_text(line))

    @contextmanager
    def progress(self, *, size: bool = False) -> Iterator[Callable[[str, int, int], None]]:
        """A progress callback (phase, done, total): bars on a terminal, a line now and then elsewhere.

        With `size`, the numbers are bytes.
        """
        console = _console(stderr=True)
        if not console.is_terminal:
            yield _line_by_line(console, size=size)
            return
        from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        counter = DownloadColumn() if size else MofNCompleteColumn()
        columns = (TextColumn("{task.description}"), BarColumn(), counter, TimeElapsedColumn())
        with Progress(*columns, console=console) as bars:
            tasks: dict[str, Any] = {}

            def show(phase: str, done: int, total: int) -> None:
                if phase not in tasks:
                    tasks[phase] = bars.add_task(phase, total=total)
                bars.update(tasks[phase], completed=done, total=total)

            yield show


def _line_by_line(console: Console, *, size: bool) -> Callable[[str, int, int], None]:
    shown: dict[str, int] = {}

    def show(phase: str, done: int, total: int) -> None:
        tenth = 10 * done // total if total else 10
        # In a log: the start, the end, and every tenth between, if it is long enough to wonder.
        if shown.get(phase) == tenth or (total < 20 and 0 < tenth < 10):
            return
        shown[phase] = tenth
        amount = f"{done / 1e6:,.0f} of {total / 1e6:,.0f} MB" if size else f"{done} of {total}"
        console.print(_text(f"{phase}: {amount}"))

    return show


def print_json(data: Mapping[str, Any]) -> None:
    """Print one JSON document on stdout."""
    import msgspec

    builtins = msgspec.to_builtins(data)
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


def plain(text: object) -> str:
    """`text` without characters that a terminal would obey: judged outputs and models' words are anybody's words."""
    return "".join(
        character if character.isprintable() or character in "\n\t" else "\N{REPLACEMENT CHARACTER}"
        for character in str(text).replace("\r\n", "\n")
    )


def shorten(text: str | None, limit: int = 160) -> str:
    """`text` on one line and not longer than `limit`."""
    line = " ".join((text or "").split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> Table:
    """A table whose cells are plain text; nothing is cut off, long cells are folded."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    made = Table(box=SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left", title_style="bold")
    last = len(columns) - 1
    for place, column in enumerate(columns):
        made.add_column(column, overflow="fold", ratio=1 if place == last else None)
    for row in rows:
        made.add_row(*(Text(plain("" if cell is None else cell)) for cell in row))
    return made


def guideline_rows(guidelines: Iterable[Guideline]) -> list[tuple[object, ...]]:
    """Id, text and origin of guidelines, with what is unusual about them, for a table."""
    rows: list[tuple[object, ...]] = []
    for guideline in guidelines:
        marks = [
            *([guideline.status] if guideline.status != "active" else []),
            *(["pinned"] if guideline.pinned else []),
        ]
        origin = "" if guideline.origin == "distilled" else f"by {guideline.origin}"
        sources = ", ".join(guideline.supported_by)
        rows.append((guideline.id, ", ".join(marks), guideline.text, "; ".join(filter(None, (origin, sources)))))
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


# -- what a command reads -------------------------------------------------------------------------------------------


def open_registry(url: str, *, create: bool = False) -> Registry:
    """The registry at `url`; only with `create` is a file made where there is none.

    Raises JudgeNotFound when there is none: a mistyped path must not leave an empty registry behind.
    """
    from memalign.registry import Registry

    path = url.removeprefix("sqlite:///")
    if not create and path != url and not path.startswith("file:") and path not in ("", ":memory:"):
        file = Path(path.partition("?")[0])
        if not file.exists():
            raise JudgeNotFound(
                f"there is no registry at {file}: `memalign create` makes one; --registry or MEMALIGN_REGISTRY name another"
            )
    return Registry(url)


def read_input(file: str) -> str | list[dict[str, Any]]:
    """`file` itself, or for `-` the JSON lines of stdin. Raises InvalidRows for a line that is no JSON object."""
    if file != "-":
        return file
    import msgspec

    rows: list[dict[str, Any]] = []
    bad: list[RowError] = []
    for number, line in enumerate(sys.stdin.buffer, 1):
        if line.strip():
            try:
                rows.append(msgspec.json.decode(line, type=dict[str, Any]))
            except msgspec.DecodeError as error:
                bad.append(RowError(line=number, reason=f"broken JSON: {error}"))
    if bad:
        raise InvalidRows("stdin", bad)
    if not rows:
        raise InputError("stdin is empty: it has no row")
    return rows


def confirmed(question: str, *, yes: bool) -> bool:
    """Whether the person agrees; `yes` is their answer in advance. Raises InputError where nobody can be asked."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise InputError(f"{question} Nobody is there to answer: give --yes to go ahead")
    return typer.confirm(question, default=False, err=True)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, with what it left behind."""


@contextmanager
def interruptible(left: Callable[[], str]) -> Iterator[None]:
    """Ctrl-C inside says what it `left` behind."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; {left()}") from None


def head_of(registry: Registry, judge: Judge | str) -> int:
    """The newest version of a judge."""
    name = judge if isinstance(judge, str) else judge.name
    return registry.history(name)[-1].number
