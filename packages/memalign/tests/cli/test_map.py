"""Columns of other names: --map on every command that reads rows, remembered with the judge."""

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


def test_a_mapping_is_learned_with_and_remembered(memalign: Run, tone: str, labels: Path) -> None:
    done = memalign("align", tone, labels, "--map", MAP, "--source", "ana", "--json")
    assert done.code == 0, done.err
    assert [row["key"] for row in done.json["rows"]] == ["t-1@ana", "t-2@ana"]
    assert memalign("show", tone, "--json").json["columns"] == {
        "id": "ticket",
        "inputs": "question",
        "outputs": "answer",
        "value": "label",
        "rationale": "comment",
    }
    assert "outputs from answer" in memalign("show", tone).out
    again = memalign("align", tone, labels, "--source", "ana", "--json")
    assert {row["status"] for row in again.json["rows"]} == {"unchanged"}
    judged = memalign("judge", tone, labels, "--json").json
    assert [row["id"] for row in judged["judgments"]] == ["t-1", "t-2"]
    assert memalign("evaluate", tone, labels, "--json").json["evaluation"]["n"] == 2
    assert memalign("next", tone, labels, "--json").code == 0
    exported = memalign("export", tone, "-o", "tone.json")
    assert exported.code == 0
    assert memalign("import", "tone.json", "--name", "copy").code == 0
    assert memalign("show", "copy", "--json").json["columns"]["outputs"] == "answer"


def test_files_of_the_usual_names_are_still_read(memalign: Run, tone: str, labels: Path, held_out: Path) -> None:
    assert memalign("align", tone, labels, "--map", MAP).code == 0
    assert memalign("judge", tone, held_out).code == 0
    assert memalign("check", jsonl(labels.parent / "more.jsonl", FEEDBACK[2:]), tone).code == 0


def test_none_forgets_a_mapping(memalign: Run, tone: str, labels: Path) -> None:
    assert memalign("align", tone, labels, "--map", MAP).code == 0
    assert memalign("edit", tone, "--map", "none").code == 0
    assert memalign("show", tone, "--json").json["columns"] == {}
    refused = memalign("align", tone, labels)
    assert refused.code == 2
    assert "has no column id; its columns: ticket, question, answer, label, comment; --map id=COLUMN" in refused.err
    assert memalign("edit", tone, "--map", MAP).code == 0
    assert memalign("judge", tone, labels).code == 0


def test_reading_commands_use_the_mapping_once(memalign: Run, tone: str, labels: Path) -> None:
    for command in (("check", labels, tone), ("judge", tone, labels), ("evaluate", tone, labels)):
        done = memalign(*command, "--map", MAP)
        assert done.code == 0, done.err
    assert memalign("check", labels, "--map", MAP, "--value-type", "bool").code == 0
    shown = memalign("show", tone, "--json").json
    assert (shown["version"], shown["columns"]) == (1, {})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            "value=lable",
            "has no column 'lable', from which value was to be read; its columns: ticket, question, answer",
        ),
        ("output=answer", "'output' is not a field; fields: id, inputs, outputs"),
        ("answer", "--map answer: write it as field=column"),
        ("inputs=answer,outputs=answer", "column 'answer' is named for two fields"),
        ("outputs=", "has no name"),
    ],
)
def test_a_wrong_mapping_says_what_is_wrong(memalign: Run, tone: str, labels: Path, given: str, said: str) -> None:
    done = memalign("align", tone, labels, "--map", "id=ticket", "--map", given)
    assert done.code == 2
    assert said in done.err.replace("\n", " ")
    assert memalign("show", tone, "--json").json["version"] == 1


def test_a_judges_own_verdicts_stay_nobodys_feedback(memalign: Run, tone: str, held_out: Path) -> None:
    assert memalign("judge", tone, held_out, "-o", "judged.jsonl").code == 0
    refused = memalign("align", tone, "judged.jsonl", "--source", "ana")
    assert refused.code == 2
    assert "a judge's own verdict" in refused.err


def test_json_lines_of_stdin_are_mapped_too(memalign: Run, tone: str) -> None:
    line = '{"id": "s-1", "inputs": "Hello?", "answer": "Hello!", "label": true}\n'
    done = memalign("align", tone, "-", "--map", "outputs=answer,value=label", "--source", "ben", "--json", stdin=line)
    assert [row["key"] for row in done.json["rows"]] == ["s-1@ben"]
