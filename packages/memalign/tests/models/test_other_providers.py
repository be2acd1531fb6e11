"""Anthropic's and Google's own APIs, through their own libraries, against servers on loopback that speak them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from memalign import Judge
from memalign.errors import ModelRefused, ModelRejected
from memalign.models import resolve
from memalign.models.base import ChatRequest
from memalign.models.provider_chat import ProviderChatModel
from memalign.models.resolve import default_model_name

ANSWER = {"rationale": "Too cold.", "value": False}
REQUEST = ChatRequest(
    system="You judge replies. " * 20,
    user="Reply: hello",
    schema={
        "type": "object",
        "properties": {"rationale": {"type": "string"}, "value": {"type": "boolean"}},
        "required": ["rationale", "value"],
        "additionalProperties": False,
    },
    schema_name="verdict",
    seed=7,
)


def anthropic_says(text: str, *, stopped: str = "end_turn") -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "stop_sequence": None,
        "content": [{"type": "text", "text": text}] if text else [],
        "stop_reason": stopped,
        "usage": {"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 5},
    }


def google_says(text: str, *, stopped: str = "STOP") -> dict[str, Any]:
    said = {"content": {"role": "model", "parts": [{"text": text}]}} if text else {}
    return {
        "candidates": [{**said, "finishReason": stopped, "index": 0}],
        "usageMetadata": {"promptTokenCount": 100, "cachedContentTokenCount": 90, "candidatesTokenCount": 5},
        "modelVersion": "gemini",
    }


@dataclass
class Provider:
    """One provider's server: what it answers, a body or (status, body) for each request in turn, the last one for good."""

    model: str
    says: Callable[..., dict[str, Any]]
    refuses: str
    """How it says that a filter stopped the answer."""
    cut: str
    answers: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    port: int = 0

    def next(self) -> tuple[int, dict[str, Any]]:
        return self.answers.pop(0) if self.answers else (200, self.says(json.dumps(ANSWER)))

    def error(self, status: int, message: str) -> tuple[int, dict[str, Any]]:
        return status, {"error": {"type": "error", "code": status, "message": message, "status": "ERROR"}}


@pytest.fixture(params=["anthropic", "google"])
def provider(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    made = {
        "anthropic": Provider("anthropic:claude-haiku-4-5", anthropic_says, "refusal", "max_tokens"),
        "google": Provider("google:gemini-3.1-flash-lite", google_says, "SAFETY", "MAX_TOKENS"),
    }[request.param]

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_POST(self) -> None:
            made.requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            status, body = made.next()
            data = json.dumps(body).encode()
            self.send_response(status)
            for name, value in (("Content-Type", "application/json"), ("Content-Length", str(len(data)))):
                self.send_header(name, value)
            if status == 429:
                self.send_header("Retry-After", "0")
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    key, base_url = {
        "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
        "google": ("GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL"),
    }[request.param]
    monkeypatch.setenv(key, "test")
    monkeypatch.setenv(base_url, address)
    yield made
    server.shutdown()
    server.server_close()


def chat(provider: Provider) -> ProviderChatModel:
    model = resolve(provider.model)
    assert isinstance(model, ProviderChatModel)
    return model


def test_a_key_alone_decides_which_model_judges(provider: Provider) -> None:
    assert default_model_name() == provider.model
    judge = Judge(name="tone", instructions="Is {{ outputs }} kind?", feedback_value_type=bool)
    judgment = judge(outputs="Wrong items are exchanged within 14 days.")
    assert (judgment.value, judgment.rationale, judgment.model) == (False, "Too cold.", provider.model)


async def test_an_answer_follows_the_schema_with_its_usage(provider: Provider) -> None:
    reply = await chat(provider).complete(REQUEST)
    assert reply.data == ANSWER
    assert (reply.usage.calls, reply.usage.input_tokens) == (1, 100)
    assert (reply.usage.cached_tokens, reply.usage.output_tokens) == (90, 5)
    (sent,) = map(json.dumps, provider.requests)
    assert '"rationale"' in sent, "the schema goes with the request"
    assert "additionalProperties" in sent
    assert provider.model.startswith("google") or '"cache_control"' in sent, "Anthropic has to be asked for its cache"


async def test_a_rate_limit_costs_only_the_wait(provider: Provider) -> None:
    provider.answers = [provider.error(429, "slow down"), provider.error(503, "overloaded")]
    assert (await chat(provider).complete(REQUEST)).data == ANSWER
    assert len(provider.requests) == 3


async def test_a_cut_answer_is_requested_once_more(provider: Provider) -> None:
    provider.answers = [(200, provider.says('{"rationale": "Too', stopped=provider.cut))]
    reply = await chat(provider).complete(REQUEST)
    assert reply.data == ANSWER
    assert reply.usage.calls == 2
    assert "could not be used: it was cut" in json.dumps(provider.requests[-1])


async def test_a_filter_refuses_and_wrong_keys_are_named(provider: Provider) -> None:
    provider.answers = [(200, provider.says("", stopped=provider.refuses)), provider.error(401, "invalid x-api-key")]
    with pytest.raises(ModelRefused):
        await chat(provider).complete(REQUEST)
    with pytest.raises(ModelRejected, match=r"HTTP 401, invalid x-api-key.*(ANTHROPIC|GEMINI)_API_KEY"):
        await chat(provider).complete(REQUEST)
