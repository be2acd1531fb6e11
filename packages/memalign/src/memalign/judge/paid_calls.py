"""The model calls of one align: answers that are paid for are kept, and spending and calls in flight have a limit.

Every request of the pipeline follows from memory and feedback, and an answer is a function of its request. So an align that
was stopped makes the same requests again, and those that were answered are not paid for a second time.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, cast

import msgspec

from memalign.content.encoding import estimate_tokens
from memalign.errors import ConfigurationError, ModelError, SpendLimitReached
from memalign.judge.rehearsal import Rehearsal, RehearsedEmbedding
from memalign.judge.spend_limit import SpendLimit, SpendRun, check_concurrency
from memalign.models.base import (
    ChatModel,
    ChatReply,
    ChatRequest,
    Decision,
    DecisionModel,
    EmbeddingModel,
    Limits,
    Question,
)
from memalign.types import Usage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Answers", "Call", "PaidCalls"]

T = TypeVar("T")


class Answers(Protocol):
    """Where answers are kept: JSON texts on one line, by keys of 64 hex digits."""

    def get(self, key: str) -> bytes | None:
        """The answer that is kept under `key`; None without one. From memory, without a look at disk or network."""
        ...

    async def keep(self, key: str, answer: bytes) -> None:
        """Keep an answer; raises a MemalignError where it cannot."""
        ...


class Call(NamedTuple):
    """What is asked: by the model's name, the kind of request, and its size in tokens."""

    model: str
    kind: str
    size: int


class PaidCalls:
    """The calls of one align, whichever models they go to: a `Through` for `asked_through`.

    `answers` keeps what was paid for (None: nothing is kept), `max_cost` is in dollars, `concurrency` is how many calls may
    be in flight (None: as many as suit the model). A call that would pass `max_cost` raises SpendLimitReached, and its
    feedback waits. `stopped` is then the reason. With a `rehearsal` no model is asked at all. Raises InputError for what is no limit.
    """

    def __init__(
        self,
        *,
        answers: Answers | None = None,
        max_cost: float | None = None,
        concurrency: int | None = None,
        rehearsal: Rehearsal | None = None,
    ) -> None:
        check_concurrency(concurrency)
        self.concurrency = concurrency
        self.rehearsal = rehearsal
        self._answers = answers
        self._limit = None if max_cost is None else SpendLimit(max_cost)
        self._runs: dict[tuple[str, str], SpendRun] = {}
        self._unpriced = ""
        self._first = asyncio.Lock()

    @property
    def stopped(self) -> str:
        """Why calls were not made; empty where all were."""
        if self._limit is None or not self._limit.reached:
            return ""
        return f"one more call would pass the limit of ${self._limit.most:g}"

    def chat(self, model: ChatModel) -> ChatModel:
        """`model`, asked within these limits and kept answers."""
        if isinstance(model, _Asked):
            return model
        return (_AskedAndDeciding if isinstance(model, DecisionModel) else _Asked)(model, self)

    def decision(self, model: DecisionModel) -> DecisionModel:
        """`model`, asked within these limits and kept answers."""
        if isinstance(model, _Deciding):
            return model
        return _AskedAndDeciding(model, self) if isinstance(model, ChatModel) else _Deciding(model, self)

    def embedding(self, model: EmbeddingModel) -> EmbeddingModel:
        """`model`, whose vectors are kept: a provider's differ a little from call to call, and prompts with them."""
        if isinstance(model, _Embedding | RehearsedEmbedding):
            return model
        if self.rehearsal is not None:
            return RehearsedEmbedding(model, self.rehearsal.dimensions)
        return model if self._answers is None else _Embedding(model, self)

    # -- kept answers --------------------------------------------------------------------------------------------

    def find(self, key: str, kind: type[T]) -> T | None:
        """The answer that is kept under `key`; None without one."""
        found = None if self._answers is None else self._answers.get(key)
        if found is None:
            return None
        try:
            return msgspec.convert(json.loads(found), type=kind)
        except (ValueError, msgspec.ValidationError):  # damaged, or of another version of memalign
            return None

    async def keep(self, key: str, answer: object) -> None:
        """Keep an answer that was just paid for."""
        if self._answers is not None:
            # In ASCII: a model may end its words in half a surrogate pair, which UTF-8 cannot hold.
            await self._answers.keep(key, json.dumps(msgspec.to_builtins(answer)).encode())

    # -- the limit -----------------------------------------------------------------------------------------------

    async def pay(self, asked: Call, call: Callable[[], Awaitable[T]], usage_of: Callable[[T], Usage]) -> T:
        """What `call` gives, where the limit leaves room for it; calls of a kind cost about as much a unit of size.

        The first call of a kind goes alone: until it is answered, nobody knows what the others would cost. Raises
        SpendLimitReached.
        """
        if self._limit is None:
            return await call()
        kind = (asked.model, asked.kind)
        run = self._runs.get(kind) or self._runs.setdefault(kind, self._limit.start_run())
        if not run.price_known:
            async with self._first:
                if not run.price_known:
                    return await self._paid(run, asked, call, usage_of)
        return await self._paid(run, asked, call, usage_of)

    async def _paid(
        self, run: SpendRun, asked: Call, call: Callable[[], Awaitable[T]], usage_of: Callable[[T], Usage]
    ) -> T:
        self.check_price()
        if not run.room(asked.size):
            raise SpendLimitReached(f"{self.stopped}; align again to go on")
        run.begin(asked.size)
        usage = Usage()
        try:
            answer = await call()
            usage = usage_of(answer)
        except ModelError as error:
            usage = error.usage or Usage()
            raise
        finally:
            run.end(usage.cost or 0.0, answered=usage.calls > 0, size=asked.size)
            if usage.cost is None:
                self._unpriced = asked.model
        return answer

    def check_price(self) -> None:
        """Raise ConfigurationError where the limit cannot hold: an answer came whose cost nobody knows."""
        if self._unpriced:
            raise ConfigurationError(
                f"max_cost cannot hold: what a call of {self._unpriced} costs is not known (the price list has no such "
                "model at this address, or the server counts no tokens); give its price (memalign edit NAME --price "
                "input=N,output=N), or leave the limit out (--max-cost, max_cost)"
            )


