"""The models of a judge, opened with what its parameters say of them: headers, prices, context, effort.

Headers are stored with a judge, so they may hold no secret. A value names an environment variable instead, `Bearer
$MEMALIGN_HEADER_TEAM`, which is read when the model is opened. Judges travel, as bundles and in registries that others
write to, so two rules stand between a judge and the variables of the machine that it runs on:

- only variables whose names begin with `MEMALIGN_HEADER_` are ever read;
- they go to a provider's own server and to the addresses that this machine's environment names, in
  `MEMALIGN_HEADER_SERVERS` or a variable such as `OPENAI_BASE_URL`, and not to an address that only the judge names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Annotated, Any, Protocol, cast
from urllib.parse import urlsplit

import msgspec

from memalign.errors import ConfigurationError, InputError
from memalign.models.base import ChatModel, DecisionModel
from memalign.models.list_prices import Prices
from memalign.models.providers import address_of, parse_name, servers_of_this_machine
from memalign.models.resolve import canonical_name, default_model_name, names_decision_model, resolve, resolve_decision

__all__ = [
    "JudgeModels",
    "check_model_of",
    "checked_headers",
    "checked_models",
    "decides_alone",
    "filled_headers",
    "open_judging_model",
    "open_model",
    "open_reflection_model",
]


class ModelSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a judge's parameters say of one model."""

    headers: dict[str, str] = {}
    prices: Prices | None = None
    context: Annotated[int, msgspec.Meta(ge=1_024)] | None = None


class JudgeModels(Protocol):
    """What a judge says of the models that it asks."""

    @property
    def model(self) -> str | ChatModel | DecisionModel | None:
        """Gives its verdicts."""

    @property
    def check_model(self) -> str | DecisionModel | None:
        """Answers the questions of its guidelines."""

    @property
    def model_name(self) -> str | None:
        """The name of `model`."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Headers, prices, context and effort."""


def decides_alone(judge: JudgeModels) -> bool:
    """Whether the judge's own model is a decision model, which writes nothing."""
    model = judge.model
    if isinstance(model, str):
        return names_decision_model(model)
    return isinstance(model, DecisionModel) and not isinstance(model, ChatModel)


def open_judging_model(judge: JudgeModels) -> ChatModel | DecisionModel:
    """What gives the judge's verdicts. Raises ConfigurationError as `open_model` does."""
    if decides_alone(judge):
        return _decision_model(judge, cast("str | DecisionModel", judge.model))
    return open_model(judge)


def check_model_of(judge: JudgeModels) -> DecisionModel | None:
    """What answers the judge's questions: its check model, else its own model where that decides; None without one.

    Raises:
        ConfigurationError: It cannot be opened.
    """
    model = judge.check_model or judge.model or default_model_name()
    if isinstance(model, str):
        decides = judge.check_model is not None or names_decision_model(model) or model.startswith("local:")
        return _decision_model(judge, model) if decides else None
    return _decision_model(judge, model) if isinstance(model, DecisionModel) else None


def open_model(judge: JudgeModels, model: str | ChatModel | None = None) -> ChatModel:
    """The judge's chat model, or another, with what the judge's parameters give for its name.

    The judge's own has its `reasoning_effort` too. Raises ConfigurationError as `resolve` does, and for a header whose
    environment variable is not set.
    """
    chosen = cast("str | ChatModel | None", judge.model) if model is None else model
    name = default_model_name() if chosen is None else chosen
    if not isinstance(name, str):
        return resolve(name)
    settings = {}
    if model is None and (effort := judge.parameters.get("reasoning_effort")):
        if parse_name(name)[0] == "openai":
            settings["openai_reasoning_effort"] = effort
        else:
            settings["thinking"] = False if effort == "none" else effort
    return resolve(name, settings=settings, **_settings_of(judge, name))


def _decision_model(judge: JudgeModels, model: str | DecisionModel) -> DecisionModel:
    return resolve_decision(model, **_settings_of(judge, model) if isinstance(model, str) else {})


