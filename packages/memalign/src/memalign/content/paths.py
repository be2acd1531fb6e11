"""Parts of fields as instructions name them, such as `inputs.question`, and the sides of pairs."""

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

    @staticmethod
    @lru_cache(maxsize=256)  # asked for every item
    def parse(text: str) -> Part:
        """Read a part as it is written.

        Raises:
            InputError: It is anything else: a filter, a call, an expression.
        """
        field = _FIELD.match(text)
        found = field
        end = 0
        steps: list[str | int] = []
        while found:
            end = found.end()
            found = _STEP.match(text, end)
            if found and found["place"]:
                steps.append(int(found["place"]))
            elif found:
                steps.append(found["name"] or found["key"])
        if field is None or text[end:].strip():
            form = "a part is written inputs.question or outputs[0].text"
            raise InputError(f"{text!r} is not a part of a field; {form}")
        return Part(field[1], tuple(steps))

    def __str__(self) -> str:
        written = self.field
        for step in self.steps:
            if isinstance(step, str) and re.fullmatch(r"\w+", step):
                written += f".{step}"
            else:
                written += f"[{json.dumps(step, ensure_ascii=False)}]"
        return written

    def of(self, content: Mapping[str, Any]) -> Any:
        """Return the part in the content fields of a case.

        Raises:
            InputError: There is none; it says where the way to it ends.
        """
        if self.field not in content:
            raise InputError("none")
        value: Any = content[self.field]
        for number, step in enumerate(self.steps):
            try:
                if isinstance(value, dict):
                    value = value[str(step)]
                elif isinstance(value, list | tuple):
                    value = value[int(step)]
                else:
                    raise LookupError
            except (LookupError, ValueError):
                names: list[str] = []
                if isinstance(value, dict):
                    names = [str(name)[:40] for name in value]
                place = Part(self.field, self.steps[:number])
                has = ", ".join(names[:8]) or "no such part"
                raise InputError(f"none: {place} has {has}") from None
        return value


def part_in(content: Mapping[str, Any], name: str) -> Any:
    """Return the part of a written name in the content fields of a case, None if there is none."""
    try:
        return Part.parse(name).of(content)
    except InputError:
        return None


def parts_in(content: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the parts of these written names, in their order, None for each that is missing."""
    return {name: part_in(content, name) for name in names}


def first_lacking(
    content: Mapping[str, Any], names: Iterable[str]
) -> tuple[str, str] | None:
    """Return the first named part that the content fields lack, and where the way to it ends."""
    for name in names:
        try:
            Part.parse(name).of(content)
        except InputError as error:
            return name, str(error)
    return None


def sides_of(content: Mapping[str, Any], choices: Collection[str]) -> dict[str, Any]:
    """Return the sides of an item that a judge compares, by name, in the item's order.

    Sides are entries of one field whose keys are two or more of the judge's choices; `outputs`
    comes first. An item without sides has none.
    """
    for field in (content.get("outputs"), *content.values()):
        if not isinstance(field, dict):
            continue
        sides = {name: side for name, side in field.items() if name in choices}
        if len(sides) > 1:
            return sides
    return {}
