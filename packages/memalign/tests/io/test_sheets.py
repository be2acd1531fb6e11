"""CSV and XLSX files as spreadsheets of any country write them."""

from __future__ import annotations

import re
import time
import zipfile
from pathlib import Path

import openpyxl
import pytest

from memalign.errors import InputError, InvalidRows
from memalign.io import Examples, RowSource, parse_columns, read_feedback
from memalign.values import ValueType

FLOAT = ValueType.of("float:0..1")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("f.csv", "id;outputs;value\nt-1;a,b;0.5\n"),
        ("f.csv", '\ufeff"id","outputs","value"\r\n"t-1","a,b","0.5"\r\n'),
        ("f.tsv", "id\toutputs\tvalue\nt-1\ta,b\t0.5\n"),
    ],
)
def test_the_header_tells_the_mark_between_cells(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, "utf-8", newline="")
    (row,) = read_feedback(tmp_path / name, value_type=FLOAT).rows
    assert (row.id, row.outputs, row.value) == ("t-1", "a,b", 0.5)


def test_one_message_names_all_columns_that_are_missing(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text("ticket,answer,note\nt-1,a,\n", "utf-8")
    remedy = (
        r"f\.csv has no column for inputs, outputs, value. Its columns are ticket, answer, note. Name the right ones: "
        r"--map inputs=COLUMN,outputs=COLUMN,value=COLUMN \(in Python: columns=\{'inputs': 'COLUMN', "
    )
    with pytest.raises(InputError, match=remedy):
        read_feedback(path, fields=("inputs", "outputs"))
    with pytest.raises(InputError, match=r"no column for inputs\. Its columns"):
        Examples.of(path, columns={"outputs": "answer"}, fields=("inputs", "outputs")).check()
    named = RowSource.of(path, columns={"outputs": "reply", "value": "label"})
    with pytest.raises(InputError, match=r"no column 'reply' for outputs, no column 'label' for value. Its"):
        read_feedback(named)
    path.write_text("id,value\nt-1,yes\n", "utf-8")
    assert read_feedback(path, hashes={"t-1": "hash"}, fields=("inputs",)).rows[0].content == {}, "a case that is known"


def test_columns_may_change_places_and_hold_commas() -> None:
    columns = parse_columns(["inputs=outputs,outputs=inputs", "value=label, please,rationale=why"])
    assert columns == {"inputs": "outputs", "outputs": "inputs", "value": "label, please", "rationale": "why"}
    row = {"id": "t", "inputs": "answer", "outputs": "question", "label, please": 1, "why": "So."}
    (found,) = read_feedback([row], value_type=FLOAT, columns=columns).rows
    assert (found.inputs, found.outputs, found.value, found.rationale) == ("question", "answer", 1, "So.")


CELLS = {"A1": "id", "B1": "outputs", "C1": "value", "A2": "t-1", "B2": "Hello.", "C2": "0.5"}
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
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, part in parts.items():
            file.writestr(name, re.sub(rb'<dimension ref="[^"]*"', f'<dimension ref="{dimension}"'.encode(), part))
    return path


def test_small_sheets_that_would_take_for_ever_are_refused_at_once(tmp_path: Path) -> None:
    bomb = xlsx(tmp_path / "bomb.xlsx", {}, "A1:C2")
    with zipfile.ZipFile(bomb, "a", zipfile.ZIP_DEFLATED) as file:
        file.writestr("xl/sharedStrings.xml", b" " * 210_000_000)
    sheets = {bomb: "unpacks to 210 MB"}
    sheets |= {xlsx(tmp_path / f"{size[3:]}.xlsx", cells, size): message for size, cells, message in FAR}
    for path, message in sheets.items():
        begin = time.process_time()
        with pytest.raises(InputError, match=message):
            read_feedback(path)
        assert time.process_time() - begin < 5, "it would take minutes"


def test_a_sheet_that_misstates_its_size_loses_nothing(tmp_path: Path) -> None:
    for dimension in ("A1", "A1:B1", "A1:XFD1048576"):
        path = xlsx(tmp_path / "f.xlsx", {"A4": "t-2", "B4": "Hello.", "C4": "0.5"}, dimension)
        rows = read_feedback(path, value_type=FLOAT).rows
        assert [(row.id, row.outputs, row.value) for row in rows] == [("t-1", "Hello.", 0.5), ("t-2", "Hello.", 0.5)]


def test_a_cell_beside_the_header_is_never_dropped(tmp_path: Path) -> None:
    path = xlsx(tmp_path / "f.xlsx", {"A3": "t-2", "B3": "Hello.", "E3": "Too curt."}, "A1:E3")
    with pytest.raises(InvalidRows, match=r"line 3: the row has 5 cells and the header 3"):
        read_feedback(path, value_type=FLOAT)
    assert [row.id for row in read_feedback(path, value_type=FLOAT, skip_invalid=True).rows] == ["t-1"]
