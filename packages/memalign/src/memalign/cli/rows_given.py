"""Files of rows on the command line: their columns, whose they are, and stdin."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from memalign.cli.common import Session
    from memalign.io import RowSource
    from memalign.judge import Judge

__all__ = ["ColumnMap", "FeedbackSource", "Rows", "columns_of", "remembering", "rows_given"]

ColumnMap = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        metavar="FIELD=COLUMN",
        help="Columns of other names: outputs=answer,value=label. The judge remembers them; none forgets.",
    ),
]
FeedbackSource = Annotated[
    str | None, typer.Option("--source", metavar="WHO", help="Whose feedback a row is that has no source.")
]

Rows = Annotated[
    str,
    typer.Argument(metavar="EXAMPLES", help="JSONL, CSV, XLSX, JSON or Parquet, also at a URL; - reads JSON lines."),
]


def columns_of(given: list[str] | None) -> dict[str, str] | None:
    """The columns that --map names, none of another name for `none`, None where nothing was said. Raises InputError."""
    from memalign.io import parse_columns

    return None if given is None else parse_columns(given)


def rows_given(
    file: str,
    columns: list[str] | None = None,
    *,
    remembered: Mapping[str, str] | None = None,
    source: str | None = None,
) -> RowSource:
    """The rows of a file, its traces where it is one of OpenTelemetry's, or for `-` the JSON lines of stdin."""
    from memalign.integrations.otlp import holds_spans, trace_rows
    from memalign.io import RowSource

    named = columns_of(columns)
    if holds_spans(file):
        return RowSource.of(trace_rows(file), name=file, columns=named, remembered=remembered, source=source)
    if file != "-":
        return RowSource.of(file, columns=named, remembered=remembered, source=source)
    return RowSource.of_lines(sys.stdin.buffer, name="stdin", columns=named, remembered=remembered, source=source)


def remembering(session: Session, name: str, version: int | None, columns: list[str] | None) -> tuple[int, Judge]:
    """The judge that a command reads rows for, which remembers from now on the columns that --map names.

    With `version`, an older judge is asked, and nothing is remembered. Where the registry cannot be written to, it says so.
    """
    from memalign.errors import RegistryError

    number, judge = session.judge(name, version)
    named = columns_of(columns)
    if version is not None or named is None or named == dict(judge.columns):
        return number, judge
    try:
        saved = session.registry().update(name, lambda latest: latest.replace(columns=named), "edit")
    except RegistryError as error:
        session.say(f"note: the columns are not remembered: {error}")
        return number, judge
    session.say(f"{name} is version {saved.version} now: it remembers the columns of --map")
    return saved.version, saved.judge
