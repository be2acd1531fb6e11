"""Values of any library as JSON has them, and JSON text: cleaned once, where it enters."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import PurePath
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from memalign.content.normal import whole_text
from memalign.content.walk import members
from memalign.errors import InputError

__all__ = [
    "MAX_DEPTH",
    "MEDIA",
    "Fault",
    "decode_json",
    "fields_of",
    "is_absent",
    "opened",
    "plain",
    "plain_content",
    "whole_number",
]

MAX_DEPTH = 200
"""How deep lists and objects may be nested: deeper ones would overflow a reader's stack."""

MEDIA = {
    "image": ("an image", "images cannot be judged; describe in words what it shows"),
    "audio": ("audio", "audio cannot be judged; use its transcript"),
    "video": ("a video", "videos cannot be judged; describe in words what it shows"),
    "file": ("a file", "files cannot be judged; use the text that it contains"),
}
"""What no judge reads, by its kind: its name, and what to do instead."""

_MAGIC = {
    b"\x89PNG": "image",
    b"\xff\xd8\xff": "image",
    b"GIF8": "image",
    b"RIFF": "file",  # a picture, a sound or a film
    b"%PDF-": "file",
    b"PK\x03\x04": "file",
    b"ID3": "audio",
    b"OggS": "audio",
    b"fLaC": "audio",
}
"""How files begin that are no text."""

_NO_TEXT = re.compile("[\x00-\x08\x0e-\x1f\x7f\ud800-\udfff]")
_LARGEST = 2**64
_LEAST = -(2**63)
"""Larger and smaller whole numbers become text, because readers of JSON cut their digits."""

_MOST_ODD = 100  # parts of one value: one that holds itself may have no end of them
_STEPS_SHOWN = 8  # of the way to an odd part: the first ones say enough
_UNWRAPPING = ("as_py", "tolist", "to_list", "to_dict")
"""Methods by which arrays, scalars and traces of other libraries give plain values."""


class Fault(NamedTuple):
    """A part that JSON cannot hold.

    Attributes:
        place: Where it is, such as `inputs.image`.
        steps: The same as its field and the keys and places in it, as text.
        reason: What it is, and what to do.
    """

    place: str
    steps: tuple[str, ...]
    reason: str

    def __str__(self) -> str:
        return f"{self.place} {self.reason}"


class _Odd(Exception):
    """A value that JSON cannot hold; its text says what it is."""


class _Whole(_Odd):
    """A fault of a whole value: it is too deep, holds itself, or has very many faults."""


def is_absent(value: object) -> bool:
    """Return whether a value is missing: None, or the NaN, NaT and NA of pandas and numpy."""
    if isinstance(value, float | datetime):
        return value != value  # noqa: PLR0124  # equal to nothing, itself included
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def decode_json(text: str | bytes) -> Any:
    """Return the value of JSON text.

    It may hold NaN, Infinity and lone surrogates, as Python's `json` writes them.

    Raises:
        InputError: It is not JSON, is nested too deep, or an object has a key twice with different
            contents.
    """
    try:
        value = msgspec.json.decode(text)
        json.loads(text, object_pairs_hook=_object_once, parse_int=str, parse_float=str)
    except RecursionError:
        raise InputError(
            f"broken JSON: it is nested more than {MAX_DEPTH} levels deep"
        ) from None
    except (msgspec.DecodeError, UnicodeError) as error:
        reason = str(error)
    else:
        return value
    try:
        return plain(json.loads(text, object_pairs_hook=_object_once))
    except InputError:
        raise
    except (ValueError, RecursionError):
        raise InputError(f"broken JSON: {reason}") from None


def _object_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object from its pairs. Raises InputError if a key has two different contents."""
    made = dict(pairs)
    if len(made) < len(pairs):
        for key, part in pairs:
            first = json.dumps(made[key], sort_keys=True)
            other = json.dumps(part, sort_keys=True)
            if first != other:
                both = f"{other[:40]} and {first[:40]}"
                raise InputError(
                    f"the key {key[:40]!r} is there twice, as {both}; keep one of them"
                )
    return made


def opened(value: object, beginnings: str = "{[") -> Any:
    """Return the JSON value that a text is; anything else as it is, also JSON that is too deep.

    Args:
        value: Anything.
        beginnings: How a text begins that is taken for JSON: by default an object or an array, so
            that "[sic] … {1}" and "17" stay texts.
    """
    if not isinstance(value, str) or value.lstrip()[:1] not in tuple(beginnings):
        return value
    try:
        found = decode_json(value)
    except InputError:
        return value
    if _too_deep(found):
        return value
    return found


def _too_deep(value: object) -> bool:
    """Return whether lists and objects are nested too deep, be it beyond the recursion limit."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [part for parent in level for _, part in members(parent)]
    return bool(level)


