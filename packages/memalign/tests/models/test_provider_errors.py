"""Every error of a provider's library is one of ours; what may pass is tried again."""

from __future__ import annotations

import inspect
import json

import httpx2
import openai
import pytest
from msgspec.structs import replace
from pydantic_ai import exceptions

from memalign.errors import (
    ModelError,
    ModelRefused,
    ModelRejected,
    ModelUnavailable,
    RateLimited,
)
from memalign.models.provider_errors import PromptTooLong, failure_of
from memalign.models.providers import Target
from memalign.models.retry import Retry

TARGET = Target(provider="openai", model="m", base_url="http://x/v1")

# Not about calls to a model: an Agent's control flow, which direct requests never enter.
_AGENT_ONLY = {
    "AgentRunError",
    "ConcurrencyLimitExceeded",
    "RunCancelled",
    "RunTimedOut",
    "SuspendedResponseExpired",
    "UsageLimitExceeded",
}


@pytest.mark.parametrize(
    "status", [*range(400, 432), 451, *range(500, 512), 520, 524, 529]
)
def test_every_http_status_is_mapped(status):
    failed = failure_of(http_error(status, "Said."), TARGET)
    expected: type[ModelError] = ModelRejected
    if status in (408, 409, 425) or status >= 500:
        expected = ModelUnavailable
    if status == 429:
        expected = RateLimited
    assert failed.error is expected
    assert failed.retry == (failed.error is not ModelRejected)
    assert failed.reason == f"HTTP {status}, Said."


def http_error(status: int, message: str, **headers: str) -> exceptions.ModelHTTPError:
    body = {"error": {"message": message}}
    return exceptions.ModelHTTPError(status, "m", body, headers=headers)


def test_a_key_that_a_server_repeats_is_not_told(monkeypatch):
    monkeypatch.setenv("MISTRAL_API_KEY", "hidden-2")
    error = http_error(401, "No such keys: hidden-1, hidden-2.")
    failed = failure_of(error, replace(TARGET, api_key="hidden-1"))
    assert failed.reason == "HTTP 401, No such keys: …, …."


_CATEGORIES: dict[str, tuple[type[ModelError], bool]] = {
    "ModelRateLimitError": (RateLimited, True),
    "ModelQuotaExceededError": (ModelRejected, False),
    "ModelOverloadedError": (ModelUnavailable, True),
    "ModelServerError": (ModelUnavailable, True),
    "ModelConnectionError": (ModelUnavailable, True),
    "ModelAuthenticationError": (ModelRejected, False),
    "ModelNotFoundError": (ModelRejected, False),
    "ModelContextWindowExceededError": (PromptTooLong, False),
    "ContentFilterError": (ModelRefused, False),
    "UnexpectedModelBehavior": (ModelUnavailable, True),
    "UserError": (ModelRejected, False),
}
_KINDS = [
    kind
    for name, kind in inspect.getmembers(exceptions, inspect.isclass)
    if not name.startswith("_") and name not in _AGENT_ONLY
    if issubclass(kind, exceptions.AgentRunError) or name in _CATEGORIES
]


@pytest.mark.parametrize("kind", _KINDS)
def test_every_pydantic_ai_error_is_mapped(kind):
    made_of: dict[str, tuple[object, ...]] = {
        "ModelHTTPError": (500, "m"),
        "ModelRequestTimeout": ("m", 3.0),
        "UserError": ("not with this model",),
    }
    name = kind.__name__
    failed = failure_of(kind(*made_of.get(name, ("m", "said"))), TARGET)
    assert issubclass(failed.error, ModelError)
    if name in _CATEGORIES:
        assert (failed.error, failed.retry) == _CATEGORIES[name]


def test_a_wait_keeps_its_fraction_and_a_long_message_is_shortened():
    error = http_error(429, "x" * 10_000, **{"retry-after": "1.5"})
    failed = failure_of(error, TARGET)
    assert failed.retry_after == 1.5
    assert len(failed.reason) < 300


@pytest.mark.parametrize(
    "error",
    [
        KeyError("erased words"),
        httpx2.RemoteProtocolError("illegal status line: bytearray(b'erased words')"),
        json.JSONDecodeError("Expecting value", "erased words", 0),
        openai.APIConnectionError(
            message="erased words", request=httpx2.Request("POST", "http://x")
        ),
    ],
    ids=type,
)
def test_no_reason_quotes_an_answer(error):
    failed = failure_of(error, TARGET)
    assert (failed.error, failed.retry) == (ModelUnavailable, True)
    assert "erased words" not in f"{failed.reason} {failed.advice}"


@pytest.mark.parametrize(
    ("attempt", "requested", "least", "most"),
    [
        (1, None, 0.5, 1),
        (2, None, 1, 2),
        (3, None, 2, 4),
        (9, None, 60, 60),
        (1, 20, 20, 21),
        (1, 3600, 60, 60),
    ],
)
def test_waits_double_and_stop_at_the_longest(attempt, requested, least, most):
    retry = Retry(base_seconds=1, max_wait=60)
    assert least <= retry.wait(attempt, requested=requested) <= most
