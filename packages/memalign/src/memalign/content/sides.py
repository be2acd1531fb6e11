"""The two sides of an item that a judge compares: which of its labels name them, and where they are."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

__all__ = ["each_side", "sides_of"]


def sides_of(content: Mapping[str, Any], choices: Collection[str]) -> dict[str, Any]:
    """Each of the `choices` that names a side of the item, with that side, in the item's order; empty without sides.

    Sides are entries of one field whose keys are two or more of the choices; of several such fields, the outputs'.
    """
    for _, field in sorted(content.items(), key=lambda item: item[0] != "outputs"):
        if isinstance(field, dict):
            found = {name: side for name, side in field.items() if name in choices}
            if len(found) > 1:
                return found
    return {}


def each_side(content: Mapping[str, Any], choices: Collection[str]) -> tuple[Mapping[str, Any], ...]:
    """What checks are asked about: of a pair each side alone, in the order of `choices`; any other item as it stands.

    Of a field with both sides only the one is left; what stands beside them in it stays, and both then have the name of the first.
    """
    sides = sides_of(content, choices)
    if len(sides) != 2:
        return (content,)
    names = tuple(name for name in choices if name in sides)

    def alone(field: Any, side: str) -> Any:
        if not isinstance(field, dict) or not sides.keys() <= field.keys():
            return field
        beside = {key: value for key, value in field.items() if key not in sides}
        return {names[0]: field[side]} | beside if beside else field[side]

    return tuple({name: alone(field, side) for name, field in content.items()} for side in names)
