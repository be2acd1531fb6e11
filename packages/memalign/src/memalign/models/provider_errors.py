"""Every error of a provider's library, as one of ours: by what it says, whatever its status.

| what happened                                                      | becomes          | again |
|--------------------------------------------------------------------|------------------|-------|
| no connection, time-out, a proxy's page, 408, 409, 425, 5xx        | ModelUnavailable | yes   |
| 429, and a rate limit under any other status                       | RateLimited      | yes   |
| a spent quota, a redirect, 401 to 404; an unknown model or key     | ModelRejected    | no    |
| prompt too long; a feature that the server lacks; other 4xx        | ModelRejected    | no    |
| the provider's content filter                                      | ModelRefused     | no    |

A wrong key, an unknown model or a spent quota is an AccessDenied if the model has answered nothing
yet: the whole run stops. Later it costs single calls, so that what was paid for is kept. What may
be one item's fault never stops a run.

Bodies of errors are never repeated whole, and answers not at all: some servers answer a bad request
with the request, a library's error quotes the answer that it could not read, and errors are kept
where an erased text must not live on.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import Any

from memalign.errors import (
    ModelError,
    ModelRefused,
    ModelRejected,
    ModelUnavailable,
    RateLimited,
)
from memalign.models.providers import Target
from memalign.models.wire import INSIDE_200, SENTENCES, CutAnswer, first_text

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


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


_QUOTA = _any("quota|billing|credit|balance|arrear")
_SPENT = _any(
    r"insufficient.{0,12}(quota|credit|balance|fund)",
    r"(out of|not enough|requires more) credit",
    r"credit.{0,20}exhausted",
    r"credit balance is too low",
    r"arrear|payment required",
)
_TOO_LONG = _any(
    r"context.{0,3}(length|window|size)|maximum context",
    r"(prompt|input|message|request).{0,30}too long",
    r"too many tokens|number of tokens allowed|input is too long",
    r"exceed_context|string_above_max_length",
)
_ANSWER_TOO_LONG = _any(
    r"max_\w*tokens\W{0,3}(or \W?max_\w*tokens\W{0,2})?"
    r".{0,12}(must be (less|at most|<)|too large|less than|at most)"
)
_FILTERED = _any(
    r"content[_ -]?filter|content[_ -]?policy|content management policy",
    r"data[_ ]?inspection|inappropriate content|responsibleai|guardrail|moderation|flagged",
    r"prohibited_content|safety (system|filter|policy|setting)",
)
_RATE = _any(
    r"rate.?limit|too many requests|(tokens|requests) per (second|min|minute|hour|day)\b",
    r"\bTPM\b|\bRPM\b|throttl|resource.?exhausted",
)
_KEY = _any(r"api.?key")
_WRONG_KEY = _any(
    r"(invalid|incorrect|wrong|missing|expired|no) (api.?key|x-api-key|credential|token)",
    r"api.?key (not|is) (valid|invalid)",
    r"invalid.?api.?key|authentication_error|unauthenticated",
)
_NO_MODEL = _any(
    r"model_?not_?found|deployment_?not_?found|endpoint_?not_?found|model_not_supported",
    r"(model|deployment)[^.]{0,80}(not found|does not exist|not exist\b|is not available)",
    r"(invalid|unknown|unsupported) model|not a valid model",
    r"model ['\"`][^'\"`]{1,80}['\"`] is not supported",
)
_FEATURE = _any(
    r"no endpoints found that|grammar|response_?format|json.?schema|structured.?output",
    r"json.?mode|guided|(un|not )supported? (parameter|value|field)|requested parameters",
    r"tool.?(use|choice)|system (role|message|prompt)",
)
"""A feature that a server lacks: the same request in a plainer form may do."""

_CATEGORIES = {
    "ModelRateLimitError": 429,
    "ModelQuotaExceededError": 402,
    "ModelAuthenticationError": 401,
    "ModelNotFoundError": 404,
    "ModelRequestRejectedError": 400,
    "ModelUnavailableError": 503,
}
"""pydantic-ai's errors without an HTTP status. By name: the oldest that we allow lacks some."""

