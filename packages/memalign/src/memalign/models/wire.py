"""Answers of OpenAI-compatible servers, in the form that OpenAI's API promises.

Such servers leave out, misspell or misplace what surrounds a verdict (`usage`, `id`, `object`,
`created`, `finish_reason`), and report errors with the status 200. A library that checks the
envelope would refuse the answer in it, which is paid for. So whatever does not bear on the answer
is put right here, before a library reads it, and an error is given its status.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from memalign.models.answers import is_only_thought

if TYPE_CHECKING:
    import httpx2

__all__ = [
    "INSIDE_200",
    "SENTENCES",
    "CutAnswer",
    "first_text",
    "http_client",
    "readable",
]

Json = dict[str, Any]

INSIDE_200 = "inside_200"
"""The key of an error's body that came with a status of success: what the server counted."""

SENTENCES = (
    "message",
    "error_msg",
    "error_message",
    "msg",
    "detail",
    "description",
    "error",
)
"""The fields in which servers tell what went wrong, in words."""


class CutAnswer(ValueError):
    """An answer of a model, perhaps paid for, that cannot be read at all."""


def http_client() -> httpx2.AsyncClient:
    """Return a client that puts answers right, with the timeouts and limits of pydantic-ai's."""
    import httpx2
    from pydantic_ai.models import get_user_agent

    class Client(httpx2.AsyncClient):
        async def send(
            self, request: httpx2.Request, **options: Any
        ) -> httpx2.Response:
            response = await super().send(request, **options)
            if response.status_code != 200 or options.get("stream"):
                return response
            status, body = readable(await response.aread())
            if body is None:
                return response
            headers = httpx2.Headers(response.headers)
            for name in _OF_BYTES:
                headers.pop(name, None)
            headers["content-type"] = "application/json"
            # In ASCII: a text may hold half of a surrogate pair, which UTF-8 cannot hold.
            data = json.dumps(body).encode()
            return httpx2.Response(
                status, headers=headers, content=data, request=request
            )

    return Client(
        timeout=httpx2.Timeout(600, connect=5),
        limits=httpx2.Limits(max_connections=1000, max_keepalive_connections=100),
        headers={"User-Agent": get_user_agent()},
    )


_OF_BYTES = ("content-length", "content-encoding", "transfer-encoding")


def readable(content: bytes) -> tuple[int, Json | None]:
    """Return the status and the body that an answer with the status 200 should have.

    Args:
        content: The body as it came: JSON, or the events of a server that always streams.

    Returns:
        The body is None for what is no answer of a model, which nobody changes.

    Raises:
        CutAnswer: JSON that ends too soon.
        ValueError: Neither JSON nor events, such as a proxy's page.
    """
    body = _unwrapped(_opened(content))
    if not isinstance(body, dict):
        return 200, None
    choice = _choice(body)
    text = _text_of(choice)
    error = None if text else _error_in(body, choice)
    if error is not None:
        return _status_of(error), {"error": {**error, INSIDE_200: _usage(body) or {}}}
    if _is_answer(body):
        return 200, _completion(body, choice, text)
    rows = body.get("data")
    if (
        isinstance(rows, list)
        and rows
        and all("embedding" in row for row in _objects(rows))
    ):
        return 200, _embeddings(body, rows)
    return 200, None


def _opened(content: bytes) -> object:
    """Return what a body holds.

    Raises:
        CutAnswer: It begins as an answer, and cannot be read.
        ValueError: It does not even begin as one.
    """
    start = content.removeprefix(b"\xef\xbb\xbf").lstrip()
    streamed = start.startswith((b"data:", b"event:", b"id:", b": "))
    body = _events(content) if streamed else _json(content)
    if body is not None or start.startswith(b"null"):
        return body
    if streamed or start.startswith((b"{", b"[")):
        raise CutAnswer("no JSON")
    raise ValueError("no JSON")


def _unwrapped(body: object) -> object:
    """Return the completion in a gateway's envelope around it."""
    if isinstance(body, list) and len(body) == 1:
        body = body[0]
    if not isinstance(body, dict) or "choices" in body:
        return body
    for name in ("data", "result", "response"):
        if "choices" in _object(body.get(name)):
            return body[name]
    return body


def _is_answer(body: Json) -> bool:
    """Return whether a body is a completion, however odd."""
    return isinstance(body.get("choices"), list | dict) or isinstance(
        body.get("message"), dict
    )


def _json(content: bytes) -> object:
    try:
        return json.loads(content.decode("utf-8-sig", "replace").strip())
    except (ValueError, RecursionError):
        return None


