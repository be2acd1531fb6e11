"""Admission: what was just learned is tried before it counts.

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
from memalign.align.result import Impact, Trial, VerdictChange
from memalign.align.trials import Answer, Trials, agrees, leave_out, new_guidelines, without
from memalign.judge import Judge, Progress
from memalign.memory import Case, Memory
from memalign.memory.retrieval import stumbled
from memalign.models import resolve
from memalign.models.base import Limits
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

    `met` is the memory before, where `given` lacks what was replaced of it: pre-alignment verdicts of its cases are older than `given`.
    The impact says what changed; None where there is nothing to compare: no labels, free text, nothing new in the
    prompt. A call that fails takes its case out of the comparison, and the impact counts it.
    """
    started = time.perf_counter()
    limits = resolve(learned.model).limits
    lessons = _lessons(given.memory, learned.memory)
    if limits.brief and len(lessons) < MANY:
        return learned, None, Usage()
    cases = sample(given, learned, lessons, CHECKS[limits.brief])
    if not cases:
        return learned, None, Usage()
    shown = limits.examples if learned.retrieval_k is None and len(lessons) >= MANY else 0
    trials = Trials(learned, (3 if shown else 2) * len(cases), progress)
    answers = []
    for fold in _folds(cases, limits):
        judges = (without(learned, fold), without(_toggled(learned, shown), fold) if shown else None)
        answers.append(_verdicts(fold, without(given, fold), *judges, trials=trials, met=met or given.memory))
    asked_of = {case.id: three for some in await aio.together(answers) for case, three in some}
    old, new, other = (tuple(asked_of[case.id][side] for case in cases) for side in range(3))
    trial = None
    if shown:
        learned, trial = _tried(learned, cases, new, other, brief=limits.brief)
        new = other if trial.changed else new
    fresh = new_guidelines(given.memory, learned.memory)
    pairs = [(case, was, now) for case, (was, *_), (now, *_) in zip(cases, old, new, strict=True)]
    asked = [(case, was, now) for case, was, now in pairs if was is not None and now is not None]
    changes = [_change(learned, case, was, now, fresh) for case, was, now in asked if was != now]
    impact = Impact(checked=len(asked), failed=len(pairs) - len(asked), changes=tuple(changes), examples=trial)
    if fresh and _harm(impact.fixed, impact.broken) < SIGNIFICANCE:
        learned = learned.replace(memory=leave_out(learned.memory, fresh))
        impact = replace(impact, reverted=tuple(sorted(fresh, key=guideline_number)))
    return learned, impact, trials.usage + Usage(seconds={"admit": time.perf_counter() - started})


