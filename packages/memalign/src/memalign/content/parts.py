"""Parts of a case's fields, as instructions name them: `inputs`, `inputs.question`, `outputs[0].text`, `inputs["user id"]`."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from memalign.content.sides import sides_of
from memalign.errors import InputError

__all__ = ["Part", "first_lacking", "part_in", "parts_of_sides"]

_PLAIN = re.compile(r"[^\W\d]\w*")
_STEP = re.compile(
    r"""\s*(?:\.\s*(?P<name>\w+)|\[\s*(?P<place>-?\d+)\s*\]|\[\s*(?P<quote>["'])(?P<key>[^"'\x00-\x1f]+)(?P=quote)\s*\])"""
)


class Part(NamedTuple):
    """A field and the keys and places that lead to a part of it; no steps for the whole field."""

    field: str
    steps: tuple[str | int, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Part:
        """The part of a written form. Raises InputError for anything else: a filter, a call, an expression."""
        return _parsed(text)

    def __str__(self) -> str:
        return self.field + "".join(map(_written, self.steps))

    def of(self, content: Mapping[str, Any]) -> Any:
        """The part, in the content fields of a case. Raises InputError that says where the way to it ends."""
        if self.field not in content:
            raise InputError("none")
        value: Any = content[self.field]
        for number, step in enumerate(self.steps):
            try:
                value = _next(value, step)
            except LookupError:
                raise InputError(f"none: {Part(self.field, self.steps[:number])} {_is(value)}") from None
        return value


@lru_cache(maxsize=256)  # asked for every item
def _parsed(text: str) -> Part:
    name = _PLAIN.match(text.strip())
    rest = text.strip()[name.end() :] if name else text
    steps, at = list[str | int](), 0
    while found := _STEP.match(rest, at):
        place = found["place"]
        steps.append(found["name"] or found["key"] if place is None else int(place))
        at = found.end()
    if name is None or at != len(rest):
        raise InputError(f"{text!r} names no part of a field, such as inputs.question or outputs[0].text")
    return Part(name.group(), tuple(steps))


def _written(step: str | int) -> str:
    if isinstance(step, str) and re.fullmatch(r"\w+", step):
        return f".{step}"
    return f"[{json.dumps(step, ensure_ascii=False)}]"


def _next(value: Any, step: str | int) -> Any:
    if isinstance(value, dict):
        return value[step if isinstance(step, str) else str(step)]
    if isinstance(value, list | tuple):
        return value[int(step)] if isinstance(step, int) or step.isdecimal() else value[len(value)]
    raise LookupError


def _is(value: Any) -> str:
    if isinstance(value, dict):
        names = [str(name)[:40] for name in list(value)[:8]]
        return f"has {', '.join(names)}{' and more' if len(value) > len(names) else ''}" if names else "is empty"
    if isinstance(value, list | tuple):
        return f"has {len(value)} {'entry' if len(value) == 1 else 'entries'}"
    return f"is {'null' if value is None else 'a text' if isinstance(value, str) else 'a number or truth value'}"


def part_in(content: Mapping[str, Any], name: str) -> Any:
    """The part of a written name in the content fields of a case; None where there is none."""
    try:
        return Part.parse(name).of(content)
    except InputError:
        return None


def first_lacking(content: Mapping[str, Any], names: Iterable[str]) -> tuple[str, str] | None:
    """The first of the named parts that the content fields lack, and where the way to it ends."""
    for name in names:
        try:
            Part.parse(name).of(content)
        except InputError as error:
            return name, str(error)
    return None


def parts_of_sides(
    content: Mapping[str, Any], names: Iterable[str], choices: Collection[str]
) -> list[dict[str, Any]] | None:
    """The named parts of each side alone, in the order of `choices`; None unless a name leads into a side.

    `outputs.A.text` and `outputs.B.text` are both shown as `outputs.text`, so that nothing tells which side it is.
    """
    sides = sides_of(content, choices)
    parts = [Part.parse(name) for name in names]
    if len(sides) != 2 or not any(_into(part, content, sides) for part in parts):
        return None
    shown: list[dict[str, Any]] = []
    for side in (name for name in choices if name in sides):
        alone: dict[str, Any] = {}
        for part in parts:
            if not _into(part, content, sides):
                alone[str(part)] = part.of(content)
            elif part.steps[0] == side:
                alone[str(Part(part.field, part.steps[1:]))] = part.of(content)
        shown.append(alone)
    return shown


def _into(part: Part, content: Mapping[str, Any], sides: Mapping[str, Any]) -> bool:
    field = content.get(part.field)
    return bool(part.steps) and isinstance(field, dict) and sides.keys() <= field.keys() and part.steps[0] in sides
