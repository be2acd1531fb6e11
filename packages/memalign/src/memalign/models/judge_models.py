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
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """What a judge's parameters say of one model."""

    prices: Prices | None = None
    context: Annotated[int, msgspec.Meta(ge=1_024)] | None = None


def decides_alone(judge: JudgeModels) -> bool:
    """Whether the judge's own model is a decision model, which writes nothing."""
    model = judge.model
    if isinstance(model, str):
        return names_decision_model(model)
    return isinstance(model, DecisionModel) and not isinstance(model, ChatModel)


def open_judging_model(judge: JudgeModels) -> ChatModel | DecisionModel:
    """What gives the judge's verdicts. Raises ConfigurationError as `open_model` does."""
    return _decision_model(judge, judge.model) if decides_alone(judge) else open_model(judge)


def open_model(judge: JudgeModels, model: str | ChatModel | None = None) -> ChatModel:
    """The judge's chat model, or another, with what the judge's parameters give for its name.

    The judge's own has its `reasoning_effort` too. Raises ConfigurationError as `resolve` does.
    """
    name = cast(
        "str | ChatModel | None", (judge.model or default_model_name()) if model is None else model
    )
    settings = {}
    if (
        model is None
        and isinstance(name, str)
        and (effort := judge.parameters.get("reasoning_effort"))
    ):
        if parse_name(name)[0] == "openai":
            settings["openai_reasoning_effort"] = effort
        else:
            settings["thinking"] = False if effort == "none" else effort
    return resolve(name, settings=settings, **_settings_of(judge, name))


def _decision_model(judge: JudgeModels, model: object) -> DecisionModel:
    return resolve_decision(cast("str | DecisionModel", model), **_settings_of(judge, model))


def _settings_of(judge: JudgeModels, model: object) -> dict[str, Any]:
    if not isinstance(model, str):
        return {}
    settings = msgspec.convert(
        judge.parameters.get("models", {}).get(canonical_name(model), {}), ModelSettings
    )
    return {"prices": settings.prices, "context_tokens": settings.context}


def open_reflection_model(judge: JudgeModels, model: str | ChatModel | None = None) -> ChatModel:
    """What writes the judge's guidelines: `model`, else the `reflection_model` of its parameters, else its own.

    Raises ConfigurationError as `open_model` does, and where its own model only decides.
    """
    named = model if model is not None else judge.parameters.get("reflection_model")
    if named is None and decides_alone(judge):
        raise ConfigurationError(
            f"{judge.model_name} is a decision model and writes no guidelines: name the chat model that does, with "
            "reflection_model (--reflection-model)"
        )
    return open_model(judge, named)


def checked_models(models: object) -> dict[str, dict[str, Any]]:
    """The parameter `models`, by the models' canonical names. Raises InputError, ConfigurationError."""
    try:
        settings = msgspec.convert(models, dict[str, ModelSettings])
    except msgspec.ValidationError as error:
        raise InputError(
            "parameter models: a mapping from names of models to their prices (input, output, cached; dollars per "
            "million tokens) and context (1,024 tokens or more), such as {'openai:m@http://localhost:8000/v1': "
            f"{{'prices': {{'input': 0.1, 'output': 0.2}}}}}}; {error}"
        ) from error
    named = {canonical_name(name): msgspec.to_builtins(model) for name, model in settings.items()}
    return {name: model for name, model in named.items() if model}
