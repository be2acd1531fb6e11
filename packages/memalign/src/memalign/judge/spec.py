"""What a judge is: its instructions and what they name, its parameters, and by what it is known again."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from memalign.content import Part, first_lacking
from memalign.errors import ConfigurationError, InputError, InvalidInstructions, TemplateTagWarning
from memalign.memory.model import Memory
from memalign.models.base import ChatModel, DecisionModel, EmbeddingModel
from memalign.models.judge_models import checked_models
from memalign.models.resolve import WORDLLAMA, canonical_name, resolve_embedding
from memalign.types import CONTENT_FIELDS, Feedback, canonical_json
from memalign.values import ValueType

if TYPE_CHECKING:
    from memalign.judge.judge import Judge

__all__ = [
    "OF_MODELS",
    "SAMPLING_TEMPERATURE",
    "base_fingerprint_of",
    "check_instructions",
    "checked_parameters",
    "fingerprint_of",
    "lacks",
    "misfit",
    "name_of",
    "named_fields",
    "named_parts",
    "never_rendered",
    "without_memory",
]

# -- instructions ------------------------------------------------------------------------------------------------------

_HALF_PAIR = re.compile("[\ud800-\udfff]")
_BRACES = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_TAG = re.compile(r"\{%-?\s*\w.*?%\}|\{#.*?#\}", re.DOTALL)
_FIELDS = ", ".join(f"{{{{ {name} }}}}" for name in CONTENT_FIELDS)


def named_fields(instructions: str) -> tuple[str, ...]:
    """The content fields that instructions name in double braces, in the order in which prompts show them.

    A field of which only a part is named is among them. Raises as `named_parts` does.
    """
    return tuple(dict.fromkeys(Part.parse(name).field for name in named_parts(instructions)))


@lru_cache(maxsize=64)  # asked several times a judgment
def named_parts(instructions: str) -> tuple[str, ...]:
    """What instructions name in double braces, as the user message shows it: `("inputs.question", "outputs")`.

    Fields come in the order in which prompts show them, parts of one in the order of the text. Beside a whole field no
    part of it is listed: the message shows it already. The text is parsed, never rendered. Raises InvalidInstructions
    when a field is unknown, what stands in the braces is no name, or none is there.
    """
    parts = list(dict.fromkeys(_part(match) for match in _BRACES.findall(instructions)))
    if not parts:
        raise InvalidInstructions(f"the instructions name no field of the example; name at least one of {_FIELDS}")
    whole = {part.field for part in parts if not part.steps}
    listed = [part for part in parts if not part.steps or part.field not in whole]
    return tuple(str(part) for part in sorted(listed, key=lambda part: CONTENT_FIELDS.index(part.field)))


def _part(braces: str) -> Part:
    name = braces.strip()
    try:
        part = Part.parse(name)
    except InputError:
        part = Part(name)
    if part.field in CONTENT_FIELDS:
        return part
    hint = ""
    if any(name.startswith(field) for field in CONTENT_FIELDS):
        hint = (
            ". The instructions are not a template. Apart from whole fields, they can only name a "
            "part of one, such as {{ inputs.question }} or {{ outputs[0].text }}"
        )
    raise InvalidInstructions(f"the instructions name {{{{ {name} }}}}, which is not a field; fields: {_FIELDS}{hint}")


def never_rendered(instructions: str) -> str | None:
    """What in the instructions looks like a template's tag, with what becomes of it; None where nothing does."""
    if (match := _TAG.search(instructions)) is None:
        return None
    tag = " ".join(match.group().split())
    short = tag if len(tag) <= 40 else f"{tag[:39]}…"
    return (
        f"the instructions contain {short}, but they are never rendered as a template, so the model reads it as it is "
        "written. Write a condition in words, for example: if there is a reference, compare with it"
    )


@lru_cache(maxsize=64)  # once a text: a judge is copied for every judgment
def check_instructions(instructions: object) -> None:
    """Raise InvalidInstructions for what no judge can be asked with; warn of what looks like a template."""
    if not isinstance(instructions, str):
        raise InvalidInstructions("the instructions must be a text")
    if _HALF_PAIR.search(instructions):
        raise InvalidInstructions("the instructions contain half of a surrogate pair, which cannot be sent to a model")
    named_parts(instructions)
    if tag := never_rendered(instructions):
        warnings.warn(tag, TemplateTagWarning, stacklevel=4)


def lacks(judge: Judge, content: Mapping[str, Any], what: str) -> str | None:
    """Why `what` has not all that the instructions name, such as "the item"; None where it has."""
    lacking = first_lacking(content, named_parts(judge.instructions))
    if lacking is None:
        return None
    name, how = lacking
    return f"the instructions name {{{{ {name} }}}}, and {what} has {how}"


