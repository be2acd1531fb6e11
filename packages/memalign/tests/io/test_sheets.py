"""CSV and XLSX files as spreadsheets of any country write them, Parquet files and
folders of them."""

from __future__ import annotations

import io
import re
import sys
import time
import zipfile
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from memalign import Example
from memalign.errors import ConfigurationError, InputError, InvalidRows
from memalign.io import Examples, RowSource, parse_columns, read_examples, read_feedback
from memalign.values import ValueType
from tests.support.lists import ids, table
from tests.support.rows import RawRow

FLOAT = ValueType.of("float:0..1")


def test_one_message_names_all_columns_that_are_missing(tmp_path):
    path = tmp_path / "f.csv"
    path.write_text("ticket,answer,note\nt-1,a,\n", "utf-8")
    fields = ("inputs", "outputs")
    remedy = (
        r"f\.csv has no column for inputs, outputs, value. "
        r"Its columns are ticket, answer, note. Name the right ones: "
        r"--map inputs=COLUMN,outputs=answer,value=COLUMN "
        r"\(in Python: columns=\{'inputs': 'COLUMN', "
    )
    with pytest.raises(InputError, match=remedy):
        read_feedback(path, fields=fields)
    examples = Examples.of(path, columns={"outputs": "answer"}, fields=fields)
    with pytest.raises(InputError, match=r"no column for inputs\. Its columns"):
        examples.check()
    named = RowSource.of(path, columns={"outputs": "reply", "value": "label"})
    remedy = r"no column 'reply' for outputs, no column 'label' for value. Its"
    with pytest.raises(InputError, match=remedy):
        read_feedback(named)


def test_a_file_about_known_cases_needs_no_column_of_content(tmp_path):
    path = tmp_path / "f.csv"
    path.write_text("id,value\nt-1,yes\n", "utf-8")
    file = read_feedback(path, hashes={"t-1": "hash"}, fields=("inputs",))
    assert file.rows[0].content == {}


def test_columns_may_change_places_and_hold_commas():
    columns = parse_columns(
        ["inputs=outputs,outputs=inputs", "value=label, please,rationale=why"]
    )
    assert columns == {
        "inputs": "outputs",
        "outputs": "inputs",
        "value": "label, please",
        "rationale": "why",
    }
    row = {
        "id": "t",
        "inputs": "answer",
        "outputs": "question",
        "label, please": 1,
        "why": "So.",
    }
    (found,) = read_feedback([row], value_type=FLOAT, columns=columns).rows
    assert found.inputs == "question"
    assert found.outputs == "answer"
    assert found.value == 1
    assert found.rationale == "So."


CELLS = {
    "A1": "id",
    "B1": "outputs",
    "C1": "value",
    "A2": "t-1",
    "B2": "Hello.",
    "C2": "0.5",
}
FAR = [
    ("A1:XFD1048576", {"XFD1048576": "far"}, "is too large at row 200,001"),
    ("A1:XFD3", {"XFD3": "far"}, "is too large at row 3: at most"),
]


def xlsx(path: Path, more: dict[str, str], dimension: str) -> Path:
    """A workbook of texts by their places, which says that it has that dimension."""
    book = openpyxl.Workbook()
    for place, text in (CELLS | more).items():
        book.worksheets[0][place] = text
    book.save(path)
    said = f'<dimension ref="{dimension}"'.encode()
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, part in parts.items():
            file.writestr(name, re.sub(rb'<dimension ref="[^"]*"', said, part))
    return path


def test_small_sheets_that_would_take_for_ever_are_refused_at_once(tmp_path):
    bomb = xlsx(tmp_path / "bomb.xlsx", {}, "A1:C2")
    with zipfile.ZipFile(bomb, "a", zipfile.ZIP_DEFLATED) as file:
        file.writestr("xl/sharedStrings.xml", b" " * 210_000_000)
    sheets = {bomb: "unpacks to 210 MB"}
    for size, cells, message in FAR:
        sheets[xlsx(tmp_path / f"{size[3:]}.xlsx", cells, size)] = message
    for path, message in sheets.items():
        begin = time.process_time()
        with pytest.raises(InputError, match=message):
            read_feedback(path)
        assert time.process_time() - begin < 5, "it would take minutes"


