"""A registry with one judge, a scripted model behind it, and a server over both."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from memalign import Judge, Registry
from memalign.models.base import ChatRequest
from memalign.testing import HashEmbedding, ScriptedChatModel
from memalign_server import Settings, create_app

if TYPE_CHECKING:
    from fastapi import FastAPI

ADDRESS = "http://127.0.0.1:8321"
INSTRUCTIONS = "Is the reply warm and helpful?\nQuestion: {{ inputs }}\nReply: {{ outputs }}"
ROWS: list[dict[str, Any]] = [
    {"id": "t-1", "inputs": "My order is late.", "outputs": "It is in transit.", "value": False, "rationale": "Cold."},
    {"id": "t-2", "inputs": "Thanks!", "outputs": "Any time!", "value": True, "rationale": "Warm."},
]


def answer(request: ChatRequest) -> dict[str, Any]:
    """A model that passes every reply, and finds one rule in each piece of feedback that has words."""
    properties = request.schema["properties"]
    if "changes" not in properties:
        return {"rationale": "It answers the question.", "value": True}
    labels = properties["changes"]["items"]["properties"]["feedback"]["items"]["enum"]
    return {
        "changes": [
            {
                "action": "ADD",
                "text": f"A reply must show sympathy before facts ({label}).",
                "feedback": [label],
                "guideline": "",
            }
            for label in labels
        ]
    }


def models(script: Any = answer) -> list[Any]:
    return [ScriptedChatModel(script, name="scripted"), HashEmbedding()]


def registry(folder: Path, *, script: Any = answer, judges: tuple[str, ...] = ("tone",)) -> Registry:
    made = Registry(f"sqlite:///{folder / 'memalign.db'}", models=models(script))
    for name in judges:
        made.create(
            Judge(
                name=name,
                instructions=INSTRUCTIONS,
                feedback_value_type=bool,
                model="scripted",
                embedding_model=HashEmbedding().name,
            )
        )
    return made


def server(folder: Path, *, script: Any = answer, **settings: Any) -> FastAPI:
    """The application over the registry of `folder`, which is made when it is not there."""
    return create_app(Settings(registry=f"sqlite:///{folder / 'memalign.db'}", **settings), models=models(script))


def opened(url: str, *, script: Any = answer) -> Registry:
    return Registry(url, models=models(script))
