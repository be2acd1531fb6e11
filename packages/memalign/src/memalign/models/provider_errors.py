"""Every error that a provider's library can raise, as one of ours: by what it says, whatever its status.

| what happened                                                            | becomes          | retried |
|--------------------------------------------------------------------------|------------------|---------|
| no connection, time-out, a proxy's page, 408, 409, 425, 5xx              | ModelUnavailable | yes     |
| 429, and a rate limit under any other status                             | RateLimited      | yes     |
| a spent quota, a redirect, 401, 402, 403, 404; an unknown model or key   | ModelRejected    | no      |
| prompt too long; a feature that the server lacks; every other 4xx        | ModelRejected    | no      |
| the provider's content filter                                            | ModelRefused     | no      |

Where a wrong key, an unknown model or a spent quota meets a model that has answered nothing yet, it is an AccessDenied
instead: the whole run stops. Later they cost single calls, so that what was paid for is kept. What may be one item's
fault never stops a run.

Bodies of errors are never repeated whole, and answers not at all: some servers answer a bad request with the request, a
library's error quotes the answer that it could not read, and errors are kept where an erased text must not live on.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import Any

from memalign.errors import ModelError, ModelRefused, ModelRejected, ModelUnavailable, RateLimited
from memalign.models.providers import Target
from memalign.models.wire import INSIDE_200, CutAnswer

__all__ = [
    "OVERLOAD",
    "Failure",
    "PromptTooLong",
    "failure_of",
    "field_of",
    "message_of",
    "status_of",
]

OVERLOAD = (429, 503, 529)
"""Statuses that say that there is too much at once."""

_QUOTA = re.compile(r"quota|billing|credit|balance|arrear", re.IGNORECASE)
_SPENT = re.compile(
    r"insufficient.{0,12}(quota|credit|balance|fund)|(out of|not enough|requires more) credit|credit.{0,20}exhausted"
    r"|credit balance is too low|arrear|payment required",
    re.IGNORECASE,
)
_TOO_LONG = re.compile(
    r"context.{0,3}(length|window|size)|maximum context|(prompt|input|message|request).{0,30}too long|too many tokens"
    r"|number of tokens allowed|input is too long|exceed_context|string_above_max_length",
    re.IGNORECASE,
)
_ANSWER_TOO_LONG = re.compile(
    r"max_\w*tokens\W{0,3}(or \W?max_\w*tokens\W{0,2})?.{0,12}(must be (less|at most|<)|too large|less than|at most)",
    re.IGNORECASE,
)
_FILTERED = re.compile(
    r"content[_ -]?filter|content[_ -]?policy|content management policy|data[_ ]?inspection|inappropriate content"
    r"|responsibleai|guardrail|moderation|flagged|prohibited_content|safety (system|filter|policy|setting)",
    re.IGNORECASE,
)
_RATE = re.compile(
    r"rate.?limit|too many requests|(tokens|requests) per (second|min|minute|hour|day)\b|\bTPM\b|\bRPM\b|throttl"
    r"|resource.?exhausted",
    re.IGNORECASE,
)
_KEY = re.compile(r"api.?key", re.IGNORECASE)
_WRONG_KEY = re.compile(
    r"(invalid|incorrect|wrong|missing|expired|no) (api.?key|x-api-key|credential|token)"
    r"|api.?key (not|is) (valid|invalid)"
    r"|invalid.?api.?key|authentication_error|unauthenticated",
    re.IGNORECASE,
)
_NO_MODEL = re.compile(
    r"model_?not_?found|(model|deployment)[^.]{0,80}(not found|does not exist|not exist\b|is not available)"
    r"|(invalid|unknown|unsupported) model|not a valid model|model_not_supported|deployment_?not_?found"
    r"|endpoint_?not_?found|model ['\"`][^'\"`]{1,80}['\"`] is not supported",
    re.IGNORECASE,
)
_FEATURE = re.compile(
    r"no endpoints found that|grammar|response_?format|json.?schema|structured.?output|json.?mode|guided"
    r"|(un|not )supported? (parameter|value|field)|requested parameters|tool.?(use|choice)"
    r"|system (role|message|prompt)",
    re.IGNORECASE,
)
"""A feature that a server lacks: the same request in a plainer form may do."""

# The categories of pydantic-ai's errors without an HTTP status. By name: the oldest that we allow lacks some.
_CATEGORIES = {
    "ModelRateLimitError": 429,
    "ModelQuotaExceededError": 402,
    "ModelAuthenticationError": 401,
}
_CATEGORIES |= {
    "ModelNotFoundError": 404,
    "ModelRequestRejectedError": 400,
    "ModelUnavailableError": 503,
}

_LONGEST, _LONGEST_READ = (
    200,
    4_000,
)  # characters of a provider's sentence that an error repeats, and that are read

# What libraries raise over an answer that they cannot read.
_UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, StopIteration)


@dataclass(frozen=True)
class Failure:
    """One attempt at a model call that failed: the caller gets `error` once there is no attempt left.

    Attributes:
        error: What the caller gets.
        reason: What happened, in the provider's words where they are safe.
        advice: What to do about it.
        retry: Whether another attempt may help.
        retry_after: The wait that the provider asked for, in seconds.
        denied: Whether any other request would fail alike.
        overload: Whether there is too much at once.
        answered: Whether it was answered, and may have been paid for, though the answer could not be read.
        tokens: What was read and written for it, where that was counted.
    """

    error: type[ModelError]
    reason: str
    advice: str = ""
    retry: bool = False
    retry_after: float | None = None
    denied: bool = False
    overload: bool = False
    answered: bool = False
    tokens: tuple[int, int] = (0, 0)


_STOPPED = Failure(ModelRefused, "the provider's content filter stopped the request")


class PromptTooLong(ModelRejected):
    """The prompt is longer than the model's context; a shorter one may do."""


