"""Columns of other names: --map on every command that reads rows, remembered by those
that change the judge."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import FEEDBACK, Run, jsonl

CSV = "ticket,question,answer,label,comment\nt-1,My order is late.,It is in transit.,no,Cold.\nt-2,Thanks!,Any time!,yes,\n"
MAP = "id=ticket,inputs=question,outputs=answer,value=label,rationale=comment"


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    (tmp_path / "labels.csv").write_text(CSV, "utf-8")
    return tmp_path / "labels.csv"


def test_a_mapping_is_learned_with_and_remembered(
    memalign: Run, tone: str, labels: Path
) -> None:
    done = memalign(
        "align tone labels.csv --map", MAP, "--source", "ana", "--json", code=0
    )
    assert [row["key"] for row in done.json["rows"]] == ["t-1@ana", "t-2@ana"]
    assert memalign("show tone --json").json["columns"] == dict(
        pair.split("=") for pair in MAP.split(",")
    )
    memalign("show tone", says='"outputs": "answer"')
    again = memalign("align tone labels.csv --source ana --json")
    assert {row["status"] for row in again.json["rows"]} == {"unchanged"}
    usual = jsonl(labels.with_name("usual.jsonl"), FEEDBACK)
    memalign("judge tone", usual, code=0)  # files of the usual names are still read
    line = (
        '{"ticket": "s-1", "question": "Hello?", "answer": "Hello!", "label": true}\n'
    )
    piped = memalign("align tone - --source ben --json", stdin=line)
    assert [row["key"] for row in piped.json["rows"]] == ["s-1@ben"]


def test_none_forgets_a_mapping(memalign: Run, tone: str, labels: Path) -> None:
    memalign("align tone labels.csv --map", MAP, code=0)
    memalign("edit tone --map none", code=0)
    assert memalign("show tone --json").json["columns"] == {}
    memalign("align tone labels.csv", code=2)


@pytest.mark.parametrize("command", ["judge", "evaluate", "next", "check", "review"])
def test_a_command_that_only_reads_takes_a_mapping_and_writes_no_version(
    memalign: Run, tone: str, labels: Path, command: str
) -> None:
    words = {"check": (labels, tone), "review": (tone, labels, "-o", "sheet.xlsx")}.get(
        command, (tone, labels)
    )
    registry = Path("memalign.db")
    registry.chmod(0o444)
    memalign(command, *words, "--map", MAP, code=0)
    registry.chmod(0o644)
    assert memalign("show tone --json").json["version"] == 1
    memalign("edit tone --map", MAP, code=0)
    for mapping in ((), ("--map", MAP)):
        Path("sheet.xlsx").unlink(missing_ok=True)
        memalign(command, *words, *mapping, code=0)
    assert memalign("show tone --json").json["version"] == 2


def test_a_judge_and_a_file_of_other_columns_meet_in_one_message(
    memalign: Run, tone: str, labels: Path
) -> None:
    for command in ("judge", "align", "evaluate", "next"):
        needed = "inputs, outputs" + (
            ", value" if command in ("align", "evaluate") else ""
        )
        columns = "Its columns are ticket, question, answer, label, comment. Name"
        memalign(
            command, tone, labels, code=2, says=f"has no column for {needed}. {columns}"
        )
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
            "'output' is not a field. Write FIELD=COLUMN; the fields are id, inputs, outputs",
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
    assert memalign("show tone --json").json["version"] == 1
