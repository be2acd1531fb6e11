"""What steers the calls of a run: kept answers, a spending limit, calls in flight, a dry run.

An align that was stopped makes the same requests again, and those that were answered are not paid
for a second time.
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
    checked_vectors,
)
from memalign.models.dry_run import GENEROUS, DryRun
from memalign.models.limiter import Pace
from memalign.models.wordllama import WordLlamaEmbedding
from memalign.types import Usage

if TYPE_CHECKING:
    from memalign.models.base import Vectors

__all__ = ["AnswerStore", "Calls", "SpendLimit", "check_concurrency"]

Model = ChatModel | DecisionModel
T = TypeVar("T")
AnswerT = TypeVar("AnswerT", ChatReply, Decision)
Send = Callable[[], Awaitable[AnswerT]]
"""Sends a question to a model."""


class AnswerStore(Protocol):
    """Where paid answers are kept: JSON texts of one line, by keys of 64 hex digits."""

    def get(self, key: str) -> bytes | None:
        """Return the answer that is kept under a key, or None.

        It may not wait: it comes out of this process's memory.
        """

    async def keep(self, answers: Mapping[str, bytes]) -> None:
        """Keep answers by key, without blocking the event loop.

        Raises:
            MemalignError: They cannot be kept.
        """


class Calls:
    """The calls of one run, to whichever models. It belongs to the event loop of the run."""

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
            InputError: A limit is not a positive number.
        """
        check_concurrency(concurrency)
        self.concurrency = concurrency
        self.dry_run = dry_run
        self._answers = answers
        self._limit = SpendLimit(max_cost)
        self._pace = Pace(per_second) if per_second else None

    @property
    def stopped(self) -> str:
        """Why calls were not made; empty if all were."""
        return self._limit.stopped

    @property
    def used_up(self) -> bool:
        """True if the limit leaves no room for any call such as those before."""
        return self._limit.used_up

    @property
    def spent(self) -> float | None:
        """Dollars that were spent so far; None if there is no limit to hold."""
        return None if self._limit.most == math.inf else self._limit.spent

    def in_flight(self, model: Model) -> int:
        """Return how many calls of a model may be in flight."""
        return self.concurrency or model.limits.concurrency

    async def complete(self, model: ChatModel, request: ChatRequest) -> ChatReply:
        """Return the model's answer, or the one that is kept, which costs nothing.

        Args:
            model: Who is asked.
            request: What is asked.

        Raises:
            SpendLimitReached: The limit leaves no room for the call.
            ConfigurationError: There is a limit, and nobody knows what the call cost.
            ModelError: As `ChatModel.complete` raises it.
        """
        # A longer timeout, or another item in the same words, makes no other request.
        key = _key(model, msgspec.structs.replace(request, timeout=None, about=""))
        kept = self._get(key, ChatReply)
        if kept is not None:
            if self.dry_run is not None:
                self.dry_run.kept += 1
            return msgspec.structs.replace(kept, usage=Usage())
        if self.dry_run is not None:
            return self.dry_run.reply(model, request)

        async def send() -> ChatReply:
            reply = await self._in_turn(model, lambda: model.complete(request))
            if not isinstance(reply, ChatReply) or not isinstance(reply.data, dict):
                wanted = "and no ChatReply with a dictionary as data"
                raise InvalidOutput(
                    f"{model.name}: complete gave {_kind(reply)}, {wanted}"
                )
            return reply

        texts = (request.system, request.user)
        purpose = request.schema_name
        reply = _whole(await self._limit.pay(model, purpose, texts, send))
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
        """Return the model's answers, which are kept one by one.

        Args:
            model: Who is asked.
            state: The text that the questions are about.
            questions: What is asked.
            timeout: Seconds for the whole call.

        Raises:
            MemalignError: As `complete` does.
        """
        # All of a question that can change its answer: not the key that names it.
        keys = {
            q.key: _key(model, (state, q.kind, q.text, *q.labels)) for q in questions
        }
        answers: dict[str, dict[str, float]] = {}
        new = []
        for question in questions:
            kept = self._get(keys[question.key], dict[str, float])
            if kept is None:
                new.append(question)
            else:
                answers[question.key] = kept
        if not new:
            return Decision(probabilities=answers)
        if self.dry_run is not None:
            return Decision(
                probabilities=answers | self.dry_run.decision(model, state, new)
            )

        async def send() -> Decision:
            decision = await self._in_turn(
                model, lambda: model.decide(state, new, timeout=timeout)
            )
            if not isinstance(decision, Decision):
                raise InvalidOutput(
                    f"{model.name}: decide gave {_kind(decision)}, and no Decision"
                )
            return decision

        texts = (state, *(question.text for question in new))
        decision = await self._limit.pay(model, "decision", texts, send)
        await self._keep(
            {keys[name]: answer for name, answer in decision.probabilities.items()}
        )
        answers |= decision.probabilities
        in_order = {key: answers[key] for key in keys if key in answers}
        return msgspec.structs.replace(decision, probabilities=in_order)

    async def embed(self, model: EmbeddingModel, texts: Sequence[str]) -> Vectors:
        """Return the model's vectors.

        Args:
            model: Who embeds.
            texts: What is embedded.

        Raises:
            InvalidOutput: It gave something else than one vector of finite numbers for each text.
            ModelError: As `EmbeddingModel.embed` raises it.
        """
        free = isinstance(model, WordLlamaEmbedding)
        if self.dry_run is not None and not free:
            return self.dry_run.vectors(len(texts))
        vectors = await own_errors(model.name, lambda: model.embed(texts))
        return checked_vectors(model.name, vectors, len(texts))

    async def _in_turn(self, model: Model, call: Callable[[], Any]) -> Any:
        """Return what a call of a model gives, begun when it is its turn."""
        if self._pace is not None:
            await self._pace.turn()
        return await own_errors(model.name, call)

    def _get(self, key: str, kind: type[T]) -> T | None:
        answer = None if self._answers is None else self._answers.get(key)
        if answer is None:
            return None
        try:
            return msgspec.convert(json.loads(answer), type=kind)
        except (
            ValueError,
            msgspec.ValidationError,
        ):
            # Damaged, or of another version of memalign.
            return None

    async def _keep(self, answers: Mapping[str, object]) -> None:
        """Keep what was paid for, and then raise if its price is not known."""
        if self._answers is not None:
            lines = {}
            for key, answer in answers.items():
                lines[key] = json.dumps(msgspec.to_builtins(answer)).encode()
            await self._answers.keep(lines)
        self._limit.check_price()


