"""The cases that an erasure may touch, in any version: all others stay as they are.

A judge of thousands of cases and hundreds of versions is forgotten from in seconds, because each version is read only
as far as this reaches. One case too many costs time and changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from memalign.registry.judge_rows import RowKey
from memalign.registry.kinds import DISTILLED
from memalign.registry.residue import Residue
from memalign.types import Example, FeedbackKey, Guideline

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

    These are the cases that go or lose a word, and those of the same content; the cases behind guidelines that go with
    them; those whose outcome or verdict was given with them in view; and those that are locked.

    Args:
        values: Every value of the judge.
        residue: What is forgotten.
        copied: Guidelines, by id, that go because they repeat it.
    """
    groups = _same_content(values["case"])
    named = _with_twins(groups, {*residue.cases, *(key.id for key in residue.keys)})
    # With a word on a case its label may change, and with the label what others had said of it is disputed.
    roots = set(residue.keys)
    roots.update(said.key for _, said in values["annotation"] if said.id in named)
    cases = named | set(_given_in_view(values, roots, named, residue))
    for name, rule in values["guideline"]:
        if name in copied or _goes(rule, roots, residue):
            cases.update(key.id for key in rule.supported_by)
    for name, state in values["memory"]:
        if name == "locks":
            cases.update(state)
    return Reach(frozenset(_with_twins(groups, cases)))


def _goes(rule: Guideline, roots: set[FeedbackKey], residue: Residue) -> bool:
    """Return whether a guideline may go or lose its source."""
    if rule.origin != DISTILLED and residue.is_name(rule.origin):
        return True
    return not (rule.exposure.isdisjoint(roots) and roots.isdisjoint(rule.supported_by))


def _given_in_view(
    values: Values, roots: set[FeedbackKey], named: set[str], residue: Residue
) -> Iterator[str]:
    """Yield the cases of which something was said with feedback in view that goes, or that repeats it."""
    for _, said in values["annotation"]:
        outcome = said.outcome
        if outcome is not None and (
            not roots.isdisjoint(outcome.exposed_to) or residue.in_sentence(outcome.reason)
        ):
            yield said.id
    for case, verdict in values["pre_alignment"]:
        in_view = any(seen.id in named for seen in verdict.exposed_to)
        if in_view or residue.certain(verdict.rationale or ""):
            yield case


def _same_content(cases: Iterable[tuple[str, Example]]) -> list[set[str]]:
    """Return the ids of cases that ever shared their content with another one, in groups."""
    groups: dict[str, set[str]] = {}
    for name, example in cases:
        groups.setdefault(example.content_hash, set()).add(name)
    return [group for group in groups.values() if len(group) > 1]


def _with_twins(groups: list[set[str]], names: set[str]) -> set[str]:
    """Return these cases, those of the same content, those of the same as these, and so on."""
    found = set(names)
    waiting = list(groups)
    while near := [group for group in waiting if not found.isdisjoint(group)]:
        found.update(*near)
        waiting = [group for group in waiting if found.isdisjoint(group)]
    return found
