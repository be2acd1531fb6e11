"""Which cases experts should label next: those of which the judge, its guidelines and its memory can say least."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from memalign import aio
from memalign.errors import InputError
from memalign.evaluation.judged import judgments_from
from memalign.evaluation.labelled import need_judge
from memalign.io import Examples, ExampleSource
from memalign.judge.spec import named_parts
from memalign.memory.retrieval import RELEVANT, embedding_text
from memalign.models import resolve_embedding
from memalign.types import Example, Finding, Judgment, Usage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memalign.judge import Judge, Progress
    from memalign.memory import Memory

__all__ = ["NextCase", "NextCases", "Usefulness", "anext_cases", "next_cases"]

STANDS_OUT = 0.5  # the degree from which on a reason is named
_TIE = 1e-6  # less than any two degrees that differ differ by


class NextCase(msgspec.Struct, frozen=True, kw_only=True):
    """A case to label: its id, why it and not another, and a score in [0, 1]; see `anext_cases`."""

    id: str
    reason: str
    score: float


@dataclass(frozen=True, kw_only=True)
class NextCases:
    """What to label next, the first one first; and how many cases were compared.

    `left_out` were not, because their content is in memory or came before under another id; `failed` have no judgment,
    with id and error.
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

    - No guideline applies: 0 where the model names one. Of a decision model it is 1 - |2p - 1|, with the probability
      p that is furthest from 0.5.
    - Guidelines contradict each other: 1 where findings of the model mean different values.
    - Unsure: 2 (1 - confidence), at most 1.
    - Unlike every case in memory: 0.5 where the nearest has a cosine of 0.6 (in-process embedder), 1 from 0.2 down.

    Cases of one score come in an order of chance, which is the same for the same cases, and not in that of arrival.
    The list is diverse: the next case is that of the highest score times its distance (1 - cosine) from the nearest
    case chosen before, and this product is its score. Content that is in memory, or came before, costs no call.

    Args:
        judge: The judge that is to learn.
        cases: Unlabelled cases.
        n: How many to choose.
        judged: A file of judgments (`memalign judge -o`), which are used instead of new ones.
        concurrency: Model calls at a time.
        max_cost: Dollars for all judgments.
        progress: Called with the phase, how many cases are done, and how many there are.

    Raises:
        InputError: `n` is below 1; or `judged` lacks a case, or was made with another memory or of a changed case.
        InvalidRows: A case cannot be read.
    """
    need_judge(judge, "next_cases(judge, cases)")
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise InputError(f"n must be a whole number of 1 or more, not {n!r}")
    source = (
        cases
        if isinstance(cases, Examples)
        else Examples.of(cases, columns=judge.columns, fields=named_parts(judge.instructions))
    )
    examples = list(source)
    first = {example.content_hash: example for example in reversed(examples)}
    fresh = [
        example for example in reversed(first.values()) if not judge.memory.duplicates(example)
    ]
    judgments: Sequence[Judgment] = ()
    if judged is not None:
        judgments = judgments_from(judged, fresh)
        if any(one.error is None and one.memory_hash != judge.memory.hash for one in judgments):
            raise InputError(
                f"{judged} was judged with another memory than this version of {judge.name!r} has; judge again"
            )
    elif fresh:
        judgments = await judge.ajudge_many(
            fresh, concurrency=concurrency, max_cost=max_cost, progress=progress
        )
    pairs = list(zip(fresh, judgments, strict=True))
    rated = [(example, judgment) for example, judgment in pairs if judgment.error is None]
    return NextCases(
        cases=await _ranked(judge, rated, n) if rated else (),
        ranked=len(rated),
        left_out=len(examples) - len(fresh),
        failed=tuple(
            (example.id, judgment.error)
            for example, judgment in pairs
            if judgment.error is not None
        ),
        usage=Usage()
        if judged is not None
        else sum((judgment.usage for judgment in judgments), Usage()),
    )


next_cases = aio.blocking(anext_cases)
"""The `n` cases to label next; the synchronous form of `anext_cases`."""


async def _ranked(
    judge: Judge, rated: Sequence[tuple[Example, Judgment]], n: int
) -> tuple[NextCase, ...]:
    import numpy as np  # a quarter of a second that only this part needs

    useful = Usefulness(judge)
    vectors = await _embedded([example for example, _ in rated])
    signals = await useful.signals(rated, vectors)
    scores = np.array(
        [_score(example, reasons) for (example, _), reasons in zip(rated, signals, strict=True)]
    )
    apart = np.ones(len(rated))
    chosen: list[NextCase] = []
    remaining = list(range(len(rated)))
    while remaining and len(chosen) < n:
        worth = scores * apart
        place = max(remaining, key=worth.__getitem__)
        remaining.remove(place)
        strongest = sorted(signals[place].items(), key=lambda signal: -signal[1])
        reason = (
            "; ".join(words for words, degree in strongest if degree >= STANDS_OUT)
            or "nothing unusual about it"
        )
        chosen.append(
            NextCase(id=rated[place][0].id, reason=reason, score=round(float(worth[place]), 3))
        )
        apart = np.minimum(apart, 1 - np.clip(vectors @ vectors[place], 0.0, 1.0))
    return tuple(chosen)


class Usefulness:
    """Says how useful an expert's label of a case is to a judge: the one order of what to label next."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._known: NDArray[np.float32] | None = None

    async def __call__(self, rated: Sequence[tuple[Example, Judgment]]) -> list[float]:
        """Return the score of each case, from 0 to 1, by its judgment; see `anext_cases`."""
        signals = await self.signals(rated, await _embedded([example for example, _ in rated]))
        return [
            _score(example, reasons) for (example, _), reasons in zip(rated, signals, strict=True)
        ]

    async def signals(
        self, rated: Sequence[tuple[Example, Judgment]], vectors: NDArray[np.float32]
    ) -> list[dict[str, float]]:
        """Return the reasons to label each case in words, with their degrees from 0 to 1."""
        if self._known is None:
            self._known = await _vectors_of(self._judge.memory)
        nearest: list[float | None] = [None] * len(rated)
        if self._judge.memory.cases:
            nearest = [float((self._known @ vector).max()) for vector in vectors]
        return [
            _signals(judgment, near) for (_, judgment), near in zip(rated, nearest, strict=True)
        ]


