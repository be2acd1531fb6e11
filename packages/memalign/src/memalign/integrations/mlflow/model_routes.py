"""The route of a model as MLflow takes it: the address and the key that its environment variables name.

MLflow asks a judge's model itself and hands reflection and embedding models to LiteLLM. Both read variables that
providers' own libraries do not. What people wrote goes to the server that MLflow's judge asks, or a refusal comes
first.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from memalign.integrations.mlflow.mlflow_errors import invalid, translated
from memalign.models import ChatModel, EmbeddingModel, resolve, resolve_embedding
from memalign.models.providers import Target, address_of, parse_name

if TYPE_CHECKING:
    from mlflow.exceptions import MlflowException

__all__ = ["check_not_managed", "routed_chat", "routed_embedding"]

_WORKSPACE = ("databricks", "endpoints", "typesafe")
_DATABRICKS = ("DATABRICKS_HOST", "DATABRICKS_TOKEN")
_AZURE = ("AZURE_API_KEY", "AZURE_API_BASE", "AZURE_API_VERSION")
_OLLAMA = "http://localhost:11434/v1"
_CALL = "/chat/completions"


def check_not_managed(name: str, what: str = "model") -> None:
    """Raise MlflowException (INVALID_PARAMETER_VALUE) for a model without a name of its own, such as `databricks`."""
    provider, _, model = name.partition(":")
    if provider in _WORKSPACE and (provider == "typesafe" or not model.strip("/")):
        raise _not_called(name, what)


def _not_called(name: str, what: str, do: str = "") -> MlflowException:
    out = {
        "model": "give the judge its OpenAI-compatible address: make_judge(model='openai:/NAME', base_url=…)",
        "reflection_lm": "name it by its OpenAI-compatible address: reflection_lm='openai:/NAME@https://…'",
        "embedding_model": "name another, or none: the embedding model in this process needs no network",
    }
    return invalid(
        f"{what} {name!r} runs in MLflow's or Databricks' own service, which memalign does not call; {do}{out[what]}"
    )


def routed_chat(
    name: str,
    *,
    base_url: str | None = None,
    headers: Mapping[str, str] | None = None,
    settings: Mapping[str, Any] | None = None,
    what: str = "model",
) -> str | ChatModel:
    """The chat model `name` at MLflow's route: its name where ours is the same, otherwise a model of its own.

    `base_url` is a judge's: MLflow posts to it as it is, so it may end with the path of the call. `what` is "model" for
    a judge's own and otherwise the setting that names it. Raises MlflowException where the route cannot be kept.
    """
    check_not_managed(name, what)
    if base_url and name.partition(":")[0] in _WORKSPACE:
        raise _not_called(name, what)
    address = base_url.rstrip("/").removesuffix(_CALL) if base_url else None
    with translated():
        target = _target(name, what, address)
        if target is None and not (settings or address or headers):
            resolve(name)  # a wrong name or a missing key is known before anything is asked
            return name
        return resolve(target or name, base_url=address, headers=headers, settings=settings)


def routed_embedding(name: str, dimensions: int | None = None) -> str | EmbeddingModel:
    """The embedding model `name` at MLflow's route, with vectors of that length; as `routed_chat`."""
    check_not_managed(name, "embedding_model")
    with translated():
        local = name.partition(":")[0] in ("local", "wordllama")
        target = None if local else _target(name, "embedding_model")
        if target is not None:
            return resolve_embedding(target, dimensions=dimensions)
    return name if dimensions is None else f"{name}@{dimensions}"


def _target(name: str, what: str, address: str | None = None) -> Target | None:
    """Where MLflow's route is another than ours: the model with its address and key. Raises MlflowException.

    The address is part of the model's name: elsewhere than in MLflow, nobody would know the route by the name alone.
    """
    provider, model = parse_name(name)
    if provider == "openai":
        return _openai(model, address)
    if provider in _WORKSPACE:
        return _databricks(name, model, what)
    if provider == "azure":
        return None if address else _azure(name, model)
    elsewhere = f"{provider.upper()}_API_BASE"
    if os.environ.get(elsewhere) and (what != "model" or not _asked_by_mlflow(name)):
        raise invalid(
            f"{elsewhere} names a server for {name!r}, and memalign does not read it; name the model by its "
            f"OpenAI-compatible address, openai:/{model}@https://…, or take the variable away"
        )
    return _ollama(model, address) if provider == "ollama" else None


def _openai(model: str, address: str | None) -> Target | None:
    theirs, ours = os.environ.get("OPENAI_API_BASE"), os.environ.get("OPENAI_BASE_URL")
    url = address or (theirs if ours and theirs != ours else None)
    if not url or address_of(model)[1] is not None:
        return None
    key = os.environ.get("OPENAI_API_KEY")
    return Target(provider="openai", model=model, base_url=url, api_key=key, addressed=True)


def _azure(name: str, model: str) -> Target | None:
    settings = {variable: os.environ.get(variable) for variable in _AZURE}
    if not any(settings.values()):
        return None  # the names of Azure's own library are left
    if missing := [variable for variable, value in settings.items() if not value]:
        raise invalid(f"model {name!r} needs {' and '.join(missing)}, as MLflow's own judges do")
    key, base, version = settings.values()
    return Target(
        provider="azure", model=model, base_url=base, api_key=key, api_version=version, key_variable="AZURE_API_KEY"
    )


def _databricks(name: str, model: str, what: str) -> Target:
    elsewhere = os.environ.get("MLFLOW_DEPLOYMENTS_TARGET", "databricks")
    if what == "model" and name.startswith("endpoints") and not elsewhere.startswith("databricks"):
        raise _not_called(name, what, "MLFLOW_DEPLOYMENTS_TARGET names a deployments server. ")
    host, token = (os.environ.get(variable) for variable in _DATABRICKS)
    if not host or not token:
        raise _not_called(name, what, f"set {' and '.join(_DATABRICKS)}, or ")
    host = host.rstrip("/") if "://" in host else f"https://{host.rstrip('/')}"
    # Names of Unity Catalog, which have three parts, are served by its gateway.
    path = "ai-gateway/mlflow/v1" if model.count(".") >= 2 else "serving-endpoints"
    return Target(
        provider="openai",
        model=model,
        base_url=f"{host}/{path}",
        api_key=token,
        addressed=True,
        key_variable="DATABRICKS_TOKEN",
    )


def _ollama(model: str, address: str | None) -> Target:
    url, key = address or os.environ.get("OLLAMA_BASE_URL") or _OLLAMA, os.environ.get("OLLAMA_API_KEY")
    variable = "OLLAMA_API_KEY" if key else None
    return Target(provider="openai", model=model, base_url=url, api_key=key, addressed=True, key_variable=variable)


def _asked_by_mlflow(name: str) -> bool:
    """Whether MLflow asks the model itself, and not through LiteLLM."""
    from mlflow.gateway.provider_registry import is_supported_provider

    return bool(is_supported_provider(name.partition(":")[0]))
