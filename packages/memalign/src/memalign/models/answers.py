"""From what a model wrote to an object that fits the schema it was given.

The check covers what memalign's own schemas use: objects, arrays, strings, numbers, booleans, null, `enum`, and bounds.
What a model wrote is never repeated in an error: errors are kept, in ledgers and judgments, and an erased text must not
live on in them.
"""

from __future__ import annotations

import json
import re
from typing import Any

from memalign.errors import InvalidOutput

__all__ = ["find_object", "misfit", "parse_answer"]

_BRACE = re.compile(r"[{}]")

_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "null": type(None),
}


def parse_answer(text: str, schema: dict[str, Any]) -> dict[str, Any]:
    """The JSON object in `text`, which fits `schema`. Raises InvalidOutput with what is wrong."""
    found = find_object(text)
    if found is None:
        raise InvalidOutput("the answer holds no JSON object")
    if reason := misfit(found, schema):
        raise InvalidOutput(f"the answer does not fit its schema: {reason}")
    return found


def find_object(text: str) -> dict[str, Any] | None:
    """The JSON object that `text` is, or the last one in it; None when there is none, or the last cannot be read.

    Models asked for JSON in words wrap it in fences and prose, and think aloud before they answer: the last object is
    the answer, whatever is fenced. What stands inside one that cannot be read is none: it may be what the judged item
    says, quoted without escapes.
    """
    try:
        value = _decoder.decode(text.strip())
    except (ValueError, RecursionError):
        return _last_object(text)
    return value if isinstance(value, dict) else _last_object(text)


def _last_object(text: str) -> dict[str, Any] | None:
    found: dict[str, Any] | None = None
    depth = 0  # how many braces are open that begin nothing that can be read
    broken = False
    after = 0  # where what follows the object that was found begins
    brace = _BRACE.search(text)
    while brace:
        end = brace.end()
        if brace[0] == "{":
            try:
                value, end = _decoder.raw_decode(text, brace.start())
            except (ValueError, RecursionError):
                found, broken = None, True
                depth += 1
            else:
                found, after = (value, end) if depth == 0 else (None, end)
        elif depth:
            depth -= 1
        elif broken or text[after : brace.start()].strip(" \n}"):
            found = None  # an outer one ends here, and what seemed to be its end was a text in it
        brace = _BRACE.search(text, end)
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


# Not strict about control characters: small models write line breaks inside strings as they are.
_decoder = json.JSONDecoder(strict=False, parse_constant=_no_constant)


def misfit(value: object, schema: dict[str, Any], at: str = "answer") -> str | None:
    """Why `value` does not fit `schema`, in words that name only keys and types; None when it fits."""
    if options := schema.get("anyOf"):
        reasons = [misfit(value, option, at) for option in options]
        return None if None in reasons else f"{at} fits none of the {len(options)} allowed forms"
    if (kinds := schema.get("type")) is not None:
        names = [kinds] if isinstance(kinds, str) else list(kinds)
        if not any(_is(value, name) for name in names):
            return f"{at} must be {' or '.join(names)}, not {_name(value)}"
    # JSON's true is not 1, though Python's is; 4.0 is the integer 4 that a model wrote its own way.
    if "enum" in schema and not any(
        value == each and isinstance(value, bool) == isinstance(each, bool) for each in schema["enum"]
    ):
        allowed = json.dumps(schema["enum"], ensure_ascii=False)
        return f"{at} must be one of {allowed}"
    if isinstance(value, dict):
        return _object_misfit(value, schema, at)
    if isinstance(value, list):
        return _array_misfit(value, schema, at)
    return _bounds_misfit(value, schema, at)


def _object_misfit(value: dict[str, Any], schema: dict[str, Any], at: str) -> str | None:
    properties: dict[str, dict[str, Any]] = schema.get("properties", {})
    missing = [name for name in schema.get("required", ()) if name not in value]
    if missing:
        return f"{at} lacks {', '.join(missing)}"
    if schema.get("additionalProperties") is False and (extra := sum(name not in properties for name in value)):
        return f"{at} has {extra} key(s) besides {', '.join(properties)}"
    for name, part in value.items():
        if name in properties and (reason := misfit(part, properties[name], f"{at}.{name}")):
            return reason
    return None


def _array_misfit(value: list[Any], schema: dict[str, Any], at: str) -> str | None:
    low, high = schema.get("minItems", 0), schema.get("maxItems", len(value))
    if not low <= len(value) <= high:
        return f"{at} has {len(value)} items; allowed are {low} to {high}"
    items = schema.get("items")
    reasons = (misfit(part, items, f"{at}[{n}]") for n, part in enumerate(value)) if items else ()
    return next((reason for reason in reasons if reason), None)


def _bounds_misfit(value: object, schema: dict[str, Any], at: str) -> str | None:
    if isinstance(value, str):
        if len(value) > schema.get("maxLength", len(value)):
            return f"{at} has {len(value)} characters; at most {schema['maxLength']} are allowed"
        if len(value) < schema.get("minLength", 0):
            return f"{at} has {len(value)} characters; at least {schema['minLength']} are needed"
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    if numeric and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        return f"{at} is out of bounds ({schema.get('minimum')} to {schema.get('maximum')})"
    return None


def _is(value: object, name: str) -> bool:
    if isinstance(value, bool):  # Python counts True as an int; JSON does not
        return name == "boolean"
    return isinstance(value, _TYPES[name]) or (name == "integer" and isinstance(value, float) and value.is_integer())


def _name(value: object) -> str:
    return next(name for name in ("boolean", "integer", *_TYPES) if _is(value, name))