def failure_of(error: Exception, target: Target, seconds: float = 120.0) -> Failure:
    """The failure that an error of a provider's library stands for, after a wait of so many seconds."""
    from pydantic_ai.exceptions import ContentFilterError, UnexpectedModelBehavior, UserError

    if isinstance(error, ContentFilterError):
        return _STOPPED
    if (status := status_of(error)) is not None:
        failure = _by_status(error, status, target)
        counted = field_of(error, INSIDE_200, objects=True) or {}
        tokens = (counted.get("prompt_tokens", 0), counted.get("completion_tokens", 0))
        return replace(failure, answered=any(tokens), tokens=tokens)
    if isinstance(error, UserError):  # what pydantic-ai itself knows that the model does not take
        return Failure(ModelRejected, str(error).split("\n")[0])
    if isinstance(error, TimeoutError):
        advice = "To wait longer: memalign edit NAME --param timeout=SECONDS."
        return Failure(ModelUnavailable, f"no answer in {seconds:g} s", advice=advice, retry=True)
    answered = isinstance(error, UnexpectedModelBehavior) or isinstance(
        _innermost(error), CutAnswer
    )
    if answered or isinstance(cause := _innermost(error), _UNREADABLE):
        reason = "the server's answer is not what its API promises"  # and may not be repeated
    else:  # "Connection error." says nothing, its cause names the refused address
        words = " ".join(str(cause).split())[:120] if isinstance(cause, OSError) else ""
        reason = f"no connection ({words or type(cause).__name__})"
    place = f"that a server listens at {target.address}" if target.address else "the network"
    return Failure(
        ModelUnavailable, reason, advice=f"Check {place}.", retry=True, answered=answered
    )


def status_of(error: BaseException) -> int | None:
    """The HTTP status of `error`, or the one that its category usually comes with."""
    response = getattr(_innermost(error), "response", None)  # of a redirect, which nobody follows
    if isinstance(
        status := getattr(error, "status_code", getattr(response, "status_code", None)), int
    ):
        return status
    return next(
        (
            _CATEGORIES[kind.__name__]
            for kind in type(error).__mro__
            if kind.__name__ in _CATEGORIES
        ),
        None,
    )


