"""Asking a judge about the cases of its own memory: each answer comes from a judge that never saw the case.

A calibrator is fitted to the answers, so it is for judges with a decision model only, the embedded one included. Cases
are dealt into folds. Of a fold, all that its feedback taught is forgotten, and what survivors lost by that is distilled
again without it: so a guideline is weighed as it will be on items that no expert has seen.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from msgspec.structs import replace

from memalign import aio
from memalign.align.forget import forget
from memalign.align.result import Run
from memalign.errors import AccessDenied, InputError, ModelError
from memalign.judge import Judge
from memalign.judge.decision import answered_about, asked_checks
from memalign.judge.observations import FEWEST, expectations
from memalign.judge.spec import base_fingerprint_of, lacks
from memalign.judge.standing import same_cases
from memalign.judge.verdict import decide
from memalign.memory import Answers, Case, Expectation
from memalign.models.base import DecisionModel
from memalign.models.judge_models import check_model_of, decides_alone, open_judging_model, open_model
from memalign.types import Judgment

__all__ = ["Distilled", "agrees", "ask", "judge_cases", "labelled_cases"]

Distilled = Callable[[Judge, Run], Awaitable[Judge]]
"""Distils what is pending in a judge's memory. Never raises for a failing model."""

MOST = {True: 50, False: 500}
"""Cases that are asked about: by a model in this process, whose answers take their time, and by others."""
FOLDS = 2
"""Each is a distillation more: two lose nothing against five (decision 20)."""


async def ask(judge: Judge, distilled: Distilled, run: Run) -> Judge:
    """The judge with what its decision model answers about the labelled cases, if they are enough for a calibrator.

    A case is asked about once: again only if another judge (models, instructions, parameters) had answered, if all
    questions that it has answered are gone, or if asking failed. `distilled` distils what a fold leaves open.
    """
    model, cases = check_model_of(judge), labelled_cases(judge)
    if model is None or not judge.value_type.closed or len(cases) < FEWEST:
        return judge
    with run.timed("ask"):
        made_by, verdicts = base_fingerprint_of(judge), _gives_verdict(judge)
        askable = cases[: MOST[model.limits.brief]] if verdicts or asked_checks(judge.memory) else []
        by_id = {case.id: case.answers for case in askable if case.answers and case.answers.judge == made_by}
        missing = [case for case in askable if case.id not in by_id or (verdicts and by_id[case.id].verdict is None)]
        # A later align asks about a few cases alone: they are one fold.
        count = math.ceil(len(missing) / math.ceil(len(cases) / FOLDS))
        folds = [missing[n::count] for n in range(count)]
        # All folds at once: each has guidelines of its own, written without it.
        unknowing = await aio.together(_relearned(judge, fold, distilled, run) for fold in folds)
        pairs = [(case, hidden) for fold, hidden in zip(folds, unknowing, strict=True) for case in fold]
        asking, tell = partial(_answers, judge, model, run), partial(run.tell, "ask")
        answers = await aio.at_most(run.calls.in_flight(model), asking, pairs, tell)
    if failed := [answer for answer in answers if isinstance(answer, str)]:
        waiting = f"{len(failed)} of {len(missing)} cases wait for the next align to be asked about"
        run.notes.append(f"{waiting}: {failed[0]}")
    fresh = {case.id: new for (case, _), new in zip(pairs, answers, strict=True) if isinstance(new, Answers)}
    recorded = tuple(replace(case, answers=fresh.get(case.id, case.answers)) for case in judge.memory.cases)
    return judge.replace(memory=replace(judge.memory, cases=recorded)) if fresh else judge


# -- taught cases, and questions about them ----------------------------------------------------------------------------


def labelled_cases(judge: Judge) -> list[Case]:
    """The labelled cases, one a content, by hash: as good as drawn, and the same whatever came first."""
    labelled = dict[str, Case]()
    for case in judge.memory.cases:
        if judge.memory.label(case) is not None and lacks(judge, case.example.content, "the case") is None:
            labelled.setdefault(case.example.content_hash, case)
    return [labelled[content] for content in sorted(labelled)]


