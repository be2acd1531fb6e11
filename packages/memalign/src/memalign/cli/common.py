"""What all commands share: options, exit codes, the registry, input files and questions."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec

import typer

from memalign.cli.output import Output
from memalign.cli.verbose import Verbose, showing_raw_answers
from memalign.errors import InputError, MemalignError

if TYPE_CHECKING:
    from memalign.align import AlignResult
    from memalign.judge import Judge
    from memalign.registry import Registry, Saved

__all__ = [
    "DEFAULT_REGISTRY",
    "DONE",
    "FAILURES",
    "INTERRUPTED",
    "TOO_FEW",
    "WRONG",
    "Concurrency",
    "EmbeddingModel",
    "Examples",
    "Interrupted",
    "JsonOutput",
    "MaxCost",
    "Name",
    "RetrievalK",
    "Session",
    "UnusedRegistryUrl",
    "Version",
    "Yes",
    "confirmed",
    "interruptible",
    "latest_of",
    "version_line",
    "with_session",
]

DONE, FAILURES, WRONG, TOO_FEW, INTERRUPTED = 0, 1, 2, 3, 130
"""Exit codes: done; done, with failures that are named; wrong use or bad input; too few cases for a gate; Ctrl-C."""

DEFAULT_REGISTRY = "sqlite:///memalign.db"

RegistryUrl = Annotated[
    str, typer.Option("--registry", metavar="URL", envvar="MEMALIGN_REGISTRY", help="Where judges are kept.")
]
UnusedRegistryUrl = Annotated[str, typer.Option("--registry", envvar="MEMALIGN_REGISTRY", hidden=True)]
JsonOutput = Annotated[bool, typer.Option("--json", help="Print JSON on stdout, and all else on stderr.")]


def _names(ctx: typer.Context, incomplete: str) -> list[str]:
    """The judges' names, for the shell's completion; none where there is no registry to read."""
    session = Session(url=ctx.params.get("registry") or os.environ.get("MEMALIGN_REGISTRY") or DEFAULT_REGISTRY)
    try:
        return [info.name for info in session.registry().list() if info.name.startswith(incomplete)]
    except MemalignError:
        return []


Name = Annotated[str, typer.Argument(metavar="NAME", help="The judge's name.", autocompletion=_names)]
Examples = Annotated[str, typer.Argument(metavar="EXAMPLES", help="JSONL, CSV, JSON or Parquet; - reads JSON lines.")]
Version = Annotated[int | None, typer.Option("--version", metavar="N", min=1, help="The default is the latest.")]
RetrievalK = Annotated[
    int | None,
    typer.Option("-k", "--retrieval-k", metavar="N", min=0, help="Past cases per judgment. Kept with the judge."),
]
EmbeddingModel = Annotated[
    str | None,
    typer.Option(
        "--embedding-model",
        metavar="M",
        help="Finds similar cases. The default runs in this process. Kept with the judge.",
    ),
]
Concurrency = Annotated[int | None, typer.Option("--concurrency", metavar="N", min=1, help="Model calls at a time.")]
MaxCost = Annotated[
    float | None,
    typer.Option("--max-cost", metavar="DOLLARS", help="Stop before the run costs more. Finished judgments are kept."),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

P = ParamSpec("P")


@dataclass(frozen=True)
class Session(Output):
    """One run of a command: where its results go, and the registry that it was given."""

    url: str = DEFAULT_REGISTRY

    def registry(self, *, create: bool = False) -> Registry:
        """The registry; only with `create` is a file made where there is none.

        Raises JudgeNotFound when there is none: a mistyped path must not leave an empty registry behind.
        """
        from memalign.registry import Registry

        return Registry(self.url, create=create)

    def judge(self, name: str, version: int | None = None) -> tuple[int, Judge]:
        """A version, or the latest: its number and the judge."""
        registry = self.registry()
        number = latest_of(registry, name) if version is None else version
        return number, registry.load(name, number)


def with_session(function: Callable[Concatenate[Session, P], int], *, asks_models: bool = False) -> Callable[..., int]:
    """`function` as a command: its first parameter becomes --registry and --json, which every command takes.

    One that `asks_models` takes --verbose too.
    """

    def run(*, registry: str, json_output: bool, verbose: bool = False, **given: Any) -> int:
        with showing_raw_answers(verbose):
            return function(Session(json=json_output, url=registry), **given)  # type: ignore[call-arg]  # Typer calls by name

    own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    common = [
        inspect.Parameter("registry", inspect.Parameter.KEYWORD_ONLY, default=DEFAULT_REGISTRY, annotation=RegistryUrl),
        inspect.Parameter("json_output", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=JsonOutput),
    ]
    if asks_models:
        common.append(inspect.Parameter("verbose", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Verbose))
    run.__signature__ = inspect.Signature([*own, *common])  # type: ignore[attr-defined]  # what Typer reads
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in [*own, *common]}
    run.__doc__ = function.__doc__
    return run


def confirmed(question: str, *, yes: bool) -> bool:
    """Whether the person agrees; `yes` is their answer in advance. Raises InputError where nobody can be asked."""
    if yes:
        return True
    if not _on_terminal():
        raise InputError(f"{question} There is no terminal to ask on: give --yes to go ahead")
    try:
        return typer.confirm(question, default=False, err=True)
    except typer.Abort:  # Ctrl-C, or the end of the input
        raise Interrupted("interrupted; nothing was done") from None


def _on_terminal() -> bool:
    return sys.stdin.isatty()


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, with what it left behind."""


@contextmanager
def interruptible(left: Callable[[], str]) -> Iterator[None]:
    """Ctrl-C inside says what it `left` behind."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; {left()}") from None


def version_line(name: str, saved: Saved | AlignResult) -> str:
    """Whether a command made a new version."""
    if saved.version == saved.parent:
        return f"nothing changed: {name} is still version {saved.version}"
    return f"{name} is version {saved.version} now"


def latest_of(registry: Registry, name: str) -> int:
    """The latest version of a judge."""
    return registry.history(name)[-1].number