def whole_number(value: Any) -> Any:
    """Return a whole number for a fraction that is whole, such as pandas' 7.0; else the value."""
    exact = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
    if exact:
        return int(value)
    return value


def plain(value: object, place: str = "it", faults: list[Fault] | None = None) -> Any:
    """Return `value` as JSON has it, whichever library it is of.

    NaN and infinity become None, half a surrogate pair U+FFFD, arrays and sets lists, times ISO
    8601 text. Pydantic models, dataclasses and the like become objects, and bytes that are text
    become text.

    Args:
        value: Anything.
        place: What an error calls it.
        faults: Takes up what has no form in JSON, of which the value then has None.

    Raises:
        InputError: Something has no form in JSON, and there are no `faults` to take it up.
    """
    odds: list[_OddPart] = []
    try:
        found = _converted(value, None, 0, odds)
    except _Odd as error:
        found = None
        odds = [(None, str(error))]
    except RecursionError:
        found = None
        odds = [(None, _TOO_DEEP)]
    for way, reason in odds:
        steps = _steps(way)
        written = place
        for step in steps:
            written += f"[{step}]" if step.isdecimal() else f".{step[:40]}"
        fault = Fault(written, (place, *steps), reason)
        if faults is None:
            raise InputError(str(fault))
        faults.append(fault)
    return found


_TOO_DEEP = f"is nested more than {MAX_DEPTH} levels deep; flatten it"

_Way = tuple[Any, Any] | None
"""The way to what holds a part, and the part's key or place there: cheaper than a list of steps."""

_OddPart = tuple[_Way, str]
"""The way to a part that JSON cannot hold, and what is wrong with it."""


def plain_content(value: object, name: str, faults: list[Fault]) -> Any:
    """Return a content field as JSON has it; a text that is a JSON object or array is opened."""
    return plain(opened(value), name, faults)


def _steps(way: _Way) -> tuple[str, ...]:
    steps: list[str] = []
    while way is not None:
        way, step = way
        steps.append(str(step))
    return tuple(reversed(steps[-_STEPS_SHOWN:]))


def _converted(value: Any, way: _Way, depth: int, odds: list[_OddPart]) -> Any:
    """Return a value as JSON has it; odd parts are put into `odds` and become None.

    Raises:
        _Odd: The value itself is odd.
    """
    kind = type(value)
    if kind is str:
        return whole_text(value)
    if value is None or kind is bool:
        return value
    if kind is int or kind is float:
        return _number(value)
    if depth > MAX_DEPTH:
        raise _Whole(_TOO_DEEP)
    if kind is dict:
        return _object(value, way, depth, odds)
    if kind is list or kind is tuple:
        return [
            _part(part, (way, place), depth, odds) for place, part in enumerate(value)
        ]
    return _converted(_unwrapped(value), way, depth + 1, odds)


def _object(
    value: Mapping[Any, Any], way: _Way, depth: int, odds: list[_OddPart]
) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, part in value.items():
        name = _name(key)
        if name in made:
            raise _Odd(f"has the key {name[:40]!r} twice")
        made[name] = _part(part, (way, name), depth, odds)
    return made


def _part(part: Any, way: _Way, depth: int, odds: list[_OddPart]) -> Any:
    """Return a part of an object or list, None for an odd one."""
    try:
        return _converted(part, way, depth + 1, odds)
    except _Whole:
        raise
    except _Odd as odd:
        odds.append((way, str(odd)))
        if len(odds) > _MOST_ODD:
            raise _Whole(str(odd)) from None
        return None


def _number(value: int | float) -> float | str | None:
    """Return a number as JSON has it, None for NaN and infinity, text for a very long one."""
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return None
    if _LEAST <= value < _LARGEST:
        return value
    try:
        return str(value)
    except ValueError:
        raise _Odd("is a number of thousands of digits; pass it as text") from None