def _settings_of(judge: JudgeModels, name: str) -> dict[str, Any]:
    """What the judge's parameters say of the model of that name."""
    settings = msgspec.convert(judge.parameters.get("models", {}).get(canonical_name(name), {}), ModelSettings)
    headers = filled_headers(settings.headers, name)
    return {"headers": headers, "prices": settings.prices, "context_tokens": settings.context}


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
            "parameter models: a mapping from names of models to their headers, prices (input, output, cached; dollars "
            "per million tokens) and context (1,024 tokens or more), such as {'openai:m@http://localhost:8000/v1': "
            f"{{'prices': {{'input': 0.1, 'output': 0.2}}}}}}; {error}"
        ) from error
    for model in settings.values():
        checked_headers(model.headers)
    named = {canonical_name(name): msgspec.to_builtins(model) for name, model in settings.items()}
    return {name: model for name, model in named.items() if model}


# -- headers -----------------------------------------------------------------------------------------------------------

SERVERS = "MEMALIGN_HEADER_SERVERS"
"""Addresses to which such variables may go, separated by blanks or commas."""

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, 5.6.2
_VARIABLE = re.compile(r"(?P<scheme>(?:\w+ )?)\$(?P<name>MEMALIGN_HEADER_\w+)")
_SECRET_NAME = re.compile(r"auth|key|token|secret|cookie|passw|credential|session|signature", re.IGNORECASE)
_SECRET_VALUE = re.compile(
    r"^\s*(?:bearer|basic)\s+\S|\b(?:sk|pk|rk|ghp|gho|hf|xox[a-z])[-_][\w-]{8,}|\bAKIA\w{12,}|\beyJ[\w-]{10,}|\$",
    re.IGNORECASE,
)


def checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """`headers` that may be stored. Raises InputError, which repeats no value, for a secret or a broken one."""
    for name, value in headers.items():
        if not (_NAME.fullmatch(name) and value.strip() and value.isprintable() and value.isascii()):
            raise InputError("a header is a name and a line of plain characters: 'X-Team: support'")
        if not _VARIABLE.fullmatch(value) and (_SECRET_NAME.search(name) or _SECRET_VALUE.search(value)):
            raise InputError(
                f"header {name}: a secret would be stored with the judge. Put it into an environment variable whose "
                f"name begins with MEMALIGN_HEADER_ (no other is sent), and name that, in single quotes: '{name}: "
                "Bearer $MEMALIGN_HEADER_KEY'"
            )
    return dict(headers)


def filled_headers(headers: Mapping[str, str], model: str) -> dict[str, str]:
    """Headers as they are sent to the model of that name, their variables filled in.

    Raises ConfigurationError where a variable is not set, holds what no header can, or may not go to that model.
    """
    filled = checked_headers(headers)
    address = address_of(parse_name(model)[1])[1]
    trusted = {*re.split(r"[\s,]+", os.environ.get(SERVERS, "")), *servers_of_this_machine()}
    for name, value in headers.items():
        if (match := _VARIABLE.fullmatch(value)) is None:
            continue
        variable, secret = match["name"], os.environ.get(match["name"], "")
        if address is not None and _origin(address) not in map(_origin, filter(None, trusted)):
            raise ConfigurationError(
                f"header {name}: {variable} may not go to {address}: {SERVERS} does not name that address. If you "
                f"trust it with this key, set {SERVERS}={address}"
            )
        if not (secret and secret.isascii() and secret.isprintable()):
            raise ConfigurationError(
                f"{model}: its header {name} needs the environment variable {variable}, which is not set, or holds "
                "a line break or a character that no header has"
            )
        filled[name] = match["scheme"] + secret
    return filled


def _origin(url: str) -> tuple[str, str]:
    """Scheme, host and port."""
    parts = urlsplit(url.lower())
    return parts.scheme, parts.netloc.removesuffix({"http": ":80", "https": ":443"}.get(parts.scheme, ""))
