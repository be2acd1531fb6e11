"""Anthropic's and Google's own APIs, through their own libraries, against servers on
loopback that speak them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import NamedTuple

import msgspec
import pytest

from memalign.errors import ModelRefused, ModelRejected
from memalign.models import resolve
from memalign.models.provider_chat import ProviderChatModel
from tests.models.test_provider_chat import ANSWER, REQUEST
from tests.support.endpoint import Endpoint, Fault

SEEDED = msgspec.structs.replace(REQUEST, seed=7)


def anthropic_says(text: str, *, stopped: str = "end_turn") -> Fault:
    body = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "stop_sequence": None,
        "content": [{"type": "text", "text": text}] if text else [],
        "stop_reason": stopped,
        "usage": {
            "input_tokens": 10,
            "cache_read_input_tokens": 90,
            "output_tokens": 5,
        },
    }
    return Fault(body=body)


def google_says(text: str, *, stopped: str = "STOP") -> Fault:
    said = {"content": {"role": "model", "parts": [{"text": text}]}} if text else {}
    body = {
        "candidates": [{**said, "finishReason": stopped, "index": 0}],
        "usageMetadata": {
            "promptTokenCount": 100,
            "cachedContentTokenCount": 90,
            "candidatesTokenCount": 5,
        },
        "modelVersion": "gemini",
    }
    return Fault(body=body)


WRONG_KEY = {
    "type": "error",
    "code": 401,
    "message": "invalid x-api-key",
    "status": "ERROR",
}


class Provider(NamedTuple):
    model: str
    says: Callable[..., Fault]
    refuses: str
    """How it says that a filter stopped the answer."""
    key: str
    address: str


PROVIDERS = [
    Provider(
        "anthropic:claude-haiku-4-5",
        anthropic_says,
        "refusal",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
    ),
    Provider(
        "google:gemini-3.1-flash-lite",
        google_says,
        "SAFETY",
        "GEMINI_API_KEY",
        "GOOGLE_GEMINI_BASE_URL",
    ),
]


@pytest.fixture(params=PROVIDERS, ids=["anthropic", "google"])
def provider(request: pytest.FixtureRequest) -> Provider:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(autouse=True)
def endpoint(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    with Endpoint(provider.says(json.dumps(ANSWER))) as endpoint:
        # No model that has another address.
        monkeypatch.setattr(import_module("memalign.models.resolve"), "_models", {})
        monkeypatch.setenv(provider.key, "test")
        monkeypatch.setenv(provider.address, endpoint.base_url.removesuffix("/v1"))
        yield endpoint


def chat(provider: Provider) -> ProviderChatModel:
    model = resolve(provider.model)
    assert isinstance(model, ProviderChatModel)
    return model


async def test_an_answer_follows_the_schema_with_its_usage(
    provider: Provider, endpoint: Endpoint
) -> None:
    reply = await chat(provider).complete(SEEDED)
    assert reply.data == ANSWER
    assert (reply.usage.calls, reply.usage.input_tokens) == (1, 100)
    assert (reply.usage.cached_tokens, reply.usage.output_tokens) == (90, 5)
    (sent,) = map(json.dumps, endpoint.requests)
    assert '"rationale"' in sent, "the schema goes with the request"
    assert "additionalProperties" in sent
    if provider.says is anthropic_says:
        assert '"cache_control"' in sent, "Anthropic has to be asked for its cache"


async def test_a_filter_refuses_and_wrong_keys_are_named(
    provider: Provider, endpoint: Endpoint
) -> None:
    endpoint.faults = [
        provider.says("", stopped=provider.refuses),
        Fault(status=401, body={"error": WRONG_KEY}),
    ]
    with pytest.raises(ModelRefused):
        await chat(provider).complete(SEEDED)
    said = rf"HTTP 401, invalid x-api-key.*{provider.key}"
    with pytest.raises(ModelRejected, match=said):
        await chat(provider).complete(SEEDED)
