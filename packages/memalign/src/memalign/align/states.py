"""What the last call made of each annotation, as memory keeps it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from memalign.memory import Annotation, Case, Memory, Outcome
from memalign.types import FeedbackKey

__all__ = ["change_annotations", "with_outcomes"]

replace = msgspec.structs.replace


def with_outcomes(memory: Memory, outcomes: Mapping[FeedbackKey, Outcome | None]) -> Memory:
    """`memory` with these outcomes of some keys."""
    return change_annotations(
        memory,
        (
            replace(annotation, outcome=outcomes[annotation.key])
            for annotation in memory.annotations()
            if annotation.key in outcomes
        ),
    )


def change_annotations(memory: Memory, changed: Iterable[Annotation]) -> Memory:
    """`memory` with these annotations in the place of those of the same keys; cases without one stay the same objects."""
    news = {annotation.key: annotation for annotation in changed}
    if not news:
        return memory

    def of(case: Case) -> Case:
        if not any(annotation.key in news for annotation in case.annotations):
            return case
        return replace(case, annotations=tuple(news.get(each.key, each) for each in case.annotations))

    return replace(memory, cases=tuple(map(of, memory.cases)))
