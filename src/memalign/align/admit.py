"""Admission: what was just learned is tried before it counts.

The judge as it was and the judge as it would be are asked about the same past cases, each with that case (and every
guideline that saw it) hidden, so that a lesson is never checked on the case it comes from. A significant net loss takes
the new guidelines out of force again. A locked case is asked about as a user would; a guideline that breaks it is left
out alone. Trying rules on labelled examples before keeping them is HypoGeniC's idea (arXiv 2404.04326).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable, Sequence
from math import comb
from typing import TYPE_CHECKING, Literal

import msgspec

from memalign import aio
from memalign.align.consolidate import consolidate
from memalign.align.distil import with_states
from memalign.align.result import Impact, LockCheck, VerdictChange
from memalign.errors import InputError, ModelError
from memalign.judge import Judge, Progress
from memalign.memory import Case, Memory
from memalign.memory.retrieval import stumbled
from memalign.memory.standing import ADMISSION, LOCK
from memalign.models import resolve
from memalign.records import Usage

if TYPE_CHECKING:
    from memalign.values import Value

__all__ = ["admit", "keep_locks", "sample"]

replace = msgspec.structs.replace

CHECKS = 24
"""Cases that an alignment is tried on at most: a third each of fresh errors, their neighbours, and the same old ones."""
SIGNIFICANCE = 0.05

Answer = tuple["Value | None", str | None, Usage]


async def admit(
    given: Judge, learned: Judge, *, progress: Progress | None = None
) -> tuple[Judge, Impact | None, Usage]:
    """`learned`, or `learned` without its new guidelines when they did harm; what they changed; and what that cost.

    None instead of an impact where there is nothing to compare: no labels, free text, or nothing new in the prompt.
    A call that fails takes its case out of the comparison, and the impact counts it.
    """
    started = time.perf_counter()
    cases = sample(given, learned)
    if not cases:
        return learned, None, Usage()
    inquiry = _Inquiry(learned, 2 * len(cases), progress)
    before = [_known_before(given, case) for case in cases]
    olds = aio.together(
        inquiry.known(value) if value is not None else inquiry.ask(_without(given, case), case)
        for case, value in zip(cases, before, strict=True)
    )
    news = aio.together(inquiry.ask(_without(learned, case), case) for case in cases)
    old, new = await asyncio.gather(olds, news)
    fresh = _new_guidelines(given.memory, learned.memory)
    changes = []
    for case, (was, _, _), (now, _, _) in zip(cases, old, new, strict=True):
        change = _change(learned, case, was, now, fresh)
        if change is not None:
            changes.append(change)
    impact = Impact(
        checked=sum(was is not None and now is not None for (was, _, _), (now, _, _) in zip(old, new, strict=True)),
        failed=sum(was is None or now is None for (was, _, _), (now, _, _) in zip(old, new, strict=True)),
        changes=tuple(changes),
    )
    usage = sum((spent for _, _, spent in (*old, *new)), Usage())
    usage += Usage(seconds={"admit": time.perf_counter() - started})
    if fresh and _harm(impact.fixed, impact.broken) < SIGNIFICANCE:
        learned = learned.replace(memory=_leave_out(learned.memory, fresh, ADMISSION))
        impact = replace(impact, reverted=tuple(sorted(fresh, key=lambda name: int(name[1:]))))
    return learned, impact, usage


def sample(given: Judge, learned: Judge) -> tuple[Case, ...]:
    """The cases on which the two judges are compared; at most `CHECKS`, the same ones for the same memories.

    Where the judge stumbled on what is new, the nearest cases to these that it had right, and a fixed sample.
    """
    memory, kind = learned.memory, learned.value_type
    if not kind.closed or given.memory.hash == memory.hash:
        return ()
    labelled = {c.example.content_hash: c for c in reversed(memory.cases) if memory.label(c) is not None and c.probe}
    lessons = _lessons(given.memory, memory)
    if len(lessons) == 1:
        labelled.pop(next(iter(lessons)), None)  # with its own lesson hidden, nothing is new to a judge that learned one
    known = {case.example.content_hash for case in given.memory.cases}
    order = sorted(labelled)  # by hash: as good as drawn, and the same whatever came first
    wrong = {content for content in order if stumbled(memory, labelled[content], kind)}
    errors = [content for content in order if content in wrong and content not in known][: CHECKS // 3]
    near = _nearest(memory, labelled, errors, [content for content in order if content not in wrong])
    chosen = dict.fromkeys((*errors, *near))
    for content in order:
        if len(chosen) >= CHECKS or len(chosen) - len(errors) - len(near) >= CHECKS // 3:
            break
        chosen.setdefault(content)
    return tuple(labelled[content] for content in chosen)


async def keep_locks(
    given: Judge, learned: Judge, *, progress: Progress | None = None
) -> tuple[Judge, tuple[LockCheck, ...], Usage]:
    """`learned` without the new guidelines that break a locked case, what each locked case came to, and the cost."""
    started = time.perf_counter()
    locked = [case for name in learned.memory.locks if (case := learned.memory.case(name))]
    if not locked or given.memory.hash == learned.memory.hash:
        return learned, (), Usage()
    inquiry = _Inquiry(learned, len(locked), progress, phase="locks")
    answers = await aio.together(inquiry.ask(learned, case) for case in locked)
    checks: list[LockCheck] = []
    for case, (value, fault, _) in zip(locked, answers, strict=True):
        if fault is None and _right(learned, case, value):
            checks.append(LockCheck(id=case.id, kept=True))
            continue
        try:
            learned, check = await _mended(given, learned, case, inquiry, fault)
        except _UnansweredError as unanswered:
            # Rather learned later than broken now: the next align distils the lessons again.
            fresh = _new_guidelines(given.memory, learned.memory)
            why = f"the locked case {case.id} could not be checked: {unanswered}"
            learned = learned.replace(memory=_postponed(learned.memory, fresh, why))
            check = LockCheck(id=case.id, kept=True, guideline_ids=tuple(sorted(fresh)), reason=why)
        checks.append(check)
    return learned, tuple(checks), inquiry.usage + Usage(seconds={"locks": time.perf_counter() - started})


# -- parts -----------------------------------------------------------------------------------------------------------


class _Inquiry:
    """Questions to a judge's model, as many at once as it takes, counted for progress."""

    def __init__(self, judge: Judge, total: int, progress: Progress | None, *, phase: str = "admit") -> None:
        self.total, self.progress, self.phase, self.done = total, progress, phase, 0
        self.slots = asyncio.Semaphore(resolve(judge.model).limits.concurrency)
        self.usage = Usage()

    async def known(self, value: Value) -> Answer:
        """An answer that is there already."""
        self._count()
        return value, None, Usage()

    async def ask(self, judge: Judge, case: Case) -> Answer:
        """The judge's verdict, or why there is none."""
        async with self.slots:
            try:
                judgment = await judge.ajudge(case.example)
            except (ModelError, InputError) as error:
                spent = (error.usage if isinstance(error, ModelError) else None) or Usage()
                self.usage += spent
                return None, f"{type(error).__name__}: {error}", spent
            finally:
                self._count()
        spent = replace(judgment.usage, seconds={})
        self.usage += spent
        return judgment.value, judgment.error, spent

    def _count(self) -> None:
        self.done += 1
        self.total = max(self.total, self.done)
        if self.progress is not None:
            self.progress(self.phase, self.done, self.total)


