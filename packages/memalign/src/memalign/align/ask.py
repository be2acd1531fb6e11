"""Asking: the checks of all guidelines, and the verdict, about labelled cases that are hidden from who is asked.

What comes of it are the rows on which the weights of checks are fitted. A case is asked about with itself, its fold and
every guideline exposed to one of them hidden, so that no check is answered about a case that its guideline stems from.
Answers are kept with the case: the same question is not asked twice.
"""

from __future__ import annotations

import operator
import time
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from memalign import aio
from memalign.align.past_cases import Answer, PastCases, hiding
from memalign.errors import ConfigurationError
from memalign.judge import Judge, Progress
from memalign.judge.calibrator import FEWEST
from memalign.judge.checks import AskedCheck, margins_of, which_checks
from memalign.judge.open_model import open_model
from memalign.judge.prompt import is_pair
from memalign.judge.spec import base_fingerprint_of, lacks
from memalign.memory import Answers, Case, Memory
from memalign.memory.check_answers import questions_of
from memalign.models.base import YesNoModel
from memalign.types import Judgment, Usage

__all__ = ["ask"]

replace = msgspec.structs.replace

ENOUGH = 0.5
"""Of the questions in view: a case with so many answers is not asked again for one lesson more."""
MOST = {True: 50, False: 24}
"""Cases that are asked about, by a model in this process and by others, of which each costs a call."""
FOLDS = 5
REASONS = 3


async def ask(
    judge: Judge, memory: Memory, *, thorough: bool = True, progress: Progress | None = None
) -> tuple[Memory, Usage, tuple[str, ...]]:
    """`memory` with what `judge` answers about a sample of its labelled cases, what that cost, and notes on what failed.

    The sample is in the order of content hashes, one case a content, and dealt into five folds. Only what is missing is
    asked; what another judge (model, instructions, parameters) had answered counts as missing, and a case that no check
    is in view of needs nothing. A model that answers each check apart (YesNoModel) is asked the missing ones, and for a
    verdict where there is none; any other answers all in one call. Where no guideline has a check, and for free text,
    nothing is asked at all; nor of a model that is paid by the call where too few cases are labelled to fit a weight.
    Unless `thorough`, a case of which half the questions and the verdict are known needs nothing either: one lesson more
    must not cost the whole pass, and its check counts from when cases have answered it. Never raises for a failing model: such a case keeps what it has until the next align.
    """
    started = time.perf_counter()
    if not judge.value_type.closed or not questions_of(memory.semantic):
        return memory, Usage(), ()
    try:
        model = open_model(judge)
    except ConfigurationError as error:
        return memory, Usage(), (f"no past case was asked about: {error}",)
    apart, judged_by = isinstance(model, YesNoModel), base_fingerprint_of(judge)
    tidied = _tidied(memory, judged_by)
    labelled = _labelled(judge, tidied)
    if not apart and len(labelled) < FEWEST:
        return memory, Usage(), ()
    memory = tidied
    chosen = labelled[: MOST[model.limits.brief]]
    # Answers rank the similar cases that a judgment is shown: what is asked must not hang on what was asked before.
    blank = tuple(case if case.answers is None else replace(case, answers=None) for case in memory.cases)
    asked = judge.replace(memory=replace(memory, cases=blank))
    folds = _folds(memory, chosen)
    known = 1.0 if thorough else ENOUGH
    open_ones = [one for fold in folds for one in await _open(asked, fold, judged_by, apart=apart, enough=known)]
    if not open_ones:
        return memory, Usage(), ()
    verdicts = [one for one in open_ones if one.known.verdict is None]
    alone = [one for one in open_ones if apart and one.missing]
    past = PastCases(judge, len(verdicts) + len(alone), progress, phase="ask")
    # One kind after the other: a model in this process keeps the beginning that prompts of one kind share.
    calls = [past.ask(one.judge, one.case) for one in verdicts]
    calls += [past.ask_checks(one.judge, one.case, one.missing) for one in alone]
    said = await aio.together(calls)
    found: dict[str, Answers] = {}
    for one, answer in zip((*verdicts, *alone), said, strict=True):
        if answer.judgment is not None:
            found[one.case.id] = _with(found.get(one.case.id, one.known), answer.judgment)
    cases = tuple(replace(case, answers=found[case.id]) if case.id in found else case for case in memory.cases)
    usage = past.usage + Usage(seconds={"ask": time.perf_counter() - started})
    return replace(memory, cases=cases), usage, _notes(said)


