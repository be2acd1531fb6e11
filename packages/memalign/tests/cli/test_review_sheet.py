"""The round trip of a sheet: judged, written for an expert, filled in, learned from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from tests.cli.conftest import HELD_OUT, INSTRUCTIONS, Run, jsonl
from tests.support.rows import RawRow

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


def header(path: Path) -> list[str]:
    return [cell.value for cell in openpyxl.load_workbook(path)["review"][1]]


def test_a_filled_sheet_is_learned_from(memalign: Run, tone: str, cases: Path) -> None:
    told = memalign("review tone cases.jsonl -o review.xlsx --json").json
    assert told["next"] == "memalign align tone review.xlsx --source WHO"
    filled(
        Path("review.xlsx"),
        {"001": {"value": True}, "3-4": {"rationale": "Far too long."}},
    )
    done = memalign("align tone review.xlsx --source ana --json", code=0)
    assert [(row["line"], row["key"]) for row in done.json["rows"]] == [
        (2, "001@ana"),
        (3, "3-4@ana"),
    ]
    assert (
        "1 of 3 rows of review.xlsx are not filled in and were left out"
        in done.json["notes"]
    )
    # The case is what was given, to the last character, whatever a cell can hold.
    for row in CASES[:2]:
        again = jsonl(Path("again.jsonl"), [row | {"value": True, "source": "ben"}])
        assert "other content" not in memalign("align tone", again, code=0).err


def test_no_cell_is_a_formula(memalign: Run, tone: str, cases: Path) -> None:
    memalign("review tone cases.jsonl -o review.xlsx", code=0)
    sheet = openpyxl.load_workbook("review.xlsx")["review"]
    types = {cell.data_type for row in sheet.iter_rows() for cell in row}
    assert types == {"s", "n"}, "an empty cell is a number"
    assert sheet["B2"].value == FORMULA["inputs"]
    assert sheet["B2"].quotePrefix
    assert sheet["B3"].value == "question:\n  Where?\n  Here?\ntags:\n  - a\n  - 1"
    assert sheet["C3"].value.endswith("(8,000 more characters)")


def test_a_sheet_is_ready_to_be_filled_in(
    memalign: Run, tone: str, cases: Path
) -> None:
    memalign("review tone cases.jsonl -o review.xlsx", code=0)
    book = openpyxl.load_workbook("review.xlsx")
    sheet = book["review"]
    assert sheet.freeze_panes == "B2"
    (rule,) = sheet.data_validations.dataValidation
    assert (rule.type, str(rule.sqref)) == ("list", "D2:D4")
    assert [book["guide"][cell].value for cell in ("B1", "B2")] == [True, False]
    hidden = [
        letter for letter, column in sheet.column_dimensions.items() if column.hidden
    ]
    assert header(Path("review.xlsx"))[6:] == ["memalign", "memalign 2"]
    assert len(hidden) == 2


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
    settings = (
        "--instructions",
        INSTRUCTIONS,
        "--value-type",
        value_type,
        "--model",
        "openai:test",
    )
    memalign("create other", *settings, code=0)
    memalign("review other cases.jsonl -o review.xlsx", code=0)
    rules = openpyxl.load_workbook("review.xlsx")[
        "review"
    ].data_validations.dataValidation
    assert [each.type for each in rules] == ([rule] if rule else [])
    filled(Path("review.xlsx"), {"plain": {"value": value}})
    found = memalign("check review.xlsx other --json").json
    assert (found["rows"], found["invalid"]) == (1, [])
    assert [label for label, count in found["labels"].items() if count] == [str(kept)]


def test_the_verdict_stays_hidden_until_asked_for(
    memalign: Run, tone: str, held_out: Path
) -> None:
    memalign("judge tone held_out.jsonl -o judged.jsonl", code=0)
    memalign(
        "review tone judged.jsonl --examples held_out.jsonl -o blind.xlsx",
        code=0,
    )
    assert "judge's verdict" not in header(Path("blind.xlsx"))
    memalign(
        "review tone judged.jsonl --examples held_out.jsonl --shown -o shown.xlsx",
        code=0,
    )
    sheet = openpyxl.load_workbook("shown.xlsx")["review"]
    assert [sheet.cell(2, place).value for place in (4, 5)] == [
        True,
        "It answers the question.",
    ]
    filled(
        Path("shown.xlsx"),
        {"h-1": {"value": False, "rationale": "Cold.", "source": "ben"}},
    )
    done = memalign("align tone shown.xlsx --json").json
    assert [row["key"] for row in done["rows"]] == ["h-1@ben"]


def test_a_sheet_error_names_its_row(memalign: Run, tone: str, cases: Path) -> None:
    memalign("review tone cases.jsonl -o review.xlsx", code=0)
    memalign("align tone review.xlsx", code=2, says="none of its 3 rows is filled in")
    wrong: dict[str, dict[str, Any]] = {
        "001": {"value": "maybe"},
        "3-4": {"value": True, "memalign 2": None},
        "plain": {"rationale": 7},
    }
    filled(Path("review.xlsx"), wrong)
    refused = memalign("align tone review.xlsx --source ana", code=2)
    assert (
        "line 2 (001): value 'maybe' is not allowed; use true or false" in refused.err
    )
    assert (
        "line 3 (3-4): the hidden column 'memalign', which holds the case, was changed"
        in refused.err
    )
    assert "line 4 (plain): rationale must be text" in refused.err
    filled(Path("review.xlsx"), {"001": {"id": "plain", "value": True}})
    memalign(
        "align tone review.xlsx",
        says="line 2 (plain): the row is of case '001': its id was changed",
    )


def test_what_cannot_be_reviewed_says_why(
    memalign: Run, tone: str, held_out: Path, cases: Path
) -> None:
    memalign("judge tone held_out.jsonl -o judged.jsonl", code=0)
    for words, said in (
        (
            ("judged.jsonl", "-o", "r.xlsx"),
            "holds verdicts without texts, and the judge's memory has none",
        ),
        (
            ("judged.jsonl", "--examples", cases, "-o", "r.xlsx"),
            "has none of its cases",
        ),
        ((held_out, "-o", "r.pdf"), "the name of a sheet ends in .xlsx, not in .pdf"),
        ((held_out, "-o", "nowhere/r.xlsx"), "cannot write"),
        (("none.jsonl", "-o", "r.xlsx"), "no such file"),
        ((held_out, "--examples", held_out, "-o", "r.xlsx"), "holds no judgments"),
        ((held_out,), "Missing option '-o'"),
    ):
        memalign("review tone", *words, code=2, says=said)
    assert not Path("r.xlsx").exists()
    changed = jsonl(Path("changed.jsonl"), [HELD_OUT[0] | {"outputs": "Another."}])
    memalign(
        "review tone judged.jsonl --examples",
        changed,
        "-o",
        "r.xlsx",
        says="has changed since it was",
    )
    memalign("review tone held_out.jsonl -o r.xlsx", code=0)
    memalign(
        "review tone held_out.jsonl -o r.xlsx", says="somebody may have filled it in"
    )
