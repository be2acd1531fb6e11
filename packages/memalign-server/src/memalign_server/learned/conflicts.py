"""Comments that contradict each other, and who may say which of them holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memalign.keys import name_key
from memalign.memory import Annotation, Memory

__all__ = ["ALL_HOLD", "Conflict", "conflicts_of"]

ALL_HOLD = ""
"""The choice that lets all comments of a conflict hold."""


@dataclass(frozen=True, kw_only=True)
class Conflict:
    """Comments that contradict each other.

    Attributes:
        sides: The comments.
        choices: What the reader may choose: keys of the comments that may hold, and `ALL_HOLD`.
    """

    sides: Sequence[Annotation]
    choices: Sequence[str]

    @property
    def keys(self) -> list[str]:
        """The keys of the comments, in their order."""
        return [str(side.key) for side in self.sides]


def conflicts_of(memory: Memory, person: str, *, is_owner: bool) -> list[Conflict]:
    """Return the conflicts in which a person may choose, or has said one of the things."""
    conflicts = []
    for conflict in memory.open_conflicts:
        sides = []
        for key in conflict.feedback:
            side = memory.annotation(key)
            if side is not None and side.rationale:
                sides.append(side)
        choices = _choices(sides, person, is_owner=is_owner)
        if len(sides) > 1 and choices is not None:
            conflicts.append(Conflict(sides=sides, choices=choices))
    return conflicts


def _choices(
    sides: Sequence[Annotation], person: str, *, is_owner: bool
) -> list[str] | None:
    """Return what a person may choose; None if the conflict does not concern them.

    Owners choose, and people between comments of their own. Anybody else may let another's comment
    hold if all that would go is theirs.
    """
    reader = name_key(person)
    people = {name_key(side.source) for side in sides}
    if is_owner or people == {reader}:
        keys = [str(side.key) for side in sides]
        return [*keys, ALL_HOLD]
    if reader not in people:
        return None
    choices = []
    for side in sides:
        others = people - {name_key(side.source)}
        if others == {reader}:
            choices.append(str(side.key))
    return choices
