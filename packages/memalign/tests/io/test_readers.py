"""Rows from folders and Parquet files."""

from __future__ import annotations

import io
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from memalign import Example
from memalign.errors import ConfigurationError, InputError
from memalign.io import read_examples, read_feedback

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

ROWS: list[dict[str, Any]] = [{"id": f"c-{n}", "inputs": "Where?", "outputs": f"Reply {n}."} for n in range(12)]
EXAMPLES = [Example(**row) for row in ROWS]


def parquet(rows: list[dict[str, Any]], **options: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), file, **options)
    return file.getvalue()


def test_partitioned_parquet_is_one_table(tmp_path: Path) -> None:
    for day in (1, 2):
        folder = tmp_path / f"day=2026-01-0{day}"
        folder.mkdir()
        (folder / "part-0.parquet").write_bytes(parquet(ROWS[6 * (day - 1) : 6 * day], row_group_size=4))
    examples = list(read_examples(tmp_path))
    assert [(case.id, case.outputs) for case in examples] == [(case.id, case.outputs) for case in EXAMPLES]
    assert [case.meta["day"] for case in examples] == ["2026-01-01"] * 6 + ["2026-01-02"] * 6


def test_a_url_is_refused_and_its_signature_not_repeated() -> None:
    with pytest.raises(InputError, match="s3://… is a URL; copy the file") as refused:
        read_examples("s3://lake/rows.jsonl?X-Amz-Signature=0f6c")
    assert "0f6c" not in str(refused.value)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "f.parquet"


def test_times_structs_and_lists_are_read(path: Path) -> None:
    more: dict[str, Any] = {
        "created_at": datetime(2026, 3, 1, 12, tzinfo=UTC),
        "day": date(2026, 3, 2),
        "price": Decimal("2.50"),
    }
    inputs: dict[str, Any] = {"question": "Late?", "history": ["Hi", "Hello"]}
    other: dict[str, Any] = {"id": "t-2", "inputs": None, "outputs": "Yes.", "value": False}
    path.write_bytes(parquet([{"id": "t-1", "inputs": inputs, "outputs": "Soon.", "value": True} | more, other]))
    first, second = read_feedback(path).rows
    assert (first.inputs, first.created_at) == (inputs, "2026-03-01T12:00:00+00:00")
    assert first.meta == {"day": "2026-03-02", "price": 2.5}
    assert (second.inputs, second.value, second.meta) == (None, False, {})


BYTES = {"id": "a", "outputs": "x", "image": b"\x89"}


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (parquet([{"id": "a", "outputs": x} for x in "xy"]), r"line 2 \(a\): its content differs from 'a' on line 1"),
        (parquet([BYTES]), r"line 1 \(a\): column image holds bytes; leave the column out"),
        (parquet([{"key": "a", "answer": "x"}]), "has no column for inputs, outputs. Its columns are key, answer"),
    ],
)
def test_what_is_wrong_with_a_parquet_file_is_said(path: Path, data: bytes, error: str) -> None:
    path.write_bytes(data)
    with pytest.raises(InputError, match=error):
        read_examples(path)


def test_a_missing_pyarrow_names_its_install_command(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(parquet([{"id": "a", "outputs": "x"}]))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigurationError, match=r"pip install pyarrow"):
        read_examples(path)
