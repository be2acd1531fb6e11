"""A judge whose model is a server on loopback, and feedback for an align in several stages.

`python -m tests.support.paying URL NAME FEEDBACK.json` aligns in a process of its own, which a
test can kill.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from memalign import Judge, MemAlign, Registry
from tests.support.endpoint import Answer, Body, user_of
from tests.support.learning import changes_of
from tests.support.rows import RawRow

NAME = "replies"
INSTRUCTIONS = (
    "Is the reply to the customer good?\nQuery: {{ inputs }}\nReply: {{ outputs }}"
)
OPTIMIZER = MemAlign(shard_size=2, concurrency=2)


def answer(body: Body) -> Answer:
    """One rule for each record; every reply is good."""
    if "New feedback:" in user_of(body):
        more = "whatever the customer asks and however short the reply is to be"
        return changes_of(
            user_of(body),
            lambda _, comment: f"{comment.replace('because of', 'Mind')}, {more}.",
        )
    if "'name': 'merged'" in str(body.get("response_format")):
        return {"guidelines": []}
    return {"rationale": "It answers.", "value": True}


def rows(count: int, *, source: str = "ana", first: int = 0) -> list[RawRow]:
    return [
        {
            "id": f"t-{source}-{n}",
            "source": source,
            "inputs": f"question {n} of {source}",
            "outputs": f"answer {n} to {source}",
            "value": n % 2 == 0,
            "rationale": f"because of matter number {n}",
            "created_at": "2026-01-01T00:00:00+00:00",
        }
        for n in range(first, first + count)
    ]


def judge(**changes: Any) -> Judge:
    settings: dict[str, Any] = {
        "instructions": INSTRUCTIONS,
        "feedback_value_type": bool,
        "model": "openai:test",
    }
    return Judge(**{"name": NAME} | settings | changes)


def create(path: Path | str, **changes: Any) -> Registry:
    """A registry in a file, or at a URL, with a judge that has learned nothing."""
    registry = Registry(path if isinstance(path, str) else f"sqlite:///{path}")
    registry.create(judge(**changes))
    return registry


if __name__ == "__main__":
    url, name, file = sys.argv[1:]
    Registry(url).align(
        name, json.loads(Path(file).read_text("utf-8")), optimizer=OPTIMIZER
    )
