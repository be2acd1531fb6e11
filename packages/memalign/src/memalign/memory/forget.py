"""Forgetting: pure functions over a memory, without a model.

Exposure decides, not similarity. A guideline goes if withdrawn feedback was in the prompt that
wrote it, unless a person made its wording theirs. What the remaining feedback had taught beside it
waits to be distilled again. To redo only what was touched is the idea of SISA (Bourtoule et al.
2021, arXiv 1912.03817).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from msgspec.structs import replace

from memalign.keys import name_key
from memalign.memory.model import Case, Memory, Outcome, Tombstone
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
        tombstones=tuple(stone for _, stone in sorted(stones.items())),
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
    staying = exposed_wordings(memory, gone, keep)
    if people_agree:
        staying = ()
    exposed = set()
    waiting = set(gone)
    rest = []
    for guideline in memory.guidelines:
        if gone.isdisjoint(guideline.exposed_to) or guideline.id in staying:
            rest.append(_unexposed(guideline, gone))
        else:
            exposed.add(guideline.id)
            waiting.update(guideline.supported_by)
    memory = memory.with_guidelines(rest)
    memory = memory.without_guidelines(exposed)
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
    memory = memory.without_verdicts_after(gone)
    outcome = Outcome(kind="pending", reason=why)
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
    for guideline in memory.guidelines:
        authors = set(map(name_key, guideline.people))
        kept = guideline.id in keep or withdrawing.isdisjoint(authors)
        if authors and kept and not gone.isdisjoint(guideline.exposed_to):
            staying.append(guideline.id)
    return tuple(staying)


def without_disputed(memory: Memory) -> Memory:
    """Return the memory without what labels taught that do not count; see `Memory.label`."""
    disputed = {entry.key for entry in memory.ledger() if entry.state == "disputed"}
    exposed: set[FeedbackKey] = set()
    for guideline in memory.guidelines:
        exposed.update(guideline.exposed_to)
    for annotation in memory.annotations():
        if annotation.outcome is not None:
            exposed.update(annotation.outcome.exposed_to)
    taught = disputed & exposed
    if not taught:
        return memory
    return forget_lessons(memory, taught, why=DISPUTED)


def _cases_without(memory: Memory, removed: frozenset[FeedbackKey]) -> tuple[Case, ...]:
    """Return the cases without these annotations; a case goes with its last one."""
    touched = {key.id for key in removed}
    cases = []
    for case in memory.cases:
        left = case
        if case.id in touched:
            rest = []
            for said in case.annotations:
                if said.key not in removed:
                    rest.append(said)
            left = replace(case, annotations=tuple(rest))
        if left.annotations:
            cases.append(left)
    return tuple(cases)


def _unexposed(guideline: Guideline, gone: frozenset[FeedbackKey]) -> Guideline:
    """Return a guideline without these keys.

    If it was exposed to one of them, its tests go too: they may stem from that feedback alone.
    """
    exposed = _others(guideline.exposed_to, gone)
    tests = guideline.tests
    if exposed != guideline.exposed_to:
        tests = ()
    return replace(
        guideline,
        exposed_to=exposed,
        supported_by=_others(guideline.supported_by, gone),
        tests=tests,
    )


def _others(
    keys: Collection[FeedbackKey], gone: frozenset[FeedbackKey]
) -> tuple[FeedbackKey, ...]:
    return tuple(key for key in keys if key not in gone)
