"""A model that answers OpenAI requests as a test says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from memalign.models.base import ChatReply, ChatRequest, Limits


class Scripted:
    """Answers with what `answer` makes of the body: a text, or an exception to raise. Both a RawModel and a ChatModel."""

    def __init__(self, answer: Callable[[dict[str, Any]], str | Exception], name: str = "openai:scripted") -> None:
        self.answer = answer
        self.name = name
        self.limits = Limits(context_tokens=8192, concurrency=1)
        self.bodies: list[dict[str, Any]] = []

    async def raw(self, body: dict[str, Any]) -> dict[str, Any]:
        self.bodies.append(body)
        said = self.answer(body)
        if isinstance(said, Exception):
            raise said
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": body["model"],
            "choices": [
                {"index": 0, "message": {"role": "assistant", "content": said}, "finish_reason": "stop"},
            ],
            "usage": {
                "prompt_tokens": 100,
                "completion_tokens": 10,
                "total_tokens": 110,
                "prompt_tokens_details": {"cached_tokens": 40},
            },
            "seconds": 2.5,
        }

    async def complete(self, request: ChatRequest) -> ChatReply:
        raise AssertionError("competitors send OpenAI requests")
