"""From what a model wrote to an object that fits the schema it was given.

What a model wrote is never repeated in an error: errors are kept in ledgers and judgments, and an erased text must not
live on in them.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

__all__ = ["find_object", "misfit", "read_answer"]


def read_answer(
    text: str, schema: dict[str, Any], *, optional: Collection[str] = ()
) -> tuple[dict[str, Any] | None, str]:
    """The JSON object in an answer, and why it does not do: "" where it does.

    Args:
        text: What the model wrote.
        schema: Of an object.
        optional: Properties that may be missing, or be anything.
    """
    if (data := find_object(text)) is None:
        return None, "it held no JSON object"
    return data, misfit(data, schema, optional=optional) or ""


def find_object(text: str) -> dict[str, Any] | None:
    """The JSON object that `text` holds, from its first brace to its last, in a fence or among prose; None without one.

    What is quoted inside an object that cannot be read is none: it may be what the judged item says.
    """
    start, end = text.find("{"), text.rfind("}") + 1
    try:
        value = _decoder.decode(text[start:end]) if 0 <= start < end else None
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


# Not strict about control characters: small models write line breaks inside strings as they are.
_decoder = json.JSONDecoder(strict=False, parse_constant=_no_constant)


def misfit(value: object, schema: dict[str, Any], *, optional: Collection[str] = ()) -> str | None:
    """Why `value` does not fit `schema`, by the rule that it breaks; None when it fits.

    The properties `optional` may be missing, or be anything.
    """
    from jsonschema import Draft202012Validator

    if optional and isinstance(value, dict):
        value = {key: part for key, part in value.items() if key not in optional}
        schema = schema | {"required": [key for key in schema.get("required", ()) if key not in optional]}

    errors = Draft202012Validator(schema).iter_errors(value)
    wrong = next((error for error in errors if error.validator != "additionalProperties"), None)  # which do no harm
    if wrong is None:
        return None
    rule = json.dumps(wrong.validator_value, ensure_ascii=False)
    return f"answer{wrong.json_path[1:]} breaks the rule {wrong.validator}: {rule}"
