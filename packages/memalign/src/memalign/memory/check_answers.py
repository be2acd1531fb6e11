"""What of the recorded answers may stay: a check's answer lives as long as its guideline, a verdict as long as what it was made with."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Container, Iterable
from typing import TYPE_CHECKING, Any

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
    case that it stems from. A verdict was made with guidelines and with other cases in view, and goes with the first of
    them that is gone. `annotations_on` gives all feedback on a case's content.
    """
    if all(case.answers is None for case in cases):
        return cases
    questions, names = questions_of(guidelines), {case.id for case in cases}
    ids = {guideline.id for guideline in guidelines}
    met_by: dict[FeedbackKey, set[str]] = {}
    for guideline in guidelines:
        for key in guideline.exposed_to:
            met_by.setdefault(key, set()).add(guideline.id)

    def live(case: Case, answers: Answers) -> Answers | None:
        met = set[str]().union(*(met_by.get(annotation.key, ()) for annotation in annotations_on(case)))
        asked = (
            {q for q, asking in questions.items() if any(each.id not in met for each in asking)} if met else questions
        )
        stands = ids.issuperset(answers.guideline_ids) and names.issuperset(answers.example_ids)
        return _left(answers, asked, stands=stands)

    return _changed(cases, live)


def without_answers_beside(cases: tuple[Case, ...], ids: Collection[str]) -> tuple[Case, ...]:
    """The cases without verdicts that were made with one of the cases `ids` in view: what was said of those has changed."""
    gone = frozenset(ids)
    return _changed(
        cases,
        lambda _, answers: (
            answers
            if gone.isdisjoint(answers.example_ids) and gone.isdisjoint(key.id for key in answers.exposed_to)
            else _left(answers, None, stands=False)
        ),
    )


def _changed(cases: tuple[Case, ...], change: Callable[[Case, Answers], Answers | None]) -> tuple[Case, ...]:
    """The cases with their answers changed; the same tuple where nothing is."""
    found = [case if case.answers is None else _with(case, change(case, case.answers)) for case in cases]
    return cases if all(map(operator.is_, found, cases)) else tuple(found)


def _with(case: Case, answers: Answers | None) -> Case:
    return case if answers is case.answers else replace(case, answers=answers)


def _left(answers: Answers, questions: Container[str] | None, *, stands: bool) -> Answers | None:
    """What is left of the answers: those to these questions (None: to all), and where it `stands` what was written for them."""
    left = answers
    if not stands:
        nothing: dict[str, Any] = dict.fromkeys(("expected", "guideline_ids", "example_ids", "exposed_to"), ())
        left = replace(answers, verdict=None, chances={}, **nothing)
    wordless = {name for expected in left.expected for name, _ in expected.checks}
    was_wordless = {name for expected in answers.expected for name, _ in expected.checks}
    margins = {
        name: margin
        for name, margin in answers.margins.items()
        if name in wordless or (name not in was_wordless and (questions is None or name in questions))
    }
    left = replace(left, margins=margins)
    if not margins and left.verdict is None:
        return None
    return answers if left == answers else left
