"""CSV and XLSX files as spreadsheets of any country write them."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

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


# -- sheets whose own words about their size are wrong ------------------------------------------------------------------

_TYPES = """<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">
<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>
<Override PartName="/xl/workbook.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/>
<Override PartName="/xl/worksheets/sheet1.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/>
</Types>"""
_RELATION = """<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1"
Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/{kind}" Target="{target}"/></Relationships>"""
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_BOOK = f"""<workbook xmlns="{_MAIN}" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><sheets>
<sheet name="Sheet1" sheetId="1" r:id="rId1"/></sheets></workbook>"""


def xlsx(path: Path, rows: dict[int, dict[str, str]], dimension: str = "") -> Path:
    """A workbook of texts written by hand: by row number, and by the letters of the column."""
    written = "".join(
        f'<row r="{number}">'
        + "".join(
            f'<c r="{letters}{number}" t="inlineStr"><is><t>{text}</t></is></c>' for letters, text in cells.items()
        )
        + "</row>"
        for number, cells in rows.items()
    )
    size = f'<dimension ref="{dimension}"/>' if dimension else ""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("[Content_Types].xml", _TYPES)
        file.writestr("_rels/.rels", _RELATION.format(kind="officeDocument", target="xl/workbook.xml"))
        file.writestr("xl/workbook.xml", _BOOK)
        file.writestr("xl/_rels/workbook.xml.rels", _RELATION.format(kind="worksheet", target="worksheets/sheet1.xml"))
        sheet = f'<worksheet xmlns="{_MAIN}">{size}<sheetData>{written}</sheetData></worksheet>'
        file.writestr("xl/worksheets/sheet1.xml", sheet)
    return path


HEADER = {"A": "id", "B": "outputs", "C": "value"}
FIRST = {"A": "t-1", "B": "Hello.", "C": "0.5"}


FAR = [
    ("A1:XFD1048576", {1: HEADER, 2: FIRST, 1_048_576: {"XFD": "far"}}, "is too large at row 1,000,001"),
    ("", {1: HEADER, 2: FIRST, 1_048_576: {"XFD": "far"}}, "is too large at row 1,000,001"),
    ("", {1: HEADER, 2: FIRST, 99_999_999_999: {"A": "far"}}, "is too large at row 1,000,001"),
    ("A1:XFD3", {1: HEADER, 2: FIRST, 3: {"XFD": "far"}}, "is too large at row 3: at most"),
    ("", {1: HEADER, 2: FIRST, 3: {"AAAAA": "far"}}, "as an XLSX file"),
]
_CHECK = """
import sys, time
import openpyxl
from memalign.errors import InputError
from memalign.io import read_feedback
for path in sys.argv[1:]:
    begin = time.process_time()
    try:
        read_feedback(path)
    except InputError as error:
        print(time.process_time() - begin, error)
"""


def test_small_sheets_that_would_take_for_ever_are_refused_at_once(tmp_path: Path) -> None:
    paths, messages = [], []
    for number, (dimension, rows, message) in enumerate(FAR):
        paths.append(xlsx(tmp_path / f"{number}.xlsx", rows, dimension))
        messages.append(f"{number}.xlsx {message}")
        assert paths[-1].stat().st_size < 2048
    paths.append(xlsx(tmp_path / "bomb.xlsx", {1: HEADER, 2: FIRST}))
    messages.append("bomb.xlsx unpacks to 210 MB")
    with zipfile.ZipFile(paths[-1], "a", zipfile.ZIP_DEFLATED) as file:
        file.writestr("xl/sharedStrings.xml", b" " * 210_000_000)
    command = [sys.executable, "-c", _CHECK, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    for line, message in zip(done.stdout.splitlines(), messages, strict=True):
        seconds, _, refusal = line.partition(" ")
        assert message in refusal
        assert float(seconds) < 5, "they would take minutes"


@pytest.mark.parametrize("dimension", ["A1", "A1:A1", "B2:B2", "A1:B1", "A1:XFD1048576"])
def test_a_sheet_that_misstates_its_size_loses_nothing(tmp_path: Path, dimension: str) -> None:
    path = xlsx(tmp_path / "f.xlsx", {1: HEADER, 2: FIRST, 4: FIRST | {"A": "t-2"}}, dimension)
    rows = read_feedback(path, value_type=FLOAT).rows
    assert [(row.id, row.outputs, row.value) for row in rows] == [("t-1", "Hello.", 0.5), ("t-2", "Hello.", 0.5)]


def test_a_cell_beside_the_header_is_never_dropped(tmp_path: Path) -> None:
    path = xlsx(tmp_path / "f.xlsx", {1: HEADER, 2: FIRST, 3: FIRST | {"A": "t-2", "E": "Too curt."}})
    with pytest.raises(InvalidRows, match=r"line 3: the row has 5 cells and the header 3"):
        read_feedback(path, value_type=FLOAT)
    assert [row.id for row in read_feedback(path, value_type=FLOAT, skip_invalid=True).rows] == ["t-1"]
