"""The embedded model as one that answers OpenAI chat completion requests."""

from __future__ import annotations

import secrets
import time
from typing import Any

from memalign.errors import ModelRejected
from memalign.models.llama_cpp import grammar, words_only
from memalign.models.local import LocalChatModel
from memalign.types import Usage

__all__ = ["LocalRaw"]

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
            asked = _asked(body)
            if "seed" in asked:
                asked["seed"] += number  # else every choice would be the same
            answers.append(await self._model.ask(asked))
        usage = sum((answer.usage for answer in answers), Usage())
        return {
            "id": f"chatcmpl-{secrets.token_hex(12)}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": body.get("model", self.name),
            "choices": [
                {
                    "index": index,
                    "message": {"role": "assistant", "content": answer.text},
                    "finish_reason": "length" if answer.cut else "stop",
                }
                for index, answer in enumerate(answers)
            ],
            "usage": {
                "prompt_tokens": usage.input_tokens,
                "completion_tokens": usage.output_tokens,
                "total_tokens": usage.input_tokens + usage.output_tokens,
                "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
            },
            "seconds": sum(answer.seconds for answer in answers),
        }


def _asked(body: dict[str, Any]) -> dict[str, Any]:
    """What llama.cpp is asked: only the fields that we know, and no control token in a text."""
    if body.get("tools") or body.get("stream"):
        raise ModelRejected(f"the embedded model serves no {'tools' if body.get('tools') else 'streams'} here")
    asked = {name: body[name] for name in _SAMPLING if body.get(name) is not None}
    if limit := body.get("max_completion_tokens") or body.get("max_tokens"):
        asked["max_tokens"] = limit
    asked["messages"] = [{**each, "content": _words(each.get("content"))} for each in body["messages"]]
    shape = body.get("response_format") or {}
    if shape.get("type") == "json_schema":
        asked["grammar"] = grammar(shape["json_schema"]["schema"])
    elif shape.get("type") == "json_object":
        asked["grammar"] = grammar({"type": "object"})
    return asked


def _words(content: Any) -> str:
    if isinstance(content, list):
        return "".join(words_only(part.get("text", "")) for part in content)
    return words_only(content or "")
