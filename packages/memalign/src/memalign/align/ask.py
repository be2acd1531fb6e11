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
from memalign.memory import Answers, Case, Memory
from memalign.memory.answers import questions_of
from memalign.models import resolve
from memalign.types import Finding, Judgment, Usage

__all__ = ["ask"]

replace = msgspec.structs.replace

MOST = {True: 200, False: 24}
"""Cases that are asked about, by a model in this process and by others, of which each costs a call."""
FOLDS = 5
REASONS = 3


async def ask(
    judge: Judge, memory: Memory, *, progress: Progress | None = None
) -> tuple[Memory, Usage, tuple[str, ...]]:
    """`memory` with what `judge` answers about a sample of its labelled cases, what that cost, and notes on what failed.

    The sample is in the order of content hashes, one case a content, and dealt into five folds. Only what is missing is
    asked; what another judge (model, instructions, parameters) had answered counts as missing, and a case that no check
    is in view of needs nothing. Where no guideline has a check, and for free text, nothing is asked at all. Never raises
    for a failing model: such a case stays as it is until the next align.
    """
    started = time.perf_counter()
    if not judge.value_type.closed or not questions_of(memory.semantic):
        return memory, Usage(), ()
    try:
        brief = resolve(judge.model).limits.brief
    except ConfigurationError as error:
        return memory, Usage(), (f"no past case was asked about: {error}",)
    judged_by = judge.base_fingerprint
    memory = _tidied(memory, judged_by)
    # Who is asked knows no answers: they are in no prompt, and must not decide which checks are asked.
    blank = tuple(case if case.answers is None else replace(case, answers=None) for case in memory.cases)
    asked = judge.replace(memory=replace(memory, cases=blank))
    chosen = _sample(memory, MOST[brief])
    open_ones = [one for n in range(FOLDS) for one in _open(asked, chosen[n::FOLDS], judged_by)]
    if not open_ones:
        return memory, Usage(), ()
    past = PastCases(judge, len(open_ones), progress, phase="ask")
    said = await aio.together(past.ask(one.judge, one.case) for one in open_ones)
    found = {
        one.case.id: _answers(one, answer.judgment, judged_by)
        for one, answer in zip(open_ones, said, strict=True)
        if answer.judgment is not None
    }
    cases = tuple(replace(case, answers=found[case.id]) if case.id in found else case for case in memory.cases)
    usage = past.usage + Usage(seconds={"ask": time.perf_counter() - started})
    return replace(memory, cases=cases), usage, _notes(said)


class _Open(NamedTuple):
    """A case with something missing: the judge to ask, from which it is hidden, and the questions in that one's view."""

    judge: Judge
    case: Case
    questions: tuple[str, ...]


def _sample(memory: Memory, most: int) -> tuple[Case, ...]:
    """The cases that are asked about: by hash, which is as good as drawn, and the same whatever came first."""
    labelled: dict[str, Case] = {}
    for case in memory.cases:
        if memory.label(case) is not None:
            labelled.setdefault(case.example.content_hash, case)
    return tuple(labelled[content] for content in sorted(labelled)[:most])


def _open(asked: Judge, fold: Sequence[Case], judged_by: str) -> list[_Open]:
    unknowing = hiding(asked, fold)
    questions = tuple(questions_of(unknowing.memory.semantic))

    def known(case: Case) -> bool:
        answers = case.answers
        return (
            answers is not None
            and answers.judge == judged_by
            and answers.verdict is not None
            and answers.margins.keys() >= set(questions)
        )

    return [_Open(unknowing, case, questions) for case in fold if questions and not known(case)]


def _answers(one: _Open, judgment: Judgment, judged_by: str) -> Answers:
    findings = {finding.check: finding for finding in judgment.findings if finding.guideline is not None}
    return Answers(
        judge=judged_by,
        # What a model leaves out does not apply; asking again would give the same.
        margins={question: _margin(findings.get(question)) for question in sorted(one.questions)},
        verdict=judgment.value if judgment.own_value is None else judgment.own_value,
        guideline_ids=judgment.guideline_ids,
        example_ids=judgment.example_ids,
    )


def _margin(finding: Finding | None) -> float:
    """Log-odds of yes; 1, -1 and 0 for yes, no and does not apply where the model tells no probabilities."""
    if finding is None:
        return 0.0
    if finding.margin is not None:
        return finding.margin
    return {"yes": 1.0, "no": -1.0}.get(finding.answer or "", 0.0)


def _tidied(memory: Memory, judged_by: str) -> Memory:
    """`memory` with one case's answers a content, on the first of its cases, and none that its own guidelines flatter.

    A guideline may have met the case since it was asked about: another remark on it said the same.
    """
    questions = questions_of(memory.guidelines)

    def of(case: Case) -> Case:
        group = memory.duplicates(case.example)
        given = sorted((each.answers for each in group if each.answers), key=lambda known: known.judge != judged_by)
        if not given:
            return case
        if case.id != group[0].id:
            return case if case.answers is None else replace(case, answers=None)
        keys = {annotation.key for annotation in memory.annotations_on(case)}
        margins = {
            question: margin
            for question, margin in given[0].margins.items()
            if any(keys.isdisjoint((*g.exposed_to, *g.supported_by)) for g in questions.get(question, ()))
        }
        answers = replace(given[0], margins=margins)
        return case if answers == case.answers else replace(case, answers=answers)

    cases = tuple(map(of, memory.cases))
    return memory if all(map(operator.is_, cases, memory.cases)) else replace(memory, cases=cases)


def _notes(said: Sequence[Answer]) -> tuple[str, ...]:
    faults = Counter(answer.fault or "no verdict" for answer in said if answer.judgment is None)
    if not faults:
        return ()
    reasons = "; ".join(why for why, _ in faults.most_common(REASONS))
    return (f"{faults.total()} of {len(said)} past cases gave no answers, and are asked again next time: {reasons}",)
