"""From several judgments on an item to one: samples, and the item with its two sides swapped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, mode
from typing import Any

from msgspec.structs import replace

from memalign.content import sides_of
from memalign.errors import InputError
from memalign.types import Example, Judgment, Usage
from memalign.values import Value, ValueType

__all__ = ["average", "renamed", "swapped", "swapped_names"]


def average(judgments: Sequence[Judgment], value_type: ValueType) -> Judgment:
    """One judgment of several: the commonest verdict, of numbers the mean, and as confidence the share that agrees.

    Of equally common verdicts the first one counts. Reason and findings are those of the first that gave the verdict.
    """
    values = [value for judgment in judgments if (value := judgment.value) is not None]
    verdict: Value = mode(values)
    if value_type.numeric:
        mean = fmean(float(value) for value in values)
        verdict = mean if value_type.kind == "float" else round(mean)
    first = next((judgment for judgment in judgments if judgment.value == verdict), judgments[0])
    return replace(
        first,
        value=verdict,
        own_value=verdict,
        confidence=fmean(value_type.agree(value, verdict) for value in values),
        example_ids=tuple(dict.fromkeys(name for judgment in judgments for name in judgment.example_ids)),
        usage=sum((judgment.usage for judgment in judgments), Usage()),
        notes=tuple(dict.fromkeys(note for judgment in judgments for note in judgment.notes)),
    )


# -- the two sides of an item, each in the other's place ---------------------------------------------------------------


def swapped_names(example: Example, fields: Sequence[str], choices: Sequence[str]) -> dict[str, str]:
    """The two `choices` under which the item shows its sides in one of the `fields`, each with the other one."""
    sides = tuple(sides_of({name: value for name, value in example.content.items() if name in fields}, choices))
    if len(sides) != 2:
        one, other = choices[:2]
        wanted = f'a field whose keys are two of the judge\'s choices, such as {{"{one}": …, "{other}": …}}'
        raise InputError(f"{example.id}: swap needs {wanted}, but this example has {len(sides) or 'none'}")
    return dict([sides, sides[::-1]])


def swapped(example: Example, names: Mapping[str, str]) -> Example:
    """The item with its two sides, `swapped_names`, in each other's place."""

    def exchanged(field: Any) -> Any:
        if not isinstance(field, dict) or not names.keys() <= field.keys():
            return field
        return {key: field[names.get(key, key)] for key in field}

    return replace(example, **{name: exchanged(value) for name, value in example.content.items()})


def renamed(judgment: Judgment, names: Mapping[str, str]) -> Judgment:
    """The judgment on an item whose sides were swapped, as one on the item itself; its reason says so."""

    def named(value: Any) -> Any:
        return names.get(value, value) if isinstance(value, str) else value

    findings = tuple(replace(finding, value=named(finding.value)) for finding in judgment.findings)
    # Its words call each side by the other's name, and are read beside a verdict that does not.
    reason = judgment.rationale and f"With {' and '.join(names)} swapped: {judgment.rationale}"
    value = named(judgment.value)
    return replace(judgment, value=value, own_value=value, rationale=reason, findings=findings)
