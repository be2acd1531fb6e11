"""From what a model wrote to an object that fits the schema it was given.

An answer that means one thing is taken though it is spelt otherwise: see `understood`. What a model wrote is never
repeated in an error: errors are kept in ledgers and judgments, and an erased text must not live on in them.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Collection
from typing import Any

__all__ = ["find_object", "misfit", "read_answer", "show_raw", "understood"]

logger = logging.getLogger("memalign.raw_answers")

_NUMBER = re.compile(r"[+-]?[0-9]{1,15}(\.[0-9]{1,15})?")
_TRUTH = {"true": True, "yes": True, "false": False, "no": False}


def read_answer(
    text: str, schema: dict[str, Any], *, optional: Collection[str] = ()
) -> tuple[dict[str, Any] | None, str]:
    """The JSON object in an answer, as the schema spells it, and why it does not do: "" where it does.

    Args:
        text: What the model wrote.
        schema: Of an object.
        optional: Properties that may be missing, or be anything.
    """
    parsed = find_object(text)
    if parsed is None:
        return None, "it held no JSON object"
    if misfit(parsed, schema, optional=optional) is None:
        return parsed, ""
    data = understood(parsed, schema)
    return data, misfit(data, schema, optional=optional) or ""


def understood(value: Any, schema: dict[str, Any]) -> Any:
    """`value` as `schema` spells it, where it can mean one thing only; what else there is stays as it is.

    Keys and labels may be written in other capitals or with spaces around them; keys that the schema does not have are
    left out; numbers may be texts ("4") and truth values words ("True", "no"), also where labels are meant.
    """
    kind, labels = schema.get("type"), schema.get("enum")
    if isinstance(value, dict) and "properties" in schema:
        fields = {}
        for key, inner in schema["properties"].items():
            alike = [key] if key in value else [name for name in value if _plain(name) == _plain(key)]
            if len(alike) == 1:  # twice in other capitals it counts as missing
                fields[key] = understood(value[alike[0]], inner)
        return fields
    if isinstance(value, list) and "items" in schema:
        return [understood(entry, schema["items"]) for entry in value]
    if kind == "boolean" and isinstance(value, str):
        return _TRUTH.get(_plain(value), value)
    if kind in ("integer", "number") and isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        return float(value) if "." in value else int(value)
    if labels and value not in labels and isinstance(value, str | int):
        word = {True: "yes", False: "no"}[value] if isinstance(value, bool) else _plain(str(value))
        meant = [label for label in labels if isinstance(label, str) and _plain(label) == word]
        return meant[0] if len(meant) == 1 else value
    return value


def _plain(text: str) -> str:
    return text.strip().casefold()


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

    wrong = next(Draft202012Validator(schema).iter_errors(value), None)
    if wrong is None:
        return None
    rule = json.dumps(wrong.validator_value, ensure_ascii=False)
    return f"answer{wrong.json_path[1:]} breaks the rule {wrong.validator}: {rule}"


def show_raw(where: str, problem: str, answer: object, *, about: str = "") -> None:
    """Log an answer that could not be used, at level DEBUG: it is shown to whoever asks for it, and never kept.

    Args:
        where: Who answered.
        problem: Why it failed.
        answer: All of it.
        about: What was asked about, such as an item's id.
    """
    if logger.isEnabledFor(logging.DEBUG):
        text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False, default=str)
        logger.debug("%s%s: %s\n%s", f"{about}: " if about else "", where, problem, text)
