"""What providers' models have in common: how they are opened and asked, what they take and cost."""

from __future__ import annotations

import asyncio
import copy
import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from difflib import get_close_matches
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast

import msgspec

from memalign.aio import shared
from memalign.errors import AccessDenied, ConfigurationError, ModelError, RateLimited
from memalign.models.base import Limits
from memalign.models.limiter import Limiter
from memalign.models.list_prices import Prices, context_window, list_price
from memalign.models.provider_errors import Failure, failure_of
from memalign.models.providers import PROVIDERS, SAVED_OBJECT, Target, traits_of
from memalign.models.retry import Call, Retry
from memalign.models.wire import http_client
from memalign.types import Usage

if TYPE_CHECKING:
    from pydantic_ai.providers import Provider
    from pydantic_ai.usage import RequestUsage

__all__ = ["ProviderModel", "open_provider"]

ClientT = TypeVar("ClientT")
AnswerT = TypeVar("AnswerT")
Send = Callable[[], Awaitable[AnswerT]]
"""Makes one attempt at a call."""

FIRST_IN_FLIGHT = 16
"""Calls that are let through at first; from there on as many as the provider takes."""

USUAL_IN_FLIGHT = 64
"""Calls that work on many items keeps in flight if nobody says how many."""

MOST_IN_FLIGHT = 256
"""The most calls in flight that may be asked for."""

RECORD_TOKENS = 2_500
"""Tokens of the context for each piece of feedback in a distillation call: the case, the comment
and the rule that may come of it."""

_OPENAI_SDK = "_OpenAISDKProvider"
"""pydantic-ai's base class of all providers that speak OpenAI's protocol by OpenAI's library."""

_INSTALL = re.compile(r'pip install "[^"]+"')
"""The command in pydantic-ai's sentence about a library that is missing."""

_OWN_ARGUMENT = re.compile(r" or pass it via `[^`]*`")
"""Half a sentence of pydantic-ai about an argument that nobody can give here."""

_opened: list[object] = []
"""Every client, because asyncio warns of open connections when one is dropped."""


