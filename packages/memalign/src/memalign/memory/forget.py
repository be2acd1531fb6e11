"""Forgetting: pure functions over a memory, without a model.

Exposure decides, not similarity. A guideline goes if withdrawn feedback was in the prompt that
wrote it, unless a person made its wording theirs. What the remaining feedback had taught beside it
waits to be distilled again. To redo only what was touched is the idea of SISA (Bourtoule et al.
2021, arXiv 1912.03817).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal

from msgspec.structs import replace

from memalign.keys import name_key
from memalign.memory.model import LESSONS, Case, Memory, Outcome, Tombstone
from memalign.types import FeedbackKey, Guideline

__all__ = ["WHY", "exposed_wordings", "forget", "forget_lessons", "without_disputed"]

WHY = "to be derived again without withdrawn feedback"
DISPUTED = "to be derived again without disputed feedback"


def forget(
    memory: Memory,
    keys: Collection[FeedbackKey],
    *,
    state: Literal["withdrawn", "erased"] = "withdrawn",
    people_agree: bool = False,
    keep: Collection[str] = (),
) -> Memory:
    """Return the memory without this feedback and all that it taught.

    Cases that nobody else reviewed go too.

    Tombstones keep the keys of what went, and no word.

    Args:
        memory: The memory.
        keys: The feedback that goes. Unknown keys are ignored.
        state: The state that the ledger shows for it from now on.
        people_agree: Whether exposed guidelines that people wrote or confirmed go too.
        keep: Ids of guidelines whose wording a person keeps although their own feedback goes.
    """
    removed = frozenset(filter(memory.annotation, keys))
    memory = forget_lessons(
        memory, removed, why=WHY, people_agree=people_agree, keep=keep
    )
    cases = _cases_without(memory, removed)
    embedding_model = memory.embedding_model
    if not cases:
        embedding_model = None
    stones = {stone.key: stone for stone in memory.tombstones}
    for key in removed:
        stones[key] = Tombstone(key=key, state=state)
    memory = replace(
        memory,
        cases=cases,
        embedding_model=embedding_model,
        tombstones=tuple(stones[key] for key in sorted(stones)),
    )
    locks = filter(memory.has_label, memory.locks)
    return replace(memory, locks=tuple(locks))


def forget_lessons(
    memory: Memory,
    keys: Collection[FeedbackKey],
    *,
    why: str,
    people_agree: bool = False,
    keep: Collection[str] = (),
) -> Memory:
    """Return the memory without what this feedback taught; its annotations stay, and wait.

    Exposed guidelines, verdicts and conflicts go. The feedback behind them waits as well. Changed
    feedback is treated the same way as withdrawn feedback.

    Args:
        memory: The memory.
        keys: The feedback.
        why: The reason that the ledger shows for what waits.
        people_agree: As for `forget`.
        keep: As for `forget`.
    """
    gone = frozenset(keys)
    staying: Collection[str] = ()
    if not people_agree:
        staying = exposed_wordings(memory, gone, keep)
    exposed = set()
    waiting = set(gone)
    for field in LESSONS:
        rest = []
        for lesson in getattr(memory, field):
            if gone.isdisjoint(lesson.exposed_to) or lesson.id in staying:
                rest.append(_unexposed(lesson, gone))
            else:
                exposed.add(lesson.id)
                waiting.update(lesson.supported_by)
        memory = replace(memory, **{field: tuple(rest)})
    memory = memory.without_guidelines(
        exposed
    )  # those they had replaced are active again
    # An example may have been covered by a rule that goes, and the reason why something waits may
    # stem from the feedback that goes.
    for annotation in memory.annotations():
        outcome = annotation.outcome
        if outcome and not gone.isdisjoint(outcome.exposed_to):
            waiting.add(annotation.key)
    conflicts = tuple(
        conflict
        for conflict in memory.conflicts
        if gone.isdisjoint(conflict.exposed_to)
    )
    memory = replace(memory, conflicts=conflicts)
    memory = memory.without_verdicts_beside(memory.ids_beside(gone))
    outcome = Outcome(kind="waiting", reason=why)
    return memory.with_outcomes(dict.fromkeys(waiting, outcome))


def exposed_wordings(
    memory: Memory, withdrawn: Collection[FeedbackKey], keep: Collection[str] = ()
) -> tuple[str, ...]:
    """Return the ids of exposed guidelines that stay because somebody else wrote or confirmed them.

    Args:
        memory: The memory.
        withdrawn: The feedback that goes.
        keep: Ids of guidelines that stay even if a person whose feedback goes wrote or confirmed
            them.
    """
    gone = frozenset(withdrawn)
    withdrawing = {name_key(key.source) for key in gone}
    staying = []
    for lesson in memory.lessons:
        authors = set(map(name_key, lesson.people))
        if not authors or gone.isdisjoint(lesson.exposed_to):
            continue
        if lesson.id in keep or withdrawing.isdisjoint(authors):
            staying.append(lesson.id)
    return tuple(staying)


def without_disputed(memory: Memory) -> Memory:
    """Return the memory without what labels taught that do not count; see `Memory.label`."""
    disputed = {entry.key for entry in memory.ledger() if entry.state == "disputed"}
    taught = set()
    for lesson in memory.lessons:
        taught.update(disputed.intersection(lesson.exposed_to))
    for annotation in memory.annotations():
        outcome = annotation.outcome
        if outcome is not None:
            taught.update(disputed.intersection(outcome.exposed_to))
    if not taught:
        return memory
    return forget_lessons(memory, taught, why=DISPUTED)


def _cases_without(memory: Memory, removed: frozenset[FeedbackKey]) -> tuple[Case, ...]:
    """Return the cases without these annotations; a case goes with its last one."""
    touched = {key.id for key in removed}
    cases = []
    for case in memory.cases:
        if case.id not in touched:
            cases.append(case)
            continue
        rest = tuple(said for said in case.annotations if said.key not in removed)
        if rest:
            cases.append(replace(case, annotations=rest))
    return tuple(cases)


def _unexposed(lesson: Any, gone: frozenset[FeedbackKey]) -> Any:
    """Return a guideline, or another lesson, without these keys.

    If a guideline was exposed to one of them, its tests go too: they may stem from that feedback
    alone.
    """
    exposed = _others(lesson.exposed_to, gone)
    supporters = _others(lesson.supported_by, gone)
    changes: dict[str, Any] = {}
    if exposed != lesson.exposed_to:
        changes["exposed_to"] = exposed
        if isinstance(lesson, Guideline):
            changes["tests"] = ()
    if supporters != lesson.supported_by:
        changes["supported_by"] = supporters
    return replace(lesson, **changes) if changes else lesson


def _others(
    keys: Collection[FeedbackKey], gone: frozenset[FeedbackKey]
) -> tuple[FeedbackKey, ...]:
    return tuple(key for key in keys if key not in gone)
