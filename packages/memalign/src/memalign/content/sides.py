"""The two sides of an item that a judge compares: which of its labels name them, and where they are."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

__all__ = ["sides_of"]


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
