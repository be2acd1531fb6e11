"""Opening a provider's model through pydantic-ai, one client for each event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from memalign.errors import ConfigurationError
from memalign.models.providers import Target

if TYPE_CHECKING:
    from pydantic_ai.embeddings import EmbeddingModel
    from pydantic_ai.models import Model
    from pydantic_ai.models.decision import DecisionModel
    from pydantic_ai.providers import Provider

__all__ = ["LoopClients", "open_chat", "open_decision", "open_embedding"]

T = TypeVar("T")


class LoopClients(Generic[T]):
    """One client for each event loop, opened on first use and closed with its loop.

    HTTP connections belong to the loop that opened them: used from another, they fail or hang. `open_client` is called
    in a thread, because a provider's library takes seconds to import; it gives the client and the provider to close.
    """

    def __init__(self, open_client: Callable[[], tuple[T, AbstractAsyncContextManager[Any]]]) -> None:
        self._open = open_client
        self._lock = threading.Lock()
        self._clients: dict[asyncio.AbstractEventLoop, asyncio.Task[T]] = {}

    async def get(self) -> T:
        """The running loop's client. Raises ConfigurationError when it cannot be opened, and tries again next time."""
        loop = asyncio.get_running_loop()
        with self._lock:
            for closed in [other for other in self._clients if other.is_closed()]:
                self._forget(closed)
            task = self._clients.get(loop) or self._clients.setdefault(loop, loop.create_task(self._start(loop)))
        try:
            return await asyncio.shield(task)  # one impatient caller must not cancel the opening for all
        except Exception:
            with self._lock:
                if self._clients.get(loop) is task:
                    del self._clients[loop]
            raise

    async def _start(self, loop: asyncio.AbstractEventLoop) -> T:
        client, provider = await asyncio.to_thread(self._open)
        _closings[loop, self] = closing = self._close_with_loop(loop, provider)
        await anext(closing)
        return client

    async def _close_with_loop(
        self, loop: asyncio.AbstractEventLoop, provider: AbstractAsyncContextManager[Any]
    ) -> AsyncGenerator[None]:
        # An event loop has no "on close" hook, but it ends its async generators before it closes (asyncio.run and
        # every runner call `shutdown_asyncgens`): the one place where connections can still be closed in order.
        async with provider:
            try:
                yield
            finally:
                self._forget(loop)

    def _forget(self, loop: asyncio.AbstractEventLoop) -> None:
        self._clients.pop(loop, None)
        _closings.pop((loop, self), None)


# Not in the model: were it dropped while the loop runs, asyncio would warn of each connection that is still open.
_closings: dict[tuple[asyncio.AbstractEventLoop, LoopClients[Any]], AsyncGenerator[None]] = {}


def open_chat(target: Target) -> tuple[Model, Provider[Any]]:
    """pydantic-ai's model for `target`. Raises ConfigurationError with what to install or set."""
    with _opened(target) as provider:
        import pydantic_ai.direct  # noqa: F401  # in the thread of this, and not where a loop runs
        from pydantic_ai.models import infer_model

        # Chat completions, which every compatible server speaks; a bare "openai:" means the Responses API by now.
        kind = "openai-chat" if target.provider == "openai" else target.provider
        model = infer_model(f"{kind}:{target.model}", lambda _: provider)
        if type(model).__name__ == "OpenAIChatModel":  # by name: other providers need not import OpenAI's library
            from memalign.models.provider_openai import CheckedChatModel

            model = CheckedChatModel(model.model_name, provider=provider)
        return model, provider


def open_embedding(target: Target) -> tuple[EmbeddingModel, Provider[Any]]:
    """pydantic-ai's embedding model for `target`. Raises ConfigurationError with what to install or set."""
    with _opened(target) as provider:
        from pydantic_ai.embeddings import infer_embedding_model

        return infer_embedding_model(target.plain_name, provider_factory=lambda _: provider), provider


def open_decision(target: Target) -> tuple[DecisionModel[Any], Provider[Any]]:
    """pydantic-ai's decision model for `target`. Raises ConfigurationError with what to install or set."""
    with _opened(target) as provider:
        from pydantic_ai.models import infer_model

        return cast("DecisionModel[Any]", infer_model(target.plain_name, lambda _: provider)), provider


@contextmanager
def _opened(target: Target) -> Iterator[Provider[Any]]:
    """The provider of `target`. Raises ConfigurationError for what goes wrong with it or with a model of its."""
    try:
        yield _provider(target)
    except Exception as error:  # a missing library, key or region: all at this point, and with what to do
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise ConfigurationError(f"{target.name} cannot be used: {reason}") from error


def _provider(target: Target) -> Provider[Any]:
    key = target.api_key or "no-key-needed"  # without one, the providers look for one, and would send it anywhere
    provider: Provider[Any]
    if target.provider in ("openai", "openai-decisions"):
        from pydantic_ai.providers.openai import OpenAIProvider

        provider = OpenAIProvider(base_url=target.url, api_key=key)
        if not target.trusted:  # its client would send more of the environment than a key
            provider.client.organization = provider.client.project = None
            provider.client._custom_headers = {}
    elif target.provider == "system-one":
        from pydantic_ai.providers.system_one import SystemOneProvider

        provider = SystemOneProvider(base_url=target.base_url, api_key=key)
    elif target.provider == "typesafe":
        from pydantic_ai.providers.typesafe import TypeSafeProvider

        root = target.base_url and target.base_url.removesuffix("/v1")  # its client adds that to what it is given
        provider = TypeSafeProvider(base_url=root, api_key=key)
    elif target.provider == "together" and target.api_key:  # its library knows one name of the key, we know two
        from pydantic_ai.providers.together import TogetherProvider

        provider = TogetherProvider(api_key=target.api_key)
    else:
        from pydantic_ai.providers import infer_provider

        provider = infer_provider(target.provider)
    # Retries are ours alone. These clients take the number as a plain attribute; asking for none in every request
    # (pydantic-ai's `max_retries`, newer than the oldest version that we allow) would copy the client each time.
    if hasattr(provider.client, "max_retries"):
        provider.client.max_retries = 0
    return provider
