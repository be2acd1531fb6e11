"""Answers of OpenAI-compatible servers, brought into the form that OpenAI's API promises before a library reads them.

Such servers leave out, misspell or misplace what surrounds a verdict (`usage`, `id`, `object`, `created`,
`finish_reason`), and report errors with the status 200. A library that checks the envelope would refuse the answer in
it, which is paid for. So whatever does not bear on the answer is put right here, and an error is given its status.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx2

__all__ = ["INSIDE_200", "CutAnswer", "http_client", "is_answer", "readable"]

INSIDE_200 = "inside_200"
"""The key of an error's body that came with a status of success: what the server counted all the same."""


class CutAnswer(ValueError):
    """An answer of a model, perhaps paid for, that cannot be read at all."""


def http_client() -> httpx2.AsyncClient:
    """Return a client whose answers are `readable`, with the timeouts and limits of pydantic-ai's own."""
    import httpx2
    from pydantic_ai.models import get_user_agent

    class Client(httpx2.AsyncClient):
        async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
            response = await super().send(request, **options)
            if response.status_code != 200 or options.get("stream"):
                return response
            status, body = readable(await response.aread())
            if body is None:
                return response
            headers = [
                (name, value)
                for name, value in response.headers.multi_items()
                if name.lower() not in _OF_BYTES
            ]
            headers.append(("content-type", "application/json"))
            # In ASCII: a text may hold half of a surrogate pair, which UTF-8 cannot hold.
            data = json.dumps(body).encode()
            return httpx2.Response(status, headers=headers, content=data, request=request)

    return Client(
        timeout=httpx2.Timeout(600, connect=5),
        limits=httpx2.Limits(max_connections=1000, max_keepalive_connections=100),
        headers={"User-Agent": get_user_agent()},
    )


_OF_BYTES = {"content-length", "content-encoding", "transfer-encoding", "content-type"}


def readable(content: bytes) -> tuple[int, dict[str, Any] | None]:
    """Return the status and the body that an answer with the status 200 should have; None for what is no answer.

    Args:
        content: The body as it came: JSON, or the events of a server that always streams.

    Raises:
        CutAnswer: JSON that ends too soon.
        ValueError: What is neither, such as a proxy's page.
    """
    body = _unwrapped(_opened(content))
    if not isinstance(body, dict):
        return 200, None
    text = _text_of(_choice(body))
    if not text and (error := _error_in(body)) is not None:
        return _status_of(error), {"error": {**error, INSIDE_200: _usage(body) or {}}}
    if is_answer(body):
        return 200, _completion(body, text)
    vectors = body.get("data")
    if (
        isinstance(vectors, list)
        and vectors
        and all(isinstance(row, dict) and "embedding" in row for row in vectors)
    ):
        return 200, _embeddings(body, vectors)
    return 200, None


def _opened(content: bytes) -> object:
    """Return what a body holds. Raises ValueError, and CutAnswer for what began as an answer."""
    start = content.removeprefix(b"\xef\xbb\xbf").lstrip()
    streamed = start.startswith((b"data:", b"event:", b"id:", b": "))
    body = _events(content) if streamed else _json(content)
    if body is None and not start.startswith(b"null"):
        raise (
            CutAnswer("no JSON")
            if streamed or start.startswith((b"{", b"["))
            else ValueError("no JSON")
        )
    return body


def _unwrapped(body: object) -> object:
    """Return the completion in a gateway's envelope around it."""
    if isinstance(body, list) and len(body) == 1:
        body = body[0]
    if not isinstance(body, dict) or "choices" in body:
        return body
    inner = [
        part for name in ("data", "result", "response") if isinstance(part := body.get(name), dict)
    ]
    return next((part for part in inner if "choices" in part), body)


def is_answer(body: Mapping[str, Any]) -> bool:
    """Return whether a body is a completion, however odd."""
    return isinstance(body.get("choices"), list | dict) or isinstance(body.get("message"), dict)


def _json(content: bytes) -> object:
    try:
        return json.loads(content.decode("utf-8-sig", "replace").strip())
    except (ValueError, RecursionError):
        return None


def _events(content: bytes) -> object:
    """Return the completion whose pieces a stream of events brings."""
    whole: dict[str, Any] = {}
    words: list[str] = []
    reason = None
    for line in content.decode("utf-8", "replace").splitlines():
        event = _json(line.removeprefix("data:").encode()) if line.startswith("data:") else None
        if not isinstance(event, dict):
            continue
        if event.get("error"):
            return event
        whole |= {key: part for key, part in event.items() if part}
        choice = _choice(event)
        piece = choice.get("delta")
        words.append(_text(piece.get("content")) if isinstance(piece, dict) else _text_of(choice))
        reason = choice.get("finish_reason") or reason
    message = {"role": "assistant", "content": "".join(words)}
    return (
        whole | {"choices": [{"index": 0, "finish_reason": reason, "message": message}]}
        if words
        else None
    )


