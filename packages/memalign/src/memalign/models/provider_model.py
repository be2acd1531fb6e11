"""What the models of providers have in common: whom they ask, what they take, what it costs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from memalign.errors import AccessDenied, ModelError
from memalign.models.base import Limits
from memalign.models.limiter import Limiter
from memalign.models.list_prices import Prices, context_window, list_price
from memalign.models.provider_errors import OVERLOAD, failure_of, status_of
from memalign.models.providers import Target
from memalign.models.retry import Retry
from memalign.types import Usage

if TYPE_CHECKING:
    from pydantic_ai.usage import RequestUsage

__all__ = ["ProviderModel"]

ClientT = TypeVar("ClientT")

FIRST_IN_FLIGHT, USUAL_IN_FLIGHT, MOST_IN_FLIGHT = 16, 64, 256
"""Calls that are let through at first, that work on many items keeps in flight where nobody says how many, and the most
that may be asked for. As many are let through as the provider takes."""

RECORD_TOKENS = 2_500
"""Of a context, for each piece of feedback in a distillation call: case, comment and the rule that may come of it."""

_opened: list[object] = []  # were one dropped, asyncio would warn of each connection that is still open


class ProviderModel(Generic[ClientT]):
    """One model of one provider, or of any server that speaks its protocol. It is asked on the background loop alone.

    Args:
        target: The model, its address and key.
        opening: Opens pydantic-ai's model.
        retry: How often and how patiently to try.
        timeout: Seconds for one attempt.
        context_tokens: What the model takes, whatever a price list says.
        concurrency: The most calls in flight.
        prices: What its tokens cost, before any price list.
        extra: Settings of pydantic-ai (`top_p`, `extra_headers`, …) that go with every request.
    """

    def __init__(
        self,
        target: Target,
        opening: Callable[[Target], ClientT],
        *,
        retry: Retry | None = None,
        timeout: float = 120.0,
        context_tokens: int | None = None,
        concurrency: int | None = None,
        prices: Prices | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        self._target = target
        self._retry = retry or Retry()
        self._timeout = timeout
        self._context_tokens = context_tokens
        self._concurrency = concurrency
        self._prices = prices
        self._extra = dict(extra or {})
        self._opening = opening
        self._loop: asyncio.AbstractEventLoop | None = None
        self._has_answered = False

    @property
    def name(self) -> str:
        """The resolved name, `openai:gpt-4.1-mini`, with the address that was given in it."""
        return self._target.name

    @property
    def identity(self) -> str:
        """The address of a server that the user named, and the settings that go with every request."""
        return json.dumps([self._target.base_url, self._extra], sort_keys=True, default=str)

    @cached_property
    def limits(self) -> Limits:
        """What the model can take, its context window from genai-prices where that knows the model."""
        usual = Limits()
        context = self._context_tokens or context_window(self._target) or usual.context_tokens
        records = min(usual.shard_size, max(context // RECORD_TOKENS, 1))
        concurrency = self._concurrency or USUAL_IN_FLIGHT
        return Limits(context_tokens=context, shard_size=records, concurrency=concurrency)

    def price_of(self, usage: Usage) -> float | None:
        """US dollars for a usage, before anything is asked; None where no price is known."""
        return list_price(usage, self._target) if self._prices is None else self._prices.cost(usage)

    @contextmanager
    def _spending(self) -> Iterator[list[Usage]]:
        """The list of what a call spends, which its error has too.

        Refused access is an AccessDenied as long as the model has answered nothing.
        """
        spent: list[Usage] = []
        try:
            yield spent
        except ModelError as error:
            if error.denied and not self._has_answered:
                raise AccessDenied(str(error)) from error
            error.usage = sum(spent, Usage())
            raise

    async def _client(self) -> ClientT:
        """pydantic-ai's model. Raises ConfigurationError when it cannot be opened, and tries again next time."""
        if self._loop is not (loop := asyncio.get_running_loop()):  # the first call of the process, which may be a fork
            self._loop, self._lock = loop, asyncio.Lock()
            self._opened: ClientT | None = None
            most = self._concurrency or MOST_IN_FLIGHT
            self._limiter = Limiter(min(FIRST_IN_FLIGHT, most), most=most)
        async with self._lock:
            if self._opened is None:  # in a thread, because a provider's library takes seconds to import
                self._opened = await asyncio.to_thread(self._opening, self._target)
                _opened.append(self._opened)
            return self._opened

    @asynccontextmanager
    async def _attempt(self, number: int, *, seconds: float) -> AsyncIterator[None]:
        """Attempt `number` (from 1), which has its slot while it is under way, and not while a retry waits.

        Raises AttemptFailed for whatever the provider's library raises, which is its cause.
        """
        async with self._limiter:
            try:
                async with asyncio.timeout(seconds):
                    yield
            except Exception as error:
                failed = failure_of(error, self._target, seconds)
                if failed.retry and (isinstance(error, TimeoutError) or status_of(error) in OVERLOAD):
                    self._limiter.overloaded(failed.retry_after, again=number > 1)
                raise failed from error
            self._limiter.succeeded(again=number > 1)
        self._has_answered = True

    def _usage(self, used: RequestUsage, model: str | None) -> Usage:
        """What one answered request cost: by our prices, else by genai-prices' bundled list, else None."""
        usage = Usage(
            calls=1,
            input_tokens=used.input_tokens,
            cached_tokens=used.cache_read_tokens,
            output_tokens=used.output_tokens,
            cost=None,
        )
        if not used.input_tokens and not used.output_tokens:  # the endpoint does not count
            return usage
        cost = list_price(usage, self._target, model) if self._prices is None else self._prices.cost(usage)
        return msgspec.structs.replace(usage, cost=cost)
