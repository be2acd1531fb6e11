"""Drawing labelled items of a study's pool, and what may be known of an item when only these are labelled."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from memalign.judge.columns import Known, Taught
from memalign.types import Check
from memalign.values import Value
from memalign_bench.draws.study import Study

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["LABELS", "Draw", "Prepared", "drawn"]

LABELS = 50
"""Labels of a draw; of a small pool two thirds, so that some items are unseen."""


@dataclass(frozen=True, kw_only=True)
class Draw:
    """The places of items whose labels are known, in the order in which they were drawn, and of those to be told."""

    taught: tuple[int, ...]
    unseen: tuple[int, ...]


def drawn(study: Study, number: int, labels: int = LABELS) -> Draw:
    """Draw `number` of the study: the same items on every machine, whatever the order of the files.

    Fewer labels are the first of fifty, and the unseen items stay the same. They are the rest of the pool, or where part
    S was read, all of that and nothing of the pool.
    """
    pool = sorted(range(study.taught), key=lambda place: study.items[place].id)
    random.Random(f"{study.header.name}:{number}").shuffle(pool)
    most = min(LABELS, len(pool) * 2 // 3)
    rest = range(study.taught, len(study.items)) if len(study.items) > study.taught else sorted(pool[most:])
    return Draw(taught=tuple(pool[: min(labels, most)]), unseen=tuple(rest))


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A study as arrays, and the checks and taught cases of a draw.

    `yes_or_no` keeps of each margin only its sign. Without `masked`, a row's own questions count on it. `verdict` and
    `plain` say whether these are known.
    """

    study: Study
    yes_or_no: bool = False
    masked: bool = True
    verdict: bool = True
    plain: bool = True

    @cached_property
    def labels(self) -> tuple[Value, ...]:
        """The task's labels, in their order."""
        return self.study.value_type.labels

    @cached_property
    def truth(self) -> NDArray[np.int64]:
        """Each item's label, as its place among the labels."""
        import numpy as np

        return np.array([self.labels.index(item.label) for item in self.study.items])

    @cached_property
    def said(self) -> NDArray[np.float64]:
        """The log-probability of each label in the zero-shot verdict, (items, labels); None of them where none was asked."""
        import numpy as np

        return np.array([item.verdict for item in self.study.items], dtype=np.float64)

    @cached_property
    def features(self) -> NDArray[np.float64]:
        """Length and likeness to the reference, (items, 2); zeros where they are not known."""
        import numpy as np

        return np.array([item.plain for item in self.study.items]) * float(self.plain)

    @cached_property
    def vectors(self) -> NDArray[np.float64]:
        """The embeddings, (items, dimensions)."""
        return self.study.vectors()

    @cached_property
    def margins(self) -> NDArray[np.float64]:
        """The answers, (items, questions); of two sides the first label's less the second's."""
        import numpy as np

        sides = np.array([item.margins for item in self.study.items])
        if self.yes_or_no:
            sides = np.where(sides > 0, 1.0, -1.0)
        found: NDArray[np.float64] = sides[:, 0] - sides[:, 1] if self.study.header.sides else sides[:, 0]
        return found

    @cached_property
    def verdicts(self) -> tuple[Value | None, ...]:
        """The zero-shot verdict of each item."""
        if not (self.verdict and self.study.judged):
            return (None,) * len(self.study.items)
        return tuple(self.labels[int(place)] for place in self.said.argmax(axis=1))

    def checks(self, draw: Draw) -> dict[str, tuple[Check, ...]]:
        """The checks that were written from the draw's rows, by question; a question is its hash here."""
        ids = {self.study.items[place].id for place in draw.taught}
        found = {
            question.hash: tuple(
                Check(question=question.hash, answer=row.answer, value=row.value)
                for row in question.rows
                if row.item in ids
            )
            for question in self.study.header.questions
        }
        return {question: checks for question, checks in found.items() if checks}

    def known(self, places: Sequence[int], draw: Draw) -> list[Known]:
        """What is known of items: of a taught one, without the answers to questions that were written from its own row."""
        taught = set(draw.taught) if self.masked else set()
        names = [question.hash for question in self.study.header.questions]
        found = []
        for place in places:
            own = self._own.get(self.study.items[place].id, frozenset()) if place in taught else frozenset()
            answers = zip(names, map(float, self.margins[place]), strict=True)
            margins = {name: margin for name, margin in answers if name not in own}
            found.append(Known(self.features[place], self.verdicts[place], margins))
        return found

    def taught(self, draw: Draw) -> list[Taught]:
        """The draw's labelled cases."""
        known = self.known(draw.taught, draw)
        return [Taught(one, self.labels[self.truth[n]]) for one, n in zip(known, draw.taught, strict=True)]

    @cached_property
    def _own(self) -> dict[str, frozenset[str]]:
        found: dict[str, set[str]] = {}
        for question in self.study.header.questions:
            for row in question.rows:
                found.setdefault(row.item, set()).add(question.hash)
        return {item: frozenset(names) for item, names in found.items()}
