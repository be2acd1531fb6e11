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


def test_labels_have_shares_also_those_that_nobody_gave(memalign: Run, tmp_path: Path) -> None:
    file = jsonl(tmp_path / "f.jsonl", [row("a", "good"), row("b", "good"), row("c", "bad")])
    found = memalign("check", file, "--value-type", "good|bad|ugly", "--json")
    assert found.code == 0
    assert found.json["labels"] == {"good": 2, "bad": 1, "ugly": 0}
    assert "67%" in memalign("check", file).out


def test_an_unknown_source_is_counted_and_shown(memalign: Run, tmp_path: Path) -> None:
    file = jsonl(tmp_path / "f.jsonl", [row("a", True), row("b", True, "ana")])
    assert memalign("check", file, "--json").json["sources"] == {"unknown": 1, "ana": 1}
    assert "unknown (no source given)" in memalign("check", file).out


def test_one_content_under_two_ids_is_one_case(memalign: Run, tmp_path: Path) -> None:
    duplicate = {**row("b", False, "ben"), "inputs": "question a"}
    file = jsonl(tmp_path / "f.jsonl", [row("a", True, "ana"), duplicate])
    found = memalign("check", file, "--value-type", "bool", "--json").json
    assert found["cases"] == 1
    assert found["duplicates"] == [["a", "b"]]
    assert found["conflicts"] == [{"ids": ["a", "b"], "annotations": {"a@ana": True, "b@ben": False}, "label": None}]
    shown = memalign("check", file).out
    assert "Conflicts" in shown
    assert "a@ana: true, b@ben: false" in shown


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


def test_one_shared_case_is_no_agreement(memalign: Run, tmp_path: Path) -> None:
    file = jsonl(tmp_path / "f.jsonl", [row("a", True, "ana"), row("a", True, "ben"), row("b", False, "ana")])
    assert memalign("check", file, "--json").json["alpha"] is None
    assert "too few to measure, 1 case labelled by two or more people" in memalign("check", file).out


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


def test_a_file_without_labels_has_no_shares(memalign: Run, tmp_path: Path) -> None:
    bad = jsonl(tmp_path / "f.jsonl", [row("a", "maybe")])
    found = memalign("check", bad, "--value-type", "bool", "--json")
    assert found.code == 1
    assert found.json["labels"] == {"true": 0, "false": 0}
    words = jsonl(tmp_path / "g.jsonl", [row("a", None, "ana", rationale="Too long.")])
    assert "1 row on 1 case; 0 with a value, 1 with a rationale" in memalign("check", words).out


def test_a_label_that_nobody_gave_is_worth_a_look(memalign: Run, tmp_path: Path) -> None:
    many = jsonl(tmp_path / "g.jsonl", [row(f"t-{n}", True, "ana") for n in range(12)])
    assert "look: nobody gave false" in memalign("check", many, "--value-type", "bool").out
    told = memalign("check", many, "--value-type", "bool", "--json").json
    assert told["remarks"] == ["nobody gave false; the judge can hardly learn when to give it"]
    assert told["sources"] == {"ana": 12}
