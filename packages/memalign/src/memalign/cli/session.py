"""One run of a command: the options that all take, exit codes, the registry, questions, Ctrl-C."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand
from typer.main import get_command

from memalign.cli.output import print_json, show
from memalign.errors import InputError, MemalignError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from memalign.align import AlignResult
    from memalign.judge import Judge
    from memalign.registry import Registry, Saved

DONE = 0
FAILURES = 1  # done, with failures that are named
WRONG = 2  # wrong use or bad input
TOO_FEW = 3  # too few cases for a gate
INTERRUPTED = 130  # Ctrl-C

_REGISTRY = "sqlite:///memalign.db"
_ADVICE = re.compile(r"(memalign [a-z]+ )NAME\b")


def params_of(declaration: Callable[..., Any]) -> list[Any]:
    """Return the options that Typer makes of a function's parameters or a dataclass's fields."""
    declared = typer.Typer(add_completion=False)
    declared.command()(declaration)
    return get_command(declared).params


def _shared(
    *,
    registry: Annotated[
        str,
        typer.Option(
            metavar="URL",
            envvar="MEMALIGN_REGISTRY",
            help="The registry that holds the judges: a file, or a URL of SQLite or PostgreSQL. "
            "The default is $MEMALIGN_REGISTRY, or sqlite:///memalign.db.",
        ),
    ] = _REGISTRY,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print the result as JSON on stdout. Everything else goes to stderr.",
        ),
    ] = False,
) -> None:
    """Declare the options that every command takes; nobody calls this."""


class Session(typer.Context):
    """The context of one run of a command."""

    url: str = _REGISTRY
    json: bool = False
    models: Any = (
        None  # the options of the judge's models, in the commands that take them
    )
    after_interrupt: str = ""  # what Ctrl-C leaves behind, and what to do then

    def give(
        self, data: Mapping[str, Any] | Sequence[Any], *parts: RenderableType
    ) -> None:
        """Print the result of the command.

        Args:
            data: What `--json` prints.
            parts: Lines and tables for people.
        """
        if self.json:
            print_json(data)
        else:
            show(*parts)

    def registry(self, *, create: bool = False) -> Registry:
        """Open the registry.

        Args:
            create: Make a new one; else a mistyped path leaves no empty file behind.
        """
        from memalign.registry import Registry

        return Registry(self.url, create=create)

    def judge(self, name: str, version: int | None = None) -> tuple[int, Judge]:
        """Load a version of a judge, or the latest: its number and the judge."""
        registry = self.registry()
        number = registry.history(name)[-1].number if version is None else version
        return number, registry.load(name, number)


class Command(TyperCommand):
    """A command with the options that every command takes; its help shows its own."""

    context_class = Session
    shared: Sequence[Any] = params_of(_shared)

    def __init__(self, *args: Any, params: Sequence[Any] = (), **kwargs: Any) -> None:
        super().__init__(*args, params=[*params, *self.shared], **kwargs)

    def invoke(self, ctx: Any) -> Any:
        """Run the command with a session that knows the shared options."""
        ctx.url = ctx.params.pop("registry")
        ctx.json = ctx.params.pop("json")
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            left = f"interrupted; {ctx.after_interrupt}".rstrip("; ")
            raise KeyboardInterrupt(str(error) or left) from None
        except MemalignError as error:
            name = ctx.params.get("name")
            if name:
                # The library need not know the name: with it, its advice can be copied.
                advice = _ADVICE.sub(lambda found: f"{found[1]}{name}", str(error))
                error.args = (advice, *error.args[1:])
            raise

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the usage, without braces around what must be there."""
        return [
            re.sub("[{}]", "", piece) for piece in super().collect_usage_pieces(ctx)
        ]

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the example, on a line that can be copied, and where the shared options are."""
        formatter.write(f"\n{self.epilog}\n\n")
        formatter.write(
            "Every command also takes --registry and --json, which `memalign --help` explains.\n"
        )

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments and options in their panels, without those that every command takes."""
        own: list[Any] = [param for param in self.params if param not in self.shared]
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in own:
            title = (
                "Arguments"
                if param.param_type_name == "argument"
                else param.rich_help_panel or "Options"
            )
            sections.setdefault(title, []).append(help_record(param))
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


def help_record(param: Any) -> tuple[str, str]:
    """How a parameter is written, and its help."""
    if param.param_type_name == "argument":
        return param.metavar, param.help
    names = ", ".join(sorted(param.opts, key=len))
    names += "".join(f" / {name}" for name in param.secondary_opts)
    needed = " [required]" if param.required else ""
    return (
        names if param.is_flag else f"{names} {param.metavar}",
        f"{param.help}{needed}",
    )


def confirmed(question: str, *, yes: bool) -> bool:
    """Ask the person whether to go ahead.

    Args:
        question: What is asked.
        yes: The answer, if it was given in advance.

    Raises:
        InputError: There is no terminal on which to ask.
    """
    if yes:
        return True
    if not _on_terminal():
        raise InputError(
            f"{question} This is not a terminal, so nobody can answer. To go ahead, add --yes"
        )
    try:
        return typer.confirm(question, default=False, err=True)
    except typer.Abort:  # Ctrl-C, or the end of the input
        raise KeyboardInterrupt("interrupted; nothing was changed") from None


def _on_terminal() -> bool:
    return sys.stdin.isatty()


def version_line(name: str, saved: Saved | AlignResult) -> str:
    """Say whether a command made a new version."""
    if saved.version == saved.parent:
        return f"nothing changed; {name} is still version {saved.version}"
    return f"{name} is now version {saved.version}"
