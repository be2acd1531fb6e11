"""What a person learns about feedback before a judge does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cli.conftest import FEEDBACK, Run, jsonl, labelled, missing
from tests.support.endpoint import Endpoint
from tests.support.rows import RawRow


def row(example_id: str, value: object, **more: Any) -> RawRow:
    return labelled(example_id, f"question {example_id}", "answer", value) | more


def test_labels_sources_duplicates_and_conflicts_are_told(
    memalign: Run, tone: str, tmp_path: Path
) -> None:
    rows = [row(f"t-{n}", True) for n in range(10)]
    rows += [
        row("a", True, source="ana"),
        row("b", False, source="ben", inputs="question a"),
        row("u", None, source="eva", rationale="Too long."),
    ]
    jsonl(tmp_path / "f.jsonl", rows)
    review = memalign("check f.jsonl tone --json", code=0).json
    assert review["labels"] == {"true": 11, "false": 1}
    assert review["sources"] == {"unknown": 10, "ana": 1, "ben": 1, "eva": 1}
    assert (review["cases"], review["duplicates"]) == (12, [["a", "b"]])
    assert review["alpha"] is None
    (conflict,) = review["conflicts"]
    annotations = {"a@ana": True, "b@ben": False}
    assert conflict == {"ids": ["a", "b"], "annotations": annotations, "label": None}
    shown = memalign("check f.jsonl tone").out
    assert not missing(
        shown,
        "13 rows on 12 cases; 12 with a value, 1 with a rationale",
        "true 11 (92%), false 1 (8%)",
        "conflict on a, b: a@ana: true, b@ben: false; no label counts",
        "alpha on 1 case labelled by two or more people: none can be computed",
    )


def test_a_judge_shows_new_rows_without_a_call(
    memalign: Run, aligned: str, tmp_path: Path, endpoint: Endpoint
) -> None:
    rows = [
        FEEDBACK[0],
        {**FEEDBACK[1], "rationale": "Very warm."},
        {"id": "t-3", "value": False, "source": "cleo"},
        {"id": "n-1", "inputs": "no reply here", "value": True},
        {**FEEDBACK[2], "outputs": "Something else."},
    ]
    jsonl(tmp_path / "f.jsonl", rows)
    review = memalign("check f.jsonl tone --json", code=1).json
    assert review["status"] == {"unchanged": 1, "changed": 1, "new": 1}
    lacking, other = review["invalid"]
    assert (lacking["line"], other["line"]) == (4, 5)
    assert "{{ outputs }}" in lacking["reason"]
    assert not endpoint.requests


def test_rows_from_stdin_are_read_like_a_file(memalign: Run) -> None:
    line = json.dumps(row("a", True))
    memalign("check -", stdin=f"\ufeff{line}\n", code=0)
    deep = "[" * 5000 + "]" * 5000
    for wrong, said in (
        (line[:-2] + "\udcff" + line[-2:], "not UTF-8"),
        (f'{{"id": {deep}}}', "broken JSON"),
    ):
        lines = f"{line}\n{wrong}\n".encode("utf-8", "surrogateescape")
        told = memalign("check -", stdin=lines, code=1, says=said)
        assert "1 invalid" in told.out
