"""Which guidelines are in force: one of those that say the same, one side of a contradiction, as many as fit.

Nothing is thrown away: what does not stand steps in when that goes which stands before it. So forgetting promotes
another without a model call, and the answer depends on the memory alone, never on the order in which it grew.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from memalign.memory.budget import fit_guidelines
from memalign.memory.guard import normalised
from memalign.types import FeedbackKey, Guideline, guideline_number

if TYPE_CHECKING:
    from memalign.memory.budget import Topics

__all__ = [
    "Relation",
    "groups",
    "precedence",
    "replacing",
    "revised",
    "with_relations",
]

replace = msgspec.structs.replace


class Relation(msgspec.Struct, frozen=True, kw_only=True):
    """What two guidelines are to each other; `pair` are their ids, the older one first.

    The same, contradicting or unrelated, as a model judged; or which of them, newer or older, took the other's place:
    as a revision, or because a person gave it words of its own.
    """

    pair: tuple[str, str]
    verdict: Literal["same", "contradicts", "unrelated", "newer", "older"]

    @property
    def replaced(self) -> str | None:
        """The id of the guideline whose place the other took."""
        return {"newer": self.pair[0], "older": self.pair[1]}.get(self.verdict)


def replacing(winner: str, loser: str) -> Relation:
    """That the guideline `winner` took the place of `loser`."""
    older, newer = sorted((winner, loser), key=guideline_number)
    return Relation(pair=(older, newer), verdict="newer" if winner == newer else "older")


def with_relations(relations: Iterable[Relation], more: Iterable[Relation]) -> tuple[Relation, ...]:
    """`relations` and `more`, one of each pair, in the order of the pairs."""
    found = {relation.pair: relation for relation in (*relations, *more)}
    return tuple(found[pair] for pair in sorted(found, key=lambda pair: [guideline_number(name) for name in pair]))


def precedence(
    guidelines: Iterable[Guideline],
    *,
    relations: Sequence[Relation] = (),
    strength: Callable[[Collection[FeedbackKey]], tuple[Any, ...]] = lambda keys: (len(keys),),
    tokens: int | None = None,
    corrective: Callable[[], Collection[FeedbackKey]] = frozenset,
    topics: Topics | None = None,
) -> tuple[Guideline, ...]:
    """`guidelines`, each with the status that it has beside the others; deciding again changes nothing.

    Of those that say the same, in words or by a verdict, one is active: a pinned one before others, then a person's,
    then the oldest; the others are superseded by it. Where two contradict each other the weaker is superseded,
    `overridden_by` the stronger: `strength` weighs the feedback behind each side, a larger tuple wins; two pinned ones
    both stand. Beyond `tokens` the least useful are demoted. What a person retired, and what was revised, stays: what a
    model writes that says the same as a retired one is superseded by it.
    """
    known = tuple(guidelines)
    group = groups(known, relations)
    stood = {guideline.id: _released(guideline) for guideline in known}
    for loser, winner in _replaced(known, relations).items():
        if stood[loser].status == "active":
            stood[loser] = replace(stood[loser], status="superseded", superseded_by=winner)
    retired = {group[g.id]: g.id for g in reversed(known) if g.status == "retired" and not g.left_out}
    members: dict[str, list[Guideline]] = {}
    for guideline in stood.values():
        if guideline.status != "active":
            continue
        if guideline.origin == "distilled" and not guideline.pinned and group[guideline.id] in retired:
            # What a person retired does not come back because a later distillation writes it again.
            stood[guideline.id] = replace(guideline, status="superseded", superseded_by=retired[group[guideline.id]])
        else:
            members.setdefault(group[guideline.id], []).append(guideline)
    shown = {root: min(several, key=_rank) for root, several in members.items()}
    for root, several in members.items():
        for guideline in several:
            if guideline is not shown[root]:
                stood[guideline.id] = replace(guideline, status="superseded", superseded_by=shown[root].id)
    for loser, winner in _overridden(shown, members, group, relations, strength):
        stood[loser] = replace(stood[loser], status="superseded", overridden_by=winner)
    if tokens is not None:
        active = [guideline for guideline in stood.values() if guideline.status == "active"]
        for name in fit_guidelines(active, tokens, corrective=corrective, topics=topics)[1]:
            stood[name] = replace(stood[name], status="demoted")
    return tuple(stood.values())


def groups(guidelines: Sequence[Guideline], relations: Sequence[Relation]) -> dict[str, str]:
    """Id → the id that stands for all which say the same: in the same words, or by a verdict."""
    parent = {guideline.id: guideline.id for guideline in guidelines}

    def root(name: str) -> str:
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    first: dict[str, str] = {}
    for guideline in guidelines:
        parent[root(guideline.id)] = root(first.setdefault(normalised(guideline.text), guideline.id))
    for relation in relations:
        if relation.verdict == "same" and all(name in parent for name in relation.pair):
            older, newer = (root(name) for name in relation.pair)
            parent[newer] = older
    return {name: root(name) for name in parent}


def _released(guideline: Guideline) -> Guideline:
    """Free of what earlier decisions said of it."""
    if guideline.status not in ("superseded", "demoted"):
        return guideline
    return replace(guideline, status="active", superseded_by=None, overridden_by=None)


def revised(guidelines: Sequence[Guideline], relations: Sequence[Relation]) -> frozenset[str]:
    """The ids of guidelines that another one took the place of, with other words and another meaning."""
    return frozenset(_replaced(guidelines, relations))


def _replaced(guidelines: Sequence[Guideline], relations: Sequence[Relation]) -> dict[str, str]:
    """Loser and winner, by id; a winner that was left out gives its place back."""
    there = {guideline.id for guideline in guidelines}
    here = {guideline.id for guideline in guidelines if not guideline.left_out}
    found = {}
    for relation in relations:
        loser = relation.replaced
        if loser in there:
            (winner,) = set(relation.pair) - {loser}
            if winner in here:
                found[loser] = winner
    return found


def _rank(guideline: Guideline) -> tuple[bool, bool, int]:
    return (not guideline.pinned, guideline.origin == "distilled", guideline.number)


def _overridden(
    shown: Mapping[str, Guideline],
    members: Mapping[str, Sequence[Guideline]],
    group: Mapping[str, str],
    relations: Sequence[Relation],
    strength: Callable[[Collection[FeedbackKey]], tuple[Any, ...]],
) -> list[tuple[str, str]]:
    """Loser and winner, by id, of every contradiction between guidelines that are shown."""
    rivals: dict[str, set[str]] = {}
    live = {guideline.id for several in members.values() for guideline in several}
    for relation in relations:
        if relation.verdict == "contradicts" and live.issuperset(relation.pair):
            one, other = (group[name] for name in relation.pair)
            if one != other:
                rivals.setdefault(one, set()).add(other)
                rivals.setdefault(other, set()).add(one)

    def weight(root: str) -> tuple[Any, ...]:
        face = shown[root]
        keys = {key for guideline in members[root] for key in guideline.supported_by}
        return (face.pinned, face.origin != "distilled", strength(keys), -face.number)

    found: list[tuple[str, str]] = []
    stands: dict[str, Guideline] = {}
    for root in sorted(rivals, key=weight, reverse=True):
        face = shown[root]
        foes = [stands[foe] for foe in stands if foe in rivals[root] and not (face.pinned and stands[foe].pinned)]
        if foes:
            found.append((face.id, foes[0].id))
        else:
            stands[root] = face
    return found
