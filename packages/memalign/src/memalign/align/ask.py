"""Asking a judge about the cases of its own memory: each answer comes from a judge that never saw the case.

What comes of it are the rows that a calibrator is fitted to, so it is for judges with a decision model only, the embedded
one included. Cases are dealt into folds. Of a fold, all that its feedback taught is forgotten, and what survivors lost
by that is distilled again without it: so a guideline is weighed as it will be on items that no expert has seen.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from memalign import aio
from memalign.align.forget import forget
from memalign.errors import AccessDenied, ConfigurationError, InputError, ModelError
from memalign.io import JudgmentFile, OwnVerdicts
from memalign.judge import Judge, Progress
from memalign.judge.calibrator import FEWEST
from memalign.judge.decision import Answered, AskedCheck, answered_about, asked_checks, check_model_of
from memalign.judge.observations import expectations
from memalign.judge.open_model import decides_alone, open_judging_model, open_model
from memalign.judge.spec import base_fingerprint_of, lacks, without_memory
from memalign.judge.standing import same_cases
from memalign.judge.verdict import decide
from memalign.memory import Answers, Case, Expectation, Memory, PreAlignmentVerdict
from memalign.memory.check_answers import without_answers_beside
from memalign.models.base import DecisionModel
from memalign.types import FeedbackKey, Judgment, Usage
from memalign.values import Value

__all__ = [
    "PastCases",
    "Relearn",
    "Verdict",
    "agrees",
    "ask",
    "hiding",
    "made_by_other",
    "with_own_verdicts",
]

replace = msgspec.structs.replace

Relearn = Callable[[Judge], Awaitable[tuple[Memory, Usage]]]
"""Distils what is pending in a judge's memory: the memory after it, and what that cost. Never raises for a failing model."""

MOST = {True: 50, False: 500}
"""Cases that are asked about: by a model in this process, whose answers take their time, and by others."""
FOLDS = 5
ENOUGH = 0.5
"""Of the questions: a case with so many answers is not asked again for one lesson more."""
REASONS = 3


async def ask(
    judge: Judge, relearn: Relearn, *, thorough: bool = True, progress: Progress | None = None
) -> tuple[Memory, Usage, tuple[str, ...]]:
    """The judge's memory with what its decision model answers about the labelled cases.

    Only what is missing is asked, and what another judge (models, instructions, parameters) had answered counts as missing.
    Nothing is asked without a decision model, for free text, or with fewer labelled cases than a calibrator is fitted to.

    Args:
        judge: The judge that is to be delivered.
        relearn: How a fold's guidelines are distilled without the fold. It is not called where nothing was lost.
        thorough: Whether a case of which half the questions are answered is asked the others.
        progress: Is told of each case.

    Returns:
        The memory, the cost, and notes on what failed: a case without answers has them asked by the next align.
    """
    started = time.perf_counter()
    memory, model = judge.memory, check_model_of(judge)
    labelled = _labelled(judge)
    if model is None or not judge.value_type.closed or len(labelled) < FEWEST:
        return memory, Usage(), ()
    memory = _tidied(memory, base_fingerprint_of(judge))
    judge = judge.replace(memory=memory)
    checks = asked_checks(memory, model.limits)
    open_cases = [
        case
        for case in labelled[: MOST[model.limits.brief]]
        if _lacks(judge, case, checks, enough=1.0 if thorough else ENOUGH)
    ]
    past = PastCases(judge, len(open_cases), progress, phase="ask")
    usage, found, faults = Usage(), dict[str, Answers](), list[str]()
    # All folds at once: each has guidelines of its own, written without it.
    folds = _folds(open_cases, math.ceil(len(labelled) / FOLDS))
    asking = list[tuple[Case, Judge]]()
    judges = await aio.together(_without(judge, fold, relearn) for fold in folds)
    for fold, (unknowing, spent) in zip(folds, judges, strict=True):
        usage += spent
        if unknowing is None:
            faults += ["the guidelines of the others could not be distilled without it"] * len(fold)
        else:
            asking += [(case, unknowing) for case in fold]
    answers = await aio.together(_answers(past, judge, unknowing, case, model) for case, unknowing in asking)
    for (case, _), answer in zip(asking, answers, strict=True):
        if isinstance(answer, Answers):
            found[case.id] = answer
        else:
            faults.append(answer)
    cases = tuple(replace(case, answers=found[case.id]) if case.id in found else case for case in memory.cases)
    usage += past.usage + Usage(seconds={"ask": time.perf_counter() - started})
    return replace(memory, cases=cases), usage, _notes(faults, len(open_cases))


