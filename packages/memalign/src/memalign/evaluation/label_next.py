"""Which cases experts should label next: those of which the judge and its memory can say least."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from memalign import aio
from memalign.errors import InputError
from memalign.evaluation.judged import judgments_from
from memalign.evaluation.labelled import need_judge
from memalign.io import Examples, ExampleSource
from memalign.judge.spec import named_parts
from memalign.memory.retrieval import RELEVANT, embedding_text
from memalign.models import resolve_embedding
from memalign.types import Example, Judgment, Usage

if TYPE_CHECKING:
    from memalign.judge import Judge, Progress

__all__ = ["NextCase", "NextCases", "Usefulness", "anext_cases", "next_cases"]

STANDS_OUT = 0.5  # the degree from which on a reason is named
_TIE = 1e-6  # less than any two degrees that differ differ by

Rated = Sequence[tuple[Example, Judgment]]
Vectors = NDArray[np.float32]
Degrees = dict[str, float]
"""The reasons to label a case, in words, with their degrees from 0 to 1."""


class NextCase(msgspec.Struct, frozen=True, kw_only=True):
    """A case to label: its id, why it and not another, and a score in [0, 1]; see `anext_cases`."""

    id: str
    reason: str
    score: float


@dataclass(frozen=True, kw_only=True)
class NextCases:
    """What to label next, the first one first; and how many cases were compared.

    `left_out` were not, because their content is in memory or came before under another id;
    `failed` have no judgment, with id and error.
    """

    cases: tuple[NextCase, ...]
    ranked: int
    left_out: int
    failed: tuple[tuple[str, str], ...]
    usage: Usage


async def anext_cases(
    judge: Judge,
    cases: Examples | ExampleSource,
    *,
    n: int = 5,
    judged: str | Path | None = None,
    concurrency: int | None = None,
    max_cost: float | None = None,
    progress: Progress | None = None,
) -> NextCases:
    """Judge every unlabelled case once, and rank which `n` of them experts should label next.

    A case's score is the mean of four degrees in [0, 1]. Those from 0.5 on are named as reasons:

    - No guideline applies: 0 where the model names one. Of a decision model it is 1 - |2p - 1|,
      with the probability p that is furthest from 0.5.
    - Guidelines contradict each other: 1 where findings of the model mean different values.
    - Unsure: 2 (1 - confidence), at most 1.
    - Unlike every case in memory: 0.5 where the nearest has a cosine of 0.6 (in-process embedder),
      1 from 0.2 down.

    Cases of one score come in an order of chance, which is the same for the same cases, and not in
    that of arrival. The list is diverse: the next case is that of the highest score times its
    distance (1 - cosine) from the nearest case chosen before, and this product is its score.
    Content that is in memory, or came before, costs no call.

    Args:
        judge: The judge that is to learn.
        cases: Unlabelled cases.
        n: How many to choose.
        judged: A file of judgments (`memalign judge -o`), which are used instead of new ones.
        concurrency: Model calls at a time.
        max_cost: Dollars for all judgments.
        progress: Called with the phase, how many cases are done, and how many there are.

    Raises:
        InputError: `n` is below 1; or `judged` lacks a case, or was made with another memory or of
            a changed case.
        InvalidRows: A case cannot be read.
    """
    need_judge(judge, "next_cases(judge, cases)")
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise InputError(f"n must be a whole number of 1 or more, not {n!r}")
    if not isinstance(cases, Examples):
        fields = named_parts(judge.instructions)
        cases = Examples.of(cases, columns=judge.columns, fields=fields)
    examples = list(cases)
    fresh = _fresh(judge, examples)
    judgments: Sequence[Judgment] = ()
    usage = Usage()
    if judged is not None:
        judgments = _of_this_memory(judge, judged, fresh)
    elif fresh:
        judgments = await judge.ajudge_many(
            fresh, concurrency=concurrency, max_cost=max_cost, progress=progress
        )
        usage = sum((judgment.usage for judgment in judgments), usage)
    chosen: tuple[NextCase, ...] = ()
    rated: list[tuple[Example, Judgment]] = []
    failed: list[tuple[str, str]] = []
    for example, judgment in zip(fresh, judgments, strict=True):
        if judgment.error is None:
            rated.append((example, judgment))
        else:
            failed.append((example.id, judgment.error))
    if rated:
        chosen = await _ranked(judge, rated, n)
    return NextCases(
        cases=chosen,
        ranked=len(rated),
        left_out=len(examples) - len(fresh),
        failed=tuple(failed),
        usage=usage,
    )


next_cases = aio.blocking(anext_cases)
"""The `n` cases to label next; the synchronous form of `anext_cases`."""


def _fresh(judge: Judge, examples: Sequence[Example]) -> list[Example]:
    """Return one example of each content that is not in memory."""
    known = judge.memory.duplicates
    seen = set()
    fresh = []
    for example in examples:
        content = example.content_hash
        if content not in seen and not known(example):
            fresh.append(example)
        seen.add(content)
    return fresh


def _of_this_memory(
    judge: Judge, judged: str | Path, examples: Sequence[Example]
) -> list[Judgment]:
    """Take judgments from a file, and refuse those that were made with another memory."""
    judgments = list(judgments_from(judged, examples).values())
    for judgment in judgments:
        if judgment.error is None and judgment.memory_hash != judge.memory.hash:
            raise InputError(
                f"{judged} was judged with another memory than this version of "
                f"{judge.name!r} has; judge again"
            )
    return judgments


async def _ranked(judge: Judge, rated: Rated, n: int) -> tuple[NextCase, ...]:
    """Choose the most useful cases, each far from those chosen before."""
    vectors = await _embedded([example for example, _ in rated])
    usefulness = Usefulness(judge)
    degrees = await usefulness.degrees(rated, vectors)
    worth = np.array(_scores(rated, degrees))
    apart = np.ones(len(rated))
    chosen = []
    for _ in range(min(n, len(rated))):
        products = worth * apart
        place = int(np.argmax(products))
        example, _ = rated[place]
        reason = _reason(degrees[place])
        score = float(products[place])
        case = NextCase(
            id=example.id,
            reason=reason,
            score=round(score, 3),
        )
        chosen.append(case)
        likeness = vectors @ vectors[place]
        distance = 1 - np.clip(likeness, 0.0, 1.0)
        apart = np.minimum(apart, distance)
        apart[place] = -1.0  # below all others from now on
    return tuple(chosen)


class Usefulness:
    """Says how useful an expert's label of a case is to a judge."""

    def __init__(self, judge: Judge) -> None:
        self._memory = judge.memory
        self._known: Vectors | None = None

    async def __call__(self, rated: Rated) -> list[float]:
        """Return the score of each case, from 0 to 1, by its judgment; see `anext_cases`."""
        vectors = await _embedded([example for example, _ in rated])
        degrees = await self.degrees(rated, vectors)
        return _scores(rated, degrees)

    async def degrees(self, rated: Rated, vectors: Vectors) -> list[Degrees]:
        """Return the reasons to label each case, with their degrees from 0 to 1."""
        known = await self._remembered()
        degrees = []
        for (_, judgment), vector in zip(rated, vectors, strict=True):
            nearest = None
            if len(known):
                likeness = known @ vector
                nearest = float(likeness.max())
            reasons = _degrees(judgment, nearest)
            degrees.append(reasons)
        return degrees

    async def _remembered(self) -> Vectors:
        """Return the vectors of the cases in memory, a row for each."""
        if self._known is None:
            self._known = self._memory.matrix
            if self._memory.embedding_model != resolve_embedding(None).name:
                cases = self._memory.cases
                self._known = await _embedded([case.example for case in cases])
        return self._known


