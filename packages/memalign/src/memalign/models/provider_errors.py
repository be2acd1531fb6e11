"""Every error that a provider's library can raise, as one of ours.

| what happened                                                          | becomes          | retried |
|------------------------------------------------------------------------|------------------|---------|
| no connection, time-out, a proxy's page, 408, 409, 425, 5xx            | ModelUnavailable | yes     |
| 429; where the account's quota is used up it is not retried            | RateLimited      | yes     |
| a redirect, 401, 402, 403, 404, prompt too long; every other 4xx       | ModelRejected    | no      |
| the provider's content filter                                          | ModelRefused     | no      |

Where a redirect, 401 to 404 or a spent quota meets a model that has answered nothing yet, it is an AccessDenied
instead: the whole run stops. Later they cost single calls, so that what was paid for is kept.

Bodies of errors are never repeated whole, and answers not at all: some servers answer a bad request with the request, a
library's error quotes the answer that it could not read, and errors are kept where an erased text must not live on.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any

from memalign.errors import ModelError, ModelRefused, ModelRejected, ModelUnavailable, RateLimited
from memalign.models.providers import Target

__all__ = ["OVERLOAD", "Failure", "PromptTooLong", "failure_of", "status_of"]

OVERLOAD = (429, 503, 529)
"""Statuses that say that there is too much at once."""

_QUOTA = re.compile(r"quota|billing|credit", re.IGNORECASE)
_TOO_LONG = re.compile(
    r"context.{0,3}(length|window|size)|maximum context|too (long|many tokens)|number of tokens allowed", re.IGNORECASE
)
_FILTERED = re.compile(r"content_filter|content_policy|content management policy", re.IGNORECASE)
_KEY = re.compile(r"api.?key", re.IGNORECASE)

# The categories of pydantic-ai's errors without an HTTP status. By name: the oldest that we allow lacks some.
_CATEGORIES = {"ModelRateLimitError": 429, "ModelQuotaExceededError": 402, "ModelAuthenticationError": 401}
_CATEGORIES |= {"ModelNotFoundError": 404, "ModelRequestRejectedError": 400, "ModelUnavailableError": 503}

_LONGEST = 200  # characters of a provider's sentence that an error repeats

# What libraries raise over an answer that they cannot read.
_UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, StopIteration)


@dataclass(frozen=True)
class Failure:
    """One attempt at a model call that failed: the caller gets `error` once there is no attempt left.

    `retry_after` is the wait that the provider asked for, in seconds; `denied` says that any other request would fail
    alike.
    """

    error: type[ModelError]
    reason: str
    advice: str = ""
    retry: bool = False
    retry_after: float | None = None
    denied: bool = False


_STOPPED = Failure(ModelRefused, "the provider's content filter stopped the request")


class PromptTooLong(ModelRejected):
    """The prompt is longer than the model's context; a shorter one may do."""


def failure_of(error: Exception, target: Target, seconds: float = 120.0) -> Failure:
    """The failure that an error of a provider's library stands for, after a wait of so many seconds."""
    from pydantic_ai.exceptions import ContentFilterError, UnexpectedModelBehavior, UserError

    if isinstance(error, ContentFilterError):
        return _STOPPED
    if (status := status_of(error)) is not None:
        return _by_status(error, status, target)
    if isinstance(error, UserError):  # what pydantic-ai itself knows that the model does not take
        return Failure(ModelRejected, str(error).split("\n")[0])
    if isinstance(error, TimeoutError):
        advice = "To wait longer: memalign edit NAME --param timeout=SECONDS."
        return Failure(ModelUnavailable, f"no answer in {seconds:g} s", advice=advice, retry=True)
    if isinstance(error, UnexpectedModelBehavior) or isinstance(cause := _innermost(error), _UNREADABLE):
        reason = "the server's answer is not what its API promises"  # and may not be repeated
    else:  # "Connection error." says nothing, its cause names the refused address
        words = " ".join(str(cause).split())[:120] if isinstance(cause, OSError) else ""
        reason = f"no connection ({words or type(cause).__name__})"
    place = f"that a server listens at {target.address}" if target.address else "the network"
    return Failure(ModelUnavailable, reason, advice=f"Check {place}.", retry=True)


def status_of(error: BaseException) -> int | None:
    """The HTTP status of `error`, or the one that its category usually comes with."""
    response = getattr(_innermost(error), "response", None)  # of a redirect, which nobody follows
    if isinstance(status := getattr(error, "status_code", getattr(response, "status_code", None)), int):
        return status
    return next((_CATEGORIES[kind.__name__] for kind in type(error).__mro__ if kind.__name__ in _CATEGORIES), None)


def _by_status(error: Exception, status: int, target: Target) -> Failure:
    message = _message(error)
    keys = [value for name, value in os.environ.items() if name.endswith(("KEY", "TOKEN")) and len(value) > 7]
    for key in filter(None, (target.api_key, *keys)):  # some servers repeat the key that they refuse
        message = message.replace(key, "…")
    reason = ", ".join(filter(None, [f"HTTP {status}", message[:_LONGEST]]))
    if status == 429 and _QUOTA.search(str(_field(error, "code"))):
        advice = f"The quota of {target.key_name} is used up; waiting does not help."
        return Failure(RateLimited, reason, advice=advice, denied=True)
    if status == 429:
        advice = "Ask for less at once (MEMALIGN_CONCURRENCY, --concurrency), or later."
        return Failure(RateLimited, reason, advice=advice, retry=True, retry_after=_wait_of(error))
    if status in (408, 409, 425) or status >= 500:
        advice = "The server failed, not your request. Try later, or ask for less at once (--concurrency)."
        return Failure(ModelUnavailable, reason, advice=advice, retry=True, retry_after=_wait_of(error))
    if status in (401, 402, 403) or (status == 400 and _KEY.search(message)):
        advice = f"Check {target.key_name}: missing, wrong, without credit, or without this model."
        return Failure(ModelRejected, reason, advice=advice, denied=True)
    if status == 404 or 300 <= status < 400:
        place = f", and the address {target.address}, which usually ends in /v1" if target.address else ""
        return Failure(ModelRejected, reason, advice=f"Check the model's name{place}.", denied=True)
    # Not the whole body: some servers send the request back, whose judged text may hold any word.
    text = f"{message} {_field(error, 'code')} {_field(error, 'type')}" if message else str(getattr(error, "body", ""))
    if _FILTERED.search(text):
        return _STOPPED
    if _TOO_LONG.search(f"{type(error).__name__} {text}"):
        advice = "Say how many tokens it takes (memalign edit NAME --context N)."
        return Failure(PromptTooLong, f"the prompt is too long for the model ({reason})", advice=advice)
    return Failure(ModelRejected, reason)


def _wait_of(error: Exception) -> float | None:
    """Seconds that the provider asks to wait, as pydantic-ai reads them; it drops a header with a fraction."""
    header = str((getattr(error, "headers", None) or {}).get("retry-after", ""))
    return float(header) if re.fullmatch(r"\d+\.\d+", header) else getattr(error, "retry_after", None)


def _message(error: BaseException) -> str:
    """The provider's own sentence, without anything that may be a copy of our request."""
    message = _field(error, "message") or _field(error, "detail") or _field(error, "error")
    return " ".join(message.split()) if isinstance(message, str) else ""


def _field(error: BaseException, name: str) -> Any:
    body = getattr(error, "body", None)
    while isinstance(body, dict):
        if name in body and not isinstance(body[name], dict):
            return body[name]
        body = body.get("error")
    return None


def _innermost(error: BaseException) -> BaseException:
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return error