def check_concurrency(concurrency: int | None) -> None:
    """Raise InputError unless this is a number of calls in flight, or None for the model's own."""
    number = 1 if concurrency is None else concurrency
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise InputError(
            f"concurrency must be 1 or more, a whole number, not {concurrency!r}"
        )


def _whole(reply: ChatReply) -> ChatReply:
    """Return a reply that UTF-8 can hold: a model may write half of a character."""
    words = [reply.data, reply.text, reply.answered_by]
    try:
        msgspec.json.encode(words)
    except (UnicodeError, TypeError, ValueError, RecursionError):
        data, text, answered_by = rebuilt(words, whole_text)
        return msgspec.structs.replace(
            reply, data=data, text=text, answered_by=answered_by
        )
    return reply


def _kind(value: object) -> str:
    name = type(value).__name__
    return f"an {name}" if name[:1] in "aeiouAEIOU" else f"a {name}"


async def own_errors(name: str, call: Callable[[], Any]) -> Any:
    """Return what a call of a model gives; whatever a user's object raises becomes a ModelError.

    An AssertionError is let through: it says that a program or a test is wrong.
    """
    try:
        answer = call()
        return await answer if inspect.isawaitable(answer) else answer
    except (MemalignError, AssertionError):
        raise
    except Exception as error:
        said = " ".join(str(error).split())[:200]
        raise ModelError(
            f"{name}: {type(error).__name__}{f': {said}' if said else ''}"
        ) from error


