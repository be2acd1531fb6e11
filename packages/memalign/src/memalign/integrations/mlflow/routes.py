"""The models of MLflow's judges and settings, at the address and with the key that MLflow uses for them.

MLflow asks a judge's model itself and hands reflection and embedding models to LiteLLM. Both read variables that
providers' own libraries do not. What people wrote goes to the server that MLflow would ask, or a refusal comes first.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from memalign.integrations.mlflow.errors import invalid, translated
from memalign.models import ChatModel, DecisionModel, EmbeddingModel, resolve, resolve_decision, resolve_embedding
from memalign.models.providers import Target, address_of, parse_name, with_address

if TYPE_CHECKING:
    from mlflow.exceptions import MlflowException

JUDGE_PARAMETERS = ("temperature", "max_tokens", "seed", "timeout")
"""Inference parameters that a judge of ours has under the same name."""

_THEIR_NAMES = {"stop": "stop_sequences", "reasoning_effort": "openai_reasoning_effort"}
_SETTINGS = frozenset(("top_p", "top_k", "presence_penalty", "frequency_penalty", "logit_bias", *_THEIR_NAMES.values()))

_DATABRICKS = ("databricks", "endpoints")
_INSTEAD = {
    "model": "give the judge its OpenAI-compatible address: make_judge(model='openai:/NAME', base_url=…)",
    "reflection_lm": "name it by its OpenAI-compatible address: reflection_lm='openai:/NAME@https://…'",
    "embedding_model": "name another, or none: the embedding model in this process needs no network",
}


def judge_model(base: Any) -> str | ChatModel | DecisionModel:
    """The model of MLflow's judge, with its address, headers and inference parameters. Raises MlflowException."""
    name, base_url = str(base.model), getattr(base, "_base_url", None)
    provider, _, model = name.partition(":")
    headers, model = dict(getattr(base, "_extra_headers", None) or {}), model.lstrip("/")
    decides = provider == "typesafe" or str(getattr(base, "_model_api_mode", "")) == "decisions"
    if provider == "gateway":
        from mlflow.genai.utils.gateway_utils import get_gateway_config

        gateway = get_gateway_config(model)  # raises MlflowException where the tracking server is no server
        headers = {**(gateway.extra_headers or {}), **headers}
        name, base_url = f"openai:{model}", base_url or gateway.api_base
    if decides:
        with translated():
            return resolve_decision(_decision_target(provider, model, base_url, headers), headers=headers)
    settings: dict[str, Any] = {}
    for key, value in inference_of(base).items():
        setting = _THEIR_NAMES.get(key, key)
        if setting in _SETTINGS:
            settings[setting] = value
        elif key not in JUDGE_PARAMETERS:
            settings.setdefault("extra_body", {})[key] = value
    return chat_model(name, "model", base_url=base_url, headers=headers, settings=settings)


def inference_of(base: Any) -> dict[str, Any]:
    """The inference parameters of MLflow's judge."""
    params = dict(getattr(base, "inference_params", None) or {})
    if "max_completion_tokens" in params:
        params.setdefault("max_tokens", params.pop("max_completion_tokens"))
    return params


def is_embedded(base: Any) -> bool:
    """Whether the judge's model runs in this process, where MLflow cannot ask it and it calls no tools."""
    return str(base.model).startswith("local:")


