"""Arguments and options that several commands take, and the rows that such options describe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalign.cli.output import counted, usage_text
from memalign.cli.session import DONE, Session

if TYPE_CHECKING:
    from memalign.io import Examples, RowSource
    from memalign.judge import Judge
    from memalign.models.calls import Calls
    from memalign.types import Usage

_spending = partial(typer.Option, rich_help_panel="Cost and speed")


def _names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete a judge's name in a shell; without a registry there is nothing to complete."""
    from memalign.errors import MemalignError
    from memalign.registry import Registry

    try:
        judges = Registry(ctx.params.get("registry", ""), create=False).list()
    except (MemalignError, OSError):
        return []
    return [judge.name for judge in judges if judge.name.startswith(incomplete)]


Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="The name of the judge.", autocompletion=_names
    ),
]
Version = Annotated[
    int | None,
    typer.Option(
        "--version", metavar="N", min=1, help="Use version N instead of the latest."
    ),
]
ColumnMap = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        metavar="FIELD=COLUMN",
        help="Read a field from a column of another name, for example outputs=answer,value=label. "
        "The judge remembers what `align` was given, until you pass 'none'.",
    ),
]
FeedbackSource = Annotated[
    str | None,
    typer.Option(
        "--source",
        metavar="WHO",
        help="Who gave the feedback, for rows without a source.",
    ),
]
AllowErased = Annotated[
    bool,
    typer.Option(
        "--allow-erased", help="Accept what was erased from this judge before."
    ),
]
JUDGED_HELP = (
    "Use the judgments that `memalign judge -o` wrote instead of asking the model."
)
JudgedBefore = Annotated[
    Path | None, typer.Option("--judged", metavar="OUT.jsonl", help=JUDGED_HELP)
]
OwnVerdicts = Annotated[
    Path | None,
    typer.Option(
        "--judged",
        metavar="OUT.jsonl",
        help="Show the model that writes guidelines where the judge was wrong: its verdicts, as "
        "`memalign judge -o` wrote them.",
    ),
]
VALUE_TYPES = "bool, A|B|tie, int:1..5, float:0..1 or str."
OUT_HELP = (
    "Write the judgments here, one per line. Run the same command again to resume."
)
Concurrency = Annotated[
    int | None,
    _spending(
        "--concurrency",
        metavar="N",
        min=1,
        help="Have at most N model calls in flight.",
    ),
]
MaxCost = Annotated[
    float | None,
    _spending(
        "--max-cost",
        metavar="DOLLARS",
        help="Stop before the run costs more than this. Finished work is kept.",
    ),
]
DryRun = Annotated[
    bool,
    _spending(
        "--dry-run", help="Estimate calls, tokens and dollars without calling a model."
    ),
]
Force = Annotated[
    bool,
    typer.Option(
        "--force", help="Save the version although a locked case comes out wrong."
    ),
]
Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Answer yes to the command's question.")
]
FILES = "JSONL, CSV, XLSX, JSON or Parquet file"
STDIN = "- reads JSON lines from stdin."


def columns_of(mapping: list[str] | None) -> dict[str, str] | None:
    """Return the columns that `--map` names: none for `none`, None if the option was not given."""
    from memalign.io import parse_columns

    return None if mapping is None else parse_columns(mapping)


def rows_of(
    file: str,
    mapping: list[str] | None = None,
    *,
    remembered: Mapping[str, str] | None = None,
    source: str | None = None,
) -> RowSource:
    """Return the rows of a file, of an OpenTelemetry export, or for `-` of stdin's JSON lines.

    Args:
        file: The file's name.
        mapping: What `--map` says of its columns.
        remembered: The columns that the judge remembers.
        source: Who gave the feedback, for rows that do not say so.
    """
    from memalign.integrations.otlp import holds_spans, trace_rows
    from memalign.io import RowSource

    options: dict[str, Any] = {"remembered": remembered, "source": source}
    options["columns"] = columns_of(mapping)
    if file == "-":
        return RowSource.of_lines(sys.stdin.buffer, name="stdin", **options)
    rows = trace_rows(file) if holds_spans(file) else file
    return RowSource.of(rows, name=file, **options)


def examples_of(file: str, mapping: list[str] | None, judge: Judge) -> Examples:
    """Return the examples of a file, as a judge reads them.

    Args:
        file: The file's name, or `-`.
        mapping: What `--map` says of its columns.
        judge: The judge, whose columns and fields count.
    """
    from memalign.io import Examples
    from memalign.judge.spec import named_parts

    rows = rows_of(file, mapping, remembered=judge.columns)
    return Examples.of(rows, fields=named_parts(judge.instructions))


def judge_with_columns(
    session: Session, name: str, version: int | None, mapping: list[str] | None
) -> tuple[int, Judge]:
    """Return the judge that a command reads rows for, with the columns of `--map` for this run.

    Reading writes nothing: `memalign align --map` and `memalign edit --map` keep a mapping.
    """
    number, judge = session.judge(name, version)
    columns = columns_of(mapping)
    if columns is None or columns == dict(judge.columns):
        return number, judge
    return number, judge.replace(columns=columns)


def give_trial(
    session: Session,
    name: str,
    number: int,
    judge: Judge,
    run: Callable[[Calls], object],
) -> int:
    """Run a command without asking a model, print what it would cost, and return the exit code.

    Args:
        session: The run of the command.
        name: The judge's name.
        number: Its version.
        judge: The judge.
        run: What the command does with the calls that it is given.
    """
    from memalign.models.calls import Calls
    from memalign.models.dry_run import DryRun

    trial = DryRun(dimensions=judge.memory.matrix.shape[1] or 8)
    run(Calls(dry_run=trial))
    return give_estimate(session, name, number, trial.usage)


def give_estimate(
    session: Session, name: str, version: int, usage: Usage, *, kept: int = 0
) -> int:
    """Print an estimate, which says that it is one, and return the exit code.

    Args:
        session: The run of the command.
        name: The judge's name.
        version: Its version.
        usage: What the calls would come to.
        kept: Answers that an earlier run paid for.
    """
    lines = []
    if usage.calls:
        assumed = (
            "an estimate that assumes answers of usual length; no model was called"
        )
        lines.append(f"about {usage_text(usage)} ({assumed})")
        if usage.cost is None:
            advice = f"set it with: memalign edit {name} --price input=N,output=N"
            lines.append(f"the model's price is unknown; {advice}")
    elif kept:
        paid = (
            f"an earlier run paid for {counted(kept, 'answer')}, and kept what it got"
        )
        lines.append(f"no model call is needed: {paid}")
    else:
        lines.append("no model call is needed")
    data = {"judge": name, "version": version, "dry_run": True, "estimate": usage}
    session.give(data, *lines)
    return DONE
