"""What the models of providers have in common: how they are opened and asked, what they take, what it costs."""

from __future__ import annotations

import asyncio
import copy
import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast

import msgspec

from memalign.aio import shared
from memalign.errors import AccessDenied, ConfigurationError, ModelError
from memalign.models.base import Limits
from memalign.models.limiter import Limiter
from memalign.models.list_prices import Prices, context_window, list_price
from memalign.models.provider_errors import Failure, failure_of
from memalign.models.providers import PROVIDERS, SAVED_OBJECT, Target, traits_of
from memalign.models.retry import Retry
from memalign.models.wire import http_client
from memalign.types import Usage

if TYPE_CHECKING:
    from pydantic_ai.providers import Provider
    from pydantic_ai.usage import RequestUsage

__all__ = ["ProviderModel", "open_provider"]

ClientT = TypeVar("ClientT")
AnswerT = TypeVar("AnswerT")

FIRST_IN_FLIGHT, USUAL_IN_FLIGHT, MOST_IN_FLIGHT = 16, 64, 256
"""Calls that are let through at first, that work on many items keeps in flight where nobody says how many, and the most
that may be asked for. As many are let through as the provider takes."""

RECORD_TOKENS = 2_500
"""Of a context, for each piece of feedback in a distillation call: case, comment and the rule that may come of it."""

_OPENAI_SDK = "_OpenAISDKProvider"
"""pydantic-ai's base class of all providers that speak OpenAI's protocol by OpenAI's library."""

_INSTALL = re.compile(r'pip install "[^"]+"')
"""The command in pydantic-ai's sentence about a library that is missing."""

_OWN_ARGUMENT = re.compile(r" or pass it via `[^`]*`")
"""Half a sentence of pydantic-ai about an argument that nobody can give here."""

_opened: list[
    object
] = []  # were one dropped, asyncio would warn of each connection that is still open