def agrees(judge: Judge, case: Case, judgment: Judgment) -> bool:
    """Whether a judgment agrees with the experts' label."""
    label, value = judge.memory.label(case), judgment.value
    return label is not None and value is not None and judge.value_type.agree(label, value)


async def judge_cases(pairs: Sequence[tuple[Judge, Case]], run: Run, phase: str) -> list[Judgment | str]:
    """What judges of one model deliver on taught cases, as many at a time as it takes; or why there is nothing."""
    limit = run.calls.in_flight(open_judging_model(pairs[0][0])) if pairs else 1
    return await aio.at_most(limit, lambda pair: _judged(*pair, run), pairs, partial(run.tell, phase))


async def _judged(judge: Judge, case: Case, run: Run, *, checks: bool = True) -> Judgment | str:
    """The judgment, whatever the experts said of the case. What was paid for before must not go with an error."""
    try:
        judgment = await decide(judge, case.example, run.calls, standing=False, checks=checks)
    except (ModelError, InputError, AccessDenied) as error:
        return run.failure(error)
    run.spend(replace(judgment.usage, seconds={}))
    return judgment


# -- what is missing of a case, and what is answered about it ----------------------------------------------------------


def _gives_verdict(judge: Judge) -> bool:
    """Whether the judge's own verdict is asked for: a decision model's, and one that costs nobody anything."""
    return decides_alone(judge) or open_model(judge).limits.brief


async def _answers(judge: Judge, model: DecisionModel, run: Run, pair: tuple[Case, Judge | None]) -> Answers | str:
    """What is recorded of a case once the judge from which it is hidden was asked; or why nothing more is."""
    case, unknowing = pair
    if unknowing is None:
        return "the guidelines of the others could not be distilled without it"
    alone, own = decides_alone(judge), Judgment()
    if _gives_verdict(judge) and not alone:
        judged = await _judged(unknowing, case, run, checks=False)
        if isinstance(judged, str):
            return judged
        own = judged
    try:
        answers, answered = await answered_about(unknowing, case.example, model, run.calls, verdict=alone)
    except ModelError as error:
        return run.failure(error)
    run.spend(replace(answered.usage, seconds={}))
    answers = answers if alone else replace(answers, verdict=own.value)
    exposed = tuple(sorted(unknowing.memory.exposure(own.example_ids)))
    answers = replace(answers, margins=dict(sorted(answers.margins.items())), exposed_to=exposed)
    # Guidelines that were written again without the case have other words, which are kept nowhere.
    rewritten = unknowing.memory.next_guideline > judge.memory.next_guideline
    return _wordless(answers, unknowing) if rewritten else answers


def _wordless(answers: Answers, unknowing: Judge) -> Answers:
    """The answers to questions that were written without the case, without their words: these are nobody's."""
    fold = hashlib.sha256(unknowing.memory.hash.encode()).hexdigest()[:8]
    names = {question: f"{Expectation.WORDLESS}{fold}.{n}" for n, question in enumerate(sorted(answers.margins))}
    expected = [
        replace(entry, checks=tuple((names[name], sign) for name, sign in entry.checks if name in names))
        for entry in expectations(unknowing.memory.semantic)
    ]
    margins = {names[question]: margin for question, margin in answers.margins.items()}
    return replace(answers, margins=margins, expected=tuple(entry for entry in expected if entry.checks))


# -- folds -------------------------------------------------------------------------------------------------------------


async def _relearned(judge: Judge, fold: Sequence[Case], distilled: Distilled, run: Run) -> Judge | None:
    """The judge that never met a fold, with what others lost by that distilled again; None where that failed."""
    keys = [a.key for case in fold for twin in same_cases(judge, case.example) for a in twin.annotations]
    unknowing = judge.replace(memory=forget(judge.memory, keys))
    waiting = {annotation.key for annotation in judge.memory.pending}
    if not waiting.issuperset(annotation.key for annotation in unknowing.memory.pending):
        aside = Run(before=unknowing, calls=run.calls)
        unknowing = await distilled(unknowing, aside)
        run.spend(aside.usage)
    return unknowing if waiting.issuperset(annotation.key for annotation in unknowing.memory.pending) else None
