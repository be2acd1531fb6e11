"""Forgetting: pure functions, no model. What was written with a withdrawn word in view goes.

Exposure decides, not similarity: a guideline goes whose prompt held withdrawn feedback, unless a person made its
wording theirs; what survivors had taught beside it waits to be distilled again. Retraining only what was touched is
SISA's idea (Bourtoule et al. 2021, arXiv 1912.03817).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from msgspec.structs import replace

from memalign.memory import Memory, Outcome, Tombstone
from memalign.memory.check_answers import without_answers_beside
from memalign.types import FeedbackKey, Guideline

__all__ = ["exposed_wordings", "forget", "forget_lessons", "unbarred"]

WHY = "to be derived again without withdrawn feedback"


def forget(
    memory: Memory,
    keys: Collection[FeedbackKey],
    *,
    state: Literal["withdrawn", "erased"] = "withdrawn",
    reason: str = "",
    people_agree: bool = False,
    keep: Collection[str] = (),
) -> Memory:
    """`memory` without the feedback of `keys`, without cases that nobody else spoke about, without what they taught.

    Tombstones keep the keys, and no word. Keys that are not there are ignored. If `people_agree`, wordings that people
    wrote or confirmed go too; `keep` are guidelines, by id, whose wording a person keeps although their feedback goes.
    """
    live = [annotation for key in keys if (annotation := memory.annotation(key))]
    removed, touched = frozenset(annotation.key for annotation in live), frozenset(annotation.id for annotation in live)
    memory = forget_lessons(memory, removed, why=WHY, people_agree=people_agree, keep=keep)
    cases = []
    for case in memory.cases:
        if case.id not in touched:
            cases.append(case)
        elif annotations := tuple(annotation for annotation in case.annotations if annotation.key not in removed):
            cases.append(replace(case, annotations=annotations))
    stones = {stone.key: stone for stone in memory.tombstones}
    stones |= {key: Tombstone(key=key, state=state, reason=reason) for key in removed}
    memory = replace(memory, cases=tuple(cases))
    # Without a label nobody can say when a case breaks.
    locked = (memory.case(name) for name in memory.locks)
    locks = tuple(case.id for case in locked if case is not None and memory.label(case) is not None)
    return replace(
        memory,
        locks=locks,
        guidelines=tuple(unbarred(guideline, locks) for guideline in memory.guidelines),
        embedding_model=memory.embedding_model if cases else None,
        tombstones=tuple(stones[key] for key in sorted(stones)),
    )


def forget_lessons(
    memory: Memory, keys: Collection[FeedbackKey], *, why: str, people_agree: bool = False, keep: Collection[str] = ()
) -> Memory:
    """`memory` without guidelines exposed to `keys`, but for people's, and without verdicts given with them in view.

    The annotations of `keys` stay and wait, as do those that lose their guideline: it is also what a change comes to.
    """
    withdrawn = frozenset(keys)
    theirs = () if people_agree else exposed_wordings(memory, withdrawn, keep)
    exposed = [g for g in memory.guidelines if not withdrawn.isdisjoint(g.exposed_to) and g.id not in theirs]
    carried = {key for guideline in exposed for key in guideline.supported_by}
    # An example may have been covered by what is lost now; one that waits does so for a reason that may stem from it.
    beside = {
        annotation.key
        for annotation in memory.annotations()
        if annotation.outcome is not None and not withdrawn.isdisjoint(annotation.outcome.exposed_to)
    }
    changed = (case for key in withdrawn if (case := memory.case(key.id)))
    in_view = {duplicate.id for case in changed for duplicate in memory.duplicates(case.example)}
    conflicts = tuple(conflict for conflict in memory.conflicts if withdrawn.isdisjoint(conflict.exposed_to))
    memory = replace(memory, cases=without_answers_beside(memory.cases, in_view), conflicts=conflicts)
    memory = memory.without_guidelines({guideline.id for guideline in exposed})
    rest = (_unexposed(guideline, withdrawn) for guideline in memory.guidelines)
    memory = memory.with_guidelines(rest).with_live_answers()
    waiting = Outcome(kind="waiting", reason=why)
    return memory.with_outcomes(dict.fromkeys(withdrawn | carried | beside, waiting))


def exposed_wordings(memory: Memory, withdrawn: Collection[FeedbackKey], keep: Collection[str] = ()) -> tuple[str, ...]:
    """The guidelines, by id, that saw feedback which goes, and stay: people who said none of it wrote or keep them."""
    sources, keys = {key.source for key in withdrawn}, frozenset(withdrawn)
    return tuple(
        guideline.id
        for guideline in memory.guidelines
        if guideline.people
        and (guideline.id in keep or guideline.people.isdisjoint(sources))
        and not keys.isdisjoint(guideline.exposed_to)
    )


def _unexposed(guideline: Guideline, withdrawn: Collection[FeedbackKey]) -> Guideline:
    """The guideline without keys that go. A model's checks may stem from that feedback alone: they go."""
    exposed = tuple(key for key in guideline.exposed_to if key not in withdrawn)
    supported = tuple(key for key in guideline.supported_by if key not in withdrawn)
    if len(exposed) < len(guideline.exposed_to) and guideline.origin == "distilled" and guideline.checked_by is None:
        guideline = replace(guideline, checks=())
    return replace(guideline, exposed_to=exposed, supported_by=supported)


def unbarred(guideline: Guideline, locks: Collection[str]) -> Guideline:
    """The guideline in force again if the case that it was barred for is no longer locked."""
    if guideline.barred_for is None or guideline.barred_for in locks:
        return guideline
    return replace(guideline, barred_for=None)
