"""Forgetting: pure functions, no model. What was written with a withdrawn word in view goes.

Exposure decides, not similarity: a guideline goes whose prompt held withdrawn feedback, unless a person made its
wording theirs; what survivors had taught beside it waits to be distilled again. Retraining only what was touched is
SISA's idea (Bourtoule et al. 2021, arXiv 1912.03817).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from msgspec.structs import replace

from memalign.keys import name_key
from memalign.memory import Memory, Outcome, Tombstone
from memalign.types import FeedbackKey, Guideline

__all__ = ["WHY", "exposed_wordings", "forget", "forget_lessons"]

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
    removed = frozenset(key for key in keys if memory.annotation(key))
    touched = {key.id for key in removed}
    memory = forget_lessons(memory, removed, why=WHY, people_agree=people_agree, keep=keep)
    cases = []
    for case in memory.cases:
        if case.id not in touched:
            cases.append(case)
        elif annotations := tuple(
            annotation for annotation in case.annotations if annotation.key not in removed
        ):
            cases.append(replace(case, annotations=annotations))
    stones = {stone.key: stone for stone in memory.tombstones}
    stones |= {key: Tombstone(key=key, state=state, reason=reason) for key in removed}
    memory = replace(
        memory,
        cases=tuple(cases),
        embedding_model=memory.embedding_model if cases else None,
        tombstones=tuple(stones[key] for key in sorted(stones)),
    )
    # Without a label nobody can say when a case breaks.
    locked = (memory.case(name) for name in memory.locks)
    locks = tuple(case.id for case in locked if case is not None and memory.label(case) is not None)
    return replace(memory, locks=locks)


def forget_lessons(
    memory: Memory,
    keys: Collection[FeedbackKey],
    *,
    why: str,
    people_agree: bool = False,
    keep: Collection[str] = (),
) -> Memory:
    """`memory` without guidelines exposed to `keys`, but for people's, and without verdicts given with them in view.

    The annotations of `keys` stay and wait, as do those that lose their guideline: it is also what a change comes to.
    """
    withdrawn = frozenset(keys)
    theirs = () if people_agree else exposed_wordings(memory, withdrawn, keep)
    exposed = [
        g for g in memory.guidelines if not withdrawn.isdisjoint(g.exposure) and g.id not in theirs
    ]
    carried = {key for guideline in exposed for key in guideline.supported_by}
    # An example may have been covered by what is lost now; one that waits does so for a reason that may stem from it.
    beside = {
        a.key
        for a in memory.annotations()
        if a.outcome and not withdrawn.isdisjoint(a.outcome.exposed_to)
    }
    changed = (case for key in withdrawn if (case := memory.case(key.id)))
    in_view = {duplicate.id for case in changed for duplicate in memory.duplicates(case.example)}
    conflicts = tuple(
        conflict for conflict in memory.conflicts if withdrawn.isdisjoint(conflict.exposed_to)
    )
    memory = replace(memory, conflicts=conflicts).without_verdicts_beside(in_view)
    memory = memory.without_guidelines({guideline.id for guideline in exposed})
    rest = (_unexposed(guideline, withdrawn) for guideline in memory.guidelines)
    memory = memory.with_guidelines(rest)
    waiting = Outcome(kind="waiting", reason=why)
    return memory.with_outcomes(dict.fromkeys(withdrawn | carried | beside, waiting))


def exposed_wordings(
    memory: Memory, withdrawn: Collection[FeedbackKey], keep: Collection[str] = ()
) -> tuple[str, ...]:
    """The guidelines, by id, that saw feedback which goes, and stay: people who said none of it wrote or keep them."""
    keys = frozenset(withdrawn)
    withdrawing = {name_key(key.source) for key in keys}
    staying = list[str]()
    for rule in memory.guidelines:
        if rule.people and not keys.isdisjoint(rule.exposure):
            own = not withdrawing.isdisjoint(map(name_key, rule.people))
            if rule.id in keep or not own:
                staying.append(rule.id)
    return tuple(staying)


def _unexposed(guideline: Guideline, withdrawn: frozenset[FeedbackKey]) -> Guideline:
    """The guideline without keys that go. Its tests may stem from that feedback alone: they go."""
    if guideline.exposure.isdisjoint(withdrawn) and not any(
        key in withdrawn for key in guideline.supported_by
    ):
        return guideline
    exposed = tuple(key for key in guideline.exposed_to if key not in withdrawn)
    supported = tuple(key for key in guideline.supported_by if key not in withdrawn)
    tests = guideline.tests if len(exposed) == len(guideline.exposed_to) else ()
    return replace(guideline, exposed_to=exposed, supported_by=supported, tests=tests)
