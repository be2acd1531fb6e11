"""Parquet files of examples and feedback."""

from __future__ import annotations

import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from memalign.errors import ConfigurationError, InputError, InvalidRows
from memalign.io import Examples, read_examples, read_feedback

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def put(path: Path, rows: list[dict[str, Any]], **more: Any) -> Path:
    pq.write_table(pa.Table.from_pylist(rows), path, **more)
    return path


def test_rows_keep_their_order_over_row_groups(tmp_path: Path) -> None:
    rows = [{"id": f"c-{n}", "outputs": f"Reply {n}."} for n in range(1_000)]
    path = put(tmp_path / "many.parquet", rows, row_group_size=70)
    assert [(example.id, example.outputs) for example in read_examples(path)] == [
        (row["id"], row["outputs"]) for row in rows
    ]
    source = Examples.of(path)
    assert len(source) == 1_000
    assert next(iter(source)).id == "c-0"


def test_feedback_with_times_structs_and_lists_is_read(tmp_path: Path) -> None:
    row = {
        "id": "t-1",
        "inputs": {"question": "Late?", "history": ["Hi", "Hello"]},
        "outputs": "Soon.",
        "value": True,
        "source": "ana",
        "created_at": datetime(2026, 3, 1, 12, tzinfo=UTC),
        "day": date(2026, 3, 2),
        "price": Decimal("2.50"),
    }
    other = {"id": "t-2", "inputs": None, "outputs": "Yes.", "value": False, "source": "ben"}
    first, second = read_feedback(put(tmp_path / "f.parquet", [row, other])).rows
    assert first.inputs == {"question": "Late?", "history": ["Hi", "Hello"]}
    assert first.created_at == "2026-03-01T12:00:00+00:00"
    assert first.meta == {"day": "2026-03-02", "price": 2.5}
    assert (second.inputs, second.value, second.meta) == (None, False, {})


def test_bad_rows_are_named_by_their_number(tmp_path: Path) -> None:
    rows = [{"id": "a", "outputs": b"x", "n": 1}, {"id": "b", "outputs": b"y", "n": 2}]
    with pytest.raises(InvalidRows, match=r"line 2 \(b\): column outputs holds bytes"):
        read_examples(put(tmp_path / "bytes.parquet", rows))
    with pytest.raises(InvalidRows, match=r"line 2 \(a\): 'a' is on line 1 already"):
        read_examples(put(tmp_path / "twice.parquet", [{"id": "a", "outputs": "x"}] * 2))


def test_a_bad_parquet_file_says_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no column for inputs, outputs; its columns: key, answer"):
        read_examples(put(tmp_path / "odd.parquet", [{"key": "a", "answer": "x"}]))
    with pytest.raises(InputError, match="empty: it has no row"):
        read_examples(_empty(tmp_path))
    whole = put(tmp_path / "whole.parquet", [{"id": "a", "outputs": "x"}]).read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[:-20])
    with pytest.raises(InputError, match="no readable Parquet file"):
        read_examples(tmp_path / "cut.parquet")
    with pytest.raises(InputError, match="no such file"):
        read_examples(tmp_path / "missing.parquet")


def _empty(folder: Path) -> Path:
    table = pa.Table.from_pylist([{"id": "a", "outputs": "x"}]).slice(0, 0)
    pq.write_table(table, folder / "empty.parquet")
    return folder / "empty.parquet"


def test_a_missing_pyarrow_names_its_install_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path / "f.parquet", [{"id": "a", "outputs": "x"}])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigurationError, match=r"pip install pyarrow"):
        read_examples(path)


@pytest.mark.parametrize("pandas", [True, False])
def test_times_to_the_nanosecond_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pandas: bool) -> None:
    if not pandas:
        monkeypatch.setitem(sys.modules, "pandas", None)
    moment = pa.scalar(1, pa.timestamp("ns", "UTC"))
    columns = {
        "id": ["a"],
        "outputs": ["x"],
        "value": [True],
        "created_at": pa.array([moment]),
        "inputs": pa.array([[{"at": moment}]]),
        "took": pa.array([1_500_000_001], pa.duration("ns")),
        "daily": pa.array([1], pa.time64("ns")),
    }
    pq.write_table(pa.table(columns), tmp_path / "f.parquet")
    (row,) = read_feedback(tmp_path / "f.parquet").rows
    assert row.created_at == "1970-01-01T00:00:00+00:00"
    assert row.inputs == [{"at": "1970-01-01T00:00:00+00:00"}]
    assert row.meta == {"took": 1.5, "daily": "00:00:00"}


def test_a_column_of_bytes_is_named(tmp_path: Path) -> None:
    rows = [{"id": "a", "outputs": "x", "thumbnail": b"\x89PNG"}]
    with pytest.raises(InvalidRows, match=r"line 1 \(a\): column thumbnail holds bytes; leave the column out"):
        read_examples(put(tmp_path / "images.parquet", rows))
    with pytest.raises(InvalidRows, match=r"line 1 \(a\): column thumbnail holds bytes; leave the column out"):
        Examples.of(pa.Table.from_pylist(rows)).check()