def _name(key: object) -> str:
    """Return a key as JSON has it, where all keys are text."""
    if isinstance(key, Enum):
        key = key.value
    if isinstance(key, str):
        return whole_text(str.__str__(key))
    if key is None or isinstance(key, bool):
        return json.dumps(key)
    return whole_text(str(key))


# -- values of other libraries ---------------------------------------------------------------------


def _unwrapped(value: Any) -> Any:
    """Return what stands behind a value of another type, a step nearer to JSON. Raises _Odd."""
    if is_absent(value):
        return None
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, bytes | bytearray | memoryview):
        return _text_of_bytes(bytes(value))
    if isinstance(value, str):
        return str.__str__(value)
    for base in (int, float):
        if isinstance(value, base):
            return base(value)
    if isinstance(value, Decimal | Fraction):
        return _fraction(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if (
        isinstance(value, timedelta | UUID | PurePath)
        or type(value).__name__ == "datetime64"
    ):
        text = str(value)
        if text == "NaT":
            return None
        return text
    return _of_collection(value)


def _fraction(value: Decimal | Fraction) -> int | float | str | None:
    """Return an exact number as a float, a whole one that would lose digits as it is.

    One that no float holds is its text; NaN and infinity are None.
    """
    try:
        number = float(value)
    except ValueError:  # a NaN that signals
        return None
    except OverflowError:
        return str(value)
    if math.isfinite(number):
        whole = int(value)
        if whole == value and abs(whole) >= 2**53:
            return whole
        return number
    if math.isnan(number) or value == number:
        return None
    return str(value)


def _of_collection(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, AbstractSet):
        return sorted(value, key=repr)  # it has no order of its own
    if isinstance(value, Sequence):
        return list(value)
    return _of_library(value)


def fields_of(value: object) -> dict[str, Any] | None:
    """Return the fields of a Pydantic model, a dataclass, a named tuple or the like, else None.

    A row of SQLite or a Series of pandas has them under its `keys()`.
    """
    if hasattr(value, "_asdict"):
        return dict(value._asdict())
    if callable(getattr(value, "keys", None)):
        row: Any = value
        return {str(name): row[name] for name in row.keys()}  # noqa: SIM118  # no mapping
    try:
        found = _of_library(value)
    except _Odd:
        return None
    if isinstance(found, dict):
        return found
    return None


def _of_library(value: Any) -> Any:
    """Return the fields of a model, a dataclass or another library's array. Raises _Odd."""
    kind = type(value).__name__
    try:
        found = _by_its_library(value)
    except Exception as error:  # noqa: BLE001  # of whichever library it is
        reason = f"{type(error).__name__}: {str(error)[:80]}"
        raise _Odd(f"is a {kind} that cannot be read ({reason})") from None
    if found is value:
        raise _Odd(
            f"is a {kind}, which is not a JSON value; pass text, a number, a list or a dict"
        )
    return found


def _by_its_library(value: Any) -> Any:
    """Return what a value's own library makes of it; the value itself if that is nothing plain."""
    if callable(getattr(value, "model_dump", None)):
        return value.model_dump()
    if type(value).__module__.startswith("pydantic"):  # addresses, secrets and the like
        return str(value)
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.asdict(value)
    if isinstance(value, type):
        return value
    fields = getattr(type(value), "__attrs_attrs__", None)
    if dataclasses.is_dataclass(value):
        fields = dataclasses.fields(value)
    if fields is not None:
        return {field.name: getattr(value, field.name) for field in fields}
    for method in _UNWRAPPING:
        if callable(getattr(value, method, None)):
            found = getattr(value, method)()
            if found is not value:
                return found
    return value


def _text_of_bytes(raw: bytes) -> str:
    """Return the text that bytes hold. Raises _Odd for a picture, a file or unknown bytes."""
    for magic, kind in _MAGIC.items():
        if raw.startswith(magic):
            what, advice = MEDIA[kind]
            raise _Odd(f"is {what} (bytes): {advice}")
    text = raw.decode("utf-8", "surrogateescape")
    if _NO_TEXT.search(text):
        raise _Odd(
            "holds bytes that are not text; decode them, or use text, a number, a list or a dict"
        )
    return text