class SpendLimit:
    """Dollars that all calls of a run may cost, were spent, or may be spent by those in flight."""

    def __init__(self, most: float | None) -> None:
        """Take an amount above 0, or None for no limit. Raises InputError for any other."""
        number = isinstance(most, int | float) and not isinstance(most, bool)
        if most is not None and not (number and 0 < most < math.inf):
            raise InputError(f"max_cost is a number of dollars above 0, not {most!r}")
        self.most = math.inf if most is None else most
        self.spent = 0.0
        self.stopped = ""  # or why calls were not made
        self._reserved = 0.0
        self._rates: dict[_Kind, float] = {}  # dollars for a unit of the dearest call
        self._cheapest = math.inf  # dollars of the cheapest call so far
        self._unpriced = ""  # a model of which nobody knows what its call cost
        self._first = asyncio.Lock()
        self._in_flight = 0
        self._settled = asyncio.Event()  # a new one after each call

    @property
    def used_up(self) -> bool:
        """True if not even the cheapest call so far would fit."""
        if self._cheapest == math.inf:
            return self.spent >= self.most
        return self.spent + self._cheapest > self.most

    async def pay(
        self,
        model: Model,
        purpose: str,
        texts: Iterable[str],
        call: Send[AnswerT],
    ) -> AnswerT:
        """Return what a call gives, if the limit leaves room for it.

        The first call of a kind goes alone: until it is answered, all that is known of the price is
        what the list says of the tokens that go in.

        Args:
            model: Who is asked.
            purpose: What for: calls of one purpose cost about as much for each unit of text.
            texts: What is sent.
            call: Sends it.

        Raises:
            SpendLimitReached: There is no room.
            ConfigurationError: Nobody knows the model's price; raised before its first call.
        """
        if self.most == math.inf:
            return await call()
        kind = (model.name, purpose)
        size = estimate_tokens(*texts)
        if kind not in self._rates:
            async with self._first:
                if kind not in self._rates:
                    return await self._paid(model, kind, size, call)
        return await self._paid(model, kind, size, call)

    async def _paid(
        self, model: Model, kind: _Kind, size: int, call: Send[AnswerT]
    ) -> AnswerT:
        self.check_price()
        expected = size * self._rate_of(model, kind)
        while self._over(expected) and self._in_flight:
            # Calls in flight may turn out cheaper.
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

    def _rate_of(self, model: Model, kind: _Kind) -> float:
        """Return the dollars for a unit of a call: of the dearest so far, else of the list."""
        rate = self._rates.get(kind)
        if rate is not None:
            return rate
        dearest = max(self._rates.values(), default=0.0)
        if not isinstance(model, PricedModel):
            # A user's object may say what each call cost.
            return dearest
        price = model.price_of(Usage(calls=1, input_tokens=1_000))
        if price is None:
            raise ConfigurationError(_UNKNOWN_PRICE.format(model.name))
        return max(price / 1_000 * GENEROUS, dearest)

    def _settle(self, model: Model, kind: _Kind, size: int, usage: Usage) -> None:
        cost = usage.cost or 0.0
        self.spent += cost
        if usage.calls:  # what failed for free says nothing of the next one's price
            self._rates[kind] = max(self._rates.get(kind, 0.0), cost / max(size, 1))
            self._cheapest = min(self._cheapest, cost)
        if usage.cost is None:
            self._unpriced = model.name

    def check_price(self) -> None:
        """Raise ConfigurationError if nobody knows what a call cost."""
        if self._unpriced:
            raise ConfigurationError(_UNKNOWN_PRICE.format(self._unpriced))


_Kind = tuple[str, str]
"""The kind of a call: its model and its purpose."""

_UNKNOWN_PRICE = (
    "max_cost cannot hold: what a call of {} costs is not known (the price list has no such model "
    "at this address, or the server counts no tokens); give its price (memalign edit NAME --price "
    "input=N,output=N), or leave the limit out (--max-cost, max_cost)"
)


def _key(model: Model, question: ChatRequest | tuple[str, ...]) -> str:
    """Return 64 hex digits of the model, its address, and all that can change the answer."""
    identity = getattr(
        model, "identity", ""
    )  # of those that depend on more than their name
    parts = [type(question).__name__, model.name, identity, question]
    return hashlib.sha256(json.dumps(msgspec.to_builtins(parts)).encode()).hexdigest()
