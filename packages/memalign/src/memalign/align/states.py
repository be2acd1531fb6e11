"""What becomes of each annotation: the state and the reason that the ledger shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

import msgspec

from memalign.memory import Annotation, Case, Memory
from memalign.types import FeedbackKey

__all__ = ["LessonState", "change_annotations", "with_states"]

replace = msgspec.structs.replace


class LessonState(NamedTuple):
    """An annotation's state and why. `example_only`: no guideline carries it, and none is missing."""

    state: Literal["learned", "merged", "pending", "disputed", "rejected"]
    reason: str = ""
    example_only: bool = False


def with_states(memory: Memory, states: Mapping[FeedbackKey, LessonState]) -> Memory:
    """`memory` with the states that `states` gives to some keys."""
    return change_annotations(
        memory,
        (
            replace(annotation, state=new.state, reason=new.reason, example_only=new.example_only)
            for annotation in memory.annotations()
            if (new := states.get(annotation.key))
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
