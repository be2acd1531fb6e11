"""Servers of people's own, as they are on the wire: what Ollama, vLLM and LM Studio take, refuse and leave out.

Each is an `Endpoint` whose `answer` is made by a function of the schema that was asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.endpoint import Answer, Endpoint, Fault, error_in_answer

Fill = Callable[[dict[str, Any]], dict[str, Any]]
"""From a request with a JSON schema to an object that fits it."""


def ollama(fill: Fill, *, models: tuple[str, ...] = ("qwen2.5:7b", "llama3.2:latest")) -> Endpoint:
    """No key, names with a colon, plain text for an unknown path."""

    def answer(body: dict[str, Any]) -> Answer:
        if body["model"] not in models:
            message = f'model "{body["model"]}" not found, try pulling it first'
            return _error(404, message, "not_found_error", code=None)
        return fill(body)

    return Endpoint(answer, elsewhere=Fault(status=404, body="404 page not found"))


def vllm(fill: Fill, *, model: str, key: str | None = None, context: int = 32_768) -> Endpoint:
    """One model, a key where it was started with one, and a context that it holds to."""

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

    endpoint = Endpoint(answer, elsewhere=Fault(status=404, body={"detail": "Not Found"}))
    return endpoint


def lm_studio(fill: Fill, *, models: tuple[str, ...] = ("qwen2.5-7b-instruct",)) -> Endpoint:
    """Errors in answers of HTTP 200, and no format but json_schema."""

    def answer(body: dict[str, Any]) -> Answer:
        if body["model"] not in models:
            return error_in_answer(
                "No models loaded. Please load a model in the developer page or use the `lms load` command."
            )
        if body.get("response_format", {}).get("type") not in ("json_schema", "text"):
            return error_in_answer("'response_format.type' must be 'json_schema' or 'text'")
        return fill(body)

    unknown = error_in_answer("Unexpected endpoint or method. (POST /chat/completions)")
    return Endpoint(answer, elsewhere=unknown)


def _error(status: int, message: str, kind: str, *, code: int | None) -> Fault:
    return Fault(status=status, body={"error": {"message": message, "type": kind, "param": None, "code": code}})
