"""From what a model wrote to an object that answers its schema, read as far as no guess is needed.

What does not bear on the answer is never checked: text around the object, thinking before it,
unknown keys, and properties that are optional. A value counts in every spelling that files may use.

What a model wrote is never repeated in an error: errors are kept in ledgers and judgments, and an
erased text must not live on in them.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from typing import Any

from memalign.content.json_values import opened
from memalign.content.normal import folded
from memalign.errors import InvalidValue
from memalign.values import UNBOUNDED, ValueType

__all__ = ["answer_object", "is_only_thought"]

Json = dict[str, Any]


def answer_object(
    text: str, schema: Json, *, optional: Collection[str] = ()
) -> tuple[Json | None, str]:
    """Read the JSON object in an answer.

    Args:
        text: What the model wrote.
        schema: The schema of an object.
        optional: Properties that may be missing, or be anything.

    Returns:
        The object, with its values as the schema has them, and the reason why it does not do: "" if
        it does.
    """
    properties: Json = schema.get("properties", {})
    needed = [name for name in schema.get("required", ()) if name not in optional]
    found = _answer(text, properties, needed)
    if not isinstance(found, dict):
        return None, "it held no JSON object, or several that differ"
    data = _unwrapped(found, needed)
    if not properties:
        return data, ""
    try:
        return _read(data, properties, needed), ""
    except InvalidValue as error:
        return data, str(error)


def _answer(text: str, properties: Json, needed: Sequence[str]) -> object:
    """Return what an answer is: an object, or the one part of it that is needed."""
    found = _found(text, needed)
    lists = [name for name in needed if properties.get(name, {}).get("type") == "array"]
    if len(lists) == 1:
        return _with_list(found, text, lists[0], properties[lists[0]])
    if isinstance(found, list) and len(found) == 1:
        return found[0]
    if found is None and len(needed) == 1:
        return _label_alone(text, needed[0], properties.get(needed[0], {}))
    return found


def _label_alone(text: str, name: str, schema: Json) -> Json | None:
    """Return the object for an answer that is a label and nothing else, such as `**Good**`."""
    label = _OUTER.sub("", _after_thought(text))
    kind = _value_type(schema)
    if not kind.closed:
        return None
    try:
        return {name: kind.meant(label)}
    except InvalidValue:
        return None


def _with_list(found: object, text: str, name: str, schema: Json) -> object:
    """Return the object with the list that it needs, if entries came without it or misnamed.

    Args:
        found: What the answer is, if it is one object or list.
        text: The answer: its objects may be the entries.
        name: The property that is a list of objects.
        schema: Its schema.
    """
    entry = schema.get("items", {}).get("properties", {}).keys()
    if isinstance(found, list):
        return {name: found}
    if isinstance(found, dict):
        keys = _keys(found, name)
        if len(keys) == 1:
            return found | {name: _listed(found[keys[0]], entry)}
        others = [
            part for part in (*found.values(), [found]) if _are_entries(part, entry)
        ]
        return {name: others[0]} if len(others) == 1 else found
    try:
        lines = list(_objects(text))
    except (ValueError, RecursionError):
        return found
    return {name: lines} if _are_entries(lines, entry) else found


def _listed(entries: object, entry: Collection[str]) -> object:
    """Return entries as a list: there may be none, one, or entries by name."""
    entries = opened(entries)
    if entries is None:
        return []
    if not isinstance(entries, dict) or _are_entries([entries], entry):
        return entries
    named = [*entries.values()]
    return named if _are_entries(named, entry) else entries


def _are_entries(value: object, entry: Collection[str]) -> bool:
    """Return whether a value is a list of objects with at least two of an entry's properties."""
    if not isinstance(value, list) or not value:
        return False
    return all(
        isinstance(each, dict) and len(set(entry).intersection(each)) > 1
        for each in value
    )


# -- finding the object ----------------------------------------------------------------------------

_THOUGHT = re.compile(
    r"</[^<>]{0,20}(?:think|thought|reason|analysis|reflection|scratchpad)[^<>]{0,10}>"
    r"|\[/THINK\]|\u25c1/think\u25b7|<\|message\|>|assistantfinal",
    re.IGNORECASE,
)
"""Where thinking ends. Its first tag may be missing: many templates have that in the prompt."""

_THINKING = re.compile(
    r"\s*(?:<(?:think|thought|reason|analysis|reflection|scratchpad)[^<>]{0,10}>|\[THINK\])",
    re.IGNORECASE,
)

_PLACEHOLDER = re.compile(r"""\{[^{}"'\[\]]{0,80}\}|\{\{[^{}"']{0,80}\}\}""")
"""Braces in prose, such as {inputs}: nothing that an answer could be."""

