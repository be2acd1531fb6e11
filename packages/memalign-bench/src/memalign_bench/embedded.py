"""The embedded model as one that answers OpenAI chat completion requests."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import Any

from memalign.errors import ModelRejected
from memalign.models.llama_cpp import grammar, words_only
from memalign.models.local import LocalChatModel
from memalign.types import Usage

__all__ = ["LocalRaw", "asked", "completion"]

_SAMPLING = ("temperature", "top_p", "seed", "stop", "frequency_penalty", "presence_penalty")


class LocalRaw:
    """A RawModel over the embedded model.

    Several messages, free text, `response_format`, `n`, `stop`, `seed` and sampling are taken; tools and streams are not.
    """

    def __init__(self, model: LocalChatModel) -> None:
        self._model = model

    @property
    def name(self) -> str:
        """The embedded model's name."""
        return self._model.name

    @property
    def engine(self) -> str:
        """What computes its answers."""
        return self._model.engine

    async def raw(self, body: dict[str, Any]) -> dict[str, Any]:
        """The response to `body`; an answer that was cut has the finish reason "length"."""
        answers = []
        for number in range(body.get("n") or 1):
            request = asked(body)
            if "seed" in request:
                request["seed"] += number  # else every choice would be the same
            answers.append(await self._model.ask(request))
        usage = sum((answer.usage for answer in answers), Usage())
        choices = [(answer.text, answer.cut) for answer in answers]
        return completion(
            body.get("model", self.name), choices, usage, seconds=sum(answer.seconds for answer in answers)
        )


def completion(model: str, choices: Sequence[tuple[str, bool]], usage: Usage, *, seconds: float) -> dict[str, Any]:
    """The response with these `choices`, each a text and whether it was cut."""
    return {
        "id": f"chatcmpl-{secrets.token_hex(12)}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [
            {
                "index": index,
                "message": {"role": "assistant", "content": text},
                "finish_reason": "length" if cut else "stop",
            }
            for index, (text, cut) in enumerate(choices)
        ],
        "usage": {
            "prompt_tokens": usage.input_tokens,
            "completion_tokens": usage.output_tokens,
            "total_tokens": usage.input_tokens + usage.output_tokens,
            "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        },
        "seconds": seconds,
    }


def asked(body: dict[str, Any]) -> dict[str, Any]:
    """What llama.cpp is asked: only the fields that we know, and no control token in a text."""
    if body.get("tools") or body.get("stream"):
        raise ModelRejected(f"the embedded model serves no {'tools' if body.get('tools') else 'streams'} here")
    request = {name: body[name] for name in _SAMPLING if body.get(name) is not None}
    if limit := body.get("max_completion_tokens") or body.get("max_tokens"):
        request["max_tokens"] = limit
    request["messages"] = [{**each, "content": _words(each.get("content"))} for each in body["messages"]]
    shape = body.get("response_format") or {}
    if shape.get("type") == "json_schema":
        request["grammar"] = grammar(shape["json_schema"]["schema"])
    elif shape.get("type") == "json_object":
        request["grammar"] = grammar({"type": "object"})
    return request


def _words(content: Any) -> str:
    if isinstance(content, list):
        return "".join(words_only(part.get("text", "")) for part in content)
    return words_only(content or "")