def _by_status(error: Exception, status: int, target: Target) -> Failure:
    """Return the failure that an HTTP error is, by what it says before what its status says."""
    message = _without_keys(message_of(error)[:_LONGEST_READ], target)
    inside = field_of(error, INSIDE_200, objects=True) is not None
    said = f"HTTP 200 with the error {status}" if inside else f"HTTP {status}"
    reason = ", ".join(filter(None, [said, message[:_LONGEST]]))
    code = " ".join(
        str(part) for name in ("code", "type", "status") if (part := field_of(error, name))
    )
    # Not the whole body: some servers send the request back, whose judged text may hold any word.
    words = f"{code} {message}" if message else f"{code} {getattr(error, 'body', '')}"
    if _refused(error, status, words):
        return _STOPPED
    if status == 403 and str(getattr(error, "body", "")).lstrip().startswith("<"):
        # A firewall's page: the API says of a wrong key in JSON that it is one. One item may be at fault.
        return Failure(
            ModelUnavailable,
            f"{reason}, with a page",
            advice="A firewall may have stopped the request.",
        )
    if denied := _denied(status, code, message, target):
        return Failure(
            RateLimited if status == 429 else ModelRejected, reason, advice=denied, denied=True
        )
    # Not the prompt but the answer that is asked for may be too long: a shorter one may do.
    shorter = status in OVERLOAD or _ANSWER_TOO_LONG.search(message)
    if not shorter and _TOO_LONG.search(f"{type(error).__name__} {words}"):
        advice = "Say how many tokens it takes (memalign edit NAME --context N)."
        return Failure(
            PromptTooLong, f"the prompt is too long for the model ({reason})", advice=advice
        )
    return _passing(status, code, message, reason, _wait_of(error, message)) or Failure(
        ModelRejected, reason
    )


def _passing(
    status: int, code: str, message: str, reason: str, wait: float | None
) -> Failure | None:
    """Return the failure that another attempt may not meet; None for one that lasts."""
    if status == 429 or (status < 500 and _RATE.search(f"{code} {message}")):
        advice = "Ask for less at once (MEMALIGN_CONCURRENCY, --concurrency), or later."
        return Failure(
            RateLimited, reason, advice=advice, retry=True, retry_after=wait, overload=True
        )
    if status in (408, 409, 425) or (status >= 500 and not _FEATURE.search(message)):
        advice = "The server failed, not your request. Try later, or ask for less at once (--concurrency)."
        overload = status in OVERLOAD
        return Failure(
            ModelUnavailable, reason, advice=advice, retry=True, retry_after=wait, overload=overload
        )
    return None


def _without_keys(message: str, target: Target) -> str:
    """Return a message without the keys in it: some servers repeat the one that they refuse."""
    keys = [
        value
        for name, value in os.environ.items()
        if name.endswith(("KEY", "TOKEN")) and len(value) > 7
    ]
    for key in filter(None, (target.api_key, *keys)):
        message = message.replace(key, "…")
    return message


def _refused(error: Exception, status: int, words: str) -> bool:
    """Return whether a filter stopped one request, under whatever status."""
    metadata = field_of(error, "metadata", objects=True)
    flagged = isinstance(metadata, dict) and bool({"flagged_input", "reasons"} & metadata.keys())
    return flagged or (status < 500 and bool(_FILTERED.search(words)))


