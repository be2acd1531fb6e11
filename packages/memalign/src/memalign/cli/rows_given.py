"""Files of rows on the command line: their columns, whose they are, and stdin."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from memalign.cli.common import Session
    from memalign.io import Given
    from memalign.judge import Judge

__all__ = [
    "ColumnMap",
    "FeedbackSource",
    "Query",
    "RowsOrDatabase",
    "columns_of",
    "remembering",
    "rows_given",
    "rows_or_query",
]

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

RowsOrDatabase = Annotated[
    str | None,
    typer.Argument(
        metavar="EXAMPLES",
        help="JSONL, CSV, JSON or Parquet, also at a URL; - reads JSON lines. With --query a DuckDB file.",
    ),
]
Query = Annotated[
    str | None,
    typer.Option("--query", metavar="SQL", help="Judge the rows of a DuckDB query over files, URLs or EXAMPLES."),
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
    once: bool = False,
) -> Given:
    """The rows of a file, its traces where it is one of OpenTelemetry's, or for `-` the JSON lines of stdin.

    The lines of stdin are kept unless they are read `once`.
    """
    from memalign.integrations.otlp import holds_spans, trace_rows
    from memalign.io import Given

    named = columns_of(columns)
    if holds_spans(file):
        return Given.of(trace_rows(file), name=file, columns=named, remembered=remembered, source=source)
    if file != "-":
        return Given.of(file, columns=named, remembered=remembered, source=source)
    given = Given.of_lines(sys.stdin.buffer, name="stdin", columns=named, remembered=remembered, source=source)
    return given if once else given.kept()


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


def rows_or_query(
    file: str | None, query: str | None, columns: list[str] | None, *, remembered: Mapping[str, str] | None
) -> Given:
    """The rows of a file or of a DuckDB query, read once. Raises InputError where neither is given."""
    from memalign.errors import InputError
    from memalign.io import Given

    if query is None:
        if file is None:
            raise InputError("what is to be judged? Name a file of EXAMPLES, or give --query")
        return rows_given(file, columns, remembered=remembered, once=True)
    from memalign.io.query import query_rows
    from memalign.io.rows import never_empty

    rows = never_empty("the query", query_rows(query, file))
    return Given.of(rows, name="the query", columns=columns_of(columns), remembered=remembered)
