"""The attributes of a span: OTLP's lists of keys and values, and messages that are spread over numbered names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import NoneType
from typing import Any

from memalign.content import span_names

__all__ = ["attributes_of", "with_messages"]

# Python takes more for a digit than JSON does, and refuses to read thousands of them.
_WHOLE = re.compile(r"-?[0-9]{1,40}")
_NUMBERED = re.compile(r"(?P<list>[a-z_.]+)\.(?P<place>[0-9]{1,4})\.(?:message\.)?(?P<part>role|content)")


def attributes_of(given: object) -> dict[str, Any]:
    """The attributes of a span, an event or a resource by their names, whichever way they are written."""
    if isinstance(given, Mapping):
        return {str(name): value for name, value in given.items()}
    if isinstance(given, list | tuple):
        pairs = [each for each in given if isinstance(each, Mapping) and "key" in each]
        return {str(pair["key"]): _any_value(pair.get("value")) for pair in pairs}
    return {}


def _any_value(value: object) -> Any:
    """An OTLP AnyValue as plain JSON; writers of columns name the other kinds too, with null."""
    told = [pair for pair in value.items() if pair[1] is not None] if isinstance(value, Mapping) else []
    if len(told) != 1:
        return value
    ((kind, held),) = told
    match str(kind).replace("_v", "V"):
        case "stringValue" | "boolValue" | "doubleValue" | "bytesValue":
            return held
        case "intValue":  # a text, since JSON's numbers end at 2^53
            return int(held) if _WHOLE.fullmatch(str(held)) else held
        case "arrayValue":
            values = held.get("values") if isinstance(held, Mapping) else None
            return [_any_value(each) for each in values or ()] if isinstance(values, list | tuple | NoneType) else held
        case "kvlistValue":
            values = held.get("values") if isinstance(held, Mapping) else None
            return attributes_of(values) if isinstance(values, list | tuple | NoneType) else held
        case _:
            return value


def with_messages(attributes: dict[str, Any]) -> dict[str, Any]:
    """The same, where the roles and texts of messages stand under numbered names, with one list of messages in their place.

    OpenLLMetry writes `gen_ai.prompt.0.content`, OpenInference `llm.input_messages.0.message.content`.
    """
    lists: dict[str, dict[int, dict[str, Any]]] = {}
    rest: dict[str, Any] = {}
    for name, value in attributes.items():
        numbered = _NUMBERED.fullmatch(name)
        held = span_names.MESSAGES.get(numbered["list"]) if numbered else None
        if numbered is None or held is None or held in attributes:
            rest[name] = value
        else:
            lists.setdefault(held, {}).setdefault(int(numbered["place"]), {})[numbered["part"]] = value
    return rest | {name: [messages[place] for place in sorted(messages)] for name, messages in lists.items()}
