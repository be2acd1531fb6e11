"""What steers the calls of a run: answers that are kept, a spending limit, how many are in flight, a dry run.

An align that was stopped makes the same requests again, and those that were answered are not paid for a second time.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from memalign.content.encoding import estimate_tokens
from memalign.content.normal import whole_text
from memalign.content.walk import rebuilt
from memalign.errors import (
    ConfigurationError,
    InputError,
    InvalidOutput,
    MemalignError,
    ModelError,
    SpendLimitReached,
)
from memalign.models.base import (
    ChatModel,
    ChatReply,
    ChatRequest,
    Decision,
    DecisionModel,
    EmbeddingModel,
    PricedModel,
    Question,
)
from memalign.models.dry_run import GENEROUS, DryRun
from memalign.models.limiter import Pace
from memalign.models.provider_model import ProviderModel
from memalign.models.wordllama import WordLlamaEmbedding
from memalign.types import Usage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["AnswerStore", "Calls", "SpendLimit", "check_concurrency"]

Model = ChatModel | DecisionModel
T = TypeVar("T")
AnswerT = TypeVar("AnswerT", ChatReply, Decision)


class AnswerStore(Protocol):
    """Where paid answers are kept: JSON texts of one line, by keys of 64 hex digits."""

    def get(self, key: str) -> bytes | None:
        """The answer that is kept under `key`, out of this process's memory: it may not wait. None without one."""

    async def keep(self, answers: Mapping[str, bytes]) -> None:
        """Keep answers by key, without blocking the event loop; raises a MemalignError where it cannot."""