def _scores(rated: Rated, degrees: Sequence[Degrees]) -> list[float]:
    """Return the mean of the degrees of each case; the content breaks ties, as if by chance."""
    scores = []
    for (example, _), reasons in zip(rated, degrees, strict=True):
        mean = fmean(reasons.values())
        digits = example.content_hash[:8]
        chance = int(digits, 16) / 16**8
        score = mean + _TIE * (chance - mean)
        scores.append(score)
    return scores


def _reason(degrees: Degrees) -> str:
    """Name the reasons that stand out, the strongest first."""
    named = []
    strongest = sorted(degrees, key=lambda words: -degrees[words])
    for words in strongest:
        if degrees[words] >= STANDS_OUT:
            named.append(words)
    return "; ".join(named) or "nothing unusual about it"


def _degrees(judgment: Judgment, nearest: float | None) -> Degrees:
    """Return the four reasons to label a case in words, and their degrees in [0, 1]."""
    heard = 0.0
    meant = set()
    for finding in judgment.findings:
        certain = 1.0
        if finding.probability is not None:
            certain = abs(2 * finding.probability - 1)
        heard = max(heard, certain)
        if finding.value is not None:
            meant.add(finding.value)
    confidence = 1.0
    if judgment.confidence is not None:
        confidence = judgment.confidence
    unsure = 2 * (1 - confidence)
    unlike = 1.0
    likeness = "memory has no cases yet"
    if nearest is not None:
        distance = (1 - nearest) / (1 - RELEVANT) / 2
        unlike = min(1.0, max(0.0, distance))
        likeness = f"unlike every case in memory (likeness at most {nearest:.2f})"
    return {
        "no guideline applies": 1 - heard,
        "guidelines contradict each other": float(len(meant) > 1),
        f"unsure ({confidence:.0%})": min(1.0, unsure),
        likeness: unlike,
    }


async def _embedded(examples: Sequence[Example]) -> Vectors:
    # The in-process embedder, whatever retrieval uses: a ranking costs nothing but the judgments.
    texts = [embedding_text(example) for example in examples]
    return await resolve_embedding(None).embed(texts)