def made_by_other(judge: Judge, file: JudgmentFile) -> bool:
    """Whether neither this judge wrote the file of judgments, nor the judge as it was before it learned anything."""
    with suppress(ConfigurationError):  # where its model cannot be opened here, the name that it has is all there is
        judge = judge.replace(model=open_judging_model(judge))
    fingerprint = file.judge.rpartition("@")[2].partition("-")[0]
    return fingerprint not in (judge.fingerprint, without_memory(judge).fingerprint, base_fingerprint_of(judge))


def with_own_verdicts(
    judge: Judge, memory: Memory, own_verdicts: OwnVerdicts, *, replaced: Collection[FeedbackKey] = ()
) -> Memory:
    """`memory`, of what is to be learned, with the verdicts that `judge` gave on its cases before, by the cases' ids.

    A judgment counts where it was made by this judge, with this memory or none: of another memory nobody knows what it
    had seen, and so not what must be forgotten with it. Neither does one count that was made beside feedback on the very
    case, or beside feedback that is `replaced` now. The first verdict on a case stays.
    """
    judgments = _judgments_of(judge, memory, own_verdicts)
    if not judgments:
        return memory
    made_by, models = base_fingerprint_of(judge), {"", judge.model_name}
    with suppress(ConfigurationError):
        models.add(open_judging_model(judge).name)
    seen = {judge.memory.hash: _exposure(judge.memory), without_memory(judge).memory.hash: (), Memory().hash: ()}

    def known(case: Case) -> Case:
        judgment = judgments.get(case.id)
        if judgment is None or judgment.error or judgment.decided_by == "expert" or judgment.memory_hash not in seen:
            return case
        value = judgment.value if judgment.own_value is None else judgment.own_value
        exposed = {*seen[judgment.memory_hash], *_shown(judge.memory, judgment.example_ids)}
        said = {each.key for one in judge.memory.duplicates(case.example) for each in one.annotations}
        first = case.pre_alignment is None or case.pre_alignment.judge != made_by
        if value is None or judgment.model not in models or not first or said & exposed:
            return case
        verdict = PreAlignmentVerdict(
            value=value,
            judge=made_by,
            # What a calibrator decided is reasoned for its value, which may be another one than the model's own.
            rationale=judgment.rationale if judgment.decided_by == "model" else None,
            exposed_to=tuple(sorted(exposed)),
        )
        return replace(case, pre_alignment=verdict)

    met = (case for key in replaced if (case := judge.memory.case(key.id)) is not None)
    beside = {duplicate.id for case in met for duplicate in judge.memory.duplicates(case.example)}
    return replace(memory, cases=without_answers_beside(tuple(map(known, memory.cases)), beside))


def _judgments_of(judge: Judge, memory: Memory, own_verdicts: OwnVerdicts) -> Mapping[str, Judgment]:
    """By the ids of their cases; of a file only what this judge said of the cases as they are today."""
    if not isinstance(own_verdicts, JudgmentFile):
        return own_verdicts
    if made_by_other(judge, own_verdicts):
        return {}
    judged = own_verdicts.contents
    same = (case.id for case in memory.cases if judged.get(case.id) in ("", case.example.content_hash))
    return {name: own_verdicts.judgments[name] for name in same}


# -- one case ----------------------------------------------------------------------------------------------------------


class Verdict(NamedTuple):
    """A judge's own verdict on a case with the judgment that it comes from, or the error in the place of one."""

    value: Value | None
    error: ModelError | InputError | AccessDenied | None = None
    judgment: Judgment | None = None

    @property
    def fault(self) -> str | None:
        """Why there is no verdict, in words."""
        return None if self.error is None else f"{type(self.error).__name__}: {self.error}"