def sample(given: Judge, learned: Judge, lessons: Collection[str], checks: int) -> tuple[Case, ...]:
    """The cases on which the two judges are compared; at most `checks`, the same ones for the same memories.

    Where the judge stumbled on what is new, the nearest cases to these that it had right, and a fixed sample.
    """
    memory, kind = learned.memory, learned.value_type
    if not kind.closed or given.memory.hash == memory.hash:
        return ()
    labelled = {
        c.example.content_hash: c for c in reversed(memory.cases) if memory.label(c) is not None and c.pre_alignment
    }
    if len(lessons) == 1:
        labelled.pop(
            next(iter(lessons)), None
        )  # with its own lesson hidden, nothing is new to a judge that learned one
    known = {case.example.content_hash for case in given.memory.cases}
    order = sorted(labelled)  # by hash: as good as drawn, and the same whatever came first
    wrong = {content for content in order if stumbled(memory, labelled[content], kind)}
    errors = [content for content in order if content in wrong and content not in known][: checks // 3]
    right = [content for content in order if content not in wrong]
    near = _nearest(memory, labelled, errors, right)[: checks // 3]
    chosen = dict.fromkeys((*errors, *near))
    for content in order:
        if len(chosen) - len(errors) - len(near) >= checks - 2 * (checks // 3):
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


def _folds(cases: Sequence[Case], limits: Limits) -> Sequence[Sequence[Case]]:
    """The cases that are hidden together: one at a time; for a slow model, which learns one lesson a call, in halves.

    What a slow model is shown then changes twice, and not for every case: it reads 30 new tokens a second.
    """
    return [cases[::2], cases[1::2]] if limits.brief else [[case] for case in cases]


async def _verdicts(
    fold: Sequence[Case], given: Judge, learned: Judge, toggled: Judge | None, *, trials: Trials, met: Memory
) -> list[tuple[Case, tuple[Answer, Answer, Answer]]]:
    """What the three judges, from which the fold is hidden, say of each of its cases."""

    async def before(case: Case) -> Answer:
        # It was asked already: the pre-alignment verdict of a case that it had not met.
        pre_alignment = case.pre_alignment
        if pre_alignment is None or met.duplicates(case.example) or pre_alignment.judge != given.base_fingerprint:
            return await trials.ask(given, case)
        return await trials.known(pre_alignment.value)

    old, new, other = await asyncio.gather(
        aio.together(before(case) for case in fold),
        aio.together(trials.ask(learned, case) for case in fold),
        aio.together(trials.ask(toggled, case) for case in fold if toggled),
    )
    nobody: Answer = (None, None, Usage())
    return list(zip(fold, zip(old, new, other or [nobody] * len(fold), strict=True), strict=True))


def _nearest(memory: Memory, labelled: dict[str, Case], errors: Sequence[str], right: Sequence[str]) -> list[str]:
    """The cases that the judge had right and that are nearest to the errors, in turns; each once."""
    import numpy as np  # see retrieval

    if not errors or not right or not memory.matrix.shape[1]:
        return []
    place = {case.id: index for index, case in enumerate(memory.cases)}
    pool = np.stack([memory.matrix[place[labelled[content].id]] for content in right])
    directives = [np.argsort(-(pool @ memory.matrix[place[labelled[content].id]]), kind="stable") for content in errors]
    turns = (right[int(order[turn])] for turn in range(len(right)) for order in directives)
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


def _toggled(judge: Judge, shown: int) -> Judge:
    """The judge with similar cases if it has been shown none, without them if it has."""
    examples = shown if judge.memory.examples == 0 else 0
    return judge.replace(memory=replace(judge.memory, examples=examples))


def _tried(
    judge: Judge, cases: Sequence[Case], as_is: Sequence[Answer], toggled: Sequence[Answer], *, brief: bool
) -> tuple[Judge, Trial]:
    """The judge as it was right more often, with similar cases or without; between equals, as it is.

    A slow model must be clearly better with them: they misled it wherever it was measured (docs/decisions/0009-stages.md).
    """
    answered = [
        (agrees(judge, case, one), agrees(judge, case, other))
        for case, (one, *_), (other, *_) in zip(cases, as_is, toggled, strict=True)
        if one is not None and other is not None
    ]
    kept, turned = (sum(side) for side in zip(*answered, strict=True)) if answered else (0, 0)
    none_shown = judge.memory.examples == 0
    gain = turned - kept if none_shown else kept - turned  # by showing them
    shows = gain >= CLEARLY if brief else gain > 0 or (gain == 0 and not none_shown)
    trial = Trial(
        checked=len(answered),
        right_with=turned if none_shown else kept,
        right_without=kept if none_shown else turned,
        changed=bool(answered) and shows == none_shown,
    )
    if not trial.changed:
        return judge, trial
    examples = None if none_shown else 0
    return judge.replace(memory=replace(judge.memory, examples=examples)), trial


def _harm(fixed: int, broken: int) -> float:
    """P that this many or more of the changed verdicts break by chance: the sign test, one-sided."""
    changed = fixed + broken
    return sum(comb(changed, k) for k in range(broken, changed + 1)) / float(2**changed)
