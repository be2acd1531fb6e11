"""The models of MLflow's judges and settings, at the address and with the key that MLflow uses.

What people wrote goes to the server that MLflow would ask, or a refusal comes first.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from memalign.integrations.mlflow.errors import invalid, translated
from memalign.models import (
    ChatModel,
    DecisionModel,
    EmbeddingModel,
    resolve,
    resolve_decision,
    resolve_embedding,
)
from memalign.models.providers import Target, address_of, parse_name

JUDGE_PARAMETERS = ("temperature", "max_tokens", "seed", "timeout")
"""Inference parameters that a judge of ours has under the same name."""

_THEIR_NAMES = {"stop": "stop_sequences", "reasoning_effort": "openai_reasoning_effort"}
_SETTINGS = frozenset(
    (
        "top_p",
        "top_k",
        "presence_penalty",
        "frequency_penalty",
        "logit_bias",
        *_THEIR_NAMES.values(),
    )
)


def judge_model(base: Any) -> str | ChatModel | DecisionModel:
    """Return the model of MLflow's judge, with its address, headers and inference parameters.

    Raises MlflowException if it cannot be asked.
    """
    name = str(base.model)
    base_url = getattr(base, "_base_url", None)
    provider, _, model = name.partition(":")
    model = model.lstrip("/")
    headers = dict(getattr(base, "_extra_headers", None) or {})
    if provider == "gateway":
        from mlflow.genai.utils.gateway_utils import get_gateway_config

        gateway = get_gateway_config(model)  # refuses where there is no server
        headers = {**(gateway.extra_headers or {}), **headers}
        name = f"openai:{model}"
        base_url = base_url or gateway.api_base
    settings: dict[str, Any] = {"extra_headers": headers} if headers else {}
    if (
        provider == "typesafe"
        or str(getattr(base, "_model_api_mode", "")) == "decisions"
    ):
        with translated():
            target = _decision_target(provider, model, base_url, headers)
            return resolve_decision(target, settings=settings)
    for key, value in inference_of(base).items():
        setting = _THEIR_NAMES.get(key, key)
        if setting in _SETTINGS:
            settings[setting] = value
        elif key not in JUDGE_PARAMETERS:
            settings.setdefault("extra_body", {})[key] = value
    return chat_model(name, base_url=base_url, settings=settings)


def inference_of(base: Any) -> dict[str, Any]:
    """Return the inference parameters of MLflow's judge."""
    params = dict(getattr(base, "inference_params", None) or {})
    if "max_completion_tokens" in params:
        params.setdefault("max_tokens", params.pop("max_completion_tokens"))
    return params


def chat_model(
    name: str,
    *,
    base_url: str | None = None,
    settings: Mapping[str, Any] | None = None,
) -> str | ChatModel:
    """Return a chat model at MLflow's route: its name if ours is the same, else a model.

    Args:
        name: The model, as MLflow names it.
        base_url: A judge's. MLflow posts to it as it is, so it may end with the path of the call.
        settings: The provider's.

    Raises:
        MlflowException: The model cannot be asked.
    """
    address = (
        base_url.rstrip("/").removesuffix("/chat/completions") if base_url else None
    )
    with translated():
        target = _target(name, address)
        if target is None and address:
            raise invalid(
                f"{name!r} takes no base_url; write openai:/NAME for any compatible server"
            )
        # A missing key is known before any call.
        model = resolve(target or name, settings=settings)
        return name if target is None and not settings else model


def embedding_model(name: str, dimensions: int | None = None) -> str | EmbeddingModel:
    """Return an embedding model at MLflow's route, with vectors of that length."""
    with translated():
        target = None if name.startswith("wordllama") else _target(name, None)
        if target is not None:
            return resolve_embedding(target, dimensions=dimensions)
    return name if dimensions is None else f"{name}@{dimensions}"


def _target(name: str, address: str | None) -> Target | None:
    """Return the model with its address and key, or None if ours is the same route.

    Raises MlflowException for a server that memalign does not ask.
    """
    if name.partition(":")[0] in ("databricks", "endpoints"):
        raise invalid(
            f"{name!r} is a name of Databricks' own; name the model by its OpenAI-compatible "
            "address, make_judge(model='openai:/NAME', "
            "base_url='https://HOST/serving-endpoints/chat/completions'), and set OPENAI_API_KEY "
            "to a token of the workspace"
        )
    provider, model = parse_name(name)
    elsewhere = f"{provider.upper()}_API_BASE"
    if provider != "openai" and os.environ.get(elsewhere):
        raise invalid(
            f"{elsewhere} names a server for {name!r}, and memalign does not read it; name the "
            f"model by its OpenAI-compatible address, openai:/{model}@https://…, or take the "
            "variable away"
        )
    if provider != "openai" or address_of(model)[1] is not None:
        return None
    theirs = os.environ.get("OPENAI_API_BASE")
    ours = os.environ.get("OPENAI_BASE_URL")
    if address is None and ours and theirs != ours:
        address = theirs  # MLflow reads both in the other order
    return _addressed("openai", model, address, "OPENAI_API_KEY") if address else None


def _decision_target(
    provider: str, model: str, base_url: str | None, headers: Mapping[str, str]
) -> Target:
    """Return where a decision model answers that MLflow asks by the same name."""
    if provider == "openai":
        url = (
            base_url
            or os.environ.get("OPENAI_API_BASE")
            or os.environ.get("OPENAI_BASE_URL")
        )
        return _addressed("openai-decisions", model, url, "OPENAI_API_KEY")
    if provider == "gateway":
        server = str(base_url).partition("/gateway/")[0]
        return _addressed("system-one", model, f"{server}/gateway/typesafe", "")
    if not (base_url or headers):
        return _addressed("typesafe", model, None, "TYPESAFE_API_KEY")
    # Its own client would send the key in place of an Authorization header.
    authorized = "authorization" in map(str.lower, headers)
    url = base_url or "https://api.typesafe.ai/v1"
    return _addressed(
        "system-one", model, url, "" if authorized else "TYPESAFE_API_KEY"
    )


def _addressed(provider: str, model: str, url: str | None, variable: str) -> Target:
    """Return a model at an address that its name holds: only MLflow would know the route."""
    return Target(
        provider=provider,
        model=model,
        base_url=url,
        api_key=os.environ.get(variable),
        addressed=url is not None,
    )
