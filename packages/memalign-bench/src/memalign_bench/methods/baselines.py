"""Baselines: what needs no language model. A judge below them is not yet worth its cost."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memalign.judge.features import plain_features
from memalign.memory.retrieval import embedding_text
from memalign.models import resolve_embedding
from memalign.values import Value, ValueType
from memalign_bench.methods.base import Fitted, Setting, Verdict
from memalign_bench.raw import Fit, View
from memalign_bench.tasks import Case

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

__all__ = ["BASELINES", "NEIGHBOURS", "Baseline", "logistic"]

NEIGHBOURS = 5
Labels = Sequence[Value]
Predict = Callable[["Matrix"], Value]
Rule = Callable[["Matrix", Labels], Predict]
"""From the taught cases' features (n, d) and their labels to what gives one case's features (d,) a label."""


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """A method that fits a rule to features of the cases; learning and judging take milliseconds and no model."""

    name: str
    features: Callable[[Sequence[Case], ValueType], Any]
    rule: Rule
    views: frozenset[View] = frozenset({"unseen", "left-out"})

    async def learn(self, setting: Setting, train: Sequence[Case], before: Fitted | None) -> Fitted:
        """Fit the rule to the taught cases' features and labels."""
        del before
        value_type = setting.task.value_type
        started = time.perf_counter()
        learned = await self.features(train, value_type)
        labels = [case.label for case in train]
        predict = self.rule(learned, labels)
        fit = Fit(id=f"{self.name}-{len(train)}", seconds=time.perf_counter() - started)
        return _FittedBaseline(
            baseline=self,
            value_type=value_type,
            predict=predict,
            learned=learned,
            labels=labels,
            ids=[case.id for case in train],
            fit=fit,
        )


@dataclass(frozen=True, kw_only=True)
class _FittedBaseline:
    baseline: Baseline
    value_type: ValueType
    predict: Predict
    learned: Any
    labels: list[Value]
    ids: list[str]
    fit: Fit

    async def judge(self, case: Case, view: View) -> Verdict:
        """The rule's label; for `left-out` the rule is fitted without the case."""
        predict = self.predict
        if view == "left-out":
            kept = [n for n, name in enumerate(self.ids) if name != case.id]
            if not kept:
                return Verdict(value=None, error="without this case nothing was taught")
            predict = self.baseline.rule(self.learned[kept], [self.labels[n] for n in kept])
        return Verdict(value=predict((await self.baseline.features([case], self.value_type))[0]))

    async def close(self) -> None:
        """Nothing is held."""


# -- features ------------------------------------------------------------------------------------------------------


async def _nothing(cases: Sequence[Case], value_type: ValueType) -> Matrix:
    del value_type
    import numpy as np

    return np.zeros((len(cases), 1))


async def _embeddings(cases: Sequence[Case], value_type: ValueType) -> Matrix:
    del value_type
    vectors = await resolve_embedding(None).embed([embedding_text(case.example) for case in cases])
    return vectors.astype("float64")


async def _plain(cases: Sequence[Case], value_type: ValueType) -> Matrix:
    return await plain_features([case.example for case in cases], value_type, resolve_embedding(None))


# -- rules ---------------------------------------------------------------------------------------------------------


def _majority(features: Matrix, labels: Labels) -> Predict:
    del features
    counts = Counter(labels)
    most = max(counts.values())
    label = min((label for label in counts if counts[label] == most), key=str)
    return lambda _: label


def _neighbours(features: Matrix, labels: Labels) -> Predict:
    import numpy as np

    def vote(point: Matrix) -> Value:
        nearest = np.argsort(-(features @ point), kind="stable")[:NEIGHBOURS]
        votes = Counter(labels[int(n)] for n in nearest)
        most = max(votes.values())
        # Of equally many votes the nearer one's counts.
        return next(labels[int(n)] for n in nearest if votes[labels[int(n)]] == most)

    return vote


def _regression(features: Matrix, labels: Labels) -> Predict:
    order, chances = logistic(features, labels)
    return lambda point: order[int(chances(point.reshape(1, -1))[0].argmax())]


def logistic(features: Matrix, labels: Labels) -> tuple[list[Value], Callable[[Matrix], Matrix]]:
    """Logistic regression on standardised features, scikit-learn's defaults: the labels, and their chances at points (n, d)."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    order = sorted(set(labels), key=str)
    if len(order) < 2:
        return order, lambda points: points[:, :1] * 0 + 1
    scaler = StandardScaler().fit(features)
    codes = [order.index(label) for label in labels]
    model = LogisticRegression(max_iter=2000).fit(scaler.transform(features), codes)
    return order, lambda points: model.predict_proba(scaler.transform(points))


BASELINES = {
    baseline.name: baseline
    for baseline in (
        Baseline(name="majority", features=_nothing, rule=_majority),
        Baseline(name="neighbours-vote", features=_embeddings, rule=_neighbours),
        Baseline(name="regression-embeddings", features=_embeddings, rule=_regression),
        Baseline(name="regression-features", features=_plain, rule=_regression),
    )
}
