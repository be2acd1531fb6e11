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
    return memory if cases == memory.cases else replace(memory, cases=cases)


def without_answers_beside(cases: tuple[Case, ...], ids: Collection[str]) -> tuple[Case, ...]:
    """The cases without verdicts and questions of their own that were given with feedback on the cases `ids` in view.

    What was said of those has changed. Answers to the memory's own questions stay as long as these.
    """
    changed = frozenset(ids)

    def unexposed(case: Case) -> Case:
        before, answers = case.pre_alignment, case.answers
        if before is not None and not changed.isdisjoint(key.id for key in before.exposed_to):
            case = replace(case, pre_alignment=None)
        if answers is None or changed.isdisjoint(key.id for key in answers.exposed_to):
            return case
        bare = replace(answers, verdict=None, chances={}, expected=(), exposed_to=())
        return _only(case, bare, answers.margins.keys() - _written_for(answers))

    return tuple(map(unexposed, cases))


def _written_for(answers: Answers) -> set[str]:
    """The names of the checks that were written for this case, without it."""
    return {name for expected in answers.expected for name, _ in expected.checks}


def _only(case: Case, answers: Answers, names: Collection[str]) -> Case:
    """The case with these answers, of which only the checks of these names stay."""
    margins = {name: margin for name, margin in answers.margins.items() if name in names}
    empty = not margins and answers.verdict is None
    return replace(case, answers=None if empty else replace(answers, margins=margins))