class Calls:
    """The calls of one run, whichever models they go to. It belongs to the event loop of the run."""

    def __init__(
        self,
        *,
        answers: AnswerStore | None = None,
        max_cost: float | None = None,
        concurrency: int | None = None,
        dry_run: DryRun | None = None,
        per_second: float | None = None,
    ) -> None:
        """Take the limits of a run.

        Args:
            answers: Keeps what is paid for; None: nothing is kept.
            max_cost: Dollars. A call that would pass it raises SpendLimitReached.
            concurrency: Calls in flight.
            dry_run: Is asked in the place of the models, and says what they would cost.
            per_second: Calls that start in a second.

        Raises:
            InputError: A limit that is none.
        """
        check_concurrency(concurrency)
        self.concurrency = concurrency
        self.dry_run = dry_run
        self._answers = answers
        self._limit = SpendLimit(max_cost)
        self._pace = Pace(per_second) if per_second else None

    @property
    def stopped(self) -> str:
        """Why calls were not made; empty where all were."""
        return self._limit.stopped

    @property
    def used_up(self) -> bool:
        """Whether the limit leaves no room for any call such as those before."""
        return self._limit.used_up

    @property
    def spent(self) -> float | None:
        """Dollars that were spent so far; None where there is no limit to hold."""
        return None if self._limit.most == math.inf else self._limit.spent

    def in_flight(self, model: Model) -> int:
        """How many calls of `model` may be in flight."""
        return self.concurrency or model.limits.concurrency

    async def _paced(self, send: Callable[[], Awaitable[AnswerT]]) -> AnswerT:
        """What `send` gives, begun when it is its turn."""
        if self._pace is not None:
            await self._pace.turn()
        return await send()

    async def ready(self, model: Model) -> None:
        """Open a provider's library, so that the time of the first call is that of the call."""
        if self.dry_run is None and isinstance(model, ProviderModel):
            await model.ready()

    async def complete(self, model: ChatModel, request: ChatRequest) -> ChatReply:
        """The model's answer, or the one that is kept, which costs nothing.

        Raises SpendLimitReached where the limit leaves no room for the call, ConfigurationError where nobody knows what
        it cost, and ModelError as `ChatModel.complete` does.
        """
        # Who waits longer, or asks about another item in the same words, asks the same.
        key = _key(model, msgspec.structs.replace(request, timeout=None, about=""))
        if (reply := self._get(key, ChatReply)) is not None:
            if self.dry_run is not None:
                self.dry_run.kept += 1
            return msgspec.structs.replace(reply, usage=Usage())
        if self.dry_run is not None:
            return self.dry_run.reply(model, request)
        texts = (request.system, request.user)
        reply = await self._limit.pay(
            model, request.schema_name, texts, lambda: self._paced(lambda: _reply(model, request))
        )
        reply = _whole(reply)  # here, where every answer enters
        await self._keep({key: reply})
        return reply

    async def decide(
        self,
        model: DecisionModel,
        state: str,
        questions: Sequence[Question],
        *,
        timeout: float | None = None,  # noqa: ASYNC109  # the protocol's
    ) -> Decision:
        """The model's answers, which are kept one by one. Errors are those of `complete`."""
        # All of a question that can change its answer: not the key that names it.
        keys = {q.key: _key(model, (state, q.kind, q.text, *q.labels)) for q in questions}
        stored = {name: self._get(key, dict[str, float]) for name, key in keys.items()}
        answers = {name: answer for name, answer in stored.items() if answer is not None}
        new = [question for question in questions if question.key not in answers]
        if not new:
            return Decision(probabilities=answers)
        if self.dry_run is not None:
            return Decision(probabilities=answers | self.dry_run.decision(model, state, new))
        texts = (state, *(question.text for question in new))
        decision = await self._limit.pay(
            model,
            "decision",
            texts,
            lambda: self._paced(lambda: _decision(model, state, new, timeout)),
        )
        await self._keep({keys[name]: answer for name, answer in decision.probabilities.items()})
        answers |= decision.probabilities
        return msgspec.structs.replace(
            decision, probabilities={key: answers[key] for key in keys if key in answers}
        )

    async def embed(self, model: EmbeddingModel, texts: Sequence[str]) -> NDArray[np.float32]:
        """The model's vectors."""
        if self.dry_run is not None and not isinstance(
            model, WordLlamaEmbedding
        ):  # which costs nothing
            return self.dry_run.vectors(len(texts))
        import numpy as np

        vectors = await own_errors(model.name, lambda: model.embed(texts))
        try:
            array = np.asarray(vectors, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise InvalidOutput(f"{model.name}: embed gave no array of numbers") from error
        if array.ndim != 2 or len(array) != len(texts) or not np.isfinite(array).all():
            raise InvalidOutput(
                f"{model.name}: embed gave no vector of finite numbers for each of {len(texts)} texts"
            )
        return array

    def _get(self, key: str, kind: type[T]) -> T | None:
        if self._answers is None or (answer := self._answers.get(key)) is None:
            return None
        try:
            return msgspec.convert(json.loads(answer), type=kind)
        except (ValueError, msgspec.ValidationError):  # damaged, or of another version of memalign
            return None

    async def _keep(self, answers: Mapping[str, object]) -> None:
        """Keep what was paid for, and go on only where its price is known."""
        if self._answers is not None:
            lines = {
                key: json.dumps(msgspec.to_builtins(answer)).encode()
                for key, answer in answers.items()
            }
            await self._answers.keep(lines)
        self._limit.check_price()


def check_concurrency(concurrency: int | None) -> None:
    """Raise InputError for what is no number of calls in flight; None is as many as suit the model."""
    number = 1 if concurrency is None else concurrency
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise InputError(f"concurrency must be 1 or more, a whole number, not {concurrency!r}")


async def _reply(model: ChatModel, request: ChatRequest) -> ChatReply:
    """Return the reply of a chat model, whoever wrote it. Raises ModelError."""
    reply = await own_errors(model.name, lambda: model.complete(request))
    if not isinstance(reply, ChatReply) or not isinstance(reply.data, dict):
        raise InvalidOutput(
            f"{model.name}: complete gave {_kind(reply)}, and no ChatReply with a dictionary as data"
        )
    return reply


def _whole(reply: ChatReply) -> ChatReply:
    """Return a reply that UTF-8 can hold: a model may write half of a character."""
    words = [reply.data, reply.text, reply.answered_by]
    try:
        msgspec.json.encode(words)
    except (UnicodeError, TypeError, ValueError, RecursionError):
        data, text, answered_by = rebuilt(words, whole_text)
        return msgspec.structs.replace(reply, data=data, text=text, answered_by=answered_by)
    return reply


async def _decision(
    model: DecisionModel,
    state: str,
    questions: Sequence[Question],
    timeout: float | None,  # noqa: ASYNC109
) -> Decision:
    decision = await own_errors(model.name, lambda: model.decide(state, questions, timeout=timeout))
    if not isinstance(decision, Decision):
        raise InvalidOutput(f"{model.name}: decide gave {_kind(decision)}, and no Decision")
    return decision


def _kind(value: object) -> str:
    name = type(value).__name__
    return f"an {name}" if name[:1] in "aeiouAEIOU" else f"a {name}"


async def own_errors(name: str, call: Callable[[], Any]) -> Any:
    """Return what a call of a model gives; what an object of the user's raises becomes a ModelError.

    An AssertionError is let through: it says of a program, or of a test, that it is wrong.
    """
    try:
        answer = call()
        return await answer if inspect.isawaitable(answer) else answer
    except (MemalignError, AssertionError):
        raise
    except Exception as error:
        said = " ".join(str(error).split())[:200]
        raise ModelError(f"{name}: {type(error).__name__}{f': {said}' if said else ''}") from error


class SpendLimit:
    """Dollars that all calls of a run may cost, what was spent, and what the calls in flight are expected to cost."""

    def __init__(self, most: float | None) -> None:
        """Take an amount above 0, or None for no limit. Raises InputError for any other."""
        amount = 1 if most is None else most
        if (
            isinstance(amount, bool)
            or not isinstance(amount, int | float)
            or not 0 < amount < math.inf
        ):
            raise InputError(f"max_cost is a number of dollars above 0, not {most!r}")
        self.most = math.inf if most is None else most
        self.spent = self._reserved = 0.0
        self.stopped = ""  # or why calls were not made
        self._rates: dict[
            tuple[str, str], float
        ] = {}  # dollars for a unit of the dearest call, by model and purpose
        self._cheapest = math.inf  # dollars of the cheapest call so far
        self._unpriced = ""  # a model of which nobody knows what its call cost
        self._first = asyncio.Lock()
        self._in_flight = 0
        self._settled = asyncio.Event()  # a new one after each call

    @property
    def used_up(self) -> bool:
        """Whether not even the cheapest call so far would fit."""
        return (
            self.spent + self._cheapest > self.most
            if self._cheapest < math.inf
            else self.spent >= self.most
        )

    async def pay(
        self,
        model: Model,
        purpose: str,
        texts: Iterable[str],
        call: Callable[[], Awaitable[AnswerT]],
    ) -> AnswerT:
        """Return what `call` about the texts gives, where the limit leaves room for it.

        The first call of a kind goes alone: until it is answered, all that is known of the price is what the list says
        of the tokens that go in. Raises ConfigurationError for a model whose price nobody knows, before its first call.
        """
        if self.most == math.inf:
            return await call()
        kind, size = (model.name, purpose), sum(map(estimate_tokens, texts))
        if kind not in self._rates:
            async with self._first:
                if kind not in self._rates:
                    return await self._paid(model, kind, size, call)
        return await self._paid(model, kind, size, call)

    async def _paid(
        self, model: Model, kind: tuple[str, str], size: int, call: Callable[[], Awaitable[AnswerT]]
    ) -> AnswerT:
        self.check_price()
        expected = size * self._rate_of(model, kind)
        while self._over(expected) and self._in_flight:  # calls in flight may turn out cheaper
            await self._settled.wait()
        if self._over(expected):
            self.stopped = f"one more call would pass the limit of ${self.most:g}"
            raise SpendLimitReached(f"{self.stopped}; align again to go on")
        usage = Usage()
        self._reserved += expected
        self._in_flight += 1
        try:
            answer = await call()
            usage = answer.usage
        except ModelError as error:
            usage = error.usage or Usage()
            raise
        finally:
            self._settle(model, kind, size, usage)
            self._in_flight -= 1
            self._reserved = self._reserved - expected if self._in_flight else 0.0
            self._settled.set()
            self._settled = asyncio.Event()
        return answer

    def _over(self, expected: float) -> bool:
        return self.spent + self._reserved + expected > self.most

    def _rate_of(self, model: Model, kind: tuple[str, str]) -> float:
        """Return the dollars for a unit of a call: of the dearest so far, else as the price list says."""
        if (rate := self._rates.get(kind)) is not None:
            return rate
        if not isinstance(
            model, PricedModel
        ):  # an object of the user's, which may say what each call cost
            return max(0.0, *self._rates.values(), 0.0)
        price = model.price_of(Usage(calls=1, input_tokens=1_000))
        if price is None:
            raise ConfigurationError(_UNKNOWN_PRICE.format(model.name))
        return max(price / 1_000 * GENEROUS, *self._rates.values(), 0.0)

    def _settle(self, model: Model, kind: tuple[str, str], size: int, usage: Usage) -> None:
        cost = usage.cost or 0.0
        self.spent += cost
        if usage.calls:  # what failed for free says nothing of the next one's price
            self._rates[kind] = max(self._rates.get(kind, 0.0), cost / max(size, 1))
            self._cheapest = min(self._cheapest, cost)
        if usage.cost is None:
            self._unpriced = model.name

    def check_price(self) -> None:
        """Raise ConfigurationError where nobody knows what a call cost."""
        if self._unpriced:
            raise ConfigurationError(_UNKNOWN_PRICE.format(self._unpriced))


_UNKNOWN_PRICE = (
    "max_cost cannot hold: what a call of {} costs is not known (the price list has no such model at this address, or "
    "the server counts no tokens); give its price (memalign edit NAME --price input=N,output=N), or leave the limit "
    "out (--max-cost, max_cost)"
)


def _key(model: Model, question: ChatRequest | tuple[str, ...]) -> str:
    """64 hex digits of the model, where it is asked, and all of the request that can change its answer."""
    identity = getattr(
        model, "identity", ""
    )  # of those whose answers depend on more than their name
    parts = [type(question).__name__, model.name, identity, question]
    return hashlib.sha256(json.dumps(msgspec.to_builtins(parts)).encode()).hexdigest()
