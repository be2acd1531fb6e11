"""The commands by name, in the groups of the help; and what happens to every error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

import memalign
from memalign.cli import (
    align,
    demo,
    embedded_models,
    evaluate,
    explanation,
    forgetting,
    guidelines,
    history,
    judges,
    judging,
    review_sheet,
)
from memalign.cli.model_options import ModelCommand
from memalign.cli.output import print_json, say
from memalign.cli.session import INTERRUPTED, WRONG, Command, help_record
from memalign.errors import ConfigurationError, InvalidRows, MemalignError

__all__ = ["app"]

_GROUPS: dict[str, dict[str, tuple[Callable[..., int], str]]] = {
    "Start here": {"demo": (demo.demo, "memalign demo")},
    "Judges": {
        "create": (judges.create, judges.CREATE_EXAMPLE),
        "list": (judges.list_, "memalign list"),
        "show": (judges.show, "memalign show tone --ledger"),
        "edit": (judges.edit, "memalign edit tone --authority ana,ben"),
        "delete": (judges.delete, "memalign delete tone"),
    },
    "Judging": {
        "judge": (judging.judge, "memalign judge tone answers.jsonl -o judged.jsonl"),
        "explain": (
            explanation.explain,
            "memalign explain tone judged.jsonl a-1 --examples answers.jsonl",
        ),
        "evaluate": (
            evaluate.evaluate,
            "memalign evaluate tone held_out.jsonl --min-kappa 0.6 --report report.html",
        ),
    },
    "Learning": {
        "next": (review_sheet.next_, "memalign next tone new.jsonl -n 5"),
        "review": (
            review_sheet.review,
            "memalign review tone judged.jsonl --examples answers.jsonl -o review.xlsx",
        ),
        "check": (review_sheet.check, "memalign check feedback.jsonl tone"),
        "align": (align.align, "memalign align tone feedback.jsonl"),
        "guideline": (guidelines.guideline, "memalign guideline tone G2 --pin"),
        "lock": (guidelines.lock, "memalign lock tone t-17"),
    },
    "Forgetting": {
        "unalign": (forgetting.unalign, "memalign unalign tone t-17@ana"),
        "erase": (forgetting.erase, "memalign erase tone t-17 --dry-run"),
    },
    "Versions": {
        "history": (history.history, "memalign history tone"),
        "diff": (history.diff, "memalign diff tone 1 2"),
        "rollback": (history.rollback, "memalign rollback tone 1"),
        "export": (history.export, "memalign export tone -o tone.json"),
        "import": (history.import_, "memalign import tone.json --name tone-copy"),
    },
}
_NAME_WIDTH = 15
_SUMMARY_WIDTH = 89
"""Characters of the overview's two columns, so that all groups line up."""
_EXIT_CODES = [
    ("0", "The command is done. A gate (`memalign evaluate` with a criterion) passed."),
    (
        "1",
        "The command is done, but something failed and is listed. A gate: the judge is worse.",
    ),
    ("2", "The command could not run; the message says why."),
    ("3", "A gate: there are too few cases to tell."),
    ("130", "The command was interrupted with Ctrl-C."),
]
_SHARED = ("--json", "--registry")
# The command is in a package that takes long to load.
_SERVE = "Serve the experts' review pages and an HTTP API."


