"""Columns of other names: --map on every command that reads rows, remembered by those
that change the judge."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import FEEDBACK, Run, jsonl, latest

CSV = """\
ticket,question,answer,label,comment
t-1,My order is late.,It is in transit.,no,Cold.
t-2,Thanks!,Any time!,yes,
"""
MAP = "id=ticket,inputs=question,outputs=answer,value=label,rationale=comment"


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    (tmp_path / "labels.csv").write_text(CSV, "utf-8")
    return tmp_path / "labels.csv"


def test_a_mapping_is_learned_with_and_remembered(
    memalign: Run, tone: str, labels: Path
) -> None:
    align = "align tone labels.csv --source ana --json"
    done = memalign(f"{align} --map {MAP}", code=0).json
    assert [row["key"] for row in done["rows"]] == ["t-1@ana", "t-2@ana"]
    columns = memalign("show tone --json").json["columns"]
    assert columns == dict(pair.split("=") for pair in MAP.split(","))
    memalign("show tone", says='"outputs": "answer"')
    for row in memalign(align).json["rows"]:
        assert row["status"] == "unchanged"
    usual = jsonl(labels.with_name("usual.jsonl"), FEEDBACK)
    memalign("judge tone", usual, code=0)  # files of the usual names are still read
    line = (
        '{"ticket": "s-1", "question": "Hello?", "answer": "Hello!", "label": true}\n'
    )
    (piped,) = memalign("align tone - --source ben --json", stdin=line).json["rows"]
    assert piped["key"] == "s-1@ben"


def test_none_forgets_a_mapping(memalign: Run, tone: str, labels: Path) -> None:
    memalign("align tone labels.csv --map", MAP, code=0)
    memalign("edit tone --map none", code=0)
    assert memalign("show tone --json").json["columns"] == {}
    memalign("align tone labels.csv", code=2)


@pytest.mark.parametrize(
    "command",
    [
        "judge tone labels.csv",
        "evaluate tone labels.csv",
        "next tone labels.csv",
        "check labels.csv tone",
        "review tone labels.csv -o sheet.xlsx",
    ],
)
def test_a_command_that_only_reads_takes_a_mapping_and_writes_no_version(
    memalign: Run, tone: str, labels: Path, command: str
) -> None:
    registry = Path("memalign.db")
    registry.chmod(0o444)
    memalign(f"{command} --map {MAP}", code=0)
    registry.chmod(0o644)
    assert latest() == 1
    memalign("edit tone --map", MAP, code=0)
    for mapped in (command, f"{command} --map {MAP}"):
        Path("sheet.xlsx").unlink(missing_ok=True)
        memalign(mapped, code=0)
    assert latest() == 2


@pytest.mark.parametrize(
    ("command", "needed"),
    [
        ("judge", "inputs, outputs"),
        ("next", "inputs, outputs"),
        ("align", "inputs, outputs, value"),
        ("evaluate", "inputs, outputs, value"),
    ],
)
def test_a_judge_and_a_file_of_other_columns_meet_in_one_message(
    memalign: Run, tone: str, labels: Path, command: str, needed: str
) -> None:
    columns = "Its columns are ticket, question, answer, label, comment. Name"
    lacking = f"has no column for {needed}. {columns}"
    memalign(f"{command} tone labels.csv", code=2, says=lacking)


def test_a_mapping_that_lacks_a_part_is_completed(
    memalign: Run, tone: str, labels: Path
) -> None:
    kept = "--map outputs=answer,inputs=question,value=label"
    memalign("align tone labels.csv --map outputs=answer", says=kept)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            "value=lable",
            "has no column 'lable' for value. Its columns are ticket, question, answer",
        ),
        (
            "output=answer",
            "'output' is not a field. Write FIELD=COLUMN; the fields are id, inputs, ",
        ),
        ("answer", "--map answer: write FIELD=COLUMN"),
        ("inputs=answer,outputs=answer", "column 'answer' is mapped to two fields"),
        ("outputs=", "names no column"),
    ],
)
def test_a_wrong_mapping_says_what_is_wrong(
    memalign: Run, tone: str, labels: Path, given: str, said: str
) -> None:
    done = memalign("align tone labels.csv --map id=ticket --map", given, code=2)
    assert said in done.err.replace("\n", " ")
    assert latest() == 1
