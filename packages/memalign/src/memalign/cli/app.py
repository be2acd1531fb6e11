"""The commands by name, in the groups of the help, and what happens to every error."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import memalign
from memalign.cli import (
    checking,
    demo,
    explaining,
    forgetting,
    judges,
    judging,
    learning,
    models,
    scorecard,
    versions,
)
from memalign.cli.common import (
    INTERRUPTED,
    WRONG,
    Interrupted,
)
from memalign.cli.output import Output, print_json
from memalign.errors import InvalidRows, MemalignError

__all__ = ["app"]


class Commands(TyperGroup):
    """All commands: their return value is the exit code, and their errors are one message."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was named."""
        as_json = "--json" in [*getattr(ctx, "_protected_args", ()), *ctx.args]
        try:
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
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="New here? `memalign demo` shows all of it in a few minutes. Exit codes: 0 done, 1 done with failures that "
    "are named, 2 wrong use.",
)


@app.callback()
def memalign_(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", metavar="", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """LLM judges that learn from experts' feedback, in words.

    Define a judge (create), let it judge (judge), write down what it got wrong (a file of feedback), let it learn (align), and withdraw or erase what it should not have learned (unalign, erase).
    """


_GROUPS: tuple[tuple[str, tuple[tuple[Any, str, str], ...]], ...] = (
    ("Start here", ((demo.demo, "demo", "memalign demo"),)),
    (
        "Judges",
        (
            (judges.create, "create", judges.CREATE_EXAMPLE),
            (judges.list_, "list", "memalign list"),
            (judges.show, "show", "memalign show tone --version 2"),
            (judges.edit, "edit", "memalign edit tone --authority ana,ben"),
            (judges.delete, "delete", "memalign delete tone"),
        ),
    ),
    (
        "Judging",
        (
            (judging.judge, "judge", "memalign judge tone answers.jsonl -o judged.jsonl"),
            (scorecard.scorecard, "scorecard", "memalign scorecard answers.jsonl tone safety -o scores"),
            (explaining.explain, "explain", "memalign explain tone judged.jsonl a-1 --examples answers.jsonl"),
            (judging.evaluate, "evaluate", "memalign evaluate tone held_out.jsonl --against bare"),
        ),
    ),
    (
        "Learning",
        (
            (checking.check, "check", "memalign check feedback.jsonl tone"),
            (learning.align, "align", "memalign align tone feedback.jsonl"),
            (learning.overwrite, "overwrite", "memalign overwrite tone corrected.jsonl"),
            (learning.guideline, "guideline", "memalign guideline tone G2 --pin"),
            (learning.lock, "lock", "memalign lock tone t-17"),
            (versions.ledger, "ledger", "memalign ledger tone --state pending"),
        ),
    ),
    (
        "Forgetting",
        (
            (forgetting.unalign, "unalign", "memalign unalign tone t-17@ana"),
            (forgetting.erase, "erase", "memalign erase tone t-17 --dry-run"),
        ),
    ),
    (
        "Versions",
        (
            (versions.history, "history", "memalign history tone"),
            (versions.diff, "diff", "memalign diff tone 1 2"),
            (versions.rollback, "rollback", "memalign rollback tone 1"),
            (versions.export, "export", "memalign export tone -o tone.json"),
            (versions.import_, "import", "memalign import tone.json --name tone-copy"),
        ),
    ),
)


def _paragraphs(text: str) -> str:
    """`text` with each paragraph on one line: Rich keeps line breaks, and a terminal breaks lines elsewhere."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


for _panel, _commands in _GROUPS:
    for _function, _name, _example in _commands:
        app.command(_name, rich_help_panel=_panel, help=_paragraphs(_function.__doc__), epilog=f"Example: {_example}")(
            _function
        )
app.add_typer(models.app, name="models", rich_help_panel="Models")
for _entry in sorted(entry_points(group="memalign.commands"), key=lambda entry: entry.name):
    app.add_typer(_entry.load(), name=_entry.name, rich_help_panel="Other packages")
