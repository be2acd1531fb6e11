"""Servers of people's own, as they are on the wire: what Ollama, vLLM and LM Studio take, refuse and leave out.

Each is an `Endpoint` whose `answer` is made by a function of the schema that was asked for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from tests.support.endpoint import Answer, Endpoint, Fault, error_in_answer

Fill = Callable[[dict[str, Any]], dict[str, Any]]
"""From a request with a JSON schema to an object that fits it."""


def ollama(fill: Fill, *, models: tuple[str, ...] = ("qwen2.5:7b", "llama3.2:latest")) -> Endpoint:
    """No key, names with a colon, plain text for an unknown path, and no token probabilities."""

    def answer(body: dict[str, Any]) -> Answer:
        if body["model"] not in models:
            message = f'model "{body["model"]}" not found, try pulling it first'
            return _error(404, message, "not_found_error", code=None)
        return fill(body)

    return Endpoint(answer, models=models, elsewhere=Fault(status=404, body="404 page not found"))


def vllm(fill: Fill, *, model: str, key: str | None = None, context: int = 32_768) -> Endpoint:
    """One model, a key where it was started with one, a context that it holds to, and token probabilities."""

    def answer(body: dict[str, Any]) -> Answer:
        if key is not None and endpoint.headers[-1].get("authorization") != f"Bearer {key}":
            return Fault(status=401, body={"error": "Unauthorized"})
        if body["model"] != model:
            return _error(404, f"The model `{body['model']}` does not exist.", "NotFoundError", code=404)
        asked = sum(len(str(each["content"])) for each in body["messages"]) // 4 + body["max_tokens"]
        if asked > context:
            message = f"This model's maximum context length is {context} tokens. However, you requested {asked} tokens."
            return _error(400, message, "BadRequestError", code=400)
        return fill(body)

    endpoint = Endpoint(
        answer, models=[model], elsewhere=Fault(status=404, body={"detail": "Not Found"}), logprobs=_told
    )
    return endpoint


def lm_studio(fill: Fill, *, models: tuple[str, ...] = ("qwen2.5-7b-instruct",)) -> Endpoint:
    """Errors in answers of HTTP 200, no format but json_schema, no tool that is forced, and no token probabilities."""

    def answer(body: dict[str, Any]) -> Answer:
        if body["model"] not in models:
            return error_in_answer(
                "No models loaded. Please load a model in the developer page or use the `lms load` command."
            )
        if body.get("response_format", {}).get("type") not in ("json_schema", "text"):
            return error_in_answer("'response_format.type' must be 'json_schema' or 'text'")
        if isinstance(body.get("tool_choice"), dict):
            return error_in_answer("Invalid tool_choice type: 'object'. Supported string values: none, auto, required")
        return fill(body)

    unknown = error_in_answer("Unexpected endpoint or method. (POST /chat/completions)")
    return Endpoint(answer, models=models, elsewhere=unknown)


def _error(status: int, message: str, kind: str, *, code: int | None) -> Fault:
    return Fault(status=status, body={"error": {"message": message, "type": kind, "param": None, "code": code}})


def _told(text: str) -> dict[str, Any]:
    """Tokens as vLLM tells them: the answer in words, the last truth value nine times as likely as the other."""
    found = list(re.finditer(r"\b(true|false)\b", text))
    if not found:
        return {"content": [_token(text)]}
    start, end = found[-1].span()
    chosen = found[-1][0]
    other = "false" if chosen == "true" else "true"
    label = _token(chosen, 0.9)
    label["top_logprobs"] = [_token(chosen, 0.9), _token(other, 0.1)]
    return {"content": [_token(text[:start]), label, _token(text[end:])]}


def _token(text: str, probability: float = 1.0) -> dict[str, Any]:
    return {"token": text, "bytes": list(text.encode()), "logprob": math.log(probability), "top_logprobs": []}
