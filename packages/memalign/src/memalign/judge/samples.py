"""From one or several answers about an item to one verdict.

An answer is a sample: a probability for each label where the endpoint tells them, else all of it on the label that was
answered. Samples are averaged, which beats taking the likeliest answer of each (Wang et al. 2025, arXiv 2503.03064).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from statistics import fmean

import msgspec

from memalign.values import Value, ValueType

__all__ = ["Outcome", "Sample", "count", "label_texts"]


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One answer: its value, its reason, and the probability of each label in [0, 1], where these are known."""

    value: Value
    rationale: str | None = None
    chances: dict[Value, float] | None = None

    def renamed(self, names: Mapping[str, str]) -> Sample:
        """The sample of an item whose sides were swapped, as one of the item itself; its reason says that they were."""
        if not names:
            return self
        chances = None if self.chances is None else {_named(label, names): p for label, p in self.chances.items()}
        # Its words call each side by the other's name, and are read beside a verdict that does not.
        rationale = self.rationale and f"With {' and '.join(names)} swapped: {self.rationale}"
        return msgspec.structs.replace(self, value=_named(self.value, names), rationale=rationale, chances=chances)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What samples come to: the value, a reason that leads to it, each label's probability, and the value's own."""

    value: Value
    rationale: str | None
    chances: dict[Value, float] | None
    confidence: float | None


@lru_cache(maxsize=64)  # asked several times a judgment
def label_texts(value_type: ValueType) -> Mapping[str, Value]:
    """Every label by the JSON text that stands for it in an answer; empty where labels cannot be listed."""
    labels = value_type.labels
    return {json.dumps(label, ensure_ascii=False): label for label in labels} if len(labels) <= 101 else {}


def count(samples: Sequence[Sample], value_type: ValueType, *, weigh: bool) -> Outcome:
    """Average the samples (one or more).

    A single sample stands as it is, unless `weigh` asks for the verdict of its probabilities. The verdict of
    probabilities is the likeliest label, for whole numbers the one nearest to the expected score.
    """
    labels = tuple(label_texts(value_type).values())
    first = samples[0]
    chances: dict[Value, float] | None = None
    if labels and (len(samples) > 1 or first.chances is not None):
        chances = {label: fmean(_chance(sample, label) for sample in samples) for label in labels}
    if len(samples) == 1 and not (weigh and chances is not None):
        value = first.value
    elif chances is None:
        value = _middle([sample.value for sample in samples], value_type)
    elif value_type.kind == "int":
        expected = sum(float(label) * p for label, p in chances.items())
        value = min(labels, key=lambda label: (abs(float(label) - expected), label))
    else:
        # Of equally likely labels the first sample's, which was of the item as it stands.
        value = max(labels, key=lambda label: (round(chances[label], 9), label == first.value))
    confidence = chances[value] if chances is not None else None
    if chances is None and len(samples) > 1:
        confidence = fmean(value_type.agree(sample.value, value) for sample in samples)
    agreeing = (sample.rationale for sample in samples if sample.value == value and sample.rationale)
    rationale = next(agreeing, first.rationale)
    return Outcome(value=value, rationale=rationale, chances=chances, confidence=confidence)


def _chance(sample: Sample, label: Value) -> float:
    return float(sample.value == label) if sample.chances is None else sample.chances.get(label, 0.0)


def _middle(values: Sequence[Value], value_type: ValueType) -> Value:
    if value_type.numeric:
        mean = fmean(float(value) for value in values)
        return mean if value_type.kind == "float" else round(mean)
    votes = Counter(values)
    return max(votes, key=lambda value: votes[value])  # of equally many the first


def _named(value: Value, names: Mapping[str, str]) -> Value:
    return names.get(value, value) if isinstance(value, str) else value
