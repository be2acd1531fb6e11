"""What a person learns about feedback before a judge does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cli.conftest import FEEDBACK, Run, jsonl
from tests.support.endpoint import Endpoint


def row(example_id: str, value: object, source: str | None = None, **more: Any) -> dict[str, Any]:
    given = {"id": example_id, "inputs": f"question {example_id}", "outputs": "answer", "value": value, **more}
    return given if source is None else {**given, "source": source}


def test_labels_sources_duplicates_and_conflicts_are_told(memalign: Run, tmp_path: Path) -> None:
    unlabelled = row("u", None, "eva", rationale="Too long.")
    rows = [row("a", True, "ana"), {**row("b", False, "ben"), "inputs": "question a"}, unlabelled]
    file = jsonl(tmp_path / "f.jsonl", [*rows, *(row(f"t-{n}", True) for n in range(10))])
    found = memalign("check", file, "--value-type", "bool", "--json")
    assert found.code == 0
    assert found.json["labels"] == {"true": 11, "false": 1}
    assert found.json["sources"] == {"unknown": 10, "ana": 1, "ben": 1, "eva": 1}
    assert (found.json["cases"], found.json["duplicates"], found.json["alpha"]) == (12, [["a", "b"]], None)
    annotations = {"a@ana": True, "b@ben": False}
    assert found.json["conflicts"] == [{"ids": ["a", "b"], "annotations": annotations, "label": None}]
    shown = memalign("check", file, "--value-type", "bool").out
    for words in (
        "13 rows on 12 cases; 12 with a value, 1 with a rationale",
        "92%",
        "unknown (no source given)",
        "a@ana: true, b@ben: false",
        "too few to measure, 1 case labelled by two or more people",
    ):
        assert words in shown


def test_agreement_between_people_is_krippendorffs_alpha(memalign: Run, tmp_path: Path) -> None:
    pairs = [("a", 1, 1), ("b", 5, 5), ("c", 2, 2), ("d", 4, 5)]
    rows = [row(key, value, who) for key, *values in pairs for who, value in zip(("ana", "ben"), values, strict=True)]
    file = jsonl(tmp_path / "f.jsonl", rows)
    found = memalign("check", file, "--value-type", "int:1..5", "--json").json
    assert found["compared"] == 4
    assert 0.9 < found["alpha"] < 1
    nominal = memalign("check", jsonl(tmp_path / "g.jsonl", [{**r, "value": str(r["value"])} for r in rows]), "--json")
    assert nominal.json["alpha"] < found["alpha"]
    assert "Krippendorff's alpha" in memalign("check", file).out


def test_bad_rows_are_named_and_others_described(memalign: Run, tmp_path: Path) -> None:
    file = jsonl(tmp_path / "f.jsonl", [row("a", 7), row("b", 3), {"id": "c", "inputs": "x"}])
    found = memalign("check", file, "--value-type", "int:1..5", "--json")
    assert found.code == 1
    assert found.json["rows"] == 1
    assert [(bad["line"], bad["id"]) for bad in found.json["invalid"]] == [(1, "a"), (3, "c")]
    assert "use a whole number from 1 to 5" in memalign("check", file, "--value-type", "int:1..5").out


def test_a_judge_shows_new_rows_without_a_call(memalign: Run, aligned: str, tmp_path: Path, endpoint: Endpoint) -> None:
    calls = len(endpoint.requests)
    rows = [
        FEEDBACK[0],
        {**FEEDBACK[1], "rationale": "Very warm."},
        {"id": "t-3", "value": False, "source": "cleo"},
        {"id": "n-1", "inputs": "no reply here", "value": True},
        {**FEEDBACK[2], "outputs": "Something else."},
    ]
    found = memalign("check", jsonl(tmp_path / "f.jsonl", rows), aligned, "--json")
    assert found.code == 1
    assert found.json["status"] == {"unchanged": 1, "changed": 1, "new": 1}
    assert [bad["line"] for bad in found.json["invalid"]] == [4, 5]
    assert "{{ outputs }}" in found.json["invalid"][0]["reason"]
    assert len(endpoint.requests) == calls


def test_rows_from_stdin_are_read_like_a_file(memalign: Run, tmp_path: Path) -> None:
    line = json.dumps(row("a", True))
    assert memalign("check", "-", stdin=f"\ufeff{line}\n").code == 0
    deep = "[" * 5000 + "]" * 5000
    for wrong, said in ((line[:-2] + "\udcff" + line[-2:], "not UTF-8"), (f'{{"id": {deep}}}', "broken JSON")):
        refused = memalign("check", "-", stdin=f"{line}\n{wrong}\n".encode("utf-8", "surrogateescape"))
        assert refused.code == 1
        assert "1 invalid" in refused.out
        assert said in refused.out