def _without(judge: Judge, case: Case) -> Judge:
    """`judge` as if it had never met the case."""
    met = [twin.id for twin in judge.memory.twins(case.example)]
    return judge.replace(memory=judge.memory.hiding(met)) if met else judge


def _lessons(before: Memory, after: Memory) -> frozenset[str]:
    """The content hashes of all cases from which something is new in `after`."""
    there = {guideline.id for guideline in before.guidelines}
    keys = {key for g in after.guidelines if g.id not in there for key in g.supported_by}
    keys |= {voice.key for voice in after.voices() if before.voice(voice.key) is None}
    cases = (after.case(voice.id) for key in keys if (voice := after.voice(key)))
    return frozenset(case.example.content_hash for case in cases if case)


def _known_before(given: Judge, case: Case) -> Value | None:
    """The old judge's verdict where it was asked already: the probe of a case that it had not met."""
    probe = case.probe
    if probe is None or given.memory.twins(case.example) or probe.judge != given.base_fingerprint:
        return None
    return probe.value


def _new_guidelines(before: Memory, after: Memory) -> frozenset[str]:
    """What a model wrote since and is in force now, by id."""
    there = {guideline.id for guideline in before.guidelines}
    return frozenset(g.id for g in after.semantic if g.id not in there and g.origin == "distilled" and not g.pinned)


