"""What of the recorded answers may stay: a check's answer lives as long as its guideline, a verdict as long as what it saw."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

import msgspec

from memalign.types import FeedbackKey, Guideline

if TYPE_CHECKING:
    from memalign.memory.model import Annotation, Answers, Case

__all__ = ["questions_of", "with_live_answers", "without_answers_beside"]

replace = msgspec.structs.replace


def questions_of(guidelines: Iterable[Guideline]) -> dict[str, tuple[Guideline, ...]]:
    """Every question that a check of the guidelines asks, once, and the guidelines that ask it."""
    found: dict[str, tuple[Guideline, ...]] = {}
    for guideline in guidelines:
        for check in guideline.checks:
            found[check.question] = (*found.get(check.question, ()), guideline)
    return found


def with_live_answers(
    cases: tuple[Case, ...], guidelines: tuple[Guideline, ...], annotations_on: Callable[[Case], Iterable[Annotation]]
) -> tuple[Case, ...]:
    """The cases without answers and verdicts that may not stay; the same tuple where all may.

    An answer stays as long as a guideline asks its question that never met the case: a check must not be weighed by the
    case that it stems from. `annotations_on` gives all feedback on a case's content.
    """
    if all(case.answers is None for case in cases):
        return cases
    questions = questions_of(guidelines)
    met_by: dict[FeedbackKey, set[str]] = {}
    for guideline in guidelines:
        for key in guideline.exposed_to:
            met_by.setdefault(key, set()).add(guideline.id)

    def live(case: Case, answers: Answers) -> Answers | None:
        met = set[str]().union(*(met_by.get(annotation.key, ()) for annotation in annotations_on(case)))
        asked = (
            {q for q, asking in questions.items() if any(each.id not in met for each in asking)} if met else questions
        )
        written = {name for expected in answers.expected for name, _ in expected.checks}
        return _left(answers, lambda name: name in written or name in asked)

    return _changed(cases, live)


def without_answers_beside(cases: tuple[Case, ...], ids: Collection[str]) -> tuple[Case, ...]:
    """The cases without what was answered with feedback on one of the cases `ids` in view: what was said of those has changed.

    That is verdicts, and the answers to questions that were written for the case. Answers to the memory's own questions
    stay as long as these.
    """
    gone = frozenset(ids)

    def unexposed(_: Case, answers: Answers) -> Answers | None:
        if gone.isdisjoint(key.id for key in answers.exposed_to):
            return answers
        written = {name for expected in answers.expected for name, _ in expected.checks}
        bare = replace(answers, verdict=None, chances={}, expected=(), exposed_to=())
        return _left(bare, lambda name: name not in written)

    return tuple(
        replace(case, pre_alignment=None)
        if case.pre_alignment is not None and not gone.isdisjoint(key.id for key in case.pre_alignment.exposed_to)
        else case
        for case in _changed(cases, unexposed)
    )


def _changed(cases: tuple[Case, ...], change: Callable[[Case, Answers], Answers | None]) -> tuple[Case, ...]:
    """The cases with their answers changed; the same tuple where nothing is."""
    found = [case if case.answers is None else _with(case, change(case, case.answers)) for case in cases]
    return cases if all(map(operator.is_, found, cases)) else tuple(found)


def _with(case: Case, answers: Answers | None) -> Case:
    return case if answers is case.answers else replace(case, answers=answers)


def _left(answers: Answers, stays: Callable[[str], bool]) -> Answers | None:
    """What is left of the answers where only some stay, by the names of their checks."""
    margins = {name: margin for name, margin in answers.margins.items() if stays(name)}
    if not margins and answers.verdict is None:
        return None
    return answers if len(margins) == len(answers.margins) else replace(answers, margins=margins)
