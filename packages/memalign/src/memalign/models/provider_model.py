"""What the models of providers have in common: whom they ask, what they take, what it costs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from difflib import get_close_matches
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import urlsplit

import msgspec

from memalign.errors import AccessDenied, ModelError
from memalign.models.answers import show_raw
from memalign.models.base import Limits
from memalign.models.limiter import Limiter
from memalign.models.list_prices import Prices, context_window, list_price, list_price_of
from memalign.models.provider_client import LoopClients
from memalign.models.provider_errors import OVERLOAD, failure_of, raw_of, status_of
from memalign.models.providers import Target, without_secrets
from memalign.models.retry import Retry
from memalign.types import Usage

if TYPE_CHECKING:
    from pydantic_ai.usage import RequestUsage

__all__ = ["ProviderModel"]

ClientT = TypeVar("ClientT")

_FIRST_IN_FLIGHT = 16
_LISTING_SECONDS = 5.0  # that a server has to list its models
_LISTED = 8  # names of models that an error lists


class ProviderModel(Generic[ClientT]):
    """One model of one provider, or of any server that speaks its protocol.

    Args:
        target: The model, its address and key.
        opening: Opens pydantic-ai's model.
        retry: How often and how patiently to try.
        timeout: Seconds for one attempt.
        limits: What the model takes.
        look_up_context: Whether the context of a price list replaces that of `limits`.
        max_concurrency: The most calls in flight that a caller may ask for; None for `limits.concurrency`. Sixteen are
            let through at first, and more or fewer as the provider takes them.
        prices: What its tokens cost, before any price list.
        extra: Settings of pydantic-ai (`top_p`, `extra_headers`, …) that go with every request.
    """

    def __init__(
        self,
        target: Target,
        opening: Callable[[Target], tuple[ClientT, AbstractAsyncContextManager[Any]]],
        *,
        retry: Retry | None = None,
        timeout: float = 120.0,
        limits: Limits | None = None,
        look_up_context: bool = False,
        max_concurrency: int | None = None,
        prices: Prices | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        self._target = target
        self._retry = retry or Retry()
        self._timeout = timeout
        self._limits = limits or Limits()
        self._look_up_context = look_up_context
        self._prices = prices
        self._extra = dict(extra or {})
        most = max_concurrency or self._limits.concurrency
        self._limiter = Limiter(min(_FIRST_IN_FLIGHT, most), most=most)
        self._asking = Limiter(1)
        self._clients = LoopClients(lambda: opening(target))
        self._has_answered = False
        self._served: str | None = None  # what the server said of itself; None: not asked yet

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
        window = context_window(self._target) if self._look_up_context else None
        return msgspec.structs.replace(self._limits, context_tokens=window) if window else self._limits

    def price_of(self, usage: Usage) -> float | None:
        """US dollars for a usage, before anything is asked; None where no price is known."""
        return list_price_of(usage, self._target) if self._prices is None else self._prices.cost(usage)

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

    @asynccontextmanager
    async def _attempt(self, model: object, number: int, *, seconds: float, about: str = "") -> AsyncIterator[None]:
        """One request. It has its slot while it is under way, and not while a retry waits.

        Args:
            model: The client that is asked.
            number: Of the attempt, from 1.
            seconds: How long an answer is waited for.
            about: What is asked about, for the log of raw answers.

        Raises:
            AttemptFailed: For whatever the provider's library raises, which is its cause.
        """
        async with self._limiter:
            try:
                async with asyncio.timeout(seconds):
                    yield
            except Exception as error:
                failed = failure_of(error, self._target, seconds)
                if failed.retry and (isinstance(error, TimeoutError) or status_of(error) in OVERLOAD):
                    self._limiter.overloaded(failed.retry_after, again=number > 1)
                show_raw(str(self._target), failed.reason, raw_of(error), about=about)
                if status_of(error) == 404 and not self._has_answered:
                    failed.advice = await self._what_it_serves(model) or failed.advice
                raise failed from error
            self._limiter.succeeded(again=number > 1)
        self._has_answered = True

    async def _what_it_serves(self, model: object) -> str:
        """What is wrong with the address or the model's name, as the user's own server says; "" where it does not.

        It is asked once, for all calls that failed alike. Its list of models (GET …/models) is read at the address,
        then at those that are often meant: with /v1, without the path of a call, at the server's root.
        """
        async with self._asking:
            if self._served is None:
                self._served = ""
                url = (self._target.base_url or "").rstrip("/")
                plain = url.removesuffix("/chat/completions").removesuffix("/completions")
                root = "{0.scheme}://{0.netloc}".format(urlsplit(plain))
                for meant in dict.fromkeys(
                    [url, plain, f"{plain.removesuffix('/v1')}/v1", f"{root}/v1"] if url else []
                ):
                    if (served := await self._models_at(model, meant)) is not None:
                        self._served = self._explained(served, meant, url)
                        break
        return self._served

    async def _models_at(self, model: object, url: str) -> list[str] | None:
        """The names of the models at an address; None where there is no such list."""
        from openai import AsyncOpenAI, OpenAIError

        client: Any = getattr(model, "client", None)
        if not isinstance(client, AsyncOpenAI):
            return None
        try:
            # The key goes to the same server only: `url` differs in its path.
            page = await client.with_options(base_url=url, timeout=_LISTING_SECONDS, max_retries=0).models.list(
                extra_headers=self._extra.get("extra_headers")
            )
            return [str(entry.id) for entry in page.data]
        except (OpenAIError, OSError, ValueError, TypeError, AttributeError):  # not OpenAI's protocol, whatever it is
            return None

    def _explained(self, served: list[str], url: str, named: str) -> str:
        """What is wrong, where the server at `url` serves these models and the user `named` an address."""
        if url != named:
            return f"A server answers at {without_secrets(url)}: use this address (--base-url, OPENAI_BASE_URL)."
        if self._target.model in served:
            return ""
        if len(served) > _LISTED:
            near = get_close_matches(self._target.model, served, n=_LISTED, cutoff=0.4)
            like = f"among them {', '.join(near)}" if near else f"none like {self._target.model}"
            return f"It serves {len(served)} models, {like}."
        return f"It serves {', '.join(served)}." if served else "It serves no model: load one there."

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
        cost = list_price(self._target, used, model=model) if self._prices is None else self._prices.cost(usage)
        return msgspec.structs.replace(usage, cost=cost)