# -- the answer --------------------------------------------------------------------------------------------------------


def _choice(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first choice of a completion; one that has none may have a message of its own."""
    choices = body.get("choices")
    if isinstance(choices, dict):
        choices = [*choices.values()]
    if not isinstance(choices, list):
        choices = [body] if isinstance(body.get("message"), dict) else []
    found = [choice for choice in choices if isinstance(choice, dict)]
    return next(filter(_text_of, found), found[0] if found else {})


def _text_of(choice: Mapping[str, Any]) -> str:
    """Return what a choice says, wherever it stands: in the content, as a tool call, or taken for reasoning."""
    message = _message(choice)
    for said in (
        message.get("content"),
        message.get("parsed"),
        choice.get("text"),
        _arguments(message),
    ):
        if (text := _text(said)).strip():
            return text
    for name in (
        "reasoning_content",
        "reasoning",
    ):  # servers whose parser takes a whole answer for a thought
        thought = _text(message.get(name)).strip()
        if thought.startswith("{") and thought.endswith("}"):
            return thought
    return ""


def _message(choice: Mapping[str, Any]) -> dict[str, Any]:
    found = choice.get("message") or choice.get("delta")
    return found if isinstance(found, dict) else {}


def _arguments(message: Mapping[str, Any]) -> object:
    """Return the arguments of the one tool call of a message; None without one."""
    calls = message.get("tool_calls")
    calls = calls if isinstance(calls, list) else [{"function": message.get("function_call")}]
    functions = [call.get("function") for call in calls if isinstance(call, dict)]
    named = [each for each in functions if isinstance(each, dict)]
    return named[0].get("arguments") if len(named) == 1 else None


def _text(content: object) -> str:
    """Return a content as text: it may come in parts, or as the object that the text would spell."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        text = content.get("text")
        return text if isinstance(text, str) and "type" in content else json.dumps(content)
    if isinstance(content, list):
        parts = [part if isinstance(part, dict) else {"text": part} for part in content]
        texts = [
            part.get("text") for part in parts if part.get("type") not in ("reasoning", "thinking")
        ]
        return "".join(text for text in texts if isinstance(text, str))
    return ""


_REASONS = {
    "max_tokens": "length",
    "max_length": "length",
    "model_length": "length",
    "max_output_tokens": "length",
}
_REASONS |= dict.fromkeys(
    (
        "content_filter",
        "content-filter",
        "safety",
        "prohibited_content",
        "blocklist",
        "sensitive",
        "guardrail_intervened",
    ),
    "content_filter",
)
"""Finish reasons of other servers that mean what one of OpenAI's does."""


def _completion(body: dict[str, Any], text: str) -> dict[str, Any]:
    """Return the completion with everything around its text put right. What it has besides stays."""
    choice = _choice(body)
    given = choice.get("finish_reason") or choice.get("done_reason")
    reason = given if isinstance(given, str) else "stop"
    kept = {
        name: part
        for name, part in choice.items()
        if name not in ("logprobs", "error", "delta", "text")
    }
    kept |= {"index": 0, "finish_reason": _REASONS.get(reason.lower(), reason)}
    kept |= {"message": _mended(_message(choice), text)}
    identity = body.get("id")
    return {name: part for name, part in body.items() if name not in _UNREAD} | {
        "id": identity if isinstance(identity, str) else "",
        "object": "chat.completion",
        "created": 0,
        "model": _name(body),
        "choices": [kept],
        "usage": _usage(body),
    }


def _mended(message: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Return a message with its text, and without what nobody reads."""
    mended = {name: part for name, part in message.items() if name not in _UNREAD_OF_A_MESSAGE}
    for name in ("reasoning", "reasoning_content"):
        if not isinstance(mended.get(name), str):
            mended.pop(name, None)
    refusal = message.get("refusal")
    refused = isinstance(refusal, str) and refusal.strip() and not text.strip()
    return mended | {"role": "assistant", "content": text, "refusal": refusal if refused else None}


def _name(body: Mapping[str, Any]) -> str:
    name = body.get("model")
    return name if isinstance(name, str) else ""


def _embeddings(body: dict[str, Any], vectors: list[dict[str, Any]]) -> dict[str, Any]:
    """Return vectors with everything around them put right."""
    rows = [{"object": "embedding", "index": n, **row} for n, row in enumerate(vectors)]
    rows = (
        sorted(rows, key=lambda row: row["index"])
        if all(type(row["index"]) is int for row in rows)
        else rows
    )
    usage = body.get("usage")
    read = (
        _first_count(usage, "prompt_tokens", "total_tokens", "input_tokens")
        if isinstance(usage, dict)
        else None
    )
    return {
        "object": "list",
        "model": _name(body),
        "data": rows,
        "usage": {"prompt_tokens": read or 0, "total_tokens": read or 0},
    }


_UNREAD_OF_A_MESSAGE = {
    "tool_calls",
    "function_call",
    "annotations",
    "audio",
    "parsed",
    "reasoning_details",
}
_UNREAD = {
    "error",
    "message",
    "service_tier",
    "system_fingerprint",
    "moderation",
    "metadata",
    "prompt_filter_results",
}


def _usage(body: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what the server counted; None if it did not count both what it read and what it wrote."""
    found = body.get("usage")
    used = found if isinstance(found, dict) else body
    read = _first_count(used, "prompt_tokens", "input_tokens", "prompt_eval_count")
    written = _first_count(used, "completion_tokens", "output_tokens", "eval_count")
    total = _first_count(used, "total_tokens")
    if read is not None and written is None and total is not None and total >= read:
        written = total - read
    if read is None or written is None:
        return None
    counts = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
    if used is body:
        return counts
    kept = {name: _counted(part) for name, part in used.items() if name not in counts}
    return {name: part for name, part in kept.items() if part is not None} | counts


def _counted(part: object) -> object:
    if isinstance(part, dict):
        counts = {name: _count(number) for name, number in part.items()}
        return {name: number for name, number in counts.items() if number is not None}
    return part if isinstance(part, float) else _count(part)


def _first_count(used: Mapping[str, Any], *names: str) -> int | None:
    return next((count for name in names if (count := _count(used.get(name))) is not None), None)


def _count(number: object) -> int | None:
    """Return a number of tokens, in whatever form it came."""
    if isinstance(number, str) and number.strip().isdecimal():
        number = int(number)
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    return int(number) if 0 <= number < 1e15 else None


# -- errors ------------------------------------------------------------------------------------------------------------

_STATUSES = (
    (
        429,
        r"rate.?limit|too.?many.?requests|resource.?exhausted|throttl|(tokens|requests) per (minute|day)",
    ),
    (402, r"insufficient.{0,12}(quota|credit|balance|fund)|billing|payment|arrear|out of credit"),
    (401, r"api.?key|unauthori[sz]ed|unauthenticated|authentication|invalid.?token"),
    (403, r"permission|forbidden|access.?denied"),
    (404, r"not.?found|does not exist|unknown.?model|invalid.?model"),
    (503, r"overload|unavailable|busy|loading"),
    (400, r"invalid|bad.?request|content.?filter|inspection|context|too long|unsupported|unknown"),
)
"""The status that a code in words stands for; the first that fits counts."""


def _error_in(body: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the error that a body without an answer reports, as the `error` of an HTTP error has it."""
    choice = _choice(body)
    errors = body.get("errors")
    first = errors[0] if isinstance(errors, list) and errors else None
    found = body.get("error") or choice.get("error") or first
    if isinstance(found, dict):
        return {**found, "message": _sentence(found)}
    if found:
        return {**_flat(body), "message": found if isinstance(found, str) else _sentence(body)}
    if choice.get("finish_reason") == "error":
        return {"message": "the server ended its answer with an error", "code": 502}
    if is_answer(body) or not _is_error(body):
        return None
    return {**_flat(body), "message": _sentence(body)}


def _is_error(body: Mapping[str, Any]) -> bool:
    """Return whether a body that is no completion is an error as a whole."""
    named = body.get("object") == "error" or body.get("success") is False or "detail" in body
    coded = any(
        body.get(name) for name in ("code", "status_code", "error_code", "error_msg", "statusCode")
    )
    return (named or coded) and bool(_sentence(body))


def _flat(body: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: part for name, part in body.items() if isinstance(part, str | int) and name != "error"
    }


def _sentence(error: Mapping[str, Any]) -> str:
    names = ("message", "error_msg", "error_message", "msg", "detail", "description", "error")
    return next(
        (part for name in names if isinstance(part := error.get(name), str) and part.strip()), ""
    )


def _status_of(error: Mapping[str, Any]) -> int:
    """Return the HTTP status that an error stands for: by its code as a number, else by its words."""
    names = ("code", "status", "status_code", "statusCode", "error_code", "http_status", "type")
    codes = [error.get(name) for name in names]
    for code in codes:
        number = _count(code)
        if number is not None and 400 <= number < 600:
            return number
    for words in (
        " ".join(code for code in codes if isinstance(code, str)),
        str(error.get("message")),
    ):
        for status, pattern in _STATUSES:
            if re.search(pattern, words, re.IGNORECASE):
                return status
    return 502
