"""The cases that an erasure may touch, in any version: all others stay as they are.

A judge of thousands of cases and hundreds of versions is forgotten from in seconds, because each
version is read only as far as this reaches. One case too many costs time and changes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import NamedTuple

from memalign.registry.judge_rows import RowKey
from memalign.registry.kinds import Held
from memalign.registry.residue import Residue
from memalign.types import FeedbackKey

__all__ = ["Reach", "reach_of", "says"]

_LOCKS = ("memory", "locks")


class Reach(NamedTuple):
    """The ids of the cases that forgetting may change or has to know, in any version."""

    cases: frozenset[str]

    def has(self, row: RowKey) -> bool:
        """Return whether a row is to be read."""
        kind, key = row
        if kind == "annotation":
            written = FeedbackKey.parse(key)
            if str(written) != key:  # people's spellings are read, a table's are damage
                raise ValueError(f"the row of {key!r} has no key")
            return written.id in self.cases
        if kind in ("case", "pre_alignment", "vector"):
            return key in self.cases
        return kind != "judge" and key != "next_guideline"  # which only ever rises


def reach_of(
    values: Iterable[Held], residue: Residue, copied: Collection[RowKey]
) -> Reach:
    """Return what forgetting may change or has to know.

    These are the cases that go or lose a word, and those of the same content; the cases behind
    everything that was written with them in view, or says something of them; and those that are
    locked.

    Args:
        values: Every value that the judge's rows ever held.
        residue: What is forgotten.
        copied: Rows that go because they repeat it.
    """
    held = list(values)
    groups = _same_content(held)
    named = _with_twins(groups, residue.touched)
    cases = set(named)
    for one in held:
        seen = {key.id for key in one.kind.keys(one.value)}
        if one.name == "pre_alignment":
            seen.add(one.key)
        near = one[:2] in copied or says(one, residue)
        # With a word on a case its label may change, and with the label what others had said of
        # it is disputed.
        if near or not seen.isdisjoint(named):
            cases.update(seen)
        if one[:2] == _LOCKS:
            cases.update(one.value)
    return Reach(frozenset(_with_twins(groups, cases)))


def says(one: Held, residue: Residue) -> bool:
    """Return whether a value repeats what goes or names who goes, outside of people's own words."""
    kind = one.kind
    value = one.value
    if any(map(residue.is_name, kind.names(value))):
        return True
    if residue.in_sentence(kind.reason(value)):
        return True
    return any(map(residue.certain, kind.quotes(value)))


def _same_content(values: Iterable[Held]) -> list[set[str]]:
    """Return the ids of cases that ever shared their content with another one, in groups."""
    groups = defaultdict[str, set[str]](set)
    for name, key, value in values:
        if name == "case":
            groups[value.content_hash].add(key)
    return [group for group in groups.values() if len(group) > 1]


def _with_twins(groups: list[set[str]], names: Collection[str]) -> set[str]:
    """Return these cases, those of the same content, those of the same as these, and so on."""
    found = set(names)
    size = 0
    while len(found) > size:
        size = len(found)
        for group in groups:
            if not found.isdisjoint(group):
                found.update(group)
    return found
