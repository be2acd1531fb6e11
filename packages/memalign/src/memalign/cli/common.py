"""What all commands share: options, exit codes, the registry, files and questions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalign.errors import InputError, InvalidRows, JudgeNotFound, RowError

if TYPE_CHECKING:
    from memalign.judge import Judge
    from memalign.registry import Registry

__all__ = [
    "COMMON",
    "DEFAULT_REGISTRY",
    "DONE",
    "FAILURES",
    "INTERRUPTED",
    "WRONG",
    "Concurrency",
    "EmbeddingModel",
    "Interrupted",
    "JsonOutput",
    "Name",
    "RegistryUrl",
    "RetrievalK",
    "UnusedRegistryUrl",
    "Version",
    "confirmed",
    "interruptible",
    "latest_of",
    "loaded",
    "open_registry",
    "read_input",
]

DONE, FAILURES, WRONG, INTERRUPTED = 0, 1, 2, 130
"""Exit codes: done; done, with failures that are named; wrong use or bad input; Ctrl-C."""

DEFAULT_REGISTRY = "sqlite:///memalign.db"
COMMON = "Every command"

_registry_help = "Where judges are kept; the default is a file in the working directory."
RegistryUrl = Annotated[
    str,
    typer.Option("--registry", metavar="URL", envvar="MEMALIGN_REGISTRY", help=_registry_help, rich_help_panel=COMMON),
]
UnusedRegistryUrl = Annotated[str, typer.Option("--registry", envvar="MEMALIGN_REGISTRY", hidden=True)]
JsonOutput = Annotated[
    bool, typer.Option("--json", metavar="", help="JSON on stdout; all else on stderr.", rich_help_panel=COMMON)
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The judge's name.", show_default=False)]
Version = Annotated[
    int | None,
    typer.Option("--version", metavar="N", min=1, help="A version of the judge instead of the newest."),
]
RetrievalK = Annotated[
    int | None,
    typer.Option(
        "-k", "--retrieval-k", metavar="N", min=0, help="How many past cases a judgment is shown; kept with the judge."
    ),
]
EmbeddingModel = Annotated[
    str | None,
    typer.Option(
        "--embedding-model",
        metavar="M",
        help="Finds similar cases; the default runs in this process. Kept with the judge.",
    ),
]
Concurrency = Annotated[
    int | None,
    typer.Option("--concurrency", metavar="N", min=1, help="Calls in flight; the default is the model's own."),
]


# -- the registry, files, questions -------------------------------------------------------------------------------------------


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
    from memalign.io.rows import json_rows

    read = list(json_rows(enumerate(sys.stdin.buffer, 1)))
    bad = [row for row in read if isinstance(row, RowError)]
    rows = [dict(row.fields) for row in read if not isinstance(row, RowError)]
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
    try:
        return typer.confirm(question, default=False, err=True)
    except typer.Abort:  # Ctrl-C, or the end of the input
        raise Interrupted("interrupted; nothing was done") from None


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, with what it left behind."""


@contextmanager
def interruptible(left: Callable[[], str]) -> Iterator[None]:
    """Ctrl-C inside says what it `left` behind."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; {left()}") from None


def latest_of(registry: Registry, name: str) -> int:
    """The newest version of a judge."""
    return registry.history(name)[-1].number


def loaded(registry: Registry, name: str, version: int | None) -> tuple[int, Judge]:
    """A version, or the newest: its number and the judge. A later version of somebody else's changes neither."""
    number = version or latest_of(registry, name)
    return number, registry.load(name, number)