def _events(content: bytes) -> object:
    """Return the completion that a stream of events brings in pieces, or the error in it."""
    whole: Json = {}
    words: list[str] = []
    reason = None
    for line in content.decode("utf-8", "replace").splitlines():
        if not line.startswith("data:"):
            continue
        event = _object(_json(line.removeprefix("data:").encode()))
        if event.get("error"):
            return event
        if not event:
            continue
        whole |= {key: part for key, part in event.items() if part}
        choice = _choice(event)
        piece = choice.get("delta")
        words.append(
            _text(piece.get("content")) if isinstance(piece, dict) else _text_of(choice)
        )
        reason = choice.get("finish_reason") or reason
    if not words:
        return None
    message = {"role": "assistant", "content": "".join(words)}
    return whole | {
        "choices": [{"index": 0, "finish_reason": reason, "message": message}]
    }


# -- parts of odd JSON ---


def _object(value: object) -> Json:
    """Return a value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def _objects(values: Iterable[object]) -> list[Json]:
    """Return values as objects, empty ones for those that are none."""
    return [_object(value) for value in values]


def _without(value: Mapping[str, Any], names: Iterable[str]) -> Json:
    return {name: part for name, part in value.items() if name not in names}


def first_text(value: Mapping[str, Any], names: Iterable[str]) -> str:
    """Return the first of an object's fields that is a text with words in it, or ""."""
    for name in names:
        part = value.get(name)
        if isinstance(part, str) and part.strip():
            return part
    return ""


def _first_count(value: Mapping[str, Any], *names: str) -> int | None:
    """Return the first of an object's fields that is a number of tokens."""
    for name in names:
        count = _count(value.get(name))
        if count is not None:
            return count
    return None


def _count(number: object) -> int | None:
    """Return a number of tokens, in whatever form it came."""
    if isinstance(number, str) and number.strip().isdecimal():
        number = int(number)
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    return int(number) if 0 <= number < 1e15 else None


# -- the answer ---


def _choice(body: Json) -> Json:
    """Return the first choice of a completion that says something, else the first."""
    choices = body.get("choices")
    if isinstance(choices, dict):
        choices = [*choices.values()]
    if not isinstance(choices, list):
        # A completion without any may have a message of its own.
        choices = [body] if isinstance(body.get("message"), dict) else []
    found = [choice for choice in choices if isinstance(choice, dict)]
    return next(filter(_text_of, found), found[0] if found else {})


def _text_of(choice: Json) -> str:
    """Return what a choice says: in the content, as a tool call, or taken for reasoning."""
    message = _message(choice)
    places = (
        message.get("content"),
        message.get("parsed"),
        choice.get("text"),
        _arguments(message),
    )
    for said in places:
        text = _text(said)
        if text.strip():
            return text
    for name in ("reasoning_content", "reasoning"):
        # Some servers' parsers take a whole answer for a thought.
        thought = _text(message.get(name)).strip()
        if thought.startswith("{") and thought.endswith("}"):
            return thought
    return ""


def _message(choice: Json) -> Json:
    return _object(choice.get("message") or choice.get("delta"))


def _arguments(message: Json) -> object:
    """Return the arguments of the one tool call of a message; None without one."""
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        calls = [{"function": message.get("function_call")}]
    functions = _objects(call.get("function") for call in _objects(calls))
    named = [function for function in functions if function]
    return named[0].get("arguments") if len(named) == 1 else None


def _text(content: object) -> str:
    """Return a content as text: it may come in parts, or as the object that it would spell."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        text = content.get("text")
        return (
            text if isinstance(text, str) and "type" in content else json.dumps(content)
        )
    if not isinstance(content, list):
        return ""
    words = []
    for part in content:
        said = part.get("text") if isinstance(part, dict) else part
        thought = _object(part).get("type") in ("reasoning", "thinking")
        if isinstance(said, str) and not thought:
            words.append(said)
    return "".join(words)


_TOO_LONG = ("max_tokens", "max_length", "model_length", "max_output_tokens")
_FILTERED = (
    "content_filter",
    "content-filter",
    "safety",
    "prohibited_content",
    "blocklist",
    "sensitive",
    "guardrail_intervened",
)
_REASONS = dict.fromkeys(_TOO_LONG, "length") | dict.fromkeys(
    _FILTERED, "content_filter"
)
"""Finish reasons of other servers that mean what one of OpenAI's does."""

_UNREAD = (
    "error",
    "message",
    "service_tier",
    "system_fingerprint",
    "moderation",
    "metadata",
    "prompt_filter_results",
)
_UNREAD_OF_A_CHOICE = ("logprobs", "error", "delta", "text")
_UNREAD_OF_A_MESSAGE = (
    "tool_calls",
    "function_call",
    "annotations",
    "audio",
    "parsed",
    "reasoning_details",
)


def _completion(body: Json, choice: Json, text: str) -> Json:
    """Return the completion with everything around its text put right; all else stays."""
    given = choice.get("finish_reason") or choice.get("done_reason")
    reason = given if isinstance(given, str) else "stop"
    reason = _REASONS.get(reason.lower(), reason)
    if reason == "length" and is_only_thought(text):
        text = ""  # what it weighs there is no answer
    kept = _without(choice, _UNREAD_OF_A_CHOICE) | {
        "index": 0,
        "finish_reason": reason,
        "message": _mended(_message(choice), text),
    }
    return _without(body, _UNREAD) | {
        "id": first_text(body, ["id"]),
        "object": "chat.completion",
        "created": 0,
        "model": first_text(body, ["model"]),
        "choices": [kept],
        "usage": _usage(body),
    }


