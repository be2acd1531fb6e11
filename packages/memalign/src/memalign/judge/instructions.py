"""The author's instructions: which fields of an item they name."""

from __future__ import annotations

import re
from functools import lru_cache

from memalign.errors import InvalidInstructions
from memalign.types import CONTENT_FIELDS

__all__ = ["checked_instructions", "named_fields"]

_HALF_PAIR = re.compile("[\ud800-\udfff]")
_BRACES = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)


@lru_cache(maxsize=64)  # asked several times a judgment
def named_fields(instructions: str) -> tuple[str, ...]:
    """The content fields that instructions name in double braces, in the order in which prompts show them.

    The text is parsed, never rendered. Raises InvalidInstructions when a name is unknown or none is there.
    """
    names = {match.strip() for match in _BRACES.findall(instructions)}
    known = ", ".join(f"{{{{ {name} }}}}" for name in CONTENT_FIELDS)
    unknown = sorted(names - set(CONTENT_FIELDS))
    if unknown:
        raise InvalidInstructions(f"unknown field {{{{ {unknown[0]} }}}} in the instructions; fields: {known}")
    if not names:
        raise InvalidInstructions(f"the instructions name no field of the item; name at least one of: {known}")
    return tuple(name for name in CONTENT_FIELDS if name in names)


def checked_instructions(instructions: object) -> None:
    """Raise InvalidInstructions for what no judge can be asked with."""
    if not isinstance(instructions, str):
        raise InvalidInstructions("instructions must be text")
    if _HALF_PAIR.search(instructions):
        raise InvalidInstructions("the instructions hold half of a surrogate pair, which no model can be sent")
    named_fields(instructions)