def _nearest(memory: Memory, labelled: dict[str, Case], errors: Sequence[str], right: Sequence[str]) -> list[str]:
    """The cases that the judge had right and that are nearest to the errors, in turns; at most a third of the checks."""
    import numpy as np  # see retrieval

    if not errors or not right or not memory.matrix.shape[1]:
        return []
    place = {case.id: index for index, case in enumerate(memory.cases)}
    pool = np.stack([memory.matrix[place[labelled[content].id]] for content in right])
    orders = [np.argsort(-(pool @ memory.matrix[place[labelled[content].id]]), kind="stable") for content in errors]
    turns = (right[int(order[turn])] for turn in range(len(right)) for order in orders)
    found: dict[str, None] = {}
    for content in turns:
        if len(found) == CHECKS // 3:
            break
        found[content] = None
    return list(found)


def _right(judge: Judge, case: Case, value: Value | None) -> bool:
    """Whether the value agrees with the experts' label, as a probe of that value would have."""
    if value is None or case.probe is None:
        return value is not None and value == judge.memory.label(case)
    return not stumbled(judge.memory, replace(case, probe=replace(case.probe, value=value)), judge.value_type)


def _change(
    learned: Judge, case: Case, was: Value | None, now: Value | None, fresh: Collection[str]
) -> VerdictChange | None:
    if was is None or now is None or was == now:
        return None
    before, after = (_right(learned, case, value) for value in (was, now))
    effect: Literal["fixed", "broken", "moved"] = "moved" if before == after else "fixed" if after else "broken"
    seen = [g.id for g in learned.memory.hiding([case.id]).semantic if g.id in fresh]
    return VerdictChange(
        id=case.id,
        label=learned.memory.label(case),
        before=was,
        after=now,
        effect=effect,
        guideline_ids=tuple(seen) if len(seen) == 1 else (),  # of several, none can be named without more calls
    )


def _harm(fixed: int, broken: int) -> float:
    """P that this many or more of the changed verdicts break by chance: the sign test, one-sided."""
    changed = fixed + broken
    return sum(comb(changed, k) for k in range(broken, changed + 1)) / float(2**changed)


def _leave_out(memory: Memory, ids: Iterable[str], why: str) -> Memory:
    out = frozenset(ids)
    return consolidate(
        replace(
            memory,
            guidelines=tuple(
                replace(g, status="retired", status_by=why, shown_by=None, outvoted_by=None) if g.id in out else g
                for g in memory.guidelines
            ),
        )
    )


class _UnansweredError(Exception):
    """A question about a locked case got no answer; the words are the reason."""


def _postponed(memory: Memory, ids: Collection[str], why: str) -> Memory:
    """`memory` without these guidelines, and the lessons behind them pending."""
    waiting = {key for g in memory.guidelines if g.id in ids for key in g.supported_by}
    left = replace(memory, guidelines=tuple(g for g in memory.guidelines if g.id not in ids))
    waiting -= {key for g in left.guidelines for key in g.supported_by}
    return consolidate(with_states(left, dict.fromkeys(sorted(waiting), ("pending", why))))


async def _mended(
    given: Judge, learned: Judge, case: Case, inquiry: _Inquiry, fault: str | None
) -> tuple[Judge, LockCheck]:
    """`learned` without the guidelines that break the locked case, found by halving the new ones.

    Raises _UnansweredError when a question about it had no answer, `fault` being that of the first.
    """
    if fault is not None:
        raise _UnansweredError(fault)
    label, why = learned.memory.label(case), f"{LOCK}{case.id}"
    fresh = sorted(_new_guidelines(given.memory, learned.memory), key=lambda name: int(name[1:]))

    async def broken(out: Sequence[str]) -> bool:
        value, fault, _ = await inquiry.ask(learned.replace(memory=_leave_out(learned.memory, out, why)), case)
        if fault is not None:
            raise _UnansweredError(fault)
        return not _right(learned, case, value)

    if not fresh or await broken(fresh):
        reason = f"judged other than {label}, also without what is new: look at its examples, the model or the wording"
        return learned, LockCheck(id=case.id, kept=False, reason=reason)
    culprits: list[str] = []
    while len(culprits) < len(fresh) and await broken(culprits):
        rest = [name for name in fresh if name not in culprits]
        low, high = (
            0,
            len(rest),
        )  # with the first `low` of them in force it is judged right, with the first `high` wrong
        while high - low > 1:
            middle = (low + high) // 2
            if await broken([*culprits, *rest[middle:]]):
                high = middle
            else:
                low = middle
        culprits.append(rest[high - 1])
    learned = learned.replace(memory=_leave_out(learned.memory, culprits, why))
    reason = f"{', '.join(culprits)} broke it" if culprits else ""
    return learned, LockCheck(id=case.id, kept=True, guideline_ids=tuple(culprits), reason=reason)
