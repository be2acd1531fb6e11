"""What a judge is: its instructions and what they name, its parameters, and by what it is known again."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from memalign.content import Part, first_lacking
from memalign.errors import ConfigurationError, InputError, InvalidInstructions
from memalign.memory.model import Memory
from memalign.models.base import ChatModel, DecisionModel, EmbeddingModel
from memalign.models.judge_models import checked_models
from memalign.models.resolve import canonical_name
from memalign.types import CONTENT_FIELDS, Feedback, canonical_json
from memalign.values import ValueType

if TYPE_CHECKING:
    from memalign.judge.judge import Judge

__all__ = [
    "base_fingerprint_of",
    "checked_parameters",
    "fingerprint_of",
    "lacks",
    "misfit",
    "name_of",
    "named_parts",
]

_HALF_PAIR = re.compile("[\ud800-\udfff]")
_FIELDS = ", ".join(f"{{{{ {name} }}}}" for name in CONTENT_FIELDS)


@lru_cache(maxsize=64)  # asked several times a judgment
def named_parts(instructions: str) -> tuple[str, ...]:
    """What instructions name in double braces, as the user message shows it: `("inputs.question", "outputs")`.

    Fields come in the order in which prompts show them, parts of one in the order of the text. Beside a whole field no
    part of it is listed. The text is parsed, never rendered. Raises InvalidInstructions for what is no such text.
    """
    if not isinstance(instructions, str) or _HALF_PAIR.search(instructions):
        raise InvalidInstructions(
            "the instructions must be a text, without half of a surrogate pair"
        )
    parts = list(dict.fromkeys(map(_part, _in_braces(instructions))))
    if not parts:
        raise InvalidInstructions(
            f"the instructions name no field of the example; name at least one of {_FIELDS}"
        )
    whole = {part.field for part in parts if not part.steps}
    listed = [part for part in parts if not part.steps or part.field not in whole]
    return tuple(
        str(part) for part in sorted(listed, key=lambda part: CONTENT_FIELDS.index(part.field))
    )


def _in_braces(text: str) -> Iterator[str]:
    """Return what stands between each pair of double braces and the next one that closes it."""
    begin = text.find("{{")
    while begin >= 0:
        end = text.find("}}", begin + 2)
        if end < 0:
            return
        yield text[begin + 2 : end]
        begin = text.find("{{", end + 2)


def _part(braces: str) -> Part:
    name = braces.strip()
    with suppress(InputError):
        if (part := Part.parse(name)).field in CONTENT_FIELDS:
            return part
    raise InvalidInstructions(
        f"the instructions name {{{{ {name} }}}}, which is not a field; they can name {_FIELDS}, and a part of one, "
        "such as {{ inputs.question }} or {{ outputs[0].text }}"
    )


def lacks(judge: Judge, content: Mapping[str, Any], what: str) -> str | None:
    """Why `what` has not all that the instructions name, such as "the item"; None where it has."""
    lacking = first_lacking(content, named_parts(judge.instructions))
    return lacking and f"the instructions name {{{{ {lacking[0]} }}}}, and {what} has {lacking[1]}"


def misfit(judge: Judge, row: Feedback) -> str | None:
    """Why the judge could never be asked about a row's case, or None: a field that its instructions name is missing."""
    case = judge.memory.case(row.id)
    reason = lacks(judge, row.content or (case.example.content if case else {}), "the row")
    return reason and f"the judge's {reason.removeprefix('the ')}"


_PARAMETERS = msgspec.defstruct(
    "_Parameters",
    [
        ("temperature", Annotated[float, Meta(ge=0, le=2)], None),
        ("max_tokens", Annotated[int, Meta(ge=1, le=10**6)], None),
        ("seed", Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)], None),
        ("timeout", Annotated[float, Meta(ge=0, le=10**6)], None),
        ("swap", bool, None),
        ("reasoning_effort", Literal["none", "minimal", "low", "medium", "high", "xhigh"], None),
        ("reflection_model", str, None),
        ("models", Any, None),  # has a check of its own
    ],
    forbid_unknown_fields=True,
)

# These change no verdict: how the models are reached, what they cost, and who writes the guidelines.
_OF_MODELS = frozenset({"models", "reflection_model"})


def checked_parameters(parameters: Mapping[str, Any], value_type: ValueType) -> dict[str, Any]:
    """`parameters`, checked; a copy, since the caller's own may change. Raises InputError with what is allowed."""
    try:
        msgspec.convert(parameters, _PARAMETERS)
    except msgspec.ValidationError as error:  # which repeats no value
        raise InputError(
            f"parameters: {error}; they are {', '.join(_PARAMETERS.__struct_fields__)}"
        ) from None
    parameters = dict(parameters)
    if "models" in parameters:
        parameters["models"] = checked_models(parameters["models"])
    if "reflection_model" in parameters:
        parameters["reflection_model"] = canonical_name(parameters["reflection_model"])
    if parameters.get("swap") and value_type.kind != "choice":
        raise InputError(
            "parameter swap=True: only a judge that chooses between two sides, such as A|B, can swap"
        )
    return parameters


def name_of(model: str | ChatModel | DecisionModel | EmbeddingModel | None) -> str | None:
    """The name of a model of a judge; None where it leaves that to the environment, or has none."""
    return model if isinstance(model, str) or model is None else model.name


def fingerprint_of(judge: Judge, memory: Memory | None = None) -> str:
    """See `Judge.fingerprint`; with another memory than its own where one is given."""
    memory = judge.memory if memory is None else memory
    parts = {
        "instructions": judge.instructions,
        "value_type": judge.value_type.spec,
        "model": _canonical(judge.model),
        "retrieval_k": judge.retrieval_k
        if memory
        else None,  # nothing to retrieve, nothing to tell apart
        "parameters": {
            key: value for key, value in judge.parameters.items() if key not in _OF_MODELS
        },
        "memory": memory.hash,
    }
    if memory and judge.embedding_model is not None:
        parts["embedding_model"] = _canonical(judge.embedding_model)
    return hashlib.sha256(canonical_json(parts).encode()).hexdigest()[:16]


def base_fingerprint_of(judge: Judge) -> str:
    """16 hex digits over instructions, value type, model and parameters: what a verdict without memory is made with."""
    return fingerprint_of(judge, Memory())  # whose label counts is no part of it


def _canonical(model: str | ChatModel | DecisionModel | EmbeddingModel | None) -> str | None:
    name = name_of(model)
    with suppress(ConfigurationError):  # the name of an object, which no provider needs to know
        return name and canonical_name(name)
    return name