def chat_model(
    name: str,
    what: str,
    *,
    base_url: str | None = None,
    headers: Mapping[str, str] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> str | ChatModel:
    """The chat model `name` at MLflow's route: its name where ours is the same, otherwise a model of its own.

    `what` is the setting that names it. `base_url` is a judge's: MLflow posts to it as it is, so it may end with the
    path of the call. Raises MlflowException where the route cannot be kept.
    """
    if base_url and name.partition(":")[0] in _DATABRICKS:
        raise _not_asked(name, what)
    address = base_url.rstrip("/").removesuffix("/chat/completions") if base_url else None
    with translated():
        target = _target(name, what, address)
        if target is None and not (settings or address or headers):
            resolve(name)  # a wrong name or a missing key is known before anything is asked
            return name
        if target is None and address and address_of(name)[1] is None:
            with_address(name, address)  # an error: no server of one's own speaks this provider's language
        return resolve(target or name, headers=headers, settings=settings)


def embedding_model(name: str, dimensions: int | None = None) -> str | EmbeddingModel:
    """The embedding model `name` at MLflow's route, with vectors of that length; as `chat_model`."""
    with translated():
        local = name.partition(":")[0] in ("local", "wordllama")
        target = None if local else _target(name, "embedding_model")
        if target is not None:
            return resolve_embedding(target, dimensions=dimensions)
    return name if dimensions is None else f"{name}@{dimensions}"


# -- where MLflow's route is another than ours -------------------------------------------------------------------------


def _target(name: str, what: str, address: str | None = None) -> Target | None:
    """The model with its address and key; None where ours is the same route. Raises MlflowException."""
    from mlflow.gateway.provider_registry import is_supported_provider  # those that MLflow asks without LiteLLM

    if name.partition(":")[0] in _DATABRICKS:
        return _databricks(name, what)
    provider, model = parse_name(name)
    elsewhere = f"{provider.upper()}_API_BASE"
    if provider == "openai":
        theirs, ours = os.environ.get("OPENAI_API_BASE"), os.environ.get("OPENAI_BASE_URL")
        url = address or (theirs if ours and theirs != ours else None)
        return _addressed("openai", model, url, "OPENAI_API_KEY") if url and address_of(model)[1] is None else None
    if provider == "azure":
        return None if address else _azure(name, model)
    if os.environ.get(elsewhere) and (what != "model" or not is_supported_provider(name.partition(":")[0])):
        raise invalid(
            f"{elsewhere} names a server for {name!r}, and memalign does not read it; name the model by its "
            f"OpenAI-compatible address, openai:/{model}@https://…, or take the variable away"
        )
    if provider == "ollama":
        url = address or os.environ.get("OLLAMA_BASE_URL") or "http://localhost:11434/v1"
        return _addressed("openai", model, url, "OLLAMA_API_KEY")
    return None


def _decision_target(provider: str, model: str, base_url: str | None, headers: Mapping[str, str]) -> Target:
    """Where a decision model answers that MLflow asks by the same name. Raises MlflowException."""
    if provider == "openai":
        url = base_url or os.environ.get("OPENAI_API_BASE") or os.environ.get("OPENAI_BASE_URL")
        return _addressed("openai-decisions", model, url, "OPENAI_API_KEY")
    if provider == "gateway":
        return _addressed("system-one", model, f"{str(base_url).partition('/gateway/')[0]}/gateway/typesafe", "")
    if provider in _DATABRICKS:
        return _databricks(f"{provider}:/{model}", "model", decides=True)
    if not (base_url or headers):
        return _addressed("typesafe", model, None, "TYPESAFE_API_KEY")
    # Its own client would send the key in place of an Authorization header.
    authorized = "authorization" in map(str.lower, headers)
    url = base_url or "https://api.typesafe.ai/v1"
    return _addressed("system-one", model, url, "" if authorized else "TYPESAFE_API_KEY")


def _addressed(provider: str, model: str, url: str | None, variable: str) -> Target:
    """The model at an address that is part of its name: elsewhere than in MLflow nobody would know the route."""
    key, addressed = os.environ.get(variable), url is not None
    named = variable if key else None
    return Target(provider=provider, model=model, base_url=url, api_key=key, addressed=addressed, key_variable=named)


def _databricks(name: str, what: str, *, decides: bool = False) -> Target:
    scheme, _, model = name.partition(":")
    model, elsewhere = model.lstrip("/"), os.environ.get("MLFLOW_DEPLOYMENTS_TARGET", "databricks")
    if not model:
        raise _not_asked(name, what)
    if what == "model" and scheme == "endpoints" and not elsewhere.startswith("databricks"):
        raise _not_asked(name, what, "MLFLOW_DEPLOYMENTS_TARGET names a deployments server. ")
    host = os.environ.get("DATABRICKS_HOST", "").rstrip("/")
    if not host or not os.environ.get("DATABRICKS_TOKEN"):
        raise _not_asked(name, what, "set DATABRICKS_HOST and DATABRICKS_TOKEN, or ")
    # Names of Unity Catalog, which have three parts, are served by its gateway.
    path = "ai-gateway/mlflow/v1" if model.count(".") >= 2 else "serving-endpoints"
    url = f"{host if '://' in host else f'https://{host}'}/{'ai-gateway/typesafe' if decides else path}"
    return _addressed("system-one" if decides else "openai", model, url, "DATABRICKS_TOKEN")


def _azure(name: str, model: str) -> Target | None:
    settings = {key: os.environ.get(key) for key in ("AZURE_API_KEY", "AZURE_API_BASE", "AZURE_API_VERSION")}
    if not any(settings.values()):
        return None  # the names of Azure's own library are left
    if missing := [variable for variable, value in settings.items() if not value]:
        raise invalid(f"model {name!r} needs {' and '.join(missing)}, as MLflow's own judges do")
    key, url, version = settings.values()
    target = Target(provider="azure", model=model, base_url=url, api_key=key, api_version=version)
    return replace(target, key_variable="AZURE_API_KEY")


def _not_asked(name: str, what: str, do: str = "") -> MlflowException:
    service = "runs in MLflow's or Databricks' own service, which memalign does not call"
    return invalid(f"{what} {name!r} {service}; {do}{_INSTEAD[what]}")