@pytest.mark.parametrize("dimension", ["A1", "A1:B1", "A1:XFD1048576"])
def test_a_sheet_that_misstates_its_size_loses_nothing(tmp_path, dimension):
    more = {"A4": "t-2", "B4": "Hello.", "C4": "0.5"}
    path = xlsx(tmp_path / "f.xlsx", more, dimension)
    rows = read_feedback(path, value_type=FLOAT).rows
    assert table(rows, "id", "outputs", "value") == [
        ("t-1", "Hello.", 0.5),
        ("t-2", "Hello.", 0.5),
    ]


def test_a_cell_beside_the_header_is_never_dropped(tmp_path):
    more = {"A3": "t-2", "B3": "Hello.", "E3": "Too curt."}
    path = xlsx(tmp_path / "f.xlsx", more, "A1:E3")
    message = r"line 3: the row has 5 cells and the header 3"
    with pytest.raises(InvalidRows, match=message):
        read_feedback(path, value_type=FLOAT)
    kept = read_feedback(path, value_type=FLOAT, skip_invalid=True)
    assert ids(kept.rows) == ["t-1"]


# -- Parquet ---------------------------------------------------------------------------


def parquet(rows: list[RawRow], **options: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), file, **options)
    return file.getvalue()


def test_partitioned_parquet_is_one_table(tmp_path):
    expected = []
    for day in ("2026-01-01", "2026-01-02"):
        rows = [{"id": f"{day}-{n}", "outputs": f"Reply {n}."} for n in range(6)]
        folder = tmp_path / f"day={day}"
        folder.mkdir()
        (folder / "part-0.parquet").write_bytes(parquet(rows, row_group_size=4))
        expected += [Example(**row, meta={"day": day}) for row in rows]
    assert list(read_examples(tmp_path)) == expected


def test_a_url_is_refused_and_its_signature_not_repeated():
    with pytest.raises(InputError, match="s3://… is a URL; copy the file") as refused:
        read_examples("s3://lake/rows.jsonl?X-Amz-Signature=0f6c")
    assert "0f6c" not in str(refused.value)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "f.parquet"


def test_times_structs_and_lists_are_read(path):
    more: dict[str, Any] = {
        "created_at": datetime(2026, 3, 1, 12, tzinfo=UTC),
        "day": date(2026, 3, 2),
        "price": Decimal("2.50"),
    }
    inputs: dict[str, Any] = {"question": "Late?", "history": ["Hi", "Hello"]}
    one = {"id": "t-1", "inputs": inputs, "outputs": "Soon.", "value": True}
    other = {"id": "t-2", "inputs": None, "outputs": "Yes.", "value": False}
    path.write_bytes(parquet([one | more, other]))
    first, second = read_feedback(path).rows
    assert first.inputs == inputs
    assert first.created_at == "2026-03-01T12:00:00+00:00"
    assert first.meta == {"day": "2026-03-02", "price": 2.5}
    assert second.inputs is None
    assert second.value is False
    assert second.meta == {}


def test_bytes_that_are_no_text_are_named(path):
    path.write_bytes(parquet([{"id": "a", "outputs": b"\x89"}]))
    message = r"a: outputs holds bytes that are not text; decode them"
    with pytest.raises(InputError, match=message):
        read_examples(path)


def test_a_missing_pyarrow_names_its_install_command(path, monkeypatch):
    path.write_bytes(parquet([{"id": "a", "outputs": "x"}]))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigurationError, match=r"pip install pyarrow"):
        read_examples(path)
