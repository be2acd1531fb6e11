"""A few rows of many, and how many there are, without reading all where the file allows it."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from pathlib import Path

from memalign.errors import InputError, RowError
from memalign.io.given import Given
from memalign.io.locations import Location, location_of, store_errors
from memalign.io.parquet import open_parquet, plain_row
from memalign.io.query import query_rows
from memalign.io.rows import Row, json_rows, never_empty

__all__ = ["Sampled", "sample_rows"]

_GROUPS = 16  # row groups of Parquet that rows are taken from
_BLOCKS, _BLOCK = 32, 1 << 16  # blocks of JSON lines, and bytes of each
_SEED = 0


@dataclass(frozen=True, kw_only=True)
class Sampled:
    """The rows that were taken, how many there are in all, and whether that was counted or follows from sizes."""

    rows: tuple[Row | RowError, ...]
    total: int
    counted: bool


def sample_rows(given: Given, most: int, *, query: str | None = None, database: str | None = None) -> Sampled:
    """At most `most` rows from all over what was given, the same at every call.

    Of JSON lines single lines are read and their number follows from the size of the file; Parquet says its number, and
    single row groups are read; a query is counted and sampled by DuckDB; of anything else every row is read. Raises InputError
    for what cannot be read or has no row.
    """
    found = _sampled(given, most, query=query, database=database)
    if found is None:
        return _of_all(given, most)
    return replace(found, rows=tuple(replace(given, items=found.rows).rows()))


def _sampled(given: Given, most: int, *, query: str | None, database: str | None) -> Sampled | None:
    """Rows as they were written; None where only reading all rows tells."""
    if query is not None:
        inner = query.strip().rstrip(";")
        (count,) = query_rows(f"select count(*) as n from ({inner})", database)  # the user's own query
        sampled = f"select * from ({inner}) using sample reservoir({most} rows) repeatable ({_SEED})"
        rows = tuple(never_empty("the query", query_rows(sampled, database)))
        return Sampled(rows=rows, total=0 if isinstance(count, RowError) else count.fields["n"], counted=True)
    place = location_of(given.items) if isinstance(given.items, str | Path) else None
    if place is not None:
        with store_errors(place):
            suffix = place.suffix.lower()
            if not place.is_dir() and suffix in (".jsonl", ".ndjson"):
                return _of_lines(place, most)
            if suffix in (".parquet", ".pq") or _holds_parquet(place):
                return _of_parquet(place, most)
    return None


def _holds_parquet(place: Location) -> bool:
    """Whether it is a folder without JSON lines, which is then read as Parquet."""
    if not place.is_dir():
        return False
    if isinstance(place, Path):
        return next(place.rglob("*.jsonl"), None) is None
    return not any(name.endswith(".jsonl") for name in place.fs.find(place.path))


def _of_lines(place: Location, most: int) -> Sampled:
    """Lines of evenly spaced blocks; how many line breaks these hold says how many lines there are."""
    with place.open("rb") as file:
        size = file.seek(0, 2)
        whole = size <= _BLOCKS * _BLOCK
        breaks, lines = 0, list[bytes]()
        for number in range(1 if whole else _BLOCKS):
            file.seek(size * number // _BLOCKS)
            block = file.read(size if whole else _BLOCK)
            breaks += block.count(b"\n")
            found = (block + file.readline()).splitlines()
            lines += found[1:] if number else found  # the first of a block began before it
    chosen = sorted(random.Random(_SEED).sample(range(len(lines)), min(most, len(lines))))  # no secret
    rows = tuple(never_empty(str(place), json_rows(enumerate((lines[each] for each in chosen), 1))))
    total = len(lines) if whole else round(size * breaks / (_BLOCKS * _BLOCK))
    return Sampled(rows=rows, total=total, counted=whole)


def _of_parquet(place: Location, most: int) -> Sampled:
    data = open_parquet(place)
    groups = [group for fragment in data.get_fragments() for group in fragment.split_by_row_group()]
    wanted = min(len(groups), _GROUPS)
    rows: list[Row | RowError] = []
    for number in range(wanted):
        table = groups[len(groups) * number // wanted].scanner(schema=data.schema).head(-(-most // wanted))
        for fields in table.to_pylist():
            plain = plain_row(len(rows) + 1, fields)
            rows.append(plain if isinstance(plain, RowError) else Row(line=plain[0], fields=plain[1]))
    if not rows:
        raise InputError(f"{place} is empty: it has no row")
    return Sampled(rows=tuple(rows[:most]), total=data.count_rows(), counted=True)


def _of_all(given: Given, most: int) -> Sampled:
    """A reservoir: every row is as likely to be taken."""
    chance = random.Random(_SEED)  # no secret
    kept: list[Row | RowError] = []
    total = 0
    for row in given.rows():
        total += 1
        if len(kept) < most:
            kept.append(row)
        elif (place := chance.randrange(total)) < most:
            kept[place] = row
    if not kept:
        raise InputError(f"{given.name} is empty: it has no row")
    return Sampled(rows=tuple(sorted(kept, key=lambda row: row.line)), total=total, counted=True)
