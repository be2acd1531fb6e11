"""What of the recorded answers may stay: a check's answer lives as long as its guideline, a verdict as long as what it was made with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from memalign.types import Guideline

if TYPE_CHECKING:
    from memalign.memory.model import Answers, Case

__all__ = ["questions_of", "with_live_answers"]

replace = msgspec.structs.replace


def questions_of(guidelines: Iterable[Guideline]) -> dict[str, tuple[Guideline, ...]]:
    """Every question that a check of the guidelines asks, once, and the guidelines that ask it."""
    found: dict[str, tuple[Guideline, ...]] = {}
    for guideline in guidelines:
        for check in guideline.checks:
            found[check.question] = (*found.get(check.question, ()), guideline)
    return found


def with_live_answers(cases: tuple[Case, ...], guidelines: tuple[Guideline, ...]) -> tuple[Case, ...]:
    """The cases without answers to questions that no guideline asks, and without verdicts made with guidelines now gone."""
    if all(case.answers is None for case in cases):
        return cases
    questions, ids = questions_of(guidelines), {guideline.id for guideline in guidelines}
    lived = tuple(
        case if case.answers is None else replace(case, answers=_live(case.answers, questions.keys(), ids))
        for case in cases
    )
    return cases if lived == cases else lived


def _live(answers: Answers, questions: Iterable[str], ids: set[str]) -> Answers | None:
    known = frozenset(questions)
    margins = {question: margin for question, margin in answers.margins.items() if question in known}
    stands = ids.issuperset(answers.guideline_ids)
    left = replace(
        answers,
        margins=margins,
        verdict=answers.verdict if stands else None,
        guideline_ids=answers.guideline_ids if stands else (),
    )
    return left if margins or left.verdict is not None else None