class ProviderModel(Generic[ClientT]):
    """One model of one provider, or of any server that speaks its protocol.

    It is asked on the background loop alone.

    Attributes:
        timeout: Seconds for a whole call, if the request does not say.
        attempt: Seconds for one attempt, if the request does not say.
    """

    timeout = 300.0
    attempt = 120.0
    _loop: asyncio.AbstractEventLoop | None = None
    _has_answered = False

    # No dataclass: whatever writes down its fields, such as a tracer, would write down the key.
    def __init__(
        self,
        target: Target,
        *,
        retry: Retry | None = None,
        context_tokens: int | None = None,
        concurrency: int | None = None,
        prices: Prices | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        """Take a model of a provider.

        Args:
            target: The model, with its address and key.
            retry: How often to try.
            context_tokens: What it takes, whatever a list says.
            concurrency: The most calls in flight.
            prices: What its tokens cost, whatever a list says.
            extra: Settings of pydantic-ai (`top_p`, `extra_headers`, …), sent with every request.
        """
        self.target = target
        self.retry = retry or Retry()
        self.extra = extra or {}
        self.context_tokens = context_tokens
        self.concurrency = concurrency
        self.prices = prices
        known = PROVIDERS.get(target.provider)
        if known is None or not known.installed:
            self.open()  # pydantic-ai alone knows what it lacks, and no call may be paid before

    @property
    def name(self) -> str:
        """The resolved name, `openai:gpt-4.1-mini`, with the address that was given in it."""
        return self.target.name

    @property
    def identity(self) -> str:
        """The address of a server that the user named, and the settings of every request."""
        return json.dumps(
            [self.target.base_url, self.extra], sort_keys=True, default=str
        )

    @cached_property
    def limits(self) -> Limits:
        """The model's limits, with the context window of genai-prices if that knows the model."""
        usual = Limits()
        context = (
            self.context_tokens or context_window(self.target) or usual.context_tokens
        )
        records = min(usual.shard_size, max(context // RECORD_TOKENS, 1))
        concurrency = self.concurrency or USUAL_IN_FLIGHT
        return Limits(
            context_tokens=context, shard_size=records, concurrency=concurrency
        )

    def price_of(self, usage: Usage, model: str | None = None) -> float | None:
        """Return US dollars for a usage, or None if no price is known.

        Args:
            usage: The tokens.
            model: The name that answered, if it is another than the one asked.
        """
        if self.prices is not None:
            return self.prices.cost(usage)
        return list_price(usage, self.target, model)

    def once(self) -> Self:
        """Return the same model with one attempt a call: faults show at once, nothing waits."""
        single = copy.copy(self)
        single.retry = msgspec.structs.replace(self.retry, attempts=1)
        return single

    # -- opening it ----------------------------------------------------------------------------

    @shared
    async def ready(self) -> None:
        """Open the provider, so that the time of the first call is that of the call."""
        await self._client()

    async def _client(self) -> ClientT:
        """Return pydantic-ai's model, opened at the first call; a failure is tried again.

        Raises:
            ConfigurationError: It cannot be opened.
        """
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # the first call of the process, which may be a fork
            most = self.concurrency or MOST_IN_FLIGHT
            self._loop = loop
            self._lock = asyncio.Lock()
            self._opened: ClientT | None = None
            self._limiter = Limiter(min(FIRST_IN_FLIGHT, most), most=most)
        async with self._lock:
            if self._opened is None:
                # In a thread, because a provider's library takes seconds to import.
                self._opened = await asyncio.to_thread(self.open)
                _opened.append(self._opened)
            return self._opened

    def open(self) -> ClientT:
        """Return pydantic-ai's model.

        Raises:
            ConfigurationError: A library, key or region is missing; it says what to install or set.
        """
        try:
            return cast("ClientT", self._open())
        except Exception as error:
            raise ConfigurationError(self._remedy(error)) from error

    def _open(self) -> Any:
        """Return pydantic-ai's chat or decision model. Raises whatever pydantic-ai does."""
        import pydantic_ai.direct  # noqa: F401  # in this thread, and not where a loop runs
        from pydantic_ai.models import infer_model

        # Every compatible server speaks chat completions; "openai:" now means the Responses API.
        kind = (
            "openai-chat" if self.target.provider == "openai" else self.target.provider
        )
        provider = open_provider(self.target)
        return infer_model(f"{kind}:{self.target.model}", lambda _: provider)

    def _remedy(self, error: Exception) -> str:
        """Return what to do about an error of opening, whose first line says what is missing."""
        said = str(error)
        if command := _INSTALL.search(said):
            return (
                f"{self.name} needs a library that is not installed. Run: {command[0]}"
            )
        reason = (
            _OWN_ARGUMENT.sub("", said.strip().split("\n")[0]) or type(error).__name__
        )
        hint = ""
        if "BASE_URL" in reason:
            hint = (
                f" Or write openai:{self.target.model}@URL, with the server's address."
            )
        if "Unknown provider" in reason:
            near = get_close_matches(self.target.provider, PROVIDERS, 1)
            meant = f"; did you mean {near[0]}:{self.target.model}?" if near else "."
            hint = f"{meant} Any other OpenAI-compatible server is openai:MODEL@URL. {SAVED_OBJECT}"
        return f"{self.name} cannot be used: {reason}{hint}"

    # -- asking it -----------------------------------------------------------------------------

    def _begun(self, timeout: float | None = None) -> Call:
        """Return a new call; who gives a timeout leaves all of it to one attempt."""
        return Call(timeout or self.timeout, attempt=timeout or self.attempt)

    async def _answered(self, send: Send[AnswerT], call: Call) -> AnswerT:
        """Return what `send` gives, tried again where that may help and there is time left.

        Args:
            send: Makes one attempt.
            call: Receives the cost of attempts that were answered and could not be read.

        Raises:
            ModelError: For whatever the provider's library raises, which is its cause.
        """
        number = 1
        while True:
            failure = await self._attempt(send, call, again=number > 1)
            if not isinstance(failure, Failure):
                return failure
            if failure.answered:
                call.spent.append(self._spent_on(*failure.tokens))
            if not failure.retry or number >= self.retry.attempts:
                raise self._ended(failure, number) from failure.cause
            wait = self.retry.wait(number, failure.retry_after)
            if wait >= call.left:
                raise self._ended(
                    _out_of_time(failure, call), number
                ) from failure.cause
            await self.retry.pause(
                wait, number, subject=str(self.target), reason=failure.reason
            )
            number += 1

    async def _attempt(
        self, send: Send[AnswerT], call: Call, *, again: bool
    ) -> AnswerT | Failure:
        """Make one attempt, which has its slot while it is under way.

        The wait for the first slot is not the call's: it is the run's own queue.
        """
        try:
            async with asyncio.timeout(call.left if call.started else None):
                await self._limiter.acquire()
        except TimeoutError as error:
            reason = f"no free place for another attempt in {call.total:g} s"
            return Failure(RateLimited, reason, cause=error)
        left = call.left
        try:
            async with asyncio.timeout(min(left, call.attempt)):
                answer = await send()
        except Exception as error:  # noqa: BLE001  # it is the cause of what `_answered` raises
            waited = call.total if left < call.attempt else call.attempt
            failure = self._bounded(failure_of(error, self.target, waited), call)
            if failure.retry and (failure.overload or isinstance(error, TimeoutError)):
                self._limiter.overloaded(again=again)
            return replace(failure, cause=error)
        else:
            self._limiter.succeeded(again=again)
            self._has_answered = True
            return answer
        finally:
            self._limiter.release()

    def _bounded(self, failure: Failure, call: Call) -> Failure:
        """Return the failure, as a last one if the server asks to wait longer than a call waits."""
        asked = failure.retry_after or 0.0
        longest = min(self.retry.max_wait, call.total)
        if asked <= min(longest, call.left):
            return failure
        most = f"a call waits {longest:g} s at most"
        if asked <= self.retry.max_wait:
            most += ", attempts included"
        reason = f"{failure.reason.rstrip('.')}; the server asks to wait {asked:.0f} s, and {most}"
        return replace(failure, reason=reason, retry=False)

    def _ended(self, failure: Failure, attempts: int) -> ModelError:
        # Not how long it took: a hundred items on a server that is down are one reason, told once.
        tries = f" ({attempts} attempts)" if attempts > 1 else ""
        said = f"{self.target}: {failure.reason.rstrip('.')}{tries}"
        return failure.error(
            ". ".join(filter(None, [said, failure.advice])), denied=failure.denied
        )

    # -- what it costs -------------------------------------------------------------------------

    @contextmanager
    def _spending(self, timeout: float | None) -> Iterator[Call]:
        """Give a call whose error says what it has spent.

        Raises:
            AccessDenied: Access is refused, and the model has answered nothing yet.
        """
        call = self._begun(timeout)
        try:
            yield call
        except ModelError as error:
            if error.denied and not self._has_answered:
                raise AccessDenied(str(error)) from error
            error.usage = sum(call.spent, Usage())
            raise

    def _usage(self, used: RequestUsage, model: str | None) -> Usage:
        """Return what one answered request cost: by our prices, else by the list, else None."""
        return self._spent_on(
            used.input_tokens, used.output_tokens, used.cache_read_tokens, model=model
        )

    def _spent_on(
        self, read: int, written: int, cached: int = 0, *, model: str | None = None
    ) -> Usage:
        usage = Usage(
            calls=1,
            input_tokens=read,
            cached_tokens=cached,
            output_tokens=written,
            cost=None,
        )
        if not read and not written:  # some endpoints count nothing
            return usage
        return msgspec.structs.replace(usage, cost=self.price_of(usage, model))


def _out_of_time(failure: Failure, call: Call) -> Failure:
    """Return a failure that says that the call has no time for another attempt."""
    if not call.left:
        return failure  # which says how long its answer was waited for
    reason = failure.reason.rstrip(".")
    return replace(
        failure, reason=f"{reason}; no time is left of the call's {call.total:g} s"
    )


def open_provider(target: Target) -> Provider[Any]:
    """Return pydantic-ai's provider for a target, with its key and address, without retries."""
    from pydantic_ai.providers import infer_provider, infer_provider_class

    if traits_of(target.provider).servers:
        provider = _addressed(target)
    elif target.provider.startswith("gateway/"):
        provider = infer_provider(target.provider)
    else:
        kind: Any = infer_provider_class(target.provider)
        tolerant = any(base.__name__ == _OPENAI_SDK for base in kind.__mro__)
        provider = (
            kind(http_client=http_client())
            if tolerant
            else infer_provider(target.provider)
        )
    # Retries are ours alone. These clients take the number as a plain attribute; asking for none in
    # every request (pydantic-ai's `max_retries`, newer than the oldest version that we allow) would
    # copy the client each time.
    if hasattr(provider.client, "max_retries"):
        provider.client.max_retries = 0
    return provider


def _addressed(target: Target) -> Provider[Any]:
    """Return the provider of a protocol that others speak too, at the target's address."""
    from pydantic_ai.providers import infer_provider_class

    kind: Any = infer_provider_class(target.provider.removesuffix("-decisions"))
    url = target.base_url or traits_of(target.provider).home
    if target.provider == "typesafe":  # whose client adds that
        url = url.removesuffix("/v1")
    client = {"http_client": http_client()} if target.provider == "openai" else {}
    # Without a key, they look for one, and would send it anywhere.
    provider: Provider[Any] = kind(
        base_url=url, api_key=target.api_key or "no-key-needed", **client
    )
    if not target.trusted and target.provider.startswith("openai"):
        # OpenAI's client would send more than a key.
        provider.client.organization = None
        provider.client.project = None
        provider.client._custom_headers = {}
    return provider


def preload() -> None:
    """Import what the first call of an OpenAI-compatible model and the embedding here would import.

    It takes seconds, once in a process. A library that is missing is named by the first call.
    """
    adapters = [
        f"pydantic_ai.{name}.openai" for name in ("models", "providers", "embeddings")
    ]
    clients = [
        "pydantic_ai.direct",
        "openai.resources.chat",
        "anyio._backends._asyncio",
        "genai_prices.data",
    ]
    for library in (*adapters, *clients, "tokenizers", "safetensors.numpy"):
        with suppress(ImportError):
            import_module(library)
