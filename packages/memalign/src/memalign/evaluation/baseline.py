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
    import numpy as np
    from numpy.typing import NDArray

    from memalign.judge import Judge

    Matrix = NDArray[np.float64]

__all__ = ["NEAREST", "REGRESSION", "baselines"]

NEAREST = "label of the nearest taught case"
REGRESSION = "regression on embeddings of the taught cases"

_RIDGES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


async def baselines(
    judge: Judge, cases: Sequence[ScoredCase], examples: Mapping[str, Example]
) -> dict[str, list[ScoredCase]]:
    """The cases that have a verdict, with other verdicts: the commonest label (of `float` the mean), and two that learn.

    These are the nearest taught case's label, by cosine, and a ridge regression from embeddings to labels. Both use the
    in-process embedder, and no model is paid. Without a labelled case in memory there is neither. There is no regression
    for free text, nor where all taught cases have one label. `examples` are the cases by id.
    """
    scored = [case for case in cases if case.value is not None]
    constant = _commonest(scored, judge.value_type)
    found = {f"always {value_text(constant)}": [_with(case, constant) for case in scored]}
    taught = [(case.example, label) for case in judge.memory.cases if (label := judge.memory.label(case)) is not None]
    if taught:
        embedder, labels = resolve_embedding(None), [label for _, label in taught]
        there = await embedder.embed([embedding_text(example) for example, _ in taught])
        here = await embedder.embed([embedding_text(examples[case.id]) for case in scored])
        nearest = (here @ there.T).argmax(axis=1)
        found[NEAREST] = [_with(case, labels[int(place)]) for case, place in zip(scored, nearest, strict=True)]
        if judge.value_type.closed and len(set(labels)) > 1:
            values = _regressed(there.astype("float64"), labels, here.astype("float64"), judge.value_type)
            found[REGRESSION] = [_with(case, value) for case, value in zip(scored, values, strict=True)]
    return found


def _regressed(there: Matrix, labels: Sequence[Value], here: Matrix, value_type: ValueType) -> list[Value]:
    """The values for the points `here` (m, d) of a ridge regression on the points `there` (n, d) and their labels.

    Numbers are fitted as they are, and labels by one column each, of which the largest wins. The ridge is the one whose
    errors are least when each point is left out in turn (Allen's PRESS, 1974).
    """
    import numpy as np

    kinds = list(dict.fromkeys(labels))
    columns = [[label] if value_type.numeric else [label == kind for kind in kinds] for label in labels]
    targets = np.array(columns, dtype=float)
    middle, base = there.mean(axis=0), targets.mean(axis=0)
    left, sizes, right = np.linalg.svd(there - middle, full_matrices=False)
    parts = left.T @ (targets - base)

    def error(ridge: float) -> float:
        kept = sizes**2 / (sizes**2 + ridge)
        own = left**2 @ kept + 1 / len(labels)  # how much of each point's fit is the point itself
        missed = (targets - base - left @ (kept[:, None] * parts)) / (1 - own)[:, None]
        return float((missed**2).mean())

    ridge = min(_RIDGES, key=error)
    scores = (here - middle) @ (right.T @ ((sizes / (sizes**2 + ridge))[:, None] * parts)) + base
    if not value_type.numeric:
        return [kinds[int(place)] for place in scores.argmax(axis=1)]
    numbers = scores[:, 0].clip(value_type.low, value_type.high)
    return [float(each) if value_type.kind == "float" else round(float(each)) for each in numbers]


def _commonest(cases: Sequence[ScoredCase], value_type: ValueType) -> Value:
    if value_type.kind == "float":
        return statistics.fmean(float(case.label) for case in cases)
    return Counter(case.label for case in cases).most_common(1)[0][0]


def _with(case: ScoredCase, value: Value) -> ScoredCase:
    return ScoredCase(id=case.id, label=case.label, value=value, group=case.group)
