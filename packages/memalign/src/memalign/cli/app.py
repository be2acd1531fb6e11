"""The commands by name, in the groups of the help; commands of other packages; what happens to every error."""

from __future__ import annotations

import warnings
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

import memalign
from memalign.cli import (
    aligning,
    check,
    demo,
    embedded,
    evaluate,
    explaining,
    forgetting,
    history,
    judges,
    judging,
    labelling,
    reviewing,
)
from memalign.cli.common import INTERRUPTED, WRONG, Interrupted, with_session
from memalign.cli.output import Output, print_json
from memalign.errors import ConfigurationError, InvalidRows, MemalignError, TemplateTagWarning

__all__ = ["app"]

_GROUPS: dict[str, dict[str, tuple[Any, str]]] = {
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
        "explain": (explaining.explain, "memalign explain tone judged.jsonl a-1 --examples answers.jsonl"),
        "evaluate": (evaluate.evaluate, "memalign evaluate tone held_out.jsonl --min-kappa 0.6 --report report.html"),
    },
    "Learning": {
        "next": (labelling.next_, "memalign next tone new.jsonl -n 5"),
        "review": (reviewing.review, "memalign review tone judged.jsonl --examples answers.jsonl -o review.xlsx"),
        "check": (check.check, "memalign check feedback.jsonl tone"),
        "align": (aligning.align, "memalign align tone feedback.jsonl"),
        "guideline": (aligning.guideline, "memalign guideline tone G2 --pin"),
        "lock": (aligning.lock, "memalign lock tone t-17"),
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
_VERBOSE = frozenset(  # commands that ask models, and may be told the raw answers that failed
    (
        *("judge", "evaluate"),
        *("align", "unalign", "erase"),
    )
)
_NAME_WIDTH, _SUMMARY_WIDTH = 15, 89  # of the overview: all groups line up
_NOT_INSTALLED = {
    "serve": ("page and HTTP API for experts (package memalign-server)", "memalign-server"),
}
"""Commands of this repository's other packages: what the help says, and the package to install."""


class Commands(TyperGroup):
    """All commands: their return value is the exit code, and their errors are one message.

    Other packages add commands by the entry point group `memalign.commands`; each entry is a Typer application: one command, or a group.
    """

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was named."""
        as_json = "--json" in [*getattr(ctx, "_protected_args", ()), *ctx.args]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TemplateTagWarning)  # `create` and `edit` say it, once
                code = super().invoke(ctx)
        except MemalignError as error:
            if as_json:
                print_json({"error": _described(error)})
            Output().say(f"error: {error}")
            raise typer.Exit(WRONG) from error
        except KeyboardInterrupt as error:
            said = str(error) if isinstance(error, Interrupted) else "interrupted"
            if as_json:
                print_json({"error": {"type": "Interrupted", "message": said}})
            Output().say(said)
            raise typer.Exit(INTERRUPTED) from error
        except Exception as error:
            # Wrong use: Typer says it to people, and has no word for programs.
            if as_json and callable(say := getattr(error, "format_message", None)):
                print_json({"error": {"type": "UsageError", "message": say()}})
            raise
        raise typer.Exit(code or 0)

    @cached_property
    def _plugins(self) -> dict[str, EntryPoint]:
        return {entry.name: entry for entry in entry_points(group="memalign.commands")}

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands, those of other packages last."""
        return [*super().list_commands(ctx), *sorted({*self._plugins, *_NOT_INSTALLED})]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of this name; a plugin is loaded here. One that cannot be loaded says so when it is run."""
        if found := super().get_command(ctx, cmd_name):
            return found
        if entry := self._plugins.get(cmd_name):
            try:
                command = get_command(entry.load())
            except ImportError as error:
                return _missing(
                    cmd_name, f"cannot be loaded: {error}", f"memalign {cmd_name} cannot be loaded: {error}"
                )
            command.name = cmd_name
            return command
        if cmd_name in _NOT_INSTALLED:
            summary, package = _NOT_INSTALLED[cmd_name]
            how = f"in a checkout of memalign, run pip install ./packages/{package}"
            return _missing(cmd_name, summary, f"memalign {cmd_name} needs the package {package}: {how}")
        return None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The overview: a line a command, in groups."""
        others = [name for name in self.list_commands(ctx) if name not in self.commands]
        for group, names in {
            **_GROUPS,
            "Models and server": ["models", *others],
        }.items():
            with formatter.section(group):
                summaries = {name: self.get_command(ctx, name).get_short_help_str(_SUMMARY_WIDTH) for name in names}
                formatter.write_dl([(name.ljust(_NAME_WIDTH), text) for name, text in summaries.items()])


def _missing(name: str, summary: str, why: str) -> TyperCommand:
    """A command that only says why it is not there, whatever it is given."""

    def refuse() -> None:
        raise ConfigurationError(why)

    settings = {"ignore_unknown_options": True, "allow_extra_args": True}
    return TyperCommand(
        name, callback=refuse, help=summary, add_help_option=False, context_settings=settings, rich_markup_mode=None
    )


def _described(error: MemalignError) -> dict[str, Any]:
    described: dict[str, Any] = {"type": type(error).__name__, "message": str(error)}
    if isinstance(error, InvalidRows):
        described["rows"] = [{"line": row.line, "id": row.id, "reason": row.reason} for row in error.rows]
    return described


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
    epilog="New here? `memalign demo` shows all of it in a few minutes. Exit codes: 0 done; 1 done, with failures that "
    "are named, or worse in a gate; 2 wrong use; 3 too few cases for a gate (evaluate with a criterion).",
)


@app.callback()
def memalign_(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """LLM judges that learn from experts' feedback, in words.

    Define a judge (create). Let it judge (judge). Write down what it got wrong (a file of feedback). Let it learn
    (align). Withdraw or erase what it should not have learned (unalign, erase).
    """


for _commands in _GROUPS.values():
    for _name, (_function, _example) in _commands.items():
        app.command(_name, epilog=f"Example: {_example}")(with_session(_function, asks_models=_name in _VERBOSE))
app.add_typer(embedded.app, name="models")
