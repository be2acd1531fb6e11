"""Four classifiers of taught cases, which need no language model.

A judge that is behind one of them is not worth its calls yet.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from statistics import mode
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from memalign import Example, aio
from memalign.content import words_of
from memalign.memory.retrieval import embedding_text
from memalign.models.wordllama import WordLlamaEmbedding
from memalign.values import Value

Examples = Sequence[Example]
Values = list[Value]
Features = Callable[[Examples], Any]
Baseline = Callable[[Examples, Values, Examples], Values]
"""From taught cases, their labels and unseen cases to verdicts."""


def majority(taught: Examples, labels: Values, cases: Examples) -> Values:
    """Give every case the commonest label."""
    commonest = mode(labels)
    return [commonest] * len(cases)


def _classified(model: Any, features: Features) -> Baseline:
    """Return a classifier that is fitted to the taught labels, if they are not all alike."""

    def judged(taught: Examples, labels: Values, cases: Examples) -> Values:
        if len(set(labels)) == 1:
            return majority(taught, labels, cases)
        seen = features(taught)
        model.fit(seen, labels)
        unseen = features(cases)
        verdicts: Values = model.predict(unseen).tolist()
        return verdicts

    return judged


def _vectors(cases: Examples) -> Any:
    """Return the in-process embedder's vectors of cases, one in each row."""
    texts = [embedding_text(case) for case in cases]
    embedded = WordLlamaEmbedding().embed(texts)
    return aio.run(embedded)


def _features(cases: Examples) -> Any:
    """Return plain features of each case, one case in each row."""
    rows = [_of_case(case) for case in cases]
    return np.array(rows)


def _of_case(case: Example) -> Any:
    """Return plain features of a case; those of a pair are A's less B's."""
    sides = case.outputs
    if not isinstance(sides, dict) or "B" not in sides:
        return _of_text(sides, case)
    first = _of_text(sides["A"], case)
    second = _of_text(sides["B"], case)
    return first - second


def _of_text(field: Any, case: Example) -> Any:
    """Return a text's length, and the shares of its words that the case's other fields have."""
    texts = words_of("outputs", field)
    length = sum(map(len, texts))
    features = [math.log1p(length)]
    words = _words(field)
    most = max(len(words), 1)
    for other in (case.expectations, case.inputs):
        common = words & _words(other)
        features.append(len(common) / most)
    return np.array(features)


def _words(field: Any) -> set[str]:
    texts = words_of("outputs", field)
    text = " ".join(texts).lower()
    words = re.findall(r"\w+", text)
    return set(words)


def _counted(case: Example) -> list[str]:
    """Return the words of an item, each with its field."""
    counted = []
    for word in _words(case.inputs):
        counted.append(f"inputs:{word}")
    for word in _words(case.outputs):
        counted.append(f"outputs:{word}")
    return counted


_nearest = KNeighborsClassifier(5, metric="cosine")
_logistic = LogisticRegression(max_iter=2000)
_regression = make_pipeline(StandardScaler(), _logistic)
_counts = CountVectorizer(analyzer=_counted)
_bayes = make_pipeline(_counts, MultinomialNB())
BASELINES: dict[str, Baseline] = {
    "majority": majority,
    "neighbours": _classified(_nearest, _vectors),
    "features": _classified(_regression, _features),
    "words": _classified(_bayes, list),
}
