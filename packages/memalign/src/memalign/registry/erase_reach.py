"""What an erasure may touch beside what it names, in any version: everything else stays as it is.

A judge of thousands of cases and hundreds of versions is forgotten from in seconds, because each version is read only
as far as this reaches. One row too many costs time and changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from memalign.content.normal import word_form
from memalign.registry.judge_rows import Codec, RowKey
from memalign.registry.kinds import DISTILLED, names_in
from memalign.registry.residue import Residue
from memalign.registry.versions import Timeline
from memalign.types import FeedbackKey, Guideline

__all__ = ["Reach", "reach_of"]


class Reach(NamedTuple):
    """The cases and guidelines, by id, that forgetting may change or has to know, in any version."""

    cases: frozenset[str]
    guidelines: frozenset[str]
    tombstones: frozenset[str]

    def has(self, row: RowKey) -> bool:
        """Return whether a row is to be read."""
        kind, key = row
        match kind:
            case "annotation":
                return FeedbackKey.parse(key).id in self.cases
            case "case" | "pre_alignment" | "vector":
                return key in self.cases
            case "guideline":
                return key in self.guidelines
            case "tombstone":
                return key in self.tombstones
            case "memory":
                return key != "next_guideline"  # which only ever rises
        return kind == "conflict"


def reach_of(
    timeline: Timeline, codec: Codec, residue: Residue, copied: Collection[str] = ()
) -> Reach:
    """Return what forgetting may change or has to know.

    These are the cases that go or lose a word, and those of the same content; the cases behind guidelines that go with
    them; those whose outcome or verdict was given with them in view; and those that are locked. Of
    guidelines, those that go or change, those that carry such a case, and those that step in for one.

    Args:
        timeline: Every row of the judge.
        codec: Decodes them.
        residue: What is forgotten.
        copied: Guidelines, by id, that go because they repeat it.
    """
    values: dict[str, list[tuple[str, Any]]] = {}
    for (kind, key), spans in timeline.items():
        for _, _, body in spans:
            if kind not in ("vector", "judge"):
                values.setdefault(kind, []).append((key, codec.decode(kind, body)))
    twins = _Groups((key, example.content_hash) for key, example in values.get("case", ()))
    named = twins.of({*residue.cases, *(key.id for key in residue.keys)})
    # With a word on a case its label may change, and with the label what others had said of it is disputed.
    roots = set(residue.keys)
    for key, _ in values.get("annotation", ()):
        parsed = FeedbackKey.parse(key)
        if parsed.id in named:
            roots.add(parsed)
    rules: list[tuple[str, Guideline]] = values.get("guideline", [])
    going = {name for name, rule in rules if _goes(rule, roots, residue) or name in copied}
    cases = {key.id for name, rule in rules if name in going for key in rule.supported_by}
    cases |= named | set(_given_in_view(values, roots, named, residue))
    for key, state in values.get("memory", ()):
        if key == "locks":
            cases.update(state)
    cases = twins.of(cases)
    carrying = {name for name, rule in rules if any(key.id in cases for key in rule.supported_by)}
    stones = (key for key, stone in values.get("tombstone", ()) if stone.key in residue.keys)
    return Reach(
        cases=frozenset(cases),
        guidelines=frozenset(
            _stand_ins(rules).of(going | carrying | _naming(timeline, codec, residue))
        ),
        tombstones=frozenset(stones),
    )


def _goes(rule: Guideline, roots: set[FeedbackKey], residue: Residue) -> bool:
    """Return whether a guideline may go or lose its source."""
    if rule.origin != DISTILLED and residue.is_name(rule.origin):
        return True
    return not rule.exposure.isdisjoint(roots) or not roots.isdisjoint(rule.supported_by)


def _given_in_view(
    values: dict[str, list[tuple[str, Any]]],
    roots: set[FeedbackKey],
    named: set[str],
    residue: Residue,
) -> Iterable[str]:
    """Yield the cases of which something was said with feedback in view that goes, or that repeats it."""
    for key, annotation in values.get("annotation", ()):
        outcome = annotation.outcome
        if outcome is not None and (
            not roots.isdisjoint(outcome.exposed_to) or residue.in_sentence(outcome.reason)
        ):
            yield FeedbackKey.parse(key).id
    for key, verdict in values.get("pre_alignment", ()):
        in_view = any(seen.id in named for seen in verdict.exposed_to)
        if in_view or residue.certain(verdict.rationale or ""):
            yield key


def _naming(timeline: Timeline, codec: Codec, residue: Residue) -> set[str]:
    """Return the guidelines that say of somebody who goes that they did something."""
    found = set[str]()
    for (kind, key), spans in timeline.items():
        if kind == "guideline":
            names = (name for _, _, body in spans for name in names_in(codec, kind, key, body))
            if any(map(residue.is_name, names)):
                found.add(key)
    return found


def _stand_ins(rules: list[tuple[str, Guideline]]) -> _Groups:
    """Return guidelines in groups: those of the same words, and those that took another one's place."""
    pairs = [(name, f"words {word_form(rule.text)}") for name, rule in rules]
    for name, rule in rules:
        pairs.append((name, f"place {name}"))
        if rule.replaced_by is not None:
            pairs.append((name, f"place {rule.replaced_by}"))
    return _Groups(pairs)


class _Groups:
    """Names and what they share, such as cases of the same content: what is said of one is said of all of a group."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._shared: dict[str, set[str]] = {}
        self._names: dict[str, set[str]] = {}
        for name, shared in pairs:
            self._shared.setdefault(name, set()).add(shared)
            self._names.setdefault(shared, set()).add(name)

    def of(self, names: set[str]) -> set[str]:
        """Return these names, all that ever shared something with one of them, or with one of those, and so on."""
        found = set(names)
        waiting = list(names)
        while waiting:
            for shared in self._shared.get(waiting.pop(), ()):
                new = self._names[shared] - found
                found |= new
                waiting += new
        return found
