"""The author's instructions: which fields of an item, or parts of fields, they name."""

from __future__ import annotations

import re
import warnings
from functools import lru_cache

from memalign.content.parts import Part
from memalign.errors import InputError, InvalidInstructions, TemplateTagWarning
from memalign.types import CONTENT_FIELDS

__all__ = ["checked_instructions", "named_fields", "named_parts", "never_rendered", "warn_of_tags"]

_HALF_PAIR = re.compile("[\ud800-\udfff]")
_BRACES = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_TAG = re.compile(r"\{%-?\s*\w.*?%\}|\{#.*?#\}", re.DOTALL)
_KNOWN = ", ".join(f"{{{{ {name} }}}}" for name in CONTENT_FIELDS)


def named_fields(instructions: str) -> tuple[str, ...]:
    """The content fields that instructions name in double braces, in the order in which prompts show them.

    A field of which only a part is named is among them. Raises as `named_parts` does.
    """
    return tuple(dict.fromkeys(Part.parse(name).field for name in named_parts(instructions)))


@lru_cache(maxsize=64)  # asked several times a judgment
def named_parts(instructions: str) -> tuple[str, ...]:
    """What instructions name in double braces, as the user message shows it: `("inputs.question", "outputs")`.

    Fields come in the order in which prompts show them, parts of one in the order of the text. Beside a whole field no part
    of it is listed: the message shows it already. The text is parsed, never rendered. Raises InvalidInstructions when a
    field is unknown, what stands in the braces is no name, or none is there.
    """
    parts = list(dict.fromkeys(_part(match) for match in _BRACES.findall(instructions)))
    if not parts:
        raise InvalidInstructions(f"the instructions name no field of the item; name at least one of: {_KNOWN}")
    whole = {part.field for part in parts if not part.steps}
    shown = [part for part in parts if not part.steps or part.field not in whole]
    return tuple(str(part) for part in sorted(shown, key=lambda part: CONTENT_FIELDS.index(part.field)))


def _part(braces: str) -> Part:
    said = braces.strip()
    try:
        part = Part.parse(said)
    except InputError:
        part = Part(said)
    if part.field in CONTENT_FIELDS:
        return part
    hint = ""
    if any(said.startswith(name) for name in CONTENT_FIELDS):
        hint = "; instructions are no template: they may name a part of a field, such as {{ inputs.question }} or {{ outputs[0].text }}, and nothing else"
    raise InvalidInstructions(f"unknown field {{{{ {said} }}}} in the instructions; fields: {_KNOWN}{hint}")


def never_rendered(instructions: str) -> str | None:
    """What in the instructions looks like a template's tag, with what becomes of it; None where nothing does."""
    if not (found := _TAG.search(instructions)):
        return None
    tag = " ".join(found.group().split())
    shown = tag if len(tag) <= 40 else f"{tag[:39]}…"
    return (
        f"the instructions hold {shown}: they are never rendered as a template, so the model reads it as it is written. "
        "Say the condition in words, such as: where there is a reference, compare with it"
    )


@lru_cache(maxsize=64)  # once a text: a judge is copied for every judgment
def warn_of_tags(instructions: str) -> None:
    """Warn whoever makes a judge, where its instructions look like a template."""
    if tag := never_rendered(instructions):
        warnings.warn(tag, TemplateTagWarning, stacklevel=4)


def checked_instructions(instructions: object) -> None:
    """Raise InvalidInstructions for what no judge can be asked with."""
    if not isinstance(instructions, str):
        raise InvalidInstructions("instructions must be text")
    if _HALF_PAIR.search(instructions):
        raise InvalidInstructions("the instructions hold half of a surrogate pair, which no model can be sent")
    named_parts(instructions)
