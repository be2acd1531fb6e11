"""From a model's name, such as `openai:/m`, `typesafe:m` or `local:<name>`, to a model."""

from __future__ import annotations

import inspect
import logging
import os
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar, cast

import msgspec

from memalign.errors import ConfigurationError, InputError
from memalign.models.base import ChatModel, DecisionModel, EmbeddingModel, Limits
from memalign.models.decision import ProviderDecisionModel
from memalign.models.list_prices import Prices
from memalign.models.local import LocalChatModel
from memalign.models.provider_chat import ProviderChatModel
from memalign.models.provider_embedding import ProviderEmbedding
from memalign.models.providers import (
    PROVIDERS,
    Target,
    parse_name,
    target_of,
    traits_of,
    whole_number,
)
from memalign.models.wordllama import WordLlamaEmbedding

__all__ = [
    "canonical_name",
    "checked_object",
    "default_model_name",
    "names_decision_model",
    "resolve",
    "resolve_decision",
    "resolve_embedding",
]

logger = logging.getLogger(__name__)

T = TypeVar("T")

_LENGTH = re.compile(r"(?P<name>.+)@(?P<length>[0-9]+)")

_models: dict[str, object] = {}  # one for all threads: `setdefault` is atomic


def resolve(
    name: str | Target | ChatModel | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
    prices: Prices | None = None,
    context_tokens: int | None = None,
) -> ChatModel:
    """Return the chat model of a name, one instance for each process, name and address.

    `openai:` means any OpenAI-compatible server when OPENAI_BASE_URL is set, and then needs no key;
    `openai:<name>@<address>` is one at an address of its own, which gets no other server's key.

    Args:
        name: None for `default_model_name()`; a Target for a name with an address and a key of its
            own; a ChatModel is given back as it is.
        settings: pydantic-ai's (`top_p`, `extra_headers`, …), sent with every request.
        prices: What its tokens cost, whatever a list says.
        context_tokens: What it takes, whatever a list says.

    Raises:
        ConfigurationError: No model, an unknown provider, a missing key, or settings of the
            embedded model.
    """
    chosen = default_model_name() if name is None else name
    if chosen is None:
        raise ConfigurationError(_no_model())
    if not isinstance(chosen, str | Target):
        return checked_object(chosen, "complete")
    provider, model = _parts(chosen)
    if decides(provider, model):
        raise ConfigurationError(
            f"{provider}:{model} is a decision model: it answers questions and writes nothing. "
            "Name a chat model here, such as openai:gpt-4.1-mini"
        )
    if provider == "local":
        return _local(model, settings or prices or context_tokens)
    return _opened(
        ProviderChatModel,
        chosen,
        settings,
        prices=prices,
        context_tokens=context_tokens,
    )


def _no_model() -> str:
    """Return what to do if nothing names a model."""
    if any(os.environ.get(name) for name in PROVIDERS["openai"].servers):
        return (
            "no model: the environment names a server, and none of its models; set "
            "MEMALIGN_MODEL=openai:NAME, or use --model openai:NAME"
        )
    return (
        "no model: set a provider's key (OPENAI_API_KEY, ANTHROPIC_API_KEY, GOOGLE_API_KEY) or "
        "MEMALIGN_MODEL, or run `memalign models pull` and use --model local:qwen2.5-coder-1.5b"
    )


def resolve_decision(
    name: str | Target | DecisionModel,
    *,
    settings: Mapping[str, Any] | None = None,
    prices: Prices | None = None,
    context_tokens: int | None = None,
) -> DecisionModel:
    """Return the decision model of a name, as `resolve` does.

    Args:
        name: `system-one:m@URL`, `typesafe:m`, `openai-decisions:m`, `google-decisions:m`, whatever
            else pydantic-ai opens as a decision model, or a Target; a DecisionModel is given back
            as it is.
        settings: pydantic-ai's, sent with every request.
        prices: What its tokens cost, whatever a list says.
        context_tokens: What it takes, whatever a list says.

    Raises:
        ConfigurationError: As `resolve` does, and for the name of a chat model.
    """
    if not isinstance(name, str | Target):
        return checked_object(name, "decide")
    provider, model = _parts(name)
    if not decides(provider, model):
        raise ConfigurationError(
            f"{provider}:{model} is not a decision model; these are system-one:MODEL@URL, "
            "typesafe:MODEL, openai-decisions:MODEL, google-decisions:MODEL and whatever else "
            "pydantic-ai opens as one"
        )
    return _opened(
        ProviderDecisionModel,
        name,
        settings,
        prices=prices,
        context_tokens=context_tokens,
    )