class _Open(NamedTuple):
    """A case with something missing: the judge to ask, from which it is hidden, and what is asked and known.

    Of a model that answers all in one call nothing is known: what it leaves out does not apply, and is not asked again.
    """

    judge: Judge
    case: Case
    missing: tuple[AskedCheck, ...]
    known: Answers


def _labelled(judge: Judge, memory: Memory) -> tuple[Case, ...]:
    """The cases that may be asked about, by hash: as good as drawn, and the same whatever came first."""
    labelled: dict[str, Case] = {}
    for case in memory.cases:
        if memory.label(case) is not None and lacks(judge, case.example.content, "the case") is None:
            labelled.setdefault(case.example.content_hash, case)
    return tuple(labelled[content] for content in sorted(labelled))


def _folds(memory: Memory, chosen: Sequence[Case]) -> list[list[Case]]:
    """The cases in at most FOLDS parts; those of one shard in the same part.

    A guideline is hidden with every case of its shard. Were a shard dealt out, each part would hide nearly all rules.
    """
    first = {key: g.exposed_to for g in reversed(memory.guidelines) for key in g.exposed_to}
    groups: dict[object, list[Case]] = {}
    for case in chosen:
        calls = [first[annotation.key] for annotation in case.annotations if annotation.key in first]
        groups.setdefault(min(calls) if calls else case.id, []).append(case)
    dealt = list(groups.values())
    return [[case for group in dealt[n::FOLDS] for case in group] for n in range(FOLDS)]


async def _open(asked: Judge, fold: Sequence[Case], judged_by: str, *, apart: bool, enough: float) -> list[_Open]:
    """The cases of a fold with something missing; nothing is missing where no check is in view.

    `enough` is the share of questions that need an answer. A model that answers all in one call is asked none of a pair.
    """
    if not apart:
        fold = [case for case in fold if not is_pair(asked, case.example)]
    unknowing = hiding(asked, fold)
    checks, _ = await which_checks(unknowing)
    if apart:  # those that judgments will ask, as far as the fold leaves them in view
        there = questions_of(unknowing.memory.semantic)
        checks = tuple(check for check in (await which_checks(asked))[0] if check.question in there)
    if not checks:
        return []
    if apart:  # the verdict alone: the checks are asked beside it
        plain = tuple(replace(guideline, checks=()) for guideline in unknowing.memory.guidelines)
        unknowing = unknowing.replace(memory=replace(unknowing.memory, guidelines=plain))
    found = []
    for case in fold:
        known = case.answers
        if known is None or known.judge != judged_by:
            known = Answers(judge=judged_by)
        missing = tuple(check for check in checks if check.question not in known.margins)
        if len(missing) <= (1 - enough) * len(checks) and known.verdict is not None:
            continue
        if not apart:
            missing, known = checks, Answers(judge=judged_by, margins={check.question: 0.0 for check in checks})
        found.append(_Open(unknowing, case, missing, known))
    return found


def _with(known: Answers, judgment: Judgment) -> Answers:
    """The answers and those of one judgment more, which may have no verdict."""
    known = replace(known, margins=dict(sorted((known.margins | margins_of(judgment.findings)).items())))
    if judgment.own_value is None:
        return known
    made_with = {"guideline_ids": judgment.guideline_ids, "example_ids": judgment.example_ids}
    return replace(known, verdict=judgment.own_value, **made_with)


def _tidied(memory: Memory, judged_by: str) -> Memory:
    """`memory` with one case's answers a content, on the first of its cases: those of this judge before any other's."""

    def of(case: Case) -> Case:
        group = memory.duplicates(case.example)
        given = sorted((each.answers for each in group if each.answers), key=lambda known: known.judge != judged_by)
        answers = given[0] if given and case.id == group[0].id else None
        return case if answers is case.answers else replace(case, answers=answers)

    cases = tuple(map(of, memory.cases))
    return memory if all(map(operator.is_, cases, memory.cases)) else replace(memory, cases=cases)


def _notes(said: Sequence[Answer]) -> tuple[str, ...]:
    faults = Counter(answer.fault or "no verdict" for answer in said if answer.judgment is None)
    if not faults:
        return ()
    reasons = "; ".join(why for why, _ in faults.most_common(REASONS))
    return (f"{faults.total()} of {len(said)} questions about past cases wait for the next align: {reasons}",)