_LONGEST = 200
"""Characters of a provider's sentence that an error repeats."""

_LONGEST_READ = 4_000
"""Characters of a provider's sentence that are read."""

_UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, StopIteration)
"""What libraries raise over an answer that they cannot read."""


@dataclass(frozen=True)
class Failure:
    """One attempt at a model call that failed.

    Attributes:
        error: What the caller gets once there is no attempt left.
        reason: What happened, in the provider's words where they are safe.
        advice: What to do about it.
        retry: Whether another attempt may help.
        retry_after: The wait that the provider asked for, in seconds.
        denied: Whether any other request would fail alike.
        overload: Whether there is too much at once.
        answered: Whether it was answered, and may have been paid for, but could not be read.
        tokens: What was read and written for it, where that was counted.
        cause: The error of the provider's library.
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
    cause: Exception | None = None


_STOPPED = Failure(ModelRefused, "the provider's content filter stopped the request")


class PromptTooLong(ModelRejected):
    """The prompt is longer than the model's context; a shorter one may do."""


def failure_of(error: Exception, target: Target, seconds: float = 120.0) -> Failure:
    """Return the failure that an error of a provider's library stands for.

    Args:
        error: What the library raised.
        target: The model that was asked.
        seconds: How long its answer was waited for.
    """
    from pydantic_ai.exceptions import (
        ContentFilterError,
        UnexpectedModelBehavior,
        UserError,
    )

    if isinstance(error, ContentFilterError):
        return _STOPPED
    status = status_of(error)
    if status is not None:
        failure = _by_words(_Told.of(error, status, target), target)
        counted = field_of(error, INSIDE_200, objects=True) or {}
        tokens = (counted.get("prompt_tokens", 0), counted.get("completion_tokens", 0))
        return replace(failure, answered=any(tokens), tokens=tokens)
    if isinstance(error, UserError):
        # pydantic-ai itself knows that the model does not take it.
        return Failure(ModelRejected, str(error).split("\n")[0])
    if isinstance(error, TimeoutError):
        advice = "To wait longer: memalign edit NAME --param timeout=SECONDS."
        return Failure(
            ModelUnavailable, f"no answer in {seconds:g} s", advice=advice, retry=True
        )
    cause = _innermost(error)
    answered = isinstance(error, UnexpectedModelBehavior) or isinstance(
        cause, CutAnswer
    )
    if answered or isinstance(cause, _UNREADABLE):  # which may not be repeated
        reason = "the server's answer is not what its API promises"
    else:  # "Connection error." says nothing, its cause names the refused address
        words = " ".join(str(cause).split())[:120] if isinstance(cause, OSError) else ""
        reason = f"no connection ({words or type(cause).__name__})"
    place = (
        f"that a server listens at {target.address}"
        if target.address
        else "the network"
    )
    advice = f"Check {place}."
    return Failure(
        ModelUnavailable, reason, advice=advice, retry=True, answered=answered
    )


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status of an error, or the one that its category usually comes with."""
    response = getattr(
        _innermost(error), "response", None
    )  # of a redirect, which nobody follows
    status = getattr(error, "status_code", getattr(response, "status_code", None))
    if isinstance(status, int):
        return status
    categories = map(_CATEGORIES.get, (kind.__name__ for kind in type(error).__mro__))
    return next(filter(None, categories), None)


# -- errors with a status --------------------------------------------------------------------------


@dataclass(frozen=True)
class _Told:
    """What an HTTP error tells.

    Attributes:
        error: The error.
        status: Its HTTP status.
        code: Its codes in words.
        message: The provider's sentence.
    """

    error: Exception
    status: int
    code: str
    message: str

    @classmethod
    def of(cls, error: Exception, status: int, target: Target) -> _Told:
        codes = (field_of(error, name) for name in ("code", "type", "status"))
        message = _without_keys(message_of(error)[:_LONGEST_READ], target)
        return cls(
            error, status, " ".join(str(code) for code in codes if code), message
        )

    @property
    def words(self) -> str:
        """Code and sentence; without a sentence the body.

        Never more: some servers send the request back, whose judged text may hold any word.
        """
        return f"{self.code} {self.message or getattr(self.error, 'body', '')}"

    @property
    def reason(self) -> str:
        """Return what happened, in words for people."""
        inside = field_of(self.error, INSIDE_200, objects=True) is not None
        said = (
            f"HTTP 200 with the error {self.status}"
            if inside
            else f"HTTP {self.status}"
        )
        return f"{said}, {self.message[:_LONGEST]}" if self.message else said


def _by_words(told: _Told, target: Target) -> Failure:
    """Return the failure that an HTTP error is, by what it says before what its status says."""
    if _is_filtered(told):
        return _STOPPED
    body = str(getattr(told.error, "body", "")).lstrip()
    if told.status == 403 and body.startswith("<"):
        # A firewall's page, because an API says in JSON that a key is wrong. One item may be at
        # fault.
        advice = "A firewall may have stopped the request."
        return Failure(ModelUnavailable, f"{told.reason}, with a page", advice=advice)
    denied = _denied(told, target)
    if denied:
        kind = RateLimited if told.status == 429 else ModelRejected
        return Failure(kind, told.reason, advice=denied, denied=True)
    # Not the prompt but the answer that is asked for may be too long: a shorter one may do.
    shorter = told.status in OVERLOAD or _ANSWER_TOO_LONG.search(told.message)
    if not shorter and _TOO_LONG.search(f"{type(told.error).__name__} {told.words}"):
        advice = "Say how many tokens it takes (memalign edit NAME --context N)."
        reason = f"the prompt is too long for the model ({told.reason})"
        return Failure(PromptTooLong, reason, advice=advice)
    return _passing(told) or Failure(ModelRejected, told.reason)


def _passing(told: _Told) -> Failure | None:
    """Return the failure that another attempt may not meet; None for one that lasts."""
    status = told.status
    limited = _RATE.search(f"{told.code} {told.message}")
    if status == 429 or (status < 500 and limited):
        kind: type[ModelError] = RateLimited
        advice = "Ask for less at once (MEMALIGN_CONCURRENCY, --concurrency), or later."
    elif status in (408, 409, 425) or (
        status >= 500 and not _FEATURE.search(told.message)
    ):
        kind = ModelUnavailable
        advice = (
            "The server failed, not your request. Try later, or ask for less at once "
        )
        advice += "(--concurrency)."
    else:
        return None
    return Failure(
        kind,
        told.reason,
        advice=advice,
        retry=True,
        retry_after=_wait_of(told),
        overload=kind is RateLimited or status in OVERLOAD,
    )


def _without_keys(message: str, target: Target) -> str:
    """Return a message without the keys in it: some servers repeat the one that they refuse."""
    keys = [target.api_key or ""]
    for name, value in os.environ.items():
        if name.endswith(("KEY", "TOKEN")) and len(value) > 7:
            keys.append(value)
    for key in filter(None, keys):
        message = message.replace(key, "…")
    return message


def _is_filtered(told: _Told) -> bool:
    """Return whether a filter stopped one request, under whatever status."""
    metadata = field_of(told.error, "metadata", objects=True)
    if isinstance(metadata, dict) and not metadata.keys().isdisjoint(
        {"flagged_input", "reasons"}
    ):
        return True
    return told.status < 500 and bool(_FILTERED.search(told.words))


def _denied(told: _Told, target: Target) -> str:
    """Return what to check if every other request would fail alike; "" if another may do."""
    status = told.status
    words = f"{told.code} {told.message}"
    if status == 429:
        spent = _QUOTA.search(told.code) or _SPENT.search(told.message)
        return (
            f"The quota of {target.key_name} is used up; waiting does not help."
            if spent
            else ""
        )
    if _is_wrong_key(status, words, told.message):
        return f"Check {target.key_name}: missing, wrong, without credit, or without this model."
    if _FEATURE.search(told.message):
        return ""
    if status == 404 or 300 <= status < 400 or _NO_MODEL.search(words):
        place = ""
        if target.address:
            place = f", and the address {target.address}, which usually ends in /v1"
        return f"Check the model's name{place}."
    return ""


def _is_wrong_key(status: int, words: str, message: str) -> bool:
    """Return whether key or account is at fault; the status decides if words say nothing else."""
    if (
        status in (401, 402)
        or _WRONG_KEY.search(words)
        or (status < 500 and _SPENT.search(words))
    ):
        return True
    if _FEATURE.search(message):
        return False
    if status == 403:
        return not _RATE.search(words)
    return status == 400 and bool(_KEY.search(message))


# -- how long to wait ------------------------------------------------------------------------------

_IN_WORDS = _any(
    r"(?:try again|retry|wait|available|reset\w*)\D{0,20}?((?:\d[\d.]*\s*[a-z]+[\s,]*(?:and )?)+)"
)
_PIECE = _any(
    r"(\d+(?:\.\d+)?)\s*(ms|milli|s\b|sec|m\b|min|h\b|hour|h(?=\d)|m(?=\d)|d\b|day)"
)
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_SECONDS = {"ms": 0.001, "milli": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
"""The seconds of a unit, by its name or its first letter."""


def _wait_of(told: _Told) -> float | None:
    """Return the seconds that the provider asks to wait: by its headers, else by its sentence."""
    error = told.error
    response = getattr(error, "response", None)
    found = getattr(error, "headers", None) or getattr(response, "headers", None) or {}
    headers = {
        str(name).lower(): str(value).strip() for name, value in dict(found).items()
    }
    by_header = _by_header(headers)
    if by_header is not None:
        return by_header
    known = getattr(error, "retry_after", None)
    if known is not None:
        return float(known)
    said = _IN_WORDS.search(told.message)
    pieces = _PIECE.findall(said[1]) if said else []
    if not pieces:
        return None
    return sum(float(number) * _seconds(unit.lower()) for number, unit in pieces)


def _seconds(unit: str) -> float:
    return _SECONDS.get(unit, _SECONDS[unit[0]])


def _by_header(headers: Mapping[str, str]) -> float | None:
    """Return what Retry-After asks for, in seconds, milliseconds or as a date."""
    milliseconds = headers.get("retry-after-ms", "")
    asked = headers.get("retry-after", "")
    if _NUMBER.fullmatch(milliseconds):
        return float(milliseconds) / 1000
    if _NUMBER.fullmatch(asked):
        return float(asked)
    try:
        return max(parsedate_to_datetime(asked).timestamp() - time.time(), 0.0)
    except (TypeError, ValueError):
        return None


# -- reading an error ------------------------------------------------------------------------------


def message_of(error: BaseException) -> str:
    """Return the provider's own sentence, without anything that may be a copy of our request."""
    for level in _levels(error):
        message = first_text(level, SENTENCES)
        if message:
            return " ".join(message.split())
    return _sentence_of(error)


def _sentence_of(error: BaseException) -> str:
    """Return the text that an error is, as in {"error": "…"}, handed on without the object."""
    body = getattr(error, "body", None)
    response = getattr(_innermost(error), "response", None)
    whole = str(getattr(response, "text", "")).strip()
    if not isinstance(body, str) or body == whole or not whole.startswith("{"):
        return ""  # a page, or a text that may be a copy of our request
    return " ".join(body.split())


def field_of(error: BaseException, name: str, *, objects: bool = False) -> Any:
    """Return a field of the error that a body reports, wherever in it the error is.

    Args:
        error: The error.
        name: The field.
        objects: Whether it may be an object.
    """
    for level in _levels(error):
        if name in level and (objects or not isinstance(level[name], dict)):
            return level[name]
    return None


def _levels(error: BaseException) -> Iterator[dict[str, Any]]:
    """Yield the body of an error, the error in it, and so on."""
    body = getattr(error, "body", None)
    for _ in range(4):
        if isinstance(body, list) and body:
            body = body[0]
        if not isinstance(body, dict):
            return
        yield body
        body = body.get("error") or body.get("errors")


def _innermost(error: BaseException) -> BaseException:
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return error
