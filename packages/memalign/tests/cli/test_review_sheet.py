"""The round trip of a sheet: judged, written for an expert, filled in, learned from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from tests.cli.conftest import HELD_OUT, Run, creating, jsonl, missing
from tests.support.rows import RawRow

SHEET = Path("review.xlsx")
REVIEW = "review tone cases.jsonl -o review.xlsx"
FORMULA = {"id": "001", "inputs": "=HYPERLINK(0)", "outputs": "-1+cmd|calc"}
NESTED = {
    "id": "3-4",
    "inputs": {"question": "Where?\r\nHere?", "tags": ["a", 1]},
    "outputs": "x" * 40_000,
}
CASES: list[RawRow] = [
    FORMULA,
    NESTED,
    {"id": "plain", "inputs": "Olá…", "outputs": "{not json}"},
]


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    return jsonl(tmp_path / "cases.jsonl", CASES)


def filled(path: Path, answers: Mapping[str, Mapping[str, Any]]) -> Path:
    """What an expert does to a sheet: cells by id and column."""
    book = openpyxl.load_workbook(path)
    sheet = book["review"]
    names = [cell.value for cell in sheet[1]]
    for row in sheet.iter_rows(min_row=2):
        for column, value in answers.get(str(row[0].value), {}).items():
            row[names.index(column)].value = value
    book.save(path)
    return path


def sheet_of(path: Path) -> Any:
    return openpyxl.load_workbook(path)["review"]


def header(path: Path) -> list[str]:
    return [cell.value for cell in sheet_of(path)[1]]


def test_a_filled_sheet_is_learned_from(memalign: Run, tone: str, cases: Path) -> None:
    told = memalign(REVIEW, "--json").json
    assert told["next"] == "memalign align tone review.xlsx --source WHO"
    filled(SHEET, {"001": {"value": True}, "3-4": {"rationale": "Far too long."}})
    done = memalign("align tone review.xlsx --source ana --json", code=0).json
    first, second = done["rows"]
    assert (first["line"], first["key"]) == (2, "001@ana")
    assert (second["line"], second["key"]) == (3, "3-4@ana")
    left_out = "1 of 3 rows of review.xlsx are not filled in and were left out"
    assert left_out in done["notes"]
    # The case is what was given, to the last character, whatever a cell can hold.
    for row in CASES[:2]:
        again = jsonl(Path("again.jsonl"), [row | {"value": True, "source": "ben"}])
        assert "other content" not in memalign("align tone", again, code=0).err


def test_no_cell_is_a_formula(memalign: Run, tone: str, cases: Path) -> None:
    memalign(REVIEW, code=0)
    sheet = sheet_of(SHEET)
    for row in sheet.iter_rows():
        for cell in row:
            assert cell.data_type in ("s", "n"), "an empty cell is a number"
    assert sheet["B2"].value == FORMULA["inputs"]
    assert sheet["B2"].quotePrefix
    assert sheet["B3"].value == "question:\n  Where?\n  Here?\ntags:\n  - a\n  - 1"
    assert sheet["C3"].value.endswith("(8,000 more characters)")


def test_a_sheet_is_ready_to_be_filled_in(
    memalign: Run, tone: str, cases: Path
) -> None:
    memalign(REVIEW, code=0)
    book = openpyxl.load_workbook(SHEET)
    sheet = book["review"]
    assert sheet.freeze_panes == "B2"
    (rule,) = sheet.data_validations.dataValidation
    assert (rule.type, str(rule.sqref)) == ("list", "D2:D4")
    assert book["guide"]["B1"].value is True
    assert book["guide"]["B2"].value is False
    columns = sheet.column_dimensions.values()
    assert [column.hidden for column in columns].count(True) == 2
    assert header(SHEET)[6:] == ["memalign", "memalign 2"]


@pytest.mark.parametrize(
    ("value_type", "rule", "value", "kept"),
    [
        ("A|B|tie", "list", "b", "B"),
        ("int:1..5", "list", 4.0, 4),
        ("float:-1..1", None, 0.25, 0.25),
        ("str", None, "Fine.", "Fine."),
    ],
)
def test_each_value_type_has_its_choices(
    memalign: Run,
    tone: str,
    cases: Path,
    *,
    value_type: str,
    rule: str | None,
    value: Any,
    kept: Any,
) -> None:
    memalign(*creating("other", value_type=value_type), code=0)
    memalign("review other cases.jsonl -o review.xlsx", code=0)
    rules = sheet_of(SHEET).data_validations.dataValidation
    assert [each.type for each in rules] == ([rule] if rule else [])
    filled(SHEET, {"plain": {"value": value}})
    found = memalign("check review.xlsx other --json").json
    assert (found["rows"], found["invalid"]) == (1, [])
    assert found["labels"][str(kept)] == 1


def test_the_verdict_stays_hidden_until_asked_for(
    memalign: Run, tone: str, held_out: Path
) -> None:
    memalign("judge tone held_out.jsonl -o judged.jsonl", code=0)
    review = "review tone judged.jsonl --examples held_out.jsonl"
    memalign(f"{review} -o blind.xlsx", code=0)
    assert "judge's verdict" not in header(Path("blind.xlsx"))
    memalign(f"{review} --shown -o shown.xlsx", code=0)
    shown = Path("shown.xlsx")
    sheet = sheet_of(shown)
    assert sheet.cell(2, 4).value is True
    assert sheet.cell(2, 5).value == "It answers the question."
    filled(shown, {"h-1": {"value": False, "rationale": "Cold.", "source": "ben"}})
    (row,) = memalign("align tone shown.xlsx --json").json["rows"]
    assert row["key"] == "h-1@ben"


def test_a_sheet_error_names_its_row(memalign: Run, tone: str, cases: Path) -> None:
    memalign(REVIEW, code=0)
    memalign("align tone review.xlsx", code=2, says="none of its 3 rows is filled in")
    wrong: dict[str, dict[str, Any]] = {
        "001": {"value": "maybe"},
        "3-4": {"value": True, "memalign 2": None},
        "plain": {"rationale": 7},
    }
    filled(SHEET, wrong)
    refused = memalign("align tone review.xlsx --source ana", code=2)
    assert not missing(
        refused.err,
        "line 2 (001): value 'maybe' is not allowed; use true or false",
        "line 3 (3-4): the hidden column 'memalign', which holds the case, was changed",
        "line 4 (plain): rationale must be text",
    )
    filled(SHEET, {"001": {"id": "plain", "value": True}})
    moved = "line 2 (plain): the row is of case '001': its id was changed"
    memalign("align tone review.xlsx", says=moved)


def test_what_cannot_be_reviewed_says_why(
    memalign: Run, tone: str, held_out: Path, cases: Path
) -> None:
    memalign("judge tone held_out.jsonl -o judged.jsonl", code=0)
    jsonl(Path("changed.jsonl"), [HELD_OUT[0] | {"outputs": "Another."}])
    for words, said in (
        ("judged.jsonl -o r.xlsx", "holds verdicts without texts, and the judge's"),
        ("judged.jsonl --examples cases.jsonl -o r.xlsx", "has none of its cases"),
        ("judged.jsonl --examples changed.jsonl -o r.xlsx", "has changed since it was"),
        ("held_out.jsonl -o r.pdf", "the name of a sheet ends in .xlsx, not in .pdf"),
        ("held_out.jsonl -o nowhere/r.xlsx", "cannot write"),
        ("none.jsonl -o r.xlsx", "no such file"),
        ("held_out.jsonl --examples held_out.jsonl -o r.xlsx", "holds no judgments"),
        ("held_out.jsonl", "Missing option '-o'"),
    ):
        memalign(f"review tone {words}", code=2, says=said)
    assert not Path("r.xlsx").exists()
    memalign("review tone held_out.jsonl -o r.xlsx", code=0)
    filled_in = "somebody may have filled it in"
    memalign("review tone held_out.jsonl -o r.xlsx", says=filled_in)