def _mended(message: Json, text: str) -> Json:
    """Return a message with its text, and without what nobody reads."""
    mended = _without(message, _UNREAD_OF_A_MESSAGE)
    for name in ("reasoning", "reasoning_content"):
        if not isinstance(mended.get(name), str):
            mended.pop(name, None)
    refusal = "" if text.strip() else first_text(message, ["refusal"])
    return mended | {"role": "assistant", "content": text, "refusal": refusal or None}


def _embeddings(body: Json, vectors: list[Json]) -> Json:
    """Return vectors with everything around them put right."""
    rows = [{"object": "embedding", "index": n, **row} for n, row in enumerate(vectors)]
    if all(type(row["index"]) is int for row in rows):
        rows.sort(key=lambda row: row["index"])
    used = _object(body.get("usage"))
    read = _first_count(used, "prompt_tokens", "total_tokens", "input_tokens") or 0
    return {
        "object": "list",
        "model": first_text(body, ["model"]),
        "data": rows,
        "usage": {"prompt_tokens": read, "total_tokens": read},
    }


def _usage(body: Json) -> Json | None:
    """Return what the server counted; None if it did not count both input and output."""
    used = _object(body.get("usage")) or body
    read = _first_count(used, "prompt_tokens", "input_tokens", "prompt_eval_count")
    written = _first_count(used, "completion_tokens", "output_tokens", "eval_count")
    total = _first_count(used, "total_tokens")
    if read is not None and written is None and total is not None and total >= read:
        written = total - read
    if read is None or written is None:
        return None
    counts = {
        "prompt_tokens": read,
        "completion_tokens": written,
        "total_tokens": read + written,
    }
    return counts if used is body else _kept(used) | counts


def _kept(used: Json) -> Json:
    """Return what else a server counted, such as cached tokens and its price."""
    kept: Json = {}
    for name, part in used.items():
        if isinstance(part, dict):
            kept[name] = _kept(part)
        elif isinstance(part, float) and not part.is_integer():
            kept[name] = part
        elif (count := _count(part)) is not None:
            kept[name] = count
    return kept


# -- errors ---

_STATUSES = (
    (429, r"rate.?limit|too.?many.?requests|resource.?exhausted|throttl"),
    (429, r"(tokens|requests) per (minute|day)"),
    (
        402,
        r"insufficient.{0,12}(quota|credit|balance|fund)|billing|payment|arrear|out of credit",
    ),
    (
        401,
        r"api.?key|unauthori[sz]ed|unauthenticated|not.authenticated|authentication|invalid.?token",
    ),
    (403, r"permission|forbidden|access.?denied"),
    (404, r"not.?found|does not exist|unknown.?model|invalid.?model"),
    (503, r"overload|unavailable|busy|loading"),
    (
        400,
        r"invalid|bad.?request|content.?filter|inspection|context|too long|unsupported|unknown",
    ),
)
"""The status that a code in words stands for; the first that fits counts."""

_CODES = (
    "code",
    "status",
    "status_code",
    "statusCode",
    "error_code",
    "http_status",
    "type",
)
"""The fields in which servers say what kind of error it is."""


def _error_in(body: Json, choice: Json) -> Json | None:
    """Return the error that a body without an answer reports, as an HTTP error's `error`."""
    found = body.get("error") or choice.get("error") or _first(body.get("errors"))
    if isinstance(found, dict):
        return {**found, "message": first_text(found, SENTENCES)}
    if not found and choice.get("finish_reason") == "error":
        return {"message": "the server ended its answer with an error", "code": 502}
    if not found and (_is_answer(body) or not _is_error(body)):
        return None
    said = found if isinstance(found, str) else first_text(body, SENTENCES)
    flat = {name: part for name, part in body.items() if isinstance(part, str | int)}
    return {**_without(flat, ["error"]), "message": said}


def _first(values: object) -> object:
    return values[0] if isinstance(values, list) and values else None


def _is_error(body: Json) -> bool:
    """Return whether a body that is no completion is an error as a whole."""
    named = (
        body.get("object") == "error"
        or body.get("success") is False
        or "detail" in body
    )
    codes = ("code", "status_code", "error_code", "error_msg", "statusCode")
    coded = any(body.get(name) for name in codes)
    return (named or coded) and bool(first_text(body, SENTENCES))


def _status_of(error: Json) -> int:
    """Return the HTTP status that an error stands for: by its number, else by its words."""
    codes = [error.get(name) for name in _CODES]
    for code in codes:
        number = _count(code)
        if number is not None and 400 <= number < 600:
            return number
    named = " ".join(code for code in codes if isinstance(code, str))
    for words in (named, str(error.get("message"))):
        for status, pattern in _STATUSES:
            if re.search(pattern, words, re.IGNORECASE):
                return status
    return 502
