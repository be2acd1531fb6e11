"""What a person learns about feedback before a judge does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cli.conftest import FEEDBACK, Run, jsonl, missing
from tests.support.endpoint import Endpoint
from tests.support.rows import RawRow


def row(
    example_id: str, value: object, source: str | None = None, **more: Any
) -> RawRow:
    content = {
        "id": example_id,
        "inputs": f"question {example_id}",
        "outputs": "answer",
        "value": value,
        **more,
    }
    return content if source is None else {**content, "source": source}


def test_labels_sources_duplicates_and_conflicts_are_told(
    memalign: Run, tone: str, tmp_path: Path
) -> None:
    unlabelled = row("u", None, "eva", rationale="Too long.")
    rows = [
        row("a", True, "ana"),
        {**row("b", False, "ben"), "inputs": "question a"},
        unlabelled,
    ]
    file = jsonl(
        tmp_path / "f.jsonl", [*rows, *(row(f"t-{n}", True) for n in range(10))]
    )
    review = memalign("check", file, tone, "--json", code=0)
    assert review.json["labels"] == {"true": 11, "false": 1}
    assert review.json["sources"] == {"unknown": 10, "ana": 1, "ben": 1, "eva": 1}
    assert (review.json["cases"], review.json["duplicates"], review.json["alpha"]) == (
        12,
        [["a", "b"]],
        None,
    )
    annotations = {"a@ana": True, "b@ben": False}
    assert review.json["conflicts"] == [
        {"ids": ["a", "b"], "annotations": annotations, "label": None}
    ]
    shown = memalign("check", file, tone).out
    assert not missing(
        shown,
        "13 rows on 12 cases; 12 with a value, 1 with a rationale",
        "true 11 (92%), false 1 (8%)",
    )
    assert "conflict on a, b: a@ana: true, b@ben: false; no label counts" in shown
    assert (
        "Krippendorff's alpha on 1 case labelled by two or more people: none can be computed"
        in shown
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
    review = memalign(
        "check", jsonl(tmp_path / "f.jsonl", rows), aligned, "--json", code=1
    )
    assert review.json["status"] == {"unchanged": 1, "changed": 1, "new": 1}
    assert [bad["line"] for bad in review.json["invalid"]] == [4, 5]
    assert "{{ outputs }}" in review.json["invalid"][0]["reason"]
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
        assert not missing(
            memalign("check -", stdin=lines, code=1).out, "1 invalid", said
        )
