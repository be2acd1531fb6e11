"""How many calls are in flight changes nothing that a command writes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memalign import Registry
from tests.cli.conftest import FEEDBACK, Run, jsonl
from tests.support.endpoint import Endpoint

MANY = [
    {
        "id": f"m-{number}",
        "inputs": f"Where is parcel {number}?",
        "outputs": f"Parcel {number} is on its way.",
        "value": number % 2 == 0,
        "rationale": f"It says nothing of parcel {number}'s day.",
        "source": "ana",
    }
    for number in range(12)
]
TIMES = ("seconds", "usage", "created_at", "finished_at", "started_at")


def memory(_: Path) -> object:
    return Registry("sqlite:///memalign.db").load("tone").memory.hash


def lines(path: Path) -> object:
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return [{name: value for name, value in row.items() if name not in TIMES} for row in rows]


WRITES: dict[str, tuple[tuple[str, ...], Callable[[Path], object]]] = {
    "align": (("align", "tone", "many.jsonl"), memory),
    "align of known keys": (("align", "tone", "changed.jsonl"), memory),
    "judge": (("judge", "tone", "many.jsonl", "-o", "out.jsonl"), lines),
    "evaluate": (("evaluate", "tone", "many.jsonl", "-o", "out.jsonl"), lines),
}


@pytest.mark.parametrize("command", WRITES)
def test_concurrency_changes_nothing_that_is_written(
    command: str, aligned: str, memalign: Run, tmp_path: Path, endpoint: Endpoint
) -> None:
    arguments, look = WRITES[command]
    jsonl(tmp_path / "many.jsonl", MANY)
    jsonl(tmp_path / "changed.jsonl", [{**FEEDBACK[0], "rationale": "Start with reassurance."}])
    shutil.copy("memalign.db", "before.db")
    found: list[Any] = []
    for concurrency in (1, 8):
        shutil.copy("before.db", "memalign.db")
        (tmp_path / "out.jsonl").unlink(missing_ok=True)
        endpoint.max_in_flight = 0
        ran = memalign(*arguments, "--concurrency", str(concurrency))
        assert ran.code == 0, ran.err
        assert endpoint.max_in_flight <= concurrency
        found.append(look(tmp_path / "out.jsonl"))
    assert found[0] == found[1]
