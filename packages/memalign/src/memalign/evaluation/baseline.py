"""Verdicts that need no judge model: what a judge must beat to be worth its calls."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from memalign.evaluation.evaluated import ScoredCase
from memalign.memory.retrieval import embedding_text
from memalign.models import resolve_embedding
from memalign.types import Example
from memalign.values import Value, ValueType, value_text

if TYPE_CHECKING:
    from memalign.judge import Judge

__all__ = ["baselines"]

NEAREST = "label of the nearest taught case"


async def baselines(
    judge: Judge, cases: Sequence[ScoredCase], examples: Mapping[str, Example]
) -> dict[str, list[ScoredCase]]:
    """The cases that have a verdict, with other verdicts: always the commonest label (of `float` the mean), and the nearest taught case's.

    `examples` are the cases by id. Nearness is the cosine of the in-process embedder; no model is paid. Without a
    labelled case in memory there is no second one.
    """
    scored = [case for case in cases if case.value is not None]
    constant = _commonest(scored, judge.value_type)
    found = {f"always {value_text(constant)}": [_with(case, constant) for case in scored]}
    taught = [(case.example, label) for case in judge.memory.cases if (label := judge.memory.label(case)) is not None]
    if taught:
        embedder = resolve_embedding(None)
        there = await embedder.embed([embedding_text(example) for example, _ in taught])
        here = await embedder.embed([embedding_text(examples[case.id]) for case in scored])
        nearest = (here @ there.T).argmax(axis=1)
        found[NEAREST] = [_with(case, taught[int(place)][1]) for case, place in zip(scored, nearest, strict=True)]
    return found


def _commonest(cases: Sequence[ScoredCase], value_type: ValueType) -> Value:
    if value_type.kind == "float":
        return statistics.fmean(float(case.label) for case in cases)
    return Counter(case.label for case in cases).most_common(1)[0][0]


def _with(case: ScoredCase, value: Value) -> ScoredCase:
    return ScoredCase(id=case.id, label=case.label, value=value, group=case.group)