class PastCases:
    """Questions to a judge's models, as many at once as they take; `usage` adds up, and `progress` is told of each."""

    def __init__(self, judge: Judge, total: int, progress: Progress | None, *, phase: str) -> None:
        self.usage = Usage()
        self._total, self._progress, self._phase, self._done = total, progress, phase, 0
        limits = [open_model(judge).limits] if not decides_alone(judge) else []
        limits += [model.limits] if (model := check_model_of(judge)) is not None else []
        self._slots = asyncio.Semaphore(min(each.concurrency for each in limits))

    async def ask(self, judge: Judge, case: Case, *, checks: bool = False) -> Verdict:
        """The verdict of `judge` on the case, whatever its experts said: its own, or with `checks` that which it delivers.

        An error is an answer too: what was paid for before must not go with it.
        """
        async with self._slots:
            try:
                judgment = await decide(judge, case.example, standing=False, checks=checks)
            except (ModelError, InputError, AccessDenied) as error:
                if isinstance(error, ModelError):
                    self.usage += error.usage or Usage()
                return Verdict(None, error)
            finally:
                self.count()
        self.usage += replace(judgment.usage, seconds={})
        return Verdict(judgment.value, judgment=judgment)

    async def answers(
        self, judge: Judge, case: Case, model: DecisionModel, *, checks: Sequence[AskedCheck] | None, verdict: bool
    ) -> Answered | str:
        """What `model` answers about the case, or why it answers nothing."""
        async with self._slots:
            try:
                answered = await answered_about(judge, case.example, model, verdict=verdict, checks=checks)
            except ModelError as error:
                self.usage += error.usage or Usage()
                return f"{type(error).__name__}: {error}"
        self.usage += replace(answered.usage, seconds={})
        return answered

    def count(self) -> None:
        """One more is answered."""
        self._done += 1
        self._total = max(self._total, self._done)
        if self._progress is not None:
            self._progress(self._phase, self._done, self._total)


async def _answers(past: PastCases, judge: Judge, unknowing: Judge, case: Case, model: DecisionModel) -> Answers | str:
    """What is known of a case once `unknowing`, from which it is hidden, was asked; or why nothing more is."""
    written = unknowing.memory.next_guideline > judge.memory.next_guideline  # without the case: those are other words
    known = _known(case, base_fingerprint_of(judge))
    if written:
        known = Answers(judge=base_fingerprint_of(judge))
    checks = [each for each in asked_checks(unknowing.memory, model.limits) if each.question not in known.margins]
    alone = decides_alone(judge)
    shown: tuple[str, ...] = ()
    if not alone and known.verdict is None and _speaks(judge):
        own = await past.ask(unknowing, case)
        if own.judgment is None:
            return own.fault or "no verdict"
        known = replace(known, verdict=own.value)
        shown = own.judgment.example_ids
    if checks or (alone and known.verdict is None):
        answered = await past.answers(unknowing, case, model, checks=checks, verdict=alone)
        if isinstance(answered, str):
            return answered
        known = replace(known, margins=known.margins | answered.margins)
        if answered.value is not None:
            known = replace(known, verdict=answered.value, chances=answered.chances)
    if alone or not _speaks(judge):
        past.count()
    exposed = {*_exposure(unknowing.memory), *_shown(unknowing.memory, shown)}
    known = replace(known, margins=dict(sorted(known.margins.items())), exposed_to=tuple(sorted(exposed)))
    return _wordless(known, unknowing.memory) if written else known


def _wordless(answers: Answers, memory: Memory) -> Answers:
    """The answers to questions that were written without the case, kept without their words: these are nobody's."""
    fold = hashlib.sha256(memory.hash.encode()).hexdigest()[:8]
    names = {question: f"{Expectation.WORDLESS}{fold}.{n}" for n, question in enumerate(sorted(answers.margins))}
    expected = tuple(
        replace(each, checks=tuple((names[name], sign) for name, sign in each.checks if name in names))
        for each in expectations(memory.semantic)
    )
    margins = {names[question]: margin for question, margin in answers.margins.items()}
    return replace(answers, margins=margins, expected=tuple(each for each in expected if each.checks))


def hiding(judge: Judge, cases: Sequence[Case]) -> Judge:
    """`judge` without the cases and others that look the same to it; its guidelines stay, whoever taught them."""
    hidden = {twin.id for case in cases for twin in same_cases(judge, case.example)}
    left = tuple(case for case in judge.memory.cases if case.id not in hidden)
    return judge.replace(memory=replace(judge.memory, cases=left)) if hidden else judge


