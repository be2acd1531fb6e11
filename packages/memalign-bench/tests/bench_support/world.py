"""A folder of tasks of our own invention, a run over one of them, and a judge model that is right about some of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.endpoint import Answer

TASKS = """
[tone]
category = "tone"
criterion = "Is the reply warm?"
values = "bool"
license = "ours"

[better]
category = "pairwise"
criterion = "Which reply is better: A or B?"
values = ["A", "B"]
split = "row"
"""
WORDS = ("parcel", "invoice", "refund", "password", "meeting", "garden", "engine", "recipe")


def tone_rows(n: int = 40) -> list[dict[str, Any]]:
    """Replies in groups of two; long ones are warm."""
    rows = []
    for i in range(n):
        warm = i % 3 != 0
        word = WORDS[i % len(WORDS)]
        reply = (
            f"Of course, I gladly look after your {word} number {i} for you right away!" if warm else f"{word} {i}: no."
        )
        rows.append(
            {
                "id": f"t-{i:02d}",
                "inputs": f"What about my {word} {i}?",
                "outputs": reply,
                "value": warm,
                "rationale": "Kind words before facts." if warm else "Far too cold.",
                "source": "ana",
                "group": f"g-{i // 2}",
            }
        )
    return rows


def better_rows(n: int = 30) -> list[dict[str, Any]]:
    """Two replies, of which the longer one is better."""
    rows = []
    for i in range(n):
        long, short = f"Certainly, here is all about {WORDS[i % 8]} {i} step by step.", f"{i}."
        a_wins = i % 2 == 0
        outputs = {"A": long, "B": short} if a_wins else {"A": short, "B": long}
        rows.append(
            {
                "id": f"b-{i:02d}",
                "inputs": f"Explain {WORDS[i % 8]}",
                "outputs": outputs,
                "value": "A" if a_wins else "B",
            }
        )
    return rows


def answer(body: dict[str, Any]) -> Answer:
    """A judge that calls every reply warm and every A better; and one rule for each piece of feedback."""
    properties = body["response_format"]["json_schema"]["schema"]["properties"]
    if "changes" in properties:
        labels = properties["changes"]["items"]["properties"]["feedback"]["items"]["enum"]
        return {
            "changes": [
                {
                    "action": "ADD",
                    "text": f"When a reply is short, it is cold ({label}).",
                    "feedback": [label],
                    "guideline": "",
                }
                for label in labels
            ]
        }
    value = properties["value"]
    return {"rationale": "It reads well.", "value": "A" if "A" in value.get("enum", ()) else True}


CONFIG = """
name = "small"
data = "tasks"
models = ["openai:test"]
tasks = ["tone"]
methods = ["majority", "zero-shot", "nearest", "memalign"]
stages = [0, 4, 8]
train = 8
test = 6
[prices]
input = 1.0
cached = 0.1
output = 2.0
"""


def write_tasks(folder: Path) -> Path:
    """The tasks under `folder`."""
    folder.mkdir()
    (folder / "tasks.toml").write_text(TASKS, "utf-8")
    for name, rows in (("tone", tone_rows()), ("better", better_rows())):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return folder


def write_config(folder: Path) -> Path:
    """The run's file in `folder`, beside `tasks`."""
    path = folder / "run.toml"
    path.write_text(CONFIG, "utf-8")
    return path
