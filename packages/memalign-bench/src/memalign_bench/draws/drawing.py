"""Drawing labelled items of a study's pool, and what may be known of an item when only these are labelled."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING

from memalign.judge.calibrator import FOLDS
from memalign.judge.checks import MOST_CHECKS
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

    As in an align, the taught rows are dealt into five folds, and a question that was written from one fold's rows alone
    is not asked about them; nor, stricter than an align, any question about a row that it was written from. Without
    `masked` all are. Of more than `most` questions those nearest to all others are asked and weighed. `yes_or_no` keeps of each
    margin only its sign. `verdict` and `plain` say whether these are known.
    """

    study: Study
    yes_or_no: bool = False
    masked: bool = True
    most: int | None = MOST_CHECKS
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
        asked = [self.study.header.questions[n] for n in self.nearest(self._written_from(set(draw.taught)))]
        found = {
            question.hash: tuple(
                Check(question=question.hash, answer=row.answer, value=row.value)
                for row in question.rows
                if row.item in ids
            )
            for question in asked
        }
        return {question: checks for question, checks in found.items() if checks}

    def pairs(self, draw: Draw) -> tuple[tuple[str, str], ...]:
        """Every two questions that were written from one row of the draw."""
        names = [question.hash for question in self.study.header.questions]
        written = (self._written_from({place}) for place in draw.taught)
        found = (tuple(sorted((names[a], names[b]))) for several in written for a, b in combinations(several, 2))
        return tuple(dict.fromkeys((one, other) for one, other in found))

    def known(self, place: int, asked: Sequence[int] | None = None) -> Known:
        """What is known of an item that is asked these questions, by their places; None: all."""
        places = range(len(self.study.header.questions)) if asked is None else asked
        margins = {self.study.header.questions[n].hash: float(self.margins[place, n]) for n in places}
        return Known(self.features[place], self.verdicts[place], margins)

    def taught(self, draw: Draw) -> list[Taught]:
        """The draw's labelled cases, each with the answers to what it was asked."""
        found: dict[int, Taught] = {}
        every = self.nearest(self._written_from(set(draw.taught)))
        for fold in range(FOLDS):
            hidden = draw.taught[fold::FOLDS] if self.masked else ()
            there = set(self._written_from(set(draw.taught) - set(hidden)))
            asked = [n for n in every if n in there]
            for place in draw.taught[fold::FOLDS]:
                own = self._written_from({place}) if self.masked else ()
                known = self.known(place, [n for n in asked if n not in own])
                found[place] = Taught(known, self.labels[self.truth[place]])
        return [found[place] for place in draw.taught]

    def nearest(self, questions: Sequence[int]) -> Sequence[int]:
        """Of these questions, by their places, the `most` that are nearest to all others."""
        import numpy as np

        if self.most is None or len(questions) <= self.most:
            return questions
        near = np.array([question.near for question in self.study.header.questions])[np.ix_(questions, questions)]
        order = np.argsort(-near.sum(axis=1).round(5), kind="stable")[: self.most]
        return [questions[n] for n in sorted(order)]

    def _written_from(self, places: set[int]) -> list[int]:
        """The questions, by their places, that were written from any of these items."""
        ids = {self.study.items[place].id for place in places}
        several = enumerate(self.study.header.questions)
        return [n for n, question in several if any(row.item in ids for row in question.rows)]
