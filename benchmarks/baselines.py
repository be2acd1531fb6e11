"""What needs no language model: four classifiers of taught cases, and rules mined from comments.

A judge that is behind one of them is not worth its calls yet.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from memalign import Example, Feedback, Memory, aio
from memalign.align.mining import mined
from memalign.content import sides_of, words_of
from memalign.judge.code_tests import Reading, holds
from memalign.memory import Annotation, Case
from memalign.memory.retrieval import embedding_text
from memalign.models.wordllama import WordLlamaEmbedding
from memalign.values import Value, ValueType

Labelled = Sequence[tuple[Example, Value]]
Baseline = Callable[[Labelled, Sequence[Example]], list[Value]]
Ruled = Callable[[Example], Value | None]

SIDES = ("A", "B")


def ruled(taught: Sequence[Feedback], value_type: ValueType) -> Ruled | None:
    """Return a judge that has only the tests mined from feedback; None if none was mined.

    Its verdict is the label that the first test with a finding means. If none has a finding, it is
    the other one of two labels, or None if there are more.
    """
    fields: dict[str, None] = {}
    for row in taught:
        fields |= dict.fromkeys(row.content)
    memory = _remembered(taught)
    tests = mined(memory, value_type, tuple(fields))
    if not tests:
        return None
    others = [label for label in value_type.labels if label != tests[0].value]
    otherwise = others[0] if len(others) == 1 else None

    def verdict(example: Example) -> Value | None:
        reading = Reading(example.content)
        for test in tests:
            if holds(test, reading) == test.holds:
                return test.value
        return otherwise

    return verdict


def _remembered(rows: Iterable[Feedback]) -> Memory:
    """Return a memory of the rows' cases in which nothing was distilled."""
    examples: dict[str, Example] = {}
    annotations: dict[str, list[Annotation]] = {}
    for row in rows:
        if row.example is not None:
            examples.setdefault(row.id, row.example)
            given = annotations.setdefault(row.id, [])
            given.append(Annotation.of(row))
    known = sorted(examples.values(), key=lambda example: example.id)
    cases = []
    for example, vector in zip(known, vectors(known), strict=True):
        case = Case(
            example=example,
            annotations=tuple(annotations[example.id]),
            vector=vector.tobytes(),
        )
        cases.append(case)
    return Memory(cases=tuple(cases), embedding_model=WordLlamaEmbedding.name)


def vectors(cases: Sequence[Example]) -> Any:
    """Return the in-process embedder's vectors of cases, one in each row."""
    texts = [embedding_text(case) for case in cases]
    return aio.run(WordLlamaEmbedding().embed(texts)).astype("<f4")


def majority(taught: Labelled, cases: Sequence[Example]) -> list[Value]:
    """Give every case the commonest label."""
    counts = Counter(label for _, label in taught)
    commonest, _ = counts.most_common(1)[0]
    return [commonest] * len(cases)


def _classified(model: Any, features: Callable[[Sequence[Example]], Any]) -> Baseline:
    """Return a classifier that is fitted to the taught labels, if they are not all alike."""

    def judged(taught: Labelled, cases: Sequence[Example]) -> list[Value]:
        examples, labels = zip(*taught, strict=True)
        if len(set(labels)) == 1:
            return majority(taught, cases)
        seen = features(examples)
        model.fit(seen, labels)
        unseen = features(cases)
        verdicts: list[Value] = model.predict(unseen).tolist()
        return verdicts

    return judged


def _features(cases: Sequence[Example]) -> Any:
    """Return plain features of each case; those of a pair are one side's less the other's."""
    rows = []
    for case in cases:
        first, *second = map(_of_text, _each_side(case.content))
        rows.append(first - second[0] if second else first)
    return np.array(rows)


def _each_side(content: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return each side of a pair alone; the whole content if it is no pair."""
    sides = sides_of(content, SIDES)
    if len(sides) != len(SIDES):
        return [content]
    alone: list[Mapping[str, Any]] = []
    for side in SIDES:
        fields = {}
        for name, field in content.items():
            fields[name] = _one_side(field, side)
        alone.append(fields)
    return alone


def _one_side(field: Any, side: str) -> Any:
    """Return a field with one of its sides; its other entries stay, beside a side named A."""
    if not isinstance(field, dict) or not field.keys() >= set(SIDES):
        return field
    beside = {key: value for key, value in field.items() if key not in SIDES}
    if not beside:
        return field[side]
    first, _ = SIDES
    return {first: field[side], **beside}


def _of_text(content: Mapping[str, Any]) -> Any:
    """Return the length of the outputs, and the shares of their words that other fields have."""
    outputs = content["outputs"]
    texts = words_of("outputs", outputs)
    length = sum(map(len, texts))
    words = _words(outputs)
    most = max(len(words), 1)
    features = [math.log1p(length)]
    for name in ("expectations", "inputs"):
        common = words & _words(content.get(name))
        features.append(len(common) / most)
    return np.array(features)


def _words(content: Any) -> set[str]:
    text = " ".join(words_of("outputs", content))
    return set(re.findall(r"\w+", text.lower()))


def _counted(case: Example) -> list[str]:
    """Return the words of an item, each with its field."""
    words = []
    for name in ("inputs", "outputs"):
        for word in _words(getattr(case, name)):
            words.append(f"{name}:{word}")
    return words


_regression = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
_bayes = make_pipeline(CountVectorizer(analyzer=_counted), MultinomialNB())
BASELINES: dict[str, Baseline] = {
    "majority": majority,
    "neighbours": _classified(KNeighborsClassifier(5, metric="cosine"), vectors),
    "features": _classified(_regression, _features),
    "words": _classified(_bayes, list),
}