class ProviderModel(Generic[ClientT]):
    """One model of one provider, or of any server that speaks its protocol. It is asked on the background loop alone.

    `prices` and `context_tokens` go before what a list says, `concurrency` is the most calls in flight, and `extra` are
    settings of pydantic-ai (`top_p`, `extra_headers`, …) that go with every request.
    """

    timeout = 120.0  # seconds for one attempt, where a request does not say
    _loop: asyncio.AbstractEventLoop | None = None
    _has_answered = False

    # No dataclass: what writes down any of those, such as a tracer, would write down the key.
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
        self.target, self.retry, self.extra = target, retry or Retry(), extra or {}
        self.context_tokens, self.concurrency, self.prices = context_tokens, concurrency, prices
        known = PROVIDERS.get(target.provider)
        if known is None or not known.installed:
            self.open()  # pydantic-ai alone knows what it lacks, and no call may be paid before

    @property
    def name(self) -> str:
        """The resolved name, `openai:gpt-4.1-mini`, with the address that was given in it."""
        return self.target.name

    @property
    def identity(self) -> str:
        """The address of a server that the user named, and the settings that go with every request."""
        return json.dumps([self.target.base_url, self.extra], sort_keys=True, default=str)

    @cached_property
    def limits(self) -> Limits:
        """What the model can take, its context window from genai-prices where that knows the model."""
        usual = Limits()
        context = self.context_tokens or context_window(self.target) or usual.context_tokens
        records = min(usual.shard_size, max(context // RECORD_TOKENS, 1))
        concurrency = self.concurrency or USUAL_IN_FLIGHT
        return Limits(context_tokens=context, shard_size=records, concurrency=concurrency)

    def price_of(self, usage: Usage, model: str | None = None) -> float | None:
        """US dollars for a usage of it, or of the `model` that answered; None where no price is known."""
        return (
            list_price(usage, self.target, model)
            if self.prices is None
            else self.prices.cost(usage)
        )

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
        if self._loop is not (
            loop := asyncio.get_running_loop()
        ):  # the first call of the process, which may be a fork
            self._loop, self._lock = loop, asyncio.Lock()
            self._opened: ClientT | None = None
            most = self.concurrency or MOST_IN_FLIGHT
            self._limiter = Limiter(min(FIRST_IN_FLIGHT, most), most=most)
        async with self._lock:
            if (
                self._opened is None
            ):  # in a thread, because a provider's library takes seconds to import
                self._opened = await asyncio.to_thread(self.open)
                _opened.append(self._opened)
            return self._opened

    @shared
    async def ready(self) -> None:
        """Open the provider, so that the time of the first call is that of the call."""
        await self._client()

    def once(self) -> Self:
        """Return the same model with one attempt a call: what is wrong is said at once, and nothing waits."""
        single = copy.copy(self)
        single.retry = msgspec.structs.replace(self.retry, attempts=1)
        return single

    def open(self) -> ClientT:
        """pydantic-ai's model. Raises ConfigurationError with what to install or set."""
        try:
            return cast("ClientT", self._open())
        except (
            Exception
        ) as error:  # a missing library, key or region: the first line says what to do
            reason = _OWN_ARGUMENT.sub("", str(error).strip().split("\n")[0])
            reason = reason or type(error).__name__
            hint = ""
            if command := _INSTALL.search(str(error)):
                raise ConfigurationError(
                    f"{self.name} needs a library that is not installed. Run: {command[0]}"
                ) from error
            if "BASE_URL" in reason:
                hint = f" Or write openai:{self.target.model}@URL, with the server's address."
            if "Unknown provider" in reason:
                hint = f". Any other OpenAI-compatible server is openai:MODEL@URL. {SAVED_OBJECT}"
            raise ConfigurationError(f"{self.name} cannot be used: {reason}{hint}") from error

    def _open(self) -> Any:
        """pydantic-ai's chat or decision model. Raises what it lacks, in words of its own."""
        import pydantic_ai.direct  # noqa: F401  # in the thread of this, and not where a loop runs
        from pydantic_ai.models import infer_model

        # Chat completions, which every compatible server speaks; a bare "openai:" means the Responses API by now.
        kind = "openai-chat" if self.target.provider == "openai" else self.target.provider
        provider = open_provider(self.target)
        return infer_model(f"{kind}:{self.target.model}", lambda _: provider)

    async def _call(
        self,
        send: Callable[[], Awaitable[AnswerT]],
        *,
        seconds: float,
        spent: list[Usage] | None = None,
    ) -> AnswerT:
        """Return what `send` gives, tried again where that may help.

        An attempt has its slot while it is under way. `seconds` bounds each attempt and each wait between two.

        Args:
            send: Makes one attempt.
            seconds: The longest that an attempt or a wait may take.
            spent: Takes what attempts cost that were answered and could not be read.

        Raises:
            ModelError: For whatever the provider's library raises, which is its cause.
        """
        number = 1
        while True:
            async with self._limiter:
                try:
                    async with asyncio.timeout(seconds):
                        answer = await send()
                    self._limiter.succeeded(again=number > 1)
                    self._has_answered = True
                    return answer
                except Exception as error:
                    failure = self._failure(error, seconds, spent)
                    overload = failure.overload or isinstance(error, TimeoutError)
                    if failure.retry and overload:
                        self._limiter.overloaded(again=number > 1)
                    if not failure.retry or number >= self.retry.attempts:
                        raise self._ended(failure, number) from error
            wait = min(self.retry.wait(number, failure.retry_after), seconds)
            await self.retry.pause(wait, number, subject=str(self.target), reason=failure.reason)
            number += 1

    def _failure(self, error: Exception, seconds: float, spent: list[Usage] | None) -> Failure:
        """Return the failure that an error is; a wait beyond what a call waits ends it, with the server's sentence."""
        failure = failure_of(error, self.target, seconds)
        if failure.answered and spent is not None:
            spent.append(self._spent_on(*failure.tokens))
        longest = min(self.retry.max_wait, seconds)
        if (failure.retry_after or 0.0) <= longest:
            return failure
        asked = f"the server asks to wait {failure.retry_after:.0f} s, and a call waits {longest:g} s at most"
        return replace(failure, reason=f"{failure.reason.rstrip('.')}; {asked}", retry=False)

    def _ended(self, failure: Failure, attempts: int) -> ModelError:
        # Not how long it took: a hundred items on a server that is down are one reason, told once.
        tries = f" ({attempts} attempts)" if attempts > 1 else ""
        said = f"{self.target}: {failure.reason.rstrip('.')}{tries}"
        return failure.error(". ".join(filter(None, [said, failure.advice])), denied=failure.denied)

    def _usage(self, used: RequestUsage, model: str | None) -> Usage:
        """Return what one answered request cost: by our prices, else by genai-prices' bundled list, else None."""
        return self._spent_on(
            used.input_tokens, used.output_tokens, used.cache_read_tokens, model=model
        )

    def _spent_on(
        self, read: int, written: int, cached: int = 0, *, model: str | None = None
    ) -> Usage:
        usage = Usage(
            calls=1, input_tokens=read, cached_tokens=cached, output_tokens=written, cost=None
        )
        counted = read or written  # which some endpoints do not
        return (
            msgspec.structs.replace(usage, cost=self.price_of(usage, model)) if counted else usage
        )


def open_provider(target: Target) -> Provider[Any]:
    """pydantic-ai's provider, with the key and the address of the target, and no retries of its own."""
    from pydantic_ai.providers import infer_provider, infer_provider_class

    traits = traits_of(target.provider)
    if traits.servers:
        kind: Any = infer_provider_class(target.provider.removesuffix("-decisions"))
        url = target.base_url or traits.home
        url = (
            url.removesuffix("/v1") if target.provider == "typesafe" else url
        )  # whose client adds that
        client = {"http_client": http_client()} if target.provider == "openai" else {}
        # Without a key, they look for one, and would send it anywhere.
        provider: Provider[Any] = kind(
            base_url=url, api_key=target.api_key or "no-key-needed", **client
        )
    else:
        gateway = target.provider.startswith("gateway/")
        kind = None if gateway else infer_provider_class(target.provider)
        tolerant = kind is not None and any(base.__name__ == _OPENAI_SDK for base in kind.__mro__)
        provider = kind(http_client=http_client()) if tolerant else infer_provider(target.provider)
    if not target.trusted and target.provider.startswith(
        "openai"
    ):  # whose client would send more than a key
        provider.client.organization = provider.client.project = None
        provider.client._custom_headers = {}
    # Retries are ours alone. These clients take the number as a plain attribute; asking for none in every request
    # (pydantic-ai's `max_retries`, newer than the oldest version that we allow) would copy the client each time.
    if hasattr(provider.client, "max_retries"):
        provider.client.max_retries = 0
    return provider


def preload() -> None:
    """Import what the first call of an OpenAI-compatible model would import, and the embedding in this process.

    It takes seconds, once in a process. A library that is missing is named by the first call.
    """
    adapters = [f"pydantic_ai.{name}.openai" for name in ("models", "providers", "embeddings")]
    clients = [
        "pydantic_ai.direct",
        "openai.resources.chat",
        "anyio._backends._asyncio",
        "genai_prices.data",
    ]
    for library in (*adapters, *clients, "tokenizers", "safetensors.numpy"):
        with suppress(ImportError):
            import_module(library)
