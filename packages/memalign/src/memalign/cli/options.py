"""Arguments and options that several commands take, and the rows of a file that such options describe."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memalign.cli.output import say, usage_text
from memalign.cli.session import DONE, Session, judge_names

if TYPE_CHECKING:
    from memalign.io import RowSource
    from memalign.judge import Judge
    from memalign.types import Usage

__all__ = [
    "ColumnMap",
    "Concurrency",
    "DryRun",
    "Feedback",
    "FeedbackSource",
    "JudgedBefore",
    "MaxCost",
    "Name",
    "Out",
    "Version",
    "Yes",
    "columns_of",
    "give_estimate",
    "judge_with_columns",
    "rows_of",
    "spending_lines",
]

Name = Annotated[str, typer.Argument(metavar="NAME", help="The judge's name.", autocompletion=judge_names)]
Version = Annotated[
    int | None, typer.Option("--version", metavar="N", min=1, help="Take version N; the default is the latest.")
]
Feedback = Annotated[
    str, typer.Argument(metavar="FEEDBACK", help="A file: JSONL, CSV, XLSX, JSON or Parquet. - reads JSON lines.")
]
ColumnMap = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        metavar="FIELD=COLUMN",
        help="Read fields from columns of other names, such as outputs=answer,value=label. The judge remembers them; "
        "'none' forgets them.",
    ),
]
FeedbackSource = Annotated[
    str | None, typer.Option("--source", metavar="WHO", help="Who gave the feedback of rows that name nobody.")
]
JudgedBefore = Annotated[
    Path | None,
    typer.Option("--judged", metavar="OUT.jsonl", help="Take the judgments that `memalign judge -o` wrote."),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "-o", "--out", metavar="OUT.jsonl", help="Write one judgment a line; the same command resumes the file."
    ),
]
Concurrency = Annotated[
    int | None, typer.Option("--concurrency", metavar="N", min=1, help="Ask for at most N answers at a time.")
]
MaxCost = Annotated[
    float | None,
    typer.Option("--max-cost", metavar="DOLLARS", help="Stop before it costs more. What is finished is kept."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Estimate the calls, tokens and dollars, and ask no model.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Agree in advance to what the command asks.")]


def columns_of(mapping: list[str] | None) -> dict[str, str] | None:
    """The columns that `--map` names: none for `none`, None where nothing was said.

    Raises:
        InputError: It is no mapping of fields to columns.
    """
    from memalign.io import parse_columns

    return None if mapping is None else parse_columns(mapping)


def rows_of(
    file: str,
    mapping: list[str] | None = None,
    *,
    remembered: Mapping[str, str] | None = None,
    source: str | None = None,
) -> RowSource:
    """The rows of a file, the traces of an OpenTelemetry export, or for `-` the JSON lines of stdin.

    Args:
        file: The path or URL.
        mapping: The columns that `--map` names.
        remembered: The columns that the judge remembers.
        source: Who gave the feedback of rows that name nobody.
    """
    from memalign.integrations.otlp import holds_spans, trace_rows
    from memalign.io import RowSource

    columns = columns_of(mapping)
    if holds_spans(file):
        return RowSource.of(trace_rows(file), name=file, columns=columns, remembered=remembered, source=source)
    if file != "-":
        return RowSource.of(file, columns=columns, remembered=remembered, source=source)
    return RowSource.of_lines(sys.stdin.buffer, name="stdin", columns=columns, remembered=remembered, source=source)


def judge_with_columns(
    session: Session, name: str, version: int | None, mapping: list[str] | None
) -> tuple[int, Judge]:
    """The judge that a command reads rows for, which remembers the columns of `--map` when the command has succeeded.

    An older version remembers nothing. Where the registry cannot be written to, a line says so.
    """
    from memalign.errors import RegistryError

    number, judge = session.judge(name, version)
    columns = columns_of(mapping)
    if version is not None or columns is None or columns == dict(judge.columns):
        return number, judge

    def remember() -> None:
        try:
            saved = session.registry().update(name, lambda latest: latest.replace(columns=columns), "edit")
        except RegistryError as error:
            say(f"note: the columns are not remembered: {error}")
        else:
            say(f"{name} is version {saved.version} now: it remembers the columns of --map")

    session.remember = remember
    return number, judge.replace(columns=columns)


def spending_lines(name: str, usage: Usage, max_cost: float | None) -> list[str]:
    """What an estimate means for `--max-cost`, or how the judge `name` learns its model's price."""
    if usage.cost is None:
        return [f"the model's price is not known; to set it: memalign edit {name} --price input=N,output=N"]
    if max_cost is not None and usage.cost > max_cost:
        return [f"--max-cost {max_cost:g} would stop it on the way"]
    return []


def give_estimate(session: Session, name: str, version: int, usage: Usage, max_cost: float | None) -> int:
    """Print an estimate, which says that it is one, and return the exit code."""
    lines = ["no model would be asked"]
    if usage.calls:
        lines = [
            f"about {usage_text(usage)}; an estimate: no model was asked, and answers were taken to be of usual length"
        ]
        lines += spending_lines(name, usage, max_cost)
    session.give({"judge": name, "version": version, "dry_run": True, "estimate": usage}, *lines)
    return DONE
