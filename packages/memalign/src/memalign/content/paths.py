"""Parts of fields, as instructions name them (`inputs.question`, `outputs[0].text`), and the sides of a pair."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from memalign.errors import InputError

__all__ = ["Part", "first_lacking", "part_in", "parts_in", "sides_of"]

_FIELD = re.compile(r"\s*([^\W\d]\w*)")
_STEP = re.compile(
    r"""\s*(?:\.\s*(?P<name>\w+)|\[\s*(?P<place>-?\d+)\s*\]|"""
    r"""\[\s*(?P<quote>["'])(?P<key>[^"'\x00-\x1f]+)(?P=quote)\s*\])"""
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
        plain = {
            step for step in self.steps if isinstance(step, str) and re.fullmatch(r"\w+", step)
        }
        steps = (
            f".{step}" if step in plain else f"[{json.dumps(step, ensure_ascii=False)}]"
            for step in self.steps
        )
        return self.field + "".join(steps)

    def of(self, content: Mapping[str, Any]) -> Any:
        """The part, in the content fields of a case. Raises InputError that says where the way to it ends."""
        if self.field not in content:
            raise InputError("none")
        value: Any = content[self.field]
        for number, step in enumerate(self.steps):
            try:
                if not isinstance(value, dict | list | tuple):
                    raise LookupError
                value = value[str(step)] if isinstance(value, dict) else value[int(step)]
            except (LookupError, ValueError):
                names = (
                    ", ".join(str(name)[:40] for name in list(value)[:8])
                    if isinstance(value, dict)
                    else ""
                )
                place = Part(self.field, self.steps[:number])
                raise InputError(f"none: {place} has {names or 'no such part'}") from None
        return value


@lru_cache(maxsize=256)  # asked for every item
def _parsed(text: str) -> Part:
    name, steps = _FIELD.match(text), list[str | int]()
    end = name.end() if name else 0
    while name and (step := _STEP.match(text, end)):
        steps.append(int(step["place"]) if step["place"] else step["name"] or step["key"])
        end = step.end()
    if name is None or text[end:].strip():
        raise InputError(
            f"{text!r} is not a part of a field; a part is written inputs.question or outputs[0].text"
        )
    return Part(name[1], tuple(steps))


def part_in(content: Mapping[str, Any], name: str) -> Any:
    """The part of a written name in the content fields of a case; None where there is none."""
    try:
        return Part.parse(name).of(content)
    except InputError:
        return None


def parts_in(content: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the parts of these written names, in their order, None for each that is missing."""
    return {name: part_in(content, name) for name in names}


def first_lacking(content: Mapping[str, Any], names: Iterable[str]) -> tuple[str, str] | None:
    """The first of the named parts that the content fields lack, and where the way to it ends."""
    for name in names:
        try:
            Part.parse(name).of(content)
        except InputError as error:
            return name, str(error)
    return None


def sides_of(content: Mapping[str, Any], choices: Collection[str]) -> dict[str, Any]:
    """The sides of an item that a judge compares, each by its name, in the item's order; empty without sides.

    Sides are entries of one field whose keys are two or more of the judge's choices; of several
    such fields the outputs'.
    """
    for _, field in sorted(content.items(), key=lambda item: item[0] != "outputs"):
        if isinstance(field, dict):
            sides = {name: side for name, side in field.items() if name in choices}
            if len(sides) > 1:
                return sides
    return {}
