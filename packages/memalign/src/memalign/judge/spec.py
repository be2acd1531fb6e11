"""What a judge is made of, checked: what its instructions name, its parameters, its models."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from memalign.content import Part
from memalign.errors import ConfigurationError, InputError, InvalidInstructions
from memalign.models.base import ChatModel, DecisionModel, EmbeddingModel
from memalign.models.judge_models import checked_models
from memalign.models.resolve import canonical_name, checked_object
from memalign.types import CONTENT_FIELDS
from memalign.values import ValueType

__all__ = [
    "AnyModel",
    "check_name",
    "check_retrieval_k",
    "checked_model",
    "checked_parameters",
    "known_name",
    "name_of",
    "named_parts",
]

AnyModel = str | ChatModel | DecisionModel | EmbeddingModel
"""A model as a judge may have it: a name, or an object."""

_NAME = re.compile(
    r"(?!\.+$)[^\s/\\\x00-\x1f\x7f\ud800-\udfff][^/\\\x00-\x1f\x7f\ud800-\udfff]{0,99}"
)
_HALF_PAIR = re.compile("[\ud800-\udfff]")
_FIELDS = ", ".join(f"{{{{ {name} }}}}" for name in CONTENT_FIELDS)


def check_name(name: object) -> None:
    """Raise InputError for a text that cannot name a judge."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InputError(
            "the name of a judge has 1 to 100 characters on one line, without slashes, and "
            "not only dots"
        )


def check_retrieval_k(number: object) -> None:
    """Raise InputError unless the number of similar cases is 0 or more, or left to the model."""
    if number is None:
        return
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        fault = "retrieval_k is the number of similar cases: 0 or more"
        raise InputError(f"{fault}, or None for the model's default")


# -- instructions ------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def named_parts(instructions: str) -> tuple[str, ...]:
    """Return what instructions name in double braces, such as `("inputs.question", "outputs")`.

    Fields come in the order in which prompts show them, parts of one field in the order of the
    text. A part is left out if its whole field is named too. The text is parsed, never rendered.

    Args:
        instructions: The author's text.

    Raises:
        InvalidInstructions: It names no field, or something else than a field.
    """
    if not isinstance(instructions, str) or _HALF_PAIR.search(instructions):
        fault = "the instructions must be a text, without half of a surrogate pair"
        raise InvalidInstructions(fault)
    parts = list(dict.fromkeys(_part(name) for name in _in_braces(instructions)))
    if not parts:
        fault = "the instructions name no field of the example"
        raise InvalidInstructions(f"{fault}; name at least one of {_FIELDS}")
    whole = {part.field for part in parts if not part.steps}
    listed = [part for part in parts if not part.steps or part.field not in whole]
    listed.sort(key=lambda part: CONTENT_FIELDS.index(part.field))
    return tuple(map(str, listed))


def _in_braces(text: str) -> Iterator[str]:
    """Yield the text between each pair of double braces and the next one that closes it."""
    begin = text.find("{{")
    while begin >= 0:
        end = text.find("}}", begin + 2)
        if end < 0:
            return
        yield text[begin + 2 : end].strip()
        begin = text.find("{{", end + 2)


def _part(name: str) -> Part:
    with suppress(InputError):
        part = Part.parse(name)
        if part.field in CONTENT_FIELDS:
            return part
    raise InvalidInstructions(
        f"the instructions name {{{{ {name} }}}}, which is not a field; they can name {_FIELDS}, "
        "and a part of one, such as {{ inputs.question }} or {{ outputs[0].text }}"
    )


# -- parameters --------------------------------------------------------------------------------

_PARAMETERS = msgspec.defstruct(
    "_Parameters",
    [
        ("temperature", Annotated[float, Meta(ge=0, le=2)], None),
        ("max_tokens", Annotated[int, Meta(ge=1, le=10**6)], None),
        ("seed", Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)], None),
        ("timeout", Annotated[float, Meta(ge=0, le=10**6)], None),
        ("swap", bool, None),
        (
            "reasoning_effort",
            Literal["none", "minimal", "low", "medium", "high", "xhigh"],
            None,
        ),
        ("reflection_model", str, None),
        ("models", Any, None),  # has a check of its own
    ],
    forbid_unknown_fields=True,
)


def checked_parameters(
    parameters: Mapping[str, Any], value_type: ValueType
) -> dict[str, Any]:
    """Return a checked copy of a judge's parameters, with models in their one spelling.

    Args:
        parameters: What the author gave.
        value_type: What the judge may answer.

    Raises:
        InputError: A parameter is unknown or has a value that is not allowed.
    """
    try:
        msgspec.convert(parameters, _PARAMETERS)
    except msgspec.ValidationError as error:  # which repeats no value
        names = ", ".join(_PARAMETERS.__struct_fields__)
        raise InputError(f"parameters: {error}; they are {names}") from None
    checked = dict(parameters)
    if "models" in checked:
        checked["models"] = checked_models(checked["models"])
    if "reflection_model" in checked:
        checked["reflection_model"] = canonical_name(checked["reflection_model"])
    if checked.get("swap") and value_type.kind != "choice":
        fault = "only a judge that chooses between two sides, such as A|B, can swap"
        raise InputError(f"parameter swap=True: {fault}")
    return checked


# -- models ------------------------------------------------------------------------------------

ModelT = str | ChatModel | DecisionModel | None


def checked_model(model: ModelT) -> ModelT:
    """Return a model as a judge keeps it: a name in its one spelling, or a checked object.

    Raises:
        ConfigurationError: An address holds a password, which would be kept with the judge.
        InputError: An object lacks what a model needs.
    """
    if model is None:
        return None
    if not isinstance(model, str):
        return checked_object(model, "complete", "decide")
    return canonical_name(model) if "@http" in model else known_name(model)


def known_name(name: str) -> str:
    """Return the one spelling of a model's name, or the name of an object as it is."""
    with suppress(ConfigurationError):
        return canonical_name(name)
    return name


def name_of(model: AnyModel | None) -> str | None:
    """Return the name of a model, or None if the judge has none."""
    return model if isinstance(model, str) or model is None else model.name
