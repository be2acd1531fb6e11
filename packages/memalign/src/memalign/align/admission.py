"""Admission: what was just learned is tried on past cases before it counts.

The judge as it was and the judge as it would be are asked about the same past cases, with that case (and every guideline
that saw it) hidden, so that a lesson is never checked on the case it comes from. A significant net loss takes
the new guidelines out of force again. Similar cases are on trial as well: where the judge is right more often without
them, it is shown none. Trying rules on labelled examples before keeping them is HypoGeniC's idea (arXiv 2404.04326).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence
from math import comb
from typing import TYPE_CHECKING, Literal

import msgspec

from memalign import aio
from memalign.align.consolidate import leave_out, new_guidelines
from memalign.align.past_cases import Answer, PastCases, agrees, hiding
from memalign.align.result import Impact, Trial, VerdictChange
from memalign.judge import Judge, Progress
from memalign.judge.open_model import open_model
from memalign.memory import Case, Memory
from memalign.memory.retrieval import was_misjudged
from memalign.types import Usage, guideline_number

if TYPE_CHECKING:
    from memalign.values import Value

__all__ = ["admit", "sample"]

replace = msgspec.structs.replace

CHECKS = {True: 16, False: 24}
"""Cases that an alignment is tried on at most, for a slow model and for others: a third each of fresh errors, their
neighbours, and the same old ones."""
MANY = 8
"""Lessons from which on similar cases are tried too, and a slow model is tried at all: one comment must stay cheap."""
CLEARLY = 3
"""More of the checks that a slow model must get right with similar cases than without, to be shown them."""
SIGNIFICANCE = 0.05


async def admit(
    given: Judge, learned: Judge, *, met: Memory | None = None, progress: Progress | None = None
) -> tuple[Judge, Impact | None, Usage]:
    """`learned` as it may be: without new guidelines that did harm, without similar cases if these do; and the cost.

    `met` is the memory before, where `given` lacks what was replaced of it: verdicts on its cases are older than
    `given`. The impact says what changed; None where there is nothing to compare: no labels, free text, nothing new in
    the prompt. A call that fails takes its case out of the comparison, and the impact counts it.
    """
    started = time.perf_counter()
    limits = open_model(learned).limits
    lessons = _lessons(given.memory, learned.memory)
    if limits.brief and len(lessons) < MANY:
        return learned, None, Usage()
    cases = sample(given, learned, lessons, CHECKS[limits.brief])
    if not cases:
        return learned, None, Usage()
    many = learned.retrieval_k is None and len(lessons) >= MANY
    toggled = _toggled(learned, limits.examples) if many and limits.examples else None
    past = PastCases(learned, (2 if toggled is None else 3) * len(cases), progress, phase="admit")
    # One at a time is hidden; for a slow model, which reads a changed prompt at 30 tokens a second, half of them.
    folds = [cases[::2], cases[1::2]] if limits.brief else [[case] for case in cases]
    before, after, turned = (
        {case.id: answer for fold in answers for case, answer in fold}
        for answers in await asyncio.gather(
            aio.together(_before(fold, given, met or given.memory, past) for fold in folds),
            aio.together(_asked(fold, learned, past) for fold in folds),
            aio.together(_asked(fold, toggled, past) for fold in folds if toggled is not None),
        )
    )
    trial = None
    if toggled is not None:
        trial = _trial(learned, cases, after, turned, brief=limits.brief)
        if trial.changed:
            learned, after = _toggled(learned, None), turned
    fresh = new_guidelines(given.memory, learned.memory)
    asked = [
        (case, was, now)
        for case in cases
        if (was := before[case.id].value) is not None and (now := after[case.id].value) is not None
    ]
    changes = [_change(learned, case, was, now, fresh) for case, was, now in asked if was != now]
    impact = Impact(checked=len(asked), failed=len(cases) - len(asked), changes=tuple(changes), examples=trial)
    if fresh and _harm(impact.fixed, impact.broken) < SIGNIFICANCE:
        learned = learned.replace(memory=leave_out(learned.memory, fresh))
        impact = replace(impact, reverted=tuple(sorted(fresh, key=guideline_number)))
    return learned, impact, past.usage + Usage(seconds={"admit": time.perf_counter() - started})


def sample(given: Judge, learned: Judge, lessons: Collection[str], checks: int) -> tuple[Case, ...]:
    """The cases on which the two judges are compared; at most `checks`, the same ones for the same memories.

    New ones that the judge had wrong, the nearest cases to these that it had right, and a fixed sample.
    """
    memory, kind = learned.memory, learned.value_type
    if not kind.closed or given.memory.hash == memory.hash:
        return ()
    labelled = {c.example.content_hash: c for c in reversed(memory.cases) if memory.label(c) is not None}
    if len(lessons) == 1:
        # With its own lesson hidden, nothing is new to a judge that learned one.
        labelled.pop(next(iter(lessons)), None)
    known = {case.example.content_hash for case in given.memory.cases}
    order = sorted(labelled)  # by hash: as good as drawn, and the same whatever came first
    judged_by = learned.base_fingerprint
    wrong = {content for content in order if was_misjudged(memory, labelled[content], kind, judged_by)}
    errors = [content for content in order if content in wrong and content not in known][: checks // 3]
    right = [content for content in order if content not in wrong]
    near = _nearest(memory, labelled, errors, right)[: checks // 3]
    chosen = dict.fromkeys((*errors, *near))
    most = len(chosen) + checks - 2 * (checks // 3)
    for content in order:
        if len(chosen) >= most:
            break
        chosen.setdefault(content)
    return tuple(labelled[content] for content in chosen)


# -- parts -----------------------------------------------------------------------------------------------------------


def _lessons(before: Memory, after: Memory) -> frozenset[str]:
    """The content hashes of all cases from which something is new in `after`."""
    there = {guideline.id for guideline in before.guidelines}
    keys = {key for g in after.guidelines if g.id not in there for key in g.supported_by}
    keys |= {annotation.key for annotation in after.annotations() if before.annotation(annotation.key) is None}
    cases = (after.case(annotation.id) for key in keys if (annotation := after.annotation(key)))
    return frozenset(case.example.content_hash for case in cases if case)


async def _asked(fold: Sequence[Case], judge: Judge, past: PastCases) -> list[tuple[Case, Answer]]:
    """What the judge, from which the fold is hidden, says of each of its cases."""
    unknowing = hiding(judge, fold)
    return list(zip(fold, await aio.together(past.ask(unknowing, case) for case in fold), strict=True))


async def _before(fold: Sequence[Case], given: Judge, met: Memory, past: PastCases) -> list[tuple[Case, Answer]]:
    """The same of the judge as it was. What it said before it learned is known of cases that it had not met."""
    unknowing, judged_by = hiding(given, fold), given.base_fingerprint

    async def ask(case: Case) -> Answer:
        verdict = case.pre_alignment
        if verdict is None or met.duplicates(case.example) or verdict.judge != judged_by:
            return await past.ask(unknowing, case)
        past.count()
        return Answer(verdict.value)

    return list(zip(fold, await aio.together(map(ask, fold)), strict=True))


def _nearest(memory: Memory, labelled: dict[str, Case], errors: Sequence[str], right: Sequence[str]) -> list[str]:
    """The cases that the judge had right and that are nearest to the errors, in turns; each once."""
    import numpy as np  # see Memory.matrix

    if not errors or not right or not memory.matrix.shape[1]:
        return []
    place = {case.id: index for index, case in enumerate(memory.cases)}
    pool = np.stack([memory.matrix[place[labelled[content].id]] for content in right])
    orders = [np.argsort(-(pool @ memory.matrix[place[labelled[content].id]]), kind="stable") for content in errors]
    turns = (right[int(order[turn])] for turn in range(len(right)) for order in orders)
    return list(dict.fromkeys(turns))


def _change(learned: Judge, case: Case, was: Value, now: Value, fresh: Collection[str]) -> VerdictChange:
    before, after = (agrees(learned, case, value) for value in (was, now))
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


def _toggled(judge: Judge, shown: int | None) -> Judge:
    """The judge with similar cases (`shown`) if it has been shown none, without them if it has."""
    return judge.replace(memory=replace(judge.memory, examples=shown if judge.memory.examples == 0 else 0))


def _trial(
    judge: Judge, cases: Sequence[Case], as_is: dict[str, Answer], toggled: dict[str, Answer], *, brief: bool
) -> Trial:
    """Which was right more often, the judge with similar cases or without; between equals, as it is.

    A slow model must be clearly better with them: they misled it wherever it was measured (docs/decisions/0009-stages.md).
    """
    answered = [
        (agrees(judge, case, one), agrees(judge, case, other))
        for case in cases
        if (one := as_is[case.id].value) is not None and (other := toggled[case.id].value) is not None
    ]
    kept, turned = (sum(side) for side in zip(*answered, strict=True)) if answered else (0, 0)
    none_shown = judge.memory.examples == 0
    right_with, right_without = (turned, kept) if none_shown else (kept, turned)
    gain = right_with - right_without
    shows = gain >= CLEARLY if brief else gain > 0 or (gain == 0 and not none_shown)
    return Trial(
        checked=len(answered),
        right_with=right_with,
        right_without=right_without,
        changed=bool(answered) and shows == none_shown,
    )


def _harm(fixed: int, broken: int) -> float:
    """P that this many or more of the changed verdicts break by chance: the sign test, one-sided."""
    changed = fixed + broken
    return sum(comb(changed, k) for k in range(broken, changed + 1)) / float(2**changed)