def resolve_embedding(
    name: str | Target | EmbeddingModel | None = None, *, dimensions: int | None = None
) -> EmbeddingModel:
    """Return the embedding model of a name.

    Args:
        name: None or "wordllama" for the one in process, which needs no key or network. Otherwise
            as `resolve` takes it; `@512` at the end asks for vectors of that length.
        dimensions: The length of the vectors, for a Target.

    Raises:
        ConfigurationError: As `resolve` does.
    """
    if name is None or name in ("wordllama", "local:wordllama"):
        return WordLlamaEmbedding()
    if not isinstance(name, str | Target):
        return checked_object(name, "embed")
    match = _LENGTH.fullmatch(name) if isinstance(name, str) else None
    if match is not None:
        name = match["name"]
        dimensions = int(match["length"])
    return _opened(ProviderEmbedding, name, dimensions=dimensions)


def checked_object(model: T, *methods: str) -> T:
    """Return a model object that has all that is asked of it.

    Args:
        model: An object of the user's, or one of ours.
        methods: The methods of which it must have one: `complete`, `decide` or `embed`.

    Raises:
        InputError: What it lacks.
    """
    wanted = " or ".join(methods)
    embeds = "embed" in methods
    what = (
        f"the model {type(model).__name__!r}: an own model is an object with a name, "
    )
    what += "and an async embed" if embeds else f"limits and an async {wanted}"
    name = getattr(model, "name", None)
    if not name or not isinstance(name, str):
        raise InputError(f"{what}; it has no name that is a text")
    if not embeds and not isinstance(getattr(model, "limits", None), Limits):
        raise InputError(f"{what}; its limits are no memalign Limits")
    found = [
        method for name in methods if callable(method := getattr(model, name, None))
    ]
    if not found:
        raise InputError(f"{what}; it has no method {wanted}")
    if not any(map(_is_async, found)):
        raise InputError(f"{what}; its {wanted} is no async method (async def)")
    return model


def _is_async(method: Any) -> bool:
    """Return whether a call may give something to wait for; a wrapper need not look like it."""
    if not inspect.isroutine(method) or hasattr(method, "__wrapped__"):
        return True
    returned = str(getattr(method, "__annotations__", {}).get("return", ""))
    return inspect.iscoroutinefunction(method) or any(
        word in returned for word in _AWAITED
    )


_AWAITED = ("Awaitable", "Coroutine", "Future", "Task")


def _parts(name: str | Target) -> tuple[str, str]:
    return parse_name(name) if isinstance(name, str) else (name.provider, name.model)


def _local(model: str, settings: object) -> LocalChatModel:
    if settings:
        raise ConfigurationError(
            f"local:{model} runs in this process and takes no prices or other settings"
        )
    opened = LocalChatModel(model)  # whose file is read at the first call
    return cast("LocalChatModel", _models.setdefault(str(opened.path), opened))


def _opened(
    kind: Callable[..., T],
    name: str | Target,
    extra: Mapping[str, Any] | None = None,
    **knobs: Any,
) -> T:
    target = target_of(name) if isinstance(name, str) else name
    knobs["concurrency"] = whole_number("MEMALIGN_CONCURRENCY")
    knobs["extra"] = dict(extra or {})
    # With the key, so that whoever corrects a wrong one need not start a new process.
    key = f"{kind} {msgspec.json.encode(target)!r} {sorted(knobs.items())}"
    return cast("T", _models.get(key) or _models.setdefault(key, kind(target, **knobs)))


def default_model_name() -> str | None:
    """Return the model to use when none is named, or None; only the demo then has another.

    It is MEMALIGN_MODEL, else a small one of the first provider whose key is set.
    """
    if chosen := os.environ.get("MEMALIGN_MODEL", "").strip():
        return canonical_name(chosen)
    for provider, traits in PROVIDERS.items():
        if traits.small and any(map(os.environ.get, traits.keys)):
            return f"{provider}:{traits.small}"
    return None


def canonical_name(name: str) -> str:
    """Return the one spelling of a model's name, `openai:gpt-4.1-mini`; it needs no key.

    Raises:
        ConfigurationError: It is no name of a model.
    """
    return ":".join(parse_name(name))


def names_decision_model(name: str) -> bool:
    """Return whether a name is that of a model that decides and cannot write.

    Raises:
        ConfigurationError: It is no name of a model.
    """
    return decides(*_parts(name))


def decides(provider: str, model: str) -> bool:
    """Return whether a model answers questions and writes nothing, as pydantic-ai opens it."""
    if provider in PROVIDERS or provider == "local":
        return traits_of(provider).decides
    return _opens_as_decision_model(f"{provider}:{model}")


@cache  # opening one imports its library
def _opens_as_decision_model(name: str) -> bool:
    from pydantic_ai.models import infer_model
    from pydantic_ai.models.decision import DecisionModel as Deciding
    from pydantic_ai.providers import infer_provider, infer_provider_class

    # First by a provider without a key, which most decision models only keep; then by one that the
    # environment gives.
    for factory in (
        lambda kind: object.__new__(infer_provider_class(kind)),
        infer_provider,
    ):
        try:
            return isinstance(infer_model(name, factory), Deciding)
        except Exception as error:  # noqa: BLE001  # whoever opens it says what is missing
            logger.debug("%s cannot be opened yet: %s", name, error)
    return name.partition(":")[0].endswith("-decisions")
