"""From several answers about an item to one verdict: samples, and the item with its two sides swapped.

Samples are averaged, which beats taking one (Wang et al. 2025, arXiv 2503.03064).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, mode
from typing import Any

import msgspec

from memalign.content import sides_of
from memalign.errors import InputError
from memalign.judge.answer import Sample
from memalign.types import Example, Usage
from memalign.values import Value, ValueType

__all__ = ["average", "renamed", "swapped", "swapped_names"]

replace = msgspec.structs.replace


def average(samples: Sequence[Sample], value_type: ValueType) -> Sample:
    """The average of the samples, of which there is one or more; a single one stands as it is.

    The verdict of several is the likeliest label, for whole numbers the one nearest to the expected score. Its reason
    and findings are those of the first sample that has this verdict.
    """
    first = samples[0]
    if len(samples) == 1:
        return first
    if labels := value_type.labels:
        shares = {label: fmean(sample.value == label for sample in samples) for label in labels}
        value = _best(shares, value_type, first.value)
        confidence = shares[value]
    else:
        value = _middle([sample.value for sample in samples], value_type)
        confidence = fmean(value_type.agree(sample.value, value) for sample in samples)
    reasons = (sample for sample in samples if sample.value == value and sample.rationale)
    usage = sum((sample.usage for sample in samples), Usage())
    return replace(next(reasons, first), value=value, confidence=confidence, usage=usage)


def _best(shares: Mapping[Value, float], value_type: ValueType, first: Value) -> Value:
    if value_type.kind == "int":
        expected = sum(float(label) * share for label, share in shares.items())
        return min(shares, key=lambda label: (abs(float(label) - expected), label))
    # Of equal shares the first sample's, which was of the item as it stands.
    return max(shares, key=lambda label: (round(shares[label], 9), label == first))


def _middle(values: Sequence[Value], value_type: ValueType) -> Value:
    if not value_type.numeric:
        return mode(values)  # of equally many the first
    mean = fmean(float(value) for value in values)
    return mean if value_type.kind == "float" else round(mean)


# -- the two sides of an item, each in the other's place ---------------------------------------------------------------


def swapped_names(example: Example, fields: Sequence[str], choices: Sequence[str]) -> dict[str, str]:
    """The two `choices` under which the item shows its sides in one of the `fields`, each with the other one.

    Raises:
        InputError: None of the fields has two of the choices for keys.
    """
    seen = {name: value for name, value in example.content.items() if name in fields}
    sides = tuple(sides_of(seen, choices))
    if len(sides) != 2:
        one, other = choices[:2]
        raise InputError(
            f"{example.id}: swap needs a field whose keys are two of the judge's choices, such as "
            f'{{"{one}": …, "{other}": …}}, but this example has {len(sides) or "none"}'
        )
    return dict([sides, sides[::-1]])


def swapped(example: Example, names: Mapping[str, str]) -> Example:
    """The item with its two sides, `swapped_names`, in each other's place."""

    def exchanged(field: Any) -> Any:
        if not isinstance(field, dict) or not names.keys() <= field.keys():
            return field
        return {key: field[names.get(key, key)] for key in field}

    return replace(example, **{name: exchanged(value) for name, value in example.content.items()})


def renamed(sample: Sample, names: Mapping[str, str]) -> Sample:
    """The answer about an item whose sides were swapped, as one about the item itself; its reason says so."""

    def named(value: Value) -> Value:
        return names.get(value, value) if isinstance(value, str) else value

    return replace(
        sample,
        value=named(sample.value),
        # Its words call each side by the other's name, and are read beside a verdict that does not.
        rationale=sample.rationale and f"With {' and '.join(names)} swapped: {sample.rationale}",
        findings=tuple(
            finding if finding.value is None else replace(finding, value=named(finding.value))
            for finding in sample.findings
        ),
        notes=tuple(f"swapped: {note}" for note in sample.notes),
    )