class _Limited:
    """A model that is asked as `PaidCalls` says."""

    def __init__(self, model: Any, calls: PaidCalls) -> None:
        self._model, self._calls = model, calls

    @property
    def name(self) -> str:
        return str(self._model.name)

    @property
    def limits(self) -> Limits:
        limits: Limits = self._model.limits
        at_once = self._calls.concurrency
        return limits if at_once is None else msgspec.structs.replace(limits, concurrency=at_once)


class _Asked(_Limited):
    """A ChatModel that is asked as `PaidCalls` says."""

    async def complete(self, request: ChatRequest) -> ChatReply:
        model = cast("ChatModel", self._model)
        key = _key(model, request)
        known = self._calls.find(key, ChatReply)
        if known is not None:
            return msgspec.structs.replace(known, usage=Usage())
        if self._calls.rehearsal is not None:
            return self._calls.rehearsal.reply(model, request)
        size = estimate_tokens(request.system) + estimate_tokens(request.user)
        asked = Call(self.name, request.schema_name, size)
        reply = await self._calls.pay(asked, lambda: model.complete(request), lambda answer: answer.usage)
        await self._calls.keep(key, reply)
        self._calls.check_price()
        return reply


class _Deciding(_Limited):
    """A DecisionModel that is asked as `PaidCalls` says. Answers are kept one by one: none hangs on another one."""

    async def decide(
        self,
        state: str,
        questions: Sequence[Question],
        *,
        timeout: float | None = None,  # noqa: ASYNC109  # the protocol's
    ) -> Decision:
        keys = {question.key: _key(self._model, (state, *_told(question))) for question in questions}
        answers = {
            name: answer
            for name, key in keys.items()
            if (answer := self._calls.find(key, dict[str, float])) is not None
        }
        new = [question for question in questions if question.key not in answers]
        if not new:
            return Decision(probabilities=answers)
        if self._calls.rehearsal is not None:
            return Decision(probabilities=answers | self._calls.rehearsal.decision(self._model, state, new))
        model = cast("DecisionModel", self._model)
        size = sum(map(estimate_tokens, (state, *(question.text for question in new))))
        decision = await self._calls.pay(
            Call(self.name, "decision", size),
            lambda: model.decide(state, new, timeout=timeout),
            lambda answer: answer.usage,
        )
        for name, answer in decision.probabilities.items():
            await self._calls.keep(keys[name], answer)
        self._calls.check_price()
        answers |= decision.probabilities
        return msgspec.structs.replace(decision, probabilities={key: answers[key] for key in keys if key in answers})


class _AskedAndDeciding(_Asked, _Deciding):
    """Of a model that does both."""


class _Embedding:
    """An EmbeddingModel whose vectors are kept, one a text."""

    def __init__(self, model: EmbeddingModel, calls: PaidCalls) -> None:
        self._model, self._calls = model, calls

    @property
    def name(self) -> str:
        return self._model.name

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np

        keys = {text: _key(self._model, text) for text in texts}
        known = {
            text: np.frombuffer(base64.b64decode(found), dtype="<f4")
            for text, key in keys.items()
            if (found := self._calls.find(key, str)) is not None
        }
        if new := [text for text in keys if text not in known]:
            for text, vector in zip(new, await self._model.embed(new), strict=True):
                known[text] = vector
                await self._calls.keep(keys[text], base64.b64encode(vector.astype("<f4").tobytes()).decode())
        return np.stack([known[text] for text in texts]).astype(np.float32) if texts else await self._model.embed([])


def _told(question: Question) -> tuple[str, ...]:
    """All of a question that can change its answer: not the key that names it."""
    return (question.kind, question.text, *question.labels)


def _key(model: ChatModel | DecisionModel | EmbeddingModel, asked: ChatRequest | tuple[str, ...] | str) -> str:
    """64 hex digits of the model, where it is asked, and all of the request that can change its answer."""
    # An adapter may know an address, the build of its engine, or settings of every request; the protocol does not.
    where: Any = getattr(model, "engine", None) or getattr(model, "base_url", None)
    said = sorted((name, repr(value)) for name, value in getattr(model, "extra", {}).items())
    if isinstance(asked, ChatRequest):
        asked = msgspec.structs.replace(asked, timeout=None)  # who waits longer asks the same
    parts = [type(asked).__name__, model.name, where, said, asked]
    return hashlib.sha256(json.dumps(msgspec.to_builtins(parts)).encode()).hexdigest()
