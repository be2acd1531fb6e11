"""What needs no language model: four classifiers of taught cases, and the rules that code mines from experts' words.

A judge that is behind one of them is not worth its calls yet. Beside them is what these benchmarks share.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from memalign import Example, Feedback, Memory, aio
from memalign.align.learned_tests import mined
from memalign.content import each_side, words_of
from memalign.evaluation.cases import estimate
from memalign.evaluation.intervals import share_interval
from memalign.judge.code_tests import holds
from memalign.memory import Annotation, Case
from memalign.memory.retrieval import embedding_text
from memalign.metrics import Estimate
from memalign.models.wordllama import WordLlamaEmbedding
from memalign.values import Value, ValueType

__all__ = ["BASELINES", "AnyLikeness", "episodic", "ruled", "share"]

Labelled = list[tuple[Example, Value]]


def ruled(taught: Sequence[Feedback], value_type: ValueType) -> Callable[[Example], Value | None] | None:
    """The rules that code mines from the words of taught rows, as what gives a case its verdict; None without any."""
    fields = [name for name in ("inputs", "outputs", "expectations") if any(row.content.get(name) for row in taught)]
    rules, labels = mined(episodic(taught), value_type, fields), list[Any](value_type.labels)

    def verdict(case: Example) -> Value | None:
        """What the first rule that fires says, of a pair the side that it fits; None where none does."""
        sides = each_side(case.content, labels)
        for rule in rules:
            fits = [
                all(check.test and holds(check.test, side) == (check.answer == "yes") for check in rule.checks)
                for side in sides
            ]
            if sum(fits) == 1:
                return rule.checks[0].value if len(sides) == 1 else labels[fits.index(True)]
        return None

    return verdict if rules else None


def episodic(rows: Iterable[Feedback], embedding: WordLlamaEmbedding | None = None) -> Memory:
    """The rows as a memory of cases in which nothing was distilled."""
    groups: dict[str, tuple[Example, list[Annotation]]] = {}
    for row in rows:
        if row.example is not None:
            groups.setdefault(row.id, (row.example, []))[1].append(Annotation.of(row))
    embedding, annotated = embedding or WordLlamaEmbedding(), [groups[name] for name in sorted(groups)]
    cases = [
        Case(example=case, annotations=tuple(annotations), vector=vector.tobytes())
        for (case, annotations), vector in zip(annotated, vectors([case for case, _ in annotated]), strict=True)
    ]
    return Memory(cases=tuple(cases), embedding_model=embedding.name)


def vectors(cases: Sequence[Example]) -> Any:
    """The in-process embedder's vectors of cases, a row a case."""
    return aio.run(WordLlamaEmbedding().embed([embedding_text(case) for case in cases])).astype("<f4")


class AnyLikeness(WordLlamaEmbedding):
    """The in-process embedder by another name, under which no case is too unlike to be shown."""

    name = "any likeness"


def share(right: Sequence[bool], groups: Sequence[str]) -> Estimate:
    """The share that is right, with the library's interval by group of cases."""
    value = sum(right) / len(right) if right else None
    return estimate(value, groups, lambda: share_interval(right, groups))


# -- baselines: from taught cases and labels to verdicts on others -----------------------------------------------------


def _majority(taught: Labelled, cases: Sequence[Example]) -> list[Value]:
    return [Counter(label for _, label in taught).most_common(1)[0][0]] * len(cases)


def _classified(model: Any, features: Callable[[Sequence[Example]], Any]) -> Any:
    """A classifier that is fitted to the taught labels; where all of them are alike, the verdict is that label."""

    def judged(taught: Labelled, cases: Sequence[Example]) -> list[Value]:
        labels = [label for _, label in taught]
        if len(set(labels)) == 1:
            return _majority(taught, cases)
        return list(model.fit(features([case for case, _ in taught]), labels).predict(features(cases)).tolist())

    return judged


def _plain(cases: Sequence[Example]) -> Any:
    """Length, and the share of words that the reference and the inputs have too; of a pair, one side less the other."""
    pairs = [[case.outputs[side] for side in "AB"] if _is_pair(case) else [case.outputs, None] for case in cases]
    return np.array([_of_text(case, one) - _of_text(case, two) for case, (one, two) in zip(cases, pairs, strict=True)])


def _is_pair(case: Example) -> bool:
    return isinstance(case.outputs, dict) and {*case.outputs} == {"A", "B"}


def _of_text(case: Example, text: Any) -> Any:
    words = _words(text)
    shares = [len(words & _words(getattr(case, name))) / (len(words) or 1) for name in ("expectations", "inputs")]
    return np.array([math.log1p(sum(map(len, words_of("outputs", text)))), *shares])


def _words(content: Any) -> set[str]:
    return set(re.findall(r"\w+", " ".join(words_of("outputs", content)).lower()))


def _counted(case: Example) -> list[str]:
    """The words of an item, each with its field."""
    return [f"{name}:{word}" for name in ("inputs", "outputs") for word in _words(getattr(case, name))]


BASELINES: dict[str, Callable[[Labelled, Sequence[Example]], list[Value]]] = {
    "majority": _majority,
    "neighbours": _classified(KNeighborsClassifier(5, metric="cosine"), vectors),
    "features": _classified(make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)), _plain),
    "words": _classified(make_pipeline(CountVectorizer(analyzer=_counted), MultinomialNB()), list),
}
