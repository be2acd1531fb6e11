"""What of recorded answers may stay: a check's answer lives as long as its guideline, a verdict as what it saw."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

import msgspec

from memalign.types import Guideline

if TYPE_CHECKING:
    from memalign.memory.model import Answers, Case, Memory

__all__ = ["questions_of", "with_live_answers", "without_answers_beside"]

replace = msgspec.structs.replace


def questions_of(guidelines: Iterable[Guideline]) -> dict[str, tuple[Guideline, ...]]:
    """Every question that a check of the guidelines asks a model, once, and the guidelines that ask it."""
    asking: dict[str, tuple[Guideline, ...]] = {}
    for guideline in guidelines:
        for check in guideline.checks:
            if check.test is None:
                asking[check.question] = (*asking.get(check.question, ()), guideline)
    return asking


def with_live_answers(memory: Memory) -> Memory:
    """The memory without answers and verdicts that may not stay beside its guidelines.

    An answer stays as long as a guideline asks its question that never met the case: a check must not be weighed by the
    case that it stems from.
    """
    exposed = {guideline.id: frozenset(guideline.exposed_to) for guideline in memory.guidelines}
    questions = questions_of(memory.guidelines).items()

    def with_live(case: Case) -> Case:
        if case.answers is None:
            return case
        own = {annotation.key for annotation in memory.annotations_on(case)}
        live = {name for name, asking in questions if any(own.isdisjoint(exposed[rule.id]) for rule in asking)}
        return _only(case, case.answers, live | _written_for(case.answers))

    cases = tuple(map(with_live, memory.cases))
    unchanged = all(new is old for new, old in zip(cases, memory.cases, strict=True))
    return memory if unchanged else replace(memory, cases=cases)


def without_answers_beside(cases: tuple[Case, ...], ids: Collection[str]) -> tuple[Case, ...]:
    """The cases without what was answered with feedback on the cases `ids` in view: what was said of those has changed.

    That is verdicts, and the answers to questions that were written for the case. Answers to the memory's own questions
    stay as long as these.
    """
    changed = frozenset(ids)

    def unexposed(case: Case) -> Case:
        if case.pre_alignment is not None and not changed.isdisjoint(key.id for key in case.pre_alignment.exposed_to):
            case = replace(case, pre_alignment=None)
        answers = case.answers
        if answers is None or changed.isdisjoint(key.id for key in answers.exposed_to):
            return case
        bare = replace(answers, verdict=None, chances={}, expected=(), exposed_to=())
        return _only(case, bare, answers.margins.keys() - _written_for(answers))

    return tuple(map(unexposed, cases))


def _written_for(answers: Answers) -> set[str]:
    """The names of the checks that were written for this case, without it."""
    return {name for expected in answers.expected for name, _ in expected.checks}


def _only(case: Case, answers: Answers, names: Collection[str]) -> Case:
    """The case with what is left of the answers where only the checks of these names stay."""
    margins = {name: margin for name, margin in answers.margins.items() if name in names}
    rest = answers if len(margins) == len(answers.margins) else replace(answers, margins=margins)
    if not margins and answers.verdict is None:
        return replace(case, answers=None)
    return case if rest is case.answers else replace(case, answers=rest)