_BRACE = re.compile("[{}]")
_LOOSE = re.compile(
    r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])|\xa0|([A-Za-z_]\w*)(?=\s*:)|\b(True|False|None)\b',
    re.DOTALL,
)
"""A string, or what is no JSON: a final comma, a blank, a bare key, a constant of Python."""
_CONSTANTS = {"True": "true", "False": "false", "None": "null"}
_BAD_ESCAPE = re.compile(r'((?<!\\)(?:\\\\)*)\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})')
_BEGUN = re.compile(r"""[{"]|\[\s*[\[{"]""")
_OUTER = re.compile(r"^\s*(?:```\w*\s*)?|\s*(?:```)?\s*$")

_LONGEST_LITERAL = 20_000
"""Characters that Python's own parser is given."""


def _found(text: str, needed: Collection[str]) -> object:
    """Return the one object or list in a text, among prose, in a fence or after thinking, or None.

    Other objects in the prose do not count, if one alone has what is needed. What is quoted inside
    an object that cannot be read does not count either: it may be what the judged item says.
    """
    found = _only_value(text, needed)
    if found is not None:
        return found
    return _only_value(_after_thought(text), needed)


def _after_thought(text: str) -> str:
    """Return what follows the last end of thinking; all, where an answer has begun before it."""
    end = max((match.end() for match in _THOUGHT.finditer(text)), default=0)
    thought = _OUTER.sub("", text[:end])
    begun = _BEGUN.match(thought) or thought.count("{") != thought.count("}")
    # An answer that quotes such a tag has begun before it.
    return text if begun else text[end:]


def is_only_thought(text: str) -> bool:
    """Return whether a text begins with thinking that does not end."""
    return _THINKING.match(text) is not None and _THOUGHT.search(text) is None


def _only_value(text: str, needed: Collection[str]) -> object:
    whole = _OUTER.sub("", text)
    if whole.startswith("{{") and whole.endswith("}}"):  # as templates write a brace
        text = whole[1:-1]
    if whole.startswith('"'):  # encoded twice
        inner = _decoded(whole)
        again = isinstance(inner, str) and inner.lstrip().startswith("{")
        return _only_value(str(inner), needed) if again else None
    if whole.startswith("["):
        value = _decoded(whole)
        return value if isinstance(value, list) else None
    try:
        values = list(_objects(text))
    except (ValueError, RecursionError):
        return _literal(whole)
    answers = [value for value in values if _has(value, needed)]
    return _same(answers or values)


def _same(values: Sequence[Json]) -> Json | None:
    """Return what all of several objects are; None where they differ, or there are none."""
    if not values or any(value != values[0] for value in values):
        return None
    return values[0]


def _objects(text: str) -> Iterator[Json]:
    """Yield the objects in a text.

    Raises:
        ValueError: A brace may belong to an object that cannot be read.
    """
    place = 0
    mended = False
    while (brace := _BRACE.search(text, place)) is not None:
        start = brace.start()
        if brace[0] == "}":
            if place and not text[place:].strip("}] \n\r\t`"):
                return  # one brace too many, straight after an object that ends the answer
            raise ValueError("a brace that nothing opens")
        prose = _PLACEHOLDER.match(text, start)
        if prose is not None and prose[0].strip("{} \n\t"):
            place = prose.end()
            continue
        try:
            value, place = _decoder.raw_decode(text, start)
        except ValueError:
            if mended:
                raise
            mended = True
            text = text[:start] + _mended(text[start:])
            value, place = _decoder.raw_decode(text, start)
        yield value


def _mended(text: str) -> str:
    """Return a text without what models write against JSON."""

    def written(match: re.Match[str]) -> str:
        string, key, constant = match.groups()
        if key:
            return f'"{key}"'
        if constant:
            return _CONSTANTS[constant]
        return _BAD_ESCAPE.sub(r"\1\\\\", string or "")

    return _LOOSE.sub(written, text)


def _decoded(text: str) -> object:
    for attempt in (text, _mended(text)):
        try:
            return _decoder.decode(attempt)
        except (ValueError, RecursionError):
            continue
    return None


def _literal(whole: str) -> object:
    """Return the dictionary that an answer is in Python's spelling, if it is nothing else."""
    if (
        not whole.startswith("{")
        or not whole.endswith("}")
        or len(whole) > _LONGEST_LITERAL
    ):
        return None
    try:
        body = ast.parse(whole, mode="eval").body
        value = ast.literal_eval(body)
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return None
    if not isinstance(body, ast.Dict) or len(value) < len(body.keys):
        # It has a key twice.
        return None
    return value if all(isinstance(key, str) for key in value) else None


