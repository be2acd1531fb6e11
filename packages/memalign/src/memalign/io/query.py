"""Rows of a DuckDB query: over files, object stores, or a DuckDB database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from memalign.errors import ConfigurationError, InputError, RowError
from memalign.io.locations import store_errors
from memalign.io.parquet import plain_row
from memalign.io.rows import Row

__all__ = ["query_rows"]

_FETCHED = 256


def query_rows(query: str, database: str | Path | None = None) -> Iterator[Row | RowError]:
    """The rows of a query, each numbered from 1; they can be read once, since another run may order them otherwise.

    `database` is a DuckDB file, opened for reading alone; None reads what the query names. Raises ConfigurationError
    without duckdb, InputError for a query or a database that DuckDB refuses.
    """
    try:
        import duckdb
    except ImportError:
        raise ConfigurationError("a query needs duckdb: pip install duckdb") from None
    if database is not None:
        with store_errors(database), Path(database).open("rb") as file:
            if file.read(12)[8:] != b"DUCK":
                raise InputError(
                    f"{database} is no DuckDB database; a file of rows is named in the query: from '{database}'"
                )
    try:
        with duckdb.connect(str(database or ":memory:"), read_only=database is not None) as connection:
            found = connection.execute(query)
            names = [column[0] for column in found.description or ()]
            if twice := sorted({name for name in names if names.count(name) > 1}):
                raise InputError(f"the query gives {', '.join(twice)} twice; give every column a name of its own (as)")
            number = 0
            while rows := found.fetchmany(_FETCHED):
                for row in rows:
                    number += 1
                    plain = plain_row(number, dict(zip(names, row, strict=True)))
                    yield plain if isinstance(plain, RowError) else Row(line=number, fields=plain[1])
    except duckdb.Error as error:
        raise InputError(f"DuckDB refuses the query: {str(error).strip()}") from None