def misfit(judge: Judge, row: Feedback) -> str | None:
    """Why the judge could never be asked about a row's case, or None: a field that its instructions name is missing."""
    case = judge.memory.case(row.id)
    reason = lacks(judge, row.content or (case.example.content if case else {}), "the row")
    return reason.replace("the instructions", "the judge's instructions", 1) if reason else None


# -- parameters --------------------------------------------------------------------------------------------------------

SAMPLING_TEMPERATURE = 0.7
"""At which samples are drawn unless the judge says otherwise: at 0 they would all be the same."""

_PARAMETERS: dict[str, tuple[Any, str]] = {  # beside `models`: what each may be, and in words
    "temperature": (Annotated[float, Meta(ge=0, le=2)], "a number from 0 to 2"),
    "max_tokens": (Annotated[int, Meta(ge=1, le=10**6)], "a whole number from 1 to 1000000"),
    "seed": (Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)], "a whole number of 64 bits"),
    "timeout": (Annotated[float, Meta(ge=0, le=10**6)], "a number from 0 to 1000000"),
    "samples": (Annotated[int, Meta(ge=1, le=100)], "a whole number from 1 to 100"),
    "swap": (bool, "true or false"),
    "reasoning_effort": (
        Literal["none", "minimal", "low", "medium", "high", "xhigh"],
        "none, minimal, low, medium, high or xhigh",
    ),
    "reflection_model": (str, "the name of a model"),
}

OF_MODELS = frozenset({"models", "reflection_model"})
"""Parameters that change no verdict: how the models are reached, what they cost, and who writes the guidelines."""


def checked_parameters(parameters: Mapping[str, Any], value_type: ValueType) -> dict[str, Any]:
    """`parameters`, checked; a copy, since the caller's own may change. Raises InputError with what is allowed."""
    if not isinstance(parameters, Mapping):
        raise InputError(f"parameters={parameters!r}: pass a mapping such as {{'seed': 7}}")
    parameters = dict(parameters)
    for key, value in parameters.items():
        if key == "models":
            parameters[key] = checked_models(value)
            continue
        if key not in _PARAMETERS:
            raise InputError(f"there is no parameter {key}; the parameters are {', '.join((*_PARAMETERS, 'models'))}")
        kind, words = _PARAMETERS[key]
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError:
            raise InputError(f"parameter {key}={value!r}: it must be {words}") from None
        if key == "reflection_model":
            parameters[key] = canonical_name(value)
    if parameters.get("swap") and value_type.kind != "choice":
        raise InputError("parameter swap=True: only a judge that chooses between two sides, such as A|B, can swap")
    if parameters.get("samples", 1) > 1 and parameters.get("temperature") == 0:
        raise InputError("parameter samples: all samples are the same at temperature 0; leave out temperature")
    return parameters


# -- fingerprint -------------------------------------------------------------------------------------------------------


def name_of(model: str | ChatModel | DecisionModel | EmbeddingModel | None) -> str | None:
    """The name of a model of a judge; None where it leaves that to the environment, or has none."""
    return model if isinstance(model, str) or model is None else model.name


def without_memory(judge: Judge) -> Judge:
    """The unaligned judge: the same in all but its memory, which is empty."""
    return judge.replace(memory=Memory(authority=judge.memory.authority, policy=judge.memory.policy))


def fingerprint_of(judge: Judge, memory: Memory | None = None) -> str:
    """See `Judge.fingerprint`; with another memory than its own where one is given."""
    memory = judge.memory if memory is None else memory
    parts = {
        "instructions": judge.instructions,
        "value_type": judge.value_type.spec,
        "model": judge.model_name and _canonical(judge.model_name),
        "retrieval_k": judge.retrieval_k if memory else None,  # nothing to retrieve, nothing to tell apart
        "parameters": {key: value for key, value in judge.parameters.items() if key not in OF_MODELS},
        "memory": memory.hash,
    }
    if (check_model := name_of(judge.check_model)) is not None:
        parts["check_model"] = _canonical(check_model)
    # Left out where it finds nothing or is the usual one: a judge that names the usual one is the same judge.
    if memory and (embedding := name_of(judge.embedding_model)) is not None:
        usual = (WORDLLAMA, f"local:{WORDLLAMA}", resolve_embedding().name)
        parts |= {} if embedding in usual else {"embedding_model": _canonical(embedding)}
    return hashlib.sha256(canonical_json(parts).encode()).hexdigest()[:16]


def base_fingerprint_of(judge: Judge) -> str:
    """16 hex digits over instructions, value type, model and parameters: what a verdict without memory is made with."""
    return fingerprint_of(judge, Memory())  # whose label counts is no part of it


def _canonical(name: str) -> str:
    try:
        return canonical_name(name)
    except ConfigurationError:  # the name of an object, which no provider needs to know
        return name
