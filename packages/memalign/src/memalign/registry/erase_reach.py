"""The cases that an erasure may touch, in any version: all others stay as they are.

A judge of thousands of cases and hundreds of versions is forgotten from in seconds, because each
version is read only as far as this reaches. One case too many costs time and changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from memalign.registry.judge_rows import RowKey
from memalign.registry.kinds import KINDS, Kind
from memalign.registry.residue import Residue
from memalign.types import Example, FeedbackKey

__all__ = ["Reach", "Values", "reach_of"]

Values = Mapping[str, Sequence[tuple[str, Any]]]
"""Every value that a judge's rows ever held, by kind, each with its row's key."""


class Reach(NamedTuple):
    """The ids of the cases that forgetting may change or has to know, in any version."""

    cases: frozenset[str]

    def has(self, row: RowKey) -> bool:
        """Return whether a row is to be read."""
        kind, key = row
        if kind == "annotation":
            return FeedbackKey.parse(key).id in self.cases
        if kind in ("case", "pre_alignment", "vector"):
            return key in self.cases
        return kind != "judge" and key != "next_guideline"  # which only ever rises


def reach_of(values: Values, residue: Residue, copied: Collection[str]) -> Reach:
    """Return what forgetting may change or has to know.

    These are the cases that go or lose a word, and those of the same content; the cases behind
    everything that was written with them in view, or says something of them; and those that are
    locked.

    Args:
        values: Every value of the judge.
        residue: What is forgotten.
        copied: Guidelines, by id, that go because they repeat it.
    """
    groups = _same_content(values["case"])
    named = _with_twins(groups, residue.touched)
    cases = set(named)
    for name, kind in KINDS.items():
        for row, value in values[name]:
            seen = {key.id for key in kind.keys(value)}
            if name == "pre_alignment":
                seen.add(row)
            # With a word on a case its label may change, and with the label what others had said of
            # it is disputed.
            near = row in copied or not seen.isdisjoint(named)
            if near or _says(kind, value, residue):
                cases.update(seen)
            if name == "memory" and row == "locks":
                cases.update(value)
    return Reach(frozenset(_with_twins(groups, cases)))


def _says(kind: Kind, value: Any, residue: Residue) -> bool:
    """Return whether a value repeats what goes or names who goes, outside of people's own words."""
    if any(map(residue.is_name, kind.names(value))):
        return True
    if residue.in_sentence(kind.reason(value)):
        return True
    return any(map(residue.certain, kind.quotes(value)))


def _same_content(cases: Iterable[tuple[str, Example]]) -> list[set[str]]:
    """Return the ids of cases that ever shared their content with another one, in groups."""
    groups: dict[str, set[str]] = {}
    for name, example in cases:
        content = example.content_hash
        groups.setdefault(content, set()).add(name)
    shared = []
    for group in groups.values():
        if len(group) > 1:
            shared.append(group)
    return shared


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