def _denied(status: int, code: str, message: str, target: Target) -> str:
    """Return what to check where every other request would fail alike; "" where another may do."""
    words = f"{code} {message}"
    if status == 429:
        spent = _QUOTA.search(code) or _SPENT.search(message)
        return f"The quota of {target.key_name} is used up; waiting does not help." if spent else ""
    if _wrong_key(status, words, message):
        return f"Check {target.key_name}: missing, wrong, without credit, or without this model."
    if _FEATURE.search(message):
        return ""
    if status == 404 or 300 <= status < 400 or _NO_MODEL.search(words):
        place = (
            f", and the address {target.address}, which usually ends in /v1"
            if target.address
            else ""
        )
        return f"Check the model's name{place}."
    return ""


def _wrong_key(status: int, words: str, message: str) -> bool:
    """Return whether the key or the account is at fault, by the status where the words say nothing else."""
    if status in (401, 402) or _WRONG_KEY.search(words) or (status < 500 and _SPENT.search(words)):
        return True
    if _FEATURE.search(message):
        return False
    return (status == 403 and not _RATE.search(words)) or (
        status == 400 and bool(_KEY.search(message))
    )


_IN_WORDS = re.compile(
    r"(?:try again|retry|wait|available|reset\w*)\D{0,20}?((?:\d[\d.]*\s*[a-z]+[\s,]*(?:and )?)+)",
    re.IGNORECASE,
)
_PIECE = re.compile(
    r"(\d+(?:\.\d+)?)\s*(ms|milli|s\b|sec|m\b|min|h\b|hour|h(?=\d)|m(?=\d)|d\b|day)", re.IGNORECASE
)
_SECONDS = {
    "ms": 0.001,
    "milli": 0.001,
    "s": 1,
    "sec": 1,
    "m": 60,
    "min": 60,
    "h": 3600,
    "hour": 3600,
    "d": 86400,
}


def _wait_of(error: Exception, message: str) -> float | None:
    """Return the seconds that the provider asks to wait: by its headers, else by its sentence."""
    found = (
        getattr(error, "headers", None)
        or getattr(getattr(error, "response", None), "headers", None)
        or {}
    )
    headers = {str(name).lower(): str(value).strip() for name, value in dict(found).items()}
    if _NUMBER.fullmatch(headers.get("retry-after-ms", "")):
        return float(headers["retry-after-ms"]) / 1000
    asked = headers.get("retry-after", "")
    if _NUMBER.fullmatch(asked):
        return float(asked)
    try:
        return max(parsedate_to_datetime(asked).timestamp() - time.time(), 0.0)
    except (TypeError, ValueError):
        pass
    if (known := getattr(error, "retry_after", None)) is not None:
        return float(known)
    if (said := _IN_WORDS.search(message)) is None:
        return None
    pieces = [
        float(number) * _SECONDS.get(unit.lower(), 86400)
        for number, unit in _PIECE.findall(said[1])
    ]
    return sum(pieces) if pieces else None


_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def message_of(error: BaseException) -> str:
    """Return the provider's own sentence, without anything that may be a copy of our request."""
    for name in ("message", "detail", "error", "error_msg", "error_message", "msg", "description"):
        if isinstance(message := field_of(error, name), str) and message.strip():
            return " ".join(message.split())
    return _sentence_of(error)


def _sentence_of(error: BaseException) -> str:
    """Return an error that is a text, as in {"error": "…"}: a client hands it on without the object around it."""
    body = getattr(error, "body", None)
    response = getattr(_innermost(error), "response", None)
    whole = str(getattr(response, "text", "")).strip()
    if not isinstance(body, str) or body == whole or not whole.startswith("{"):
        return ""  # a page, or a text that may be a copy of our request
    return " ".join(body.split())


def field_of(error: BaseException, name: str, *, objects: bool = False) -> Any:
    """Return a field of the error that a body reports, wherever in it the error is; `objects`: also one that is one."""
    body = getattr(error, "body", None)
    for _ in range(4):
        if isinstance(body, list) and body:
            body = body[0]
        if not isinstance(body, dict):
            return None
        if name in body and (objects or not isinstance(body[name], dict)):
            return body[name]
        body = body.get("error") or body.get("errors")
    return None


def _innermost(error: BaseException) -> BaseException:
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return error
