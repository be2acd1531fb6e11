"""What needs no language model: four classifiers of taught cases, and the rules that code mines from experts' words.

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

from memalign import Example, Feedback, Judge, Memory, aio
from memalign.align.mining import mined
from memalign.content import sides_of, words_of
from memalign.judge.code_tests import Reading, holds
from memalign.memory import Annotation, Case
from memalign.memory.retrieval import embedding_text
from memalign.models.wordllama import WordLlamaEmbedding
from memalign.values import Value, ValueType

Labelled = list[tuple[Example, Value]]


def ruled(
    taught: Sequence[Feedback], value_type: ValueType
) -> Callable[[Example], Value | None] | None:
    """Mined tests as a way of their own: what the first says that means a label, else the other one of two labels."""
    fields = tuple(dict.fromkeys(name for row in taught for name in row.content))
    tests = mined(episodic(taught), value_type, fields)

    def verdict(example: Example) -> Value | None:
        reading = Reading(example.content)
        for test in tests:
            if holds(test, reading) == test.holds:
                return test.value
        others = [label for label in value_type.labels if label != tests[0].value]
        return others[0] if len(others) == 1 else None

    return verdict if tests else None


def episodic(rows: Iterable[Feedback], embedding: WordLlamaEmbedding | None = None) -> Memory:
    """The rows as a memory of cases in which nothing was distilled."""
    groups: dict[str, tuple[Example, list[Annotation]]] = {}
    for row in rows:
        if row.example is not None:
            groups.setdefault(row.id, (row.example, []))[1].append(Annotation.of(row))
    embedding, annotated = (
        embedding or WordLlamaEmbedding(),
        [groups[name] for name in sorted(groups)],
    )
    cases = [
        Case(example=case, annotations=tuple(annotations), vector=vector.tobytes())
        for (case, annotations), vector in zip(
            annotated, vectors([case for case, _ in annotated]), strict=True
        )
    ]
    return Memory(cases=tuple(cases), embedding_model=embedding.name)


def remembering(judge: Judge, rows: Iterable[Feedback], embedding: WordLlamaEmbedding) -> Judge:
    """The judge with these rows as cases that it is shown, and no guidelines."""
    return judge.replace(memory=episodic(rows, embedding), embedding_model=embedding)


def vectors(cases: Sequence[Example]) -> Any:
    """The in-process embedder's vectors of cases, a row a case."""
    return aio.run(WordLlamaEmbedding().embed([embedding_text(case) for case in cases])).astype(
        "<f4"
    )


class AnyLikeness(WordLlamaEmbedding):
    """The in-process embedder by another name, under which no case is too unlike to be shown."""

    name = "any likeness"


def _majority(taught: Labelled, cases: Sequence[Example]) -> list[Value]:
    return [Counter(label for _, label in taught).most_common(1)[0][0]] * len(cases)


def _classified(model: Any, features: Callable[[Sequence[Example]], Any]) -> Any:
    """A classifier that is fitted to the taught labels; where all of them are alike, the verdict is that label."""

    def judged(taught: Labelled, cases: Sequence[Example]) -> list[Value]:
        labels = [label for _, label in taught]
        if len(set(labels)) == 1:
            return _majority(taught, cases)
        return list(
            model.fit(features([case for case, _ in taught]), labels)
            .predict(features(cases))
            .tolist()
        )

    return judged


def _features(cases: Sequence[Example]) -> Any:
    """Length, and the share of words that the reference and the inputs have too; of a pair, one side less the other."""
    sides = [[_of_text(side) for side in _each_side(case.content, ("A", "B"))] for case in cases]
    return np.array(
        [features[0] - features[1] if len(features) == 2 else features[0] for features in sides]
    )


def _each_side(content: Mapping[str, Any], choices: Sequence[str]) -> tuple[Mapping[str, Any], ...]:
    """Return of a pair each side alone, in the order of `choices`; else the item.

    A field with both sides keeps only the one. If it has other entries, they stay, and the side has the name of the
    first side in both.
    """
    sides = sides_of(content, choices)
    if len(sides) != 2:
        return (content,)
    names = tuple(name for name in choices if name in sides)

    def alone(field: Any, side: str) -> Any:
        if not isinstance(field, dict) or not sides.keys() <= field.keys():
            return field
        beside = {key: value for key, value in field.items() if key not in sides}
        return {names[0]: field[side]} | beside if beside else field[side]

    return tuple({name: alone(field, side) for name, field in content.items()} for side in names)


def _of_text(content: Mapping[str, Any]) -> Any:
    words = _words(content["outputs"])
    shares = [
        len(words & _words(content.get(name))) / (len(words) or 1)
        for name in ("expectations", "inputs")
    ]
    return np.array([math.log1p(sum(map(len, words_of("outputs", content["outputs"])))), *shares])


def _words(content: Any) -> set[str]:
    return set(re.findall(r"\w+", " ".join(words_of("outputs", content)).lower()))


def _counted(case: Example) -> list[str]:
    """The words of an item, each with its field."""
    return [
        f"{name}:{word}" for name in ("inputs", "outputs") for word in _words(getattr(case, name))
    ]


BASELINES: dict[str, Callable[[Labelled, Sequence[Example]], list[Value]]] = {
    "majority": _majority,
    "neighbours": _classified(KNeighborsClassifier(5, metric="cosine"), vectors),
    "features": _classified(
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)), _features
    ),
    "words": _classified(make_pipeline(CountVectorizer(analyzer=_counted), MultinomialNB()), list),
}
