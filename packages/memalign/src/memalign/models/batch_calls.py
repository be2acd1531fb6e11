"""Calls whose answers come from a provider's batch endpoint: the very requests of live judging, caught and answered later.

A model is asked as ever, through an HTTP client of its own. While requests are caught, the first request of a call is
kept and not sent. Later the call is made again, and the same client answers it with what the batch brought. Whatever
else a call needs (a second attempt after an answer that does not fit) goes to the live endpoint.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from memalign.errors import ConfigurationError
from memalign.models.asking import asked_through
from memalign.models.base import ChatModel, ChatReply, ChatRequest, EmbeddingModel, Limits
from memalign.models.raw_answers import subject_asked_about

if TYPE_CHECKING:
    import httpx2

    from memalign.models.provider_chat import ProviderChatModel
    from memalign.types import Usage

__all__ = [
    "BATCH_PRICE",
    "BatchCalls",
    "Caught",
    "CaughtRequest",
    "at_batch_price",
    "batch_client",
    "batched_model",
    "key_of",
]

BATCH_PRICE = 0.5
"""What a token costs through the batch endpoints of OpenAI and Anthropic, as a share of the live price."""

_KEY = 40  # hex digits of a row in a request's id; with the number of its call at most 64 characters


class Caught(BaseException):
    """A request was kept for a batch. Not an Exception: it passes by every `except Exception` on its way to us."""


@dataclass(frozen=True)
class CaughtRequest:
    """One request: its id in the batch, its body, and the header that says which betas it wants (Anthropic)."""

    key: str
    body: dict[str, Any]
    betas: str


@dataclass
class _Call:
    """One call of a model, which may take several requests; only the first may be of a batch."""

    key: str
    calls: BatchCalls
    sent: bool = False
    from_batch: bool = False


_call: ContextVar[_Call | None] = ContextVar("memalign_batch_call", default=None)


def key_of(judge: str, example_id: str, content_hash: str) -> str:
    """What the ids of a row's requests begin with, by a judge's signature: letters and digits, as both providers demand."""
    return hashlib.sha256(f"{judge}\n{content_hash}\n{example_id}".encode("utf-8", "surrogatepass")).hexdigest()[:_KEY]


def at_batch_price(cost: float | None) -> float | None:
    """The cost of the answer that came last: less where it came from a batch."""
    call = _call.get()
    return cost if cost is None or call is None or not call.from_batch else cost * BATCH_PRICE


@dataclass
class BatchCalls:
    """A `Through` for `asked_through`: catches requests, or answers them out of `answers`.

    `key` gives the key of a row by its id. `answers` gives the body of an answer by the id of its request, None where
    there is none. Calls of a row are numbered in the order in which they begin, which does not change.
    """

    key: Callable[[str], str]
    answers: Callable[[str], bytes | None] = field(default=lambda _: None)
    catching: bool = False
    caught: list[CaughtRequest] = field(default_factory=list)
    _numbers: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    _models: dict[int, _BatchedChat] = field(default_factory=dict)

    def chat(self, model: ChatModel) -> ChatModel:
        """`model` through the batch endpoint. Raises ConfigurationError for one that has none."""
        if isinstance(model, _BatchedChat):
            return model
        if id(model) not in self._models:
            self._models[id(model)] = _BatchedChat(_provider_model(model), self)
        return self._models[id(model)]

    def embedding(self, model: EmbeddingModel) -> EmbeddingModel:
        """`model` itself: vectors are asked live."""
        return model

    @contextmanager
    def judging(self, *, catching: bool = False) -> Iterator[None]:
        """In this block calls are numbered anew, and caught or answered."""
        self._numbers.clear()
        self.catching = catching
        self.caught = []
        with asked_through(self):
            yield

    def begin(self) -> _Call | None:
        """The next call of the row that is being judged; None where none is."""
        if not (example_id := subject_asked_about()):
            return None
        number = self._numbers[example_id]
        self._numbers[example_id] += 1
        return _Call(f"{self.key(example_id)}-{number}", self)


class _BatchedChat:
    """A ChatModel that is asked as `BatchCalls` says."""

    def __init__(self, model: ProviderChatModel, calls: BatchCalls) -> None:
        self.model, self._calls = model, calls

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def limits(self) -> Limits:
        return self.model.limits

    def price_of(self, usage: Usage) -> float | None:
        """What live calls cost."""
        return self.model.price_of(usage)

    async def complete(self, request: ChatRequest) -> ChatReply:
        token = _call.set(self._calls.begin())
        try:
            return await self.model.complete(request)
        finally:
            _call.reset(token)


def _provider_model(model: ChatModel) -> ProviderChatModel:
    from memalign.models.provider_chat import ProviderChatModel

    if not isinstance(model, ProviderChatModel) or model.provider not in ("openai", "anthropic"):
        raise ConfigurationError(
            f"{model.name} has no batch endpoint: those of OpenAI and Anthropic are known, and checks that are answered one "
            "token each need a call apiece. Judge it live, without --batch"
        )
    return model.with_client(batch_client)


def batched_model(model: ChatModel) -> ProviderChatModel:
    """The provider's model behind one that `BatchCalls` gave."""
    assert isinstance(model, _BatchedChat)  # noqa: S101  # resolved through BatchCalls
    return model.model


def batch_client() -> httpx2.AsyncClient:
    """An HTTP client that keeps the first request of a call for a batch, or answers it out of one; others it sends."""
    import httpx2

    class Client(httpx2.AsyncClient):
        async def send(self, request: httpx2.Request, **settings: Any) -> httpx2.Response:
            call = _call.get()
            if call is None:
                return await super().send(request, **settings)
            first, call.sent, call.from_batch = not call.sent, True, False
            if first and call.calls.catching:
                body = json.loads(await request.aread())
                call.calls.caught.append(CaughtRequest(call.key, body, request.headers.get("anthropic-beta", "")))
                raise Caught
            if first and (answer := call.calls.answers(call.key)) is not None:
                call.from_batch = True
                return httpx2.Response(
                    200, content=answer, headers={"content-type": "application/json"}, request=request
                )
            return await super().send(request, **settings)

    return Client(timeout=600, follow_redirects=True, limits=httpx2.Limits(max_connections=1000))
