"""Opening a provider's model through pydantic-ai."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from memalign.errors import ConfigurationError
from memalign.models.providers import OPENAI, Target

if TYPE_CHECKING:
    from pydantic_ai.embeddings import EmbeddingModel
    from pydantic_ai.models import Model
    from pydantic_ai.models.decision import DecisionModel
    from pydantic_ai.providers import Provider

__all__ = ["open_chat", "open_decision", "open_embedding"]


def open_chat(target: Target) -> Model:
    """pydantic-ai's model for `target`. Raises ConfigurationError with what to install or set."""
    with _opened(target) as provider:
        import pydantic_ai.direct  # noqa: F401  # in the thread of this, and not where a loop runs
        from pydantic_ai.models import infer_model

        # Chat completions, which every compatible server speaks; a bare "openai:" means the Responses API by now.
        kind = "openai-chat" if target.provider == "openai" else target.provider
        return infer_model(f"{kind}:{target.model}", lambda _: provider)


def open_embedding(target: Target) -> EmbeddingModel:
    """pydantic-ai's embedding model for `target`. Raises ConfigurationError with what to install or set."""
    with _opened(target) as provider:
        from pydantic_ai.embeddings import infer_embedding_model

        return infer_embedding_model(target.plain_name, provider_factory=lambda _: provider)


def open_decision(target: Target) -> DecisionModel[Any]:
    """pydantic-ai's decision model for `target`. Raises ConfigurationError with what to install or set."""
    with _opened(target) as provider:
        from pydantic_ai.models import infer_model

        return cast("DecisionModel[Any]", infer_model(target.plain_name, lambda _: provider))


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

        provider = OpenAIProvider(base_url=target.base_url or OPENAI, api_key=key)
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
    else:
        from pydantic_ai.providers import infer_provider

        provider = infer_provider(target.provider)
    # Retries are ours alone. These clients take the number as a plain attribute; asking for none in every request
    # (pydantic-ai's `max_retries`, newer than the oldest version that we allow) would copy the client each time.
    if hasattr(provider.client, "max_retries"):
        provider.client.max_retries = 0
    return provider