def agrees(judge: Judge, case: Case, value: Value | None) -> bool:
    """Whether the value agrees with the experts' label."""
    label = judge.memory.label(case)
    return value is not None and label is not None and judge.value_type.agree(label, value)


# -- which cases, and from whom they are hidden ------------------------------------------------------------------------


def _labelled(judge: Judge) -> tuple[Case, ...]:
    """The cases that may be asked about, by hash: as good as drawn, and the same whatever came first."""
    labelled: dict[str, Case] = {}
    for case in judge.memory.cases:
        if judge.memory.label(case) is not None and lacks(judge, case.example.content, "the case") is None:
            labelled.setdefault(case.example.content_hash, case)
    return tuple(labelled[content] for content in sorted(labelled))


def _known(case: Case, made_by: str) -> Answers:
    return case.answers if case.answers is not None and case.answers.judge == made_by else Answers(judge=made_by)


def _speaks(judge: Judge) -> bool:
    """Whether the judge's own verdict costs nobody anything: that of a model in this process."""
    return not decides_alone(judge) and open_model(judge).limits.brief


def _lacks(judge: Judge, case: Case, checks: Sequence[AskedCheck], *, enough: float) -> bool:
    known = _known(case, base_fingerprint_of(judge))
    if known.verdict is None and (decides_alone(judge) or _speaks(judge)):
        return True
    if known.expected:  # asked with guidelines written without it
        return False
    own = {annotation.key for annotation in judge.memory.annotations_on(case)}
    askable = {q for each in expectations(judge.memory.semantic, unmet=own) for q, _ in each.checks}
    asked = [check.question for check in checks if check.question in askable]
    if not askable:  # all guidelines saw the case: what they would be without it was never asked
        return bool(checks) and not known.margins
    return sum(question in known.margins for question in asked) < enough * len(asked)


def _folds(cases: Sequence[Case], size: int) -> list[list[Case]]:
    """The cases, in as few parts as there may be of at most `size`."""
    count = math.ceil(len(cases) / size) if cases else 0
    return [list(cases[n::count]) for n in range(count)]


async def _without(judge: Judge, fold: Sequence[Case], relearn: Relearn) -> tuple[Judge | None, Usage]:
    """The judge that never saw the fold, with what others lost by that distilled again; None where that failed."""
    memory = judge.memory
    keys = [a.key for case in fold for twin in same_cases(judge, case.example) for a in twin.annotations]
    unknowing = judge.replace(memory=forget(memory, keys))
    if _pending(unknowing.memory) <= _pending(memory):
        return unknowing, Usage()
    learned, usage = await relearn(unknowing)
    whole = _pending(learned) <= _pending(memory)
    return unknowing.replace(memory=learned) if whole else None, usage


def _pending(memory: Memory) -> frozenset[FeedbackKey]:
    return frozenset(annotation.key for annotation in memory.pending)


def _exposure(memory: Memory) -> frozenset[FeedbackKey]:
    """All feedback whose words the guidelines in force may hold."""
    return frozenset(key for guideline in memory.semantic for key in (*guideline.exposed_to, *guideline.supported_by))


def _shown(memory: Memory, ids: Iterable[str]) -> frozenset[FeedbackKey]:
    """All feedback on the cases that a judgment was made beside."""
    cases = (case for name in ids if (case := memory.case(name)) is not None)
    return frozenset(annotation.key for case in cases for annotation in case.annotations)


def _tidied(memory: Memory, judged_by: str) -> Memory:
    """`memory` with one case's answers a content, on the first of its cases: those of this judge before any other's."""

    def tidied(case: Case) -> Case:
        group = memory.duplicates(case.example)
        several = sorted((each.answers for each in group if each.answers), key=lambda known: known.judge != judged_by)
        answers = several[0] if several and case.id == group[0].id else None
        return case if answers is case.answers else replace(case, answers=answers)

    cases = tuple(map(tidied, memory.cases))
    return memory if all(a is b for a, b in zip(cases, memory.cases, strict=True)) else replace(memory, cases=cases)


def _notes(faults: Sequence[str], asked: int) -> tuple[str, ...]:
    if not faults:
        return ()
    reasons = "; ".join(why for why, _ in Counter(faults).most_common(REASONS))
    return (f"{len(faults)} of {asked} cases wait for the next align to be asked about: {reasons}",)
