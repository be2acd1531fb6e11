"""The models of a judge, opened with what its parameters say of them: prices, context, effort."""

from __future__ import annotations

from typing import Annotated, Any, cast

import msgspec

from memalign.errors import ConfigurationError, InputError
from memalign.models.base import ChatModel, DecisionModel, JudgeModels
from memalign.models.list_prices import Prices
from memalign.models.providers import parse_name
from memalign.models.resolve import (
    canonical_name,
    default_model_name,
    names_decision_model,
    resolve,
    resolve_decision,
)

__all__ = [
    "checked_models",
    "decides_alone",
    "open_judging_model",
    "open_model",
    "open_reflection_model",
]


class ModelSettings(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
):
    """What a judge's parameters say of one model."""

    prices: Prices | None = None
    context: Annotated[int, msgspec.Meta(ge=1_024)] | None = None


def decides_alone(judge: JudgeModels) -> bool:
    """Return whether the judge's own model is a decision model, which writes nothing."""
    model = judge.model
    if isinstance(model, str):
        return names_decision_model(model)
    return isinstance(model, DecisionModel) and not isinstance(model, ChatModel)


def open_judging_model(judge: JudgeModels) -> ChatModel | DecisionModel:
    """Return the model that gives the judge's verdicts; an own one was checked with the judge.

    Raises:
        ConfigurationError: As `open_model` does.
    """
    model = judge.model
    if model is None:
        return open_model(judge)
    if not isinstance(model, str):
        return model
    if names_decision_model(model):
        return resolve_decision(model, **_settings_of(judge, model))
    return open_model(judge)


def open_model(judge: JudgeModels, model: str | ChatModel | None = None) -> ChatModel:
    """Return the judge's chat model, or another, with what the judge's parameters say of it.

    Args:
        judge: The judge.
        model: Another model; only the judge's own has its `reasoning_effort`.

    Raises:
        ConfigurationError: As `resolve` does.
    """
    name = model
    settings: dict[str, Any] = {}
    if model is None:
        name = cast("str | ChatModel | None", judge.model or default_model_name())
        effort = judge.parameters.get("reasoning_effort")
        if effort and isinstance(name, str):
            settings = _effort(name, effort)
    return resolve(name, settings=settings, **_settings_of(judge, name))


def _effort(name: str, effort: str) -> dict[str, Any]:
    """Return pydantic-ai's setting of how much a model thinks."""
    if parse_name(name)[0] == "openai":
        return {"openai_reasoning_effort": effort}
    return {"thinking": False if effort == "none" else effort}


def _settings_of(judge: JudgeModels, model: object) -> dict[str, Any]:
    if not isinstance(model, str):
        return {}
    told = judge.parameters.get("models", {}).get(canonical_name(model), {})
    settings = msgspec.convert(told, ModelSettings)
    return {"prices": settings.prices, "context_tokens": settings.context}


def open_reflection_model(
    judge: JudgeModels, model: str | ChatModel | None = None
) -> ChatModel:
    """Return the model that writes the judge's guidelines.

    Args:
        judge: The judge.
        model: None for the `reflection_model` of its parameters, or else its own model.

    Raises:
        ConfigurationError: As `open_model` does, and if the judge's own model only decides.
    """
    named = model if model is not None else judge.parameters.get("reflection_model")
    if named is None and decides_alone(judge):
        raise ConfigurationError(
            f"{judge.model_name} is a decision model and writes no guidelines: name the chat model "
            "that does, with reflection_model (--reflection-model)"
        )
    return open_model(judge, named)


def checked_models(models: object) -> dict[str, dict[str, Any]]:
    """Return the parameter `models`, by the models' canonical names.

    Raises:
        InputError: It is no such mapping.
        ConfigurationError: It names no model.
    """
    try:
        settings = msgspec.convert(models, dict[str, ModelSettings])
    except msgspec.ValidationError as error:
        example = "{'openai:m@http://localhost:8000/v1': {'prices': {'input': 0.1, 'output': 0.2}}}"
        raise InputError(
            "parameter models: a mapping from names of models to their prices (input, output, "
            "cached; dollars per million tokens) and context (1,024 tokens or more), such as "
            f"{example}; {error}"
        ) from error
    named = {
        canonical_name(name): msgspec.to_builtins(model)
        for name, model in settings.items()
    }
    return {name: model for name, model in named.items() if model}