def _pairs(pairs: list[tuple[str, Any]]) -> Json:
    """Build an object.

    Raises:
        ValueError: It has a key twice, with two values: either may be meant.
    """
    value: Json = {}
    for key, part in pairs:
        if key in value and value[key] != part:
            raise ValueError("an object has a key twice")
        value[key] = part
    return value


# Not strict about control characters: small models write line breaks inside strings as they are.
# NaN is read as null.
_decoder = json.JSONDecoder(
    strict=False, parse_constant=lambda _: None, object_pairs_hook=_pairs
)


# -- reading the object ----------------------------------------------------------------------------

_WRAPPERS = {"arguments", "parameters", "input", "properties"}
"""Where an answer in the form of a tool call, or of the schema itself, has its values."""


def _unwrapped(data: Json, needed: Collection[str]) -> Json:
    """Return the object inside an object that has only that, such as {"answer": {…}}."""
    if any(_has(data, [name]) for name in needed):
        return data
    inner = [part for key, part in data.items() if len(data) == 1 or key in _WRAPPERS]
    if len(inner) != 1:
        return data
    value = _decoded(inner[0]) if isinstance(inner[0], str) else inner[0]
    return value if isinstance(value, dict) and _has(value, needed) else data


def _has(data: Json, names: Collection[str]) -> bool:
    return all(_keys(data, name) for name in names)


def _read(data: Json, properties: Json, needed: list[str]) -> Json:
    """Return the properties of a schema that an object has.

    Raises:
        InvalidValue: One that is needed breaks a rule of the schema, which it names.
    """
    read: Json = {}
    for name, part in properties.items():
        given = [data[key] for key in _keys(data, name)]
        if not given and name in needed:
            raise InvalidValue(f"answer breaks the rule required: {json.dumps(needed)}")
        if not given:
            continue
        try:
            read[name] = _agreed(given, part)
        except InvalidValue as error:
            if name in needed:
                raise InvalidValue(
                    f"answer.{name} breaks the rule {_rule(part)}"
                ) from error
            read[name] = given[0]
    return read


def _agreed(given: Sequence[object], schema: Json) -> object:
    """Return the one value that is meant by whatever of several is a value of the schema.

    Raises:
        InvalidValue: They mean different ones, or none is a value.
    """
    values: list[object] = []
    for raw in given:
        with suppress(InvalidValue):
            values.append(_value(raw, schema))
    if not values or any(value != values[0] for value in values):
        raise InvalidValue("no value, or several")
    return values[0]


def _rule(schema: Json) -> str:
    """Return what a schema asks of a value, in JSON schema's words."""
    rule = next((name for name in ("enum", "minimum") if name in schema), "type")
    said = f"{rule}: {json.dumps(schema.get(rule), ensure_ascii=False)}"
    return (
        f"{said}, maximum: {json.dumps(schema['maximum'])}"
        if rule == "minimum"
        else said
    )


_ALSO = {
    "value": "verdict score label rating grade result answer judgment judgement pass passed",
    "rationale": "reason reasoning explanation justification critique",
}
"""What models call a property that other tools' instructions call so."""


def _keys(data: Json, name: str) -> list[str]:
    """Return the keys under which an object may have a property: of its name, else of another."""
    if name in data:
        return [name]
    alike = [key for key in data if folded(key) == name]
    others = _ALSO.get(name, "").split()
    return alike or [
        key
        for key, part in data.items()
        if folded(key) in others and not isinstance(part, dict)
    ]


def _value(raw: object, schema: Json) -> object:
    """Return the value that is meant.

    What a list holds is left to whoever reads it: a bad entry costs itself.

    Raises:
        InvalidValue: It is no value of this schema.
    """
    kind = schema.get("type")
    if kind == "array" and isinstance(raw, dict):
        return [raw]
    if kind in ("array", "object"):
        if not isinstance(raw, list if kind == "array" else dict):
            raise InvalidValue(f"no {kind}")
        return raw
    return _value_type(schema).meant(raw)


def _value_type(schema: Json) -> ValueType:
    """Return the value type whose schema this is."""
    match schema:
        case {"type": "boolean"}:
            return ValueType(kind="bool")
        case {"type": "integer" | "number" as kind}:
            bounds = [
                schema.get("minimum", -UNBOUNDED),
                schema.get("maximum", UNBOUNDED),
            ]
            numbers = schema.get("enum", bounds)
            return ValueType(
                kind="int" if kind == "integer" else "float",
                low=float(min(numbers)),
                high=float(max(numbers)),
            )
        case {"enum": [*words]}:
            return ValueType(kind="choice", choices=tuple(words))
    return ValueType(kind="str")