class Commands(TyperGroup):
    """All commands: their return value is the exit code, and an error of theirs is one message."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the options of every command before its name too, as in `memalign --json list`."""
        rest: list[str] = super().parse_args(ctx, self._shared_last(args))
        return rest

    def _shared_last(self, args: Sequence[str]) -> list[str]:
        """Move `--json` and `--registry URL` from the front to behind the command's name."""
        rest = list(args)
        shared: list[str] = []
        while rest and rest[0].partition("=")[0] in _SHARED:
            count = 2 if rest[0] == "--registry" else 1
            shared += rest[:count]
            del rest[:count]
        command = self.commands.get(rest[0]) if rest else None
        words = 2 if isinstance(command, TyperGroup) and rest[1:] else 1
        return [*rest[:words], *shared, *rest[words:]] if rest else []

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was named."""
        as_json = "--json" in [*getattr(ctx, "_protected_args", ()), *ctx.args]
        try:
            code = super().invoke(ctx)
        except BrokenPipeError:
            raise
        except (MemalignError, OSError) as error:
            if as_json:
                with suppress(OSError):  # of a disk that is full, which stderr says
                    print_json({"error": _described(error)})
            say(f"error: {error}")
            raise typer.Exit(WRONG) from error
        except KeyboardInterrupt as error:
            message = str(error) or "interrupted"
            if as_json:
                print_json({"error": {"type": "Interrupted", "message": message}})
            say(message)
            raise typer.Exit(INTERRUPTED) from error
        except Exception as error:
            # Wrong use: Typer tells people, and has no word for programs.
            if as_json and callable(
                usage_message := getattr(error, "format_message", None)
            ):
                print_json(
                    {"error": {"type": "UsageError", "message": usage_message()}}
                )
            raise
        raise typer.Exit(code or 0)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, the server's last."""
        return [*super().list_commands(ctx), "serve"]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of this name; the server's is loaded here."""
        if cmd_name != "serve":
            return super().get_command(ctx, cmd_name)
        try:
            command = get_command(import_module("memalign_server.command").app)
        except ImportError as error:
            if ctx is None or ctx.resilient_parsing:
                # The shell completes another command.
                return None
            raise ConfigurationError(
                f"memalign serve needs the package memalign-server ({error}); to install it from a "
                "checkout of memalign: pip install ./packages/memalign-server"
            ) from None
        command.name = "serve"
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the overview: the commands in groups, the options that all take, the exit codes."""
        for group, names in {
            **_GROUPS,
            "Models and server": ["models", "serve"],
        }.items():
            with formatter.section(group):
                lines = [
                    (name.ljust(_NAME_WIDTH), self._summary(ctx, name))
                    for name in names
                ]
                formatter.write_dl(lines)
        with formatter.section("Options for every command"):
            formatter.write_dl([help_record(option) for option in Command.shared])
        with formatter.section("Exit codes"):
            formatter.write_dl(_EXIT_CODES)

    def _summary(self, ctx: Any, name: str) -> str:
        if name == "serve":
            return _SERVE
        return str(self.get_command(ctx, name).get_short_help_str(_SUMMARY_WIDTH))


def _described(error: MemalignError | OSError) -> dict[str, Any]:
    data: dict[str, Any] = {"type": type(error).__name__, "message": str(error)}
    if isinstance(error, InvalidRows):
        rows = []
        for row in error.rows:
            rows.append({"line": row.line, "id": row.id, "reason": row.reason})
        data["rows"] = rows
    return data


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"memalign {memalign.__version__}")
        raise typer.Exit


app = typer.Typer(
    name="memalign",
    cls=Commands,
    no_args_is_help=True,
    # Typer's coloured help costs 0.2 s at every start.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="To see it all in a few minutes, run `memalign demo`. For the options of a command and "
    "an example, run `memalign COMMAND --help`.",
)


@app.callback()
def memalign_(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_show_version,
            is_eager=True,
            help="Show the version and exit.",
        ),
    ] = False,
) -> None:
    """LLM judges that learn from experts' feedback, in words.

    Create a judge and let it judge. Write down in a file what it got wrong, and align the judge
    with that feedback. Unalign or erase what it should not have learned.
    """


for _commands in _GROUPS.values():
    for _name, (_function, _example) in _commands.items():
        _class = ModelCommand if _function in (judges.create, judges.edit) else Command
        app.command(_name, cls=_class, epilog=f"Example: {_example}")(_function)
app.add_typer(embedded_models.app, name="models")