def _score(example: Example, reasons: Mapping[str, float]) -> float:
    """The mean of the degrees; equal ones differ by a chance that is the case's own."""
    chance = int(example.content_hash[:8], 16) / 16**8
    return min(1.0, sum(reasons.values()) / len(reasons)) * (1 - _TIE) + _TIE * chance


def _silence(judgment: Judgment) -> float:
    """How little the guidelines say of an item, in [0, 1]; see `anext_cases`."""
    return 1 - max(map(_loudness, judgment.findings), default=0.0)


def _loudness(finding: Finding) -> float:
    return 1.0 if finding.probability is None else abs(2 * finding.probability - 1)


def _signals(judgment: Judgment, nearest: float | None) -> dict[str, float]:
    """The four reasons to label a case in words, and their degrees in [0, 1]."""
    confidence = 1.0 if judgment.confidence is None else judgment.confidence
    meant = {finding.value for finding in judgment.findings if finding.value is not None}
    unlike, likeness = 1.0, "memory has no cases yet"
    if nearest is not None:
        unlike = min(1.0, max(0.0, (1 - nearest) / (1 - RELEVANT) / 2))
        likeness = f"unlike every case in memory (likeness at most {nearest:.2f})"
    return {
        "no guideline applies": _silence(judgment),
        "guidelines contradict each other": float(len(meant) > 1),
        f"unsure ({confidence:.0%})": min(1.0, 2 * (1 - confidence)),
        likeness: unlike,
    }


async def _embedded(examples: Sequence[Example]) -> NDArray[np.float32]:
    # The in-process embedder, whatever retrieval uses: a ranking must cost nothing beside the judgments.
    return await resolve_embedding(None).embed([embedding_text(example) for example in examples])


async def _vectors_of(memory: Memory) -> NDArray[np.float32]:
    if memory.embedding_model == resolve_embedding(None).name:
        return memory.matrix
    return await _embedded([case.example for case in memory.cases])
