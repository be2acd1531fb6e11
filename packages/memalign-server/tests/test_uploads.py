"""Files that are small on the way in and large inside: refused in words, and the server goes on."""

from __future__ import annotations

import io
import time
import zipfile
from collections.abc import Callable

import pytest

from server_support import world

BOOK = {
    "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="xml" ContentType="application/xml"/>'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Override PartName="/xl/workbook.xml" '
    'ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/>'
    '<Override PartName="/xl/worksheets/sheet1.xml" '
    'ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/>'
    '<Override PartName="/xl/sharedStrings.xml" '
    'ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"/></Types>',
    "_rels/.rels": '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    '<Relationship Id="r1" Target="xl/workbook.xml" '
    'Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"/></Relationships>',
    "xl/workbook.xml": '<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" '
    'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships">'
    '<sheets><sheet name="cases" sheetId="1" r:id="r1"/></sheets></workbook>',
    "xl/_rels/workbook.xml.rels": '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    '<Relationship Id="r1" Target="worksheets/sheet1.xml" '
    'Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet"/>'
    '<Relationship Id="r2" Target="sharedStrings.xml" '
    'Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/sharedStrings"/></Relationships>',
}
MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
HEADER = '<row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1" t="s"><v>1</v></c><c r="C1" t="s"><v>2</v></c></row>'


def sheet(rows: str, *, longest: str = "late", padding: int = 0) -> bytes:
    """An XLSX file with these rows under id, inputs, outputs; its texts are those three, and `longest`."""
    texts = "".join(f"<si><t>{text}</t></si>" for text in ("id", "inputs", "outputs", longest))
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as file:
        for name, part in BOOK.items():
            file.writestr(name, part)
        file.writestr(
            "xl/worksheets/sheet1.xml", f"<worksheet {MAIN}><sheetData>{HEADER}{rows}</sheetData></worksheet>"
        )
        file.writestr("xl/sharedStrings.xml", f"<sst {MAIN}>{texts}{' ' * padding}</sst>")
    return made.getvalue()


def far() -> bytes:
    """Two kilobytes that claim a cell in the last column of the last row."""
    return sheet('<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>')


def padded() -> bytes:
    """A quarter of a megabyte that unpacks to 210."""
    return sheet("", padding=210_000_000)


def repeated() -> bytes:
    """One long text, in every cell of 40,000 rows: a gigabyte of cases in a file of half a megabyte."""
    cells = '<row r="{n}"><c r="A{n}"><v>{n}</v></c><c r="B{n}" t="s"><v>3</v></c><c r="C{n}" t="s"><v>3</v></c></row>'
    return sheet("".join(cells.format(n=n) for n in range(2, 40_002)), longest="late " * 3_000)


@pytest.mark.parametrize(
    ("bomb", "words"),
    [
        (far, "cases.xlsx extends to row 1,000,001, column A, but at most 1,000,000 rows"),
        (padded, "cases.xlsx unpacks to 210 MB, and at most 200 are read"),
        (repeated, "cases.xlsx extends to row 6,668, column C, but at most 1,000,000 rows"),
    ],
)
@pytest.mark.parametrize("what", ["show", "cases"])
def test_a_file_cannot_stop_the_server(shared: world.Shared, bomb: Callable[[], bytes], words: str, what: str) -> None:
    owner = shared.signed_in("owner")
    content = bomb()
    assert len(content) < 1_000_000
    begin = time.process_time()
    refused = owner.post("/judges/tone/setup/cases", files={"file": ("cases.xlsx", content)}, data={"what": what})
    assert refused.status_code == (200 if what == "show" else 422)
    assert words in refused.text
    assert time.process_time() - begin < 10
    assert owner.get("/judges/tone/setup").status_code == 200
