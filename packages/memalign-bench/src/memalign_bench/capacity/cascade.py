"""A cheap judge first, and a strong one only where the cheap one's probability is near a half: measured on recorded verdicts."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from memalign.errors import InputError
from memalign.io import read_feedback

__all__ = ["Cascade", "Case", "at_share", "measure", "read_pairs"]

_DRAWS = 4_000


@dataclass(frozen=True, kw_only=True)
class Case:
    """One case: people's label, the cheap judge's value and its probability, the strong judge's value, and the case's group."""

    group: str
    label: str
    cheap: str
    probability: float
    strong: str


@dataclass(frozen=True, kw_only=True)
class Cascade:
    """Where the cheap judge's probability is below `threshold`, the strong one decides.

    `asked` is the share of cases that it is asked about. `agreement` is with people, of the cascade; `loss` its difference
    from the strong judge alone, with a 95 % interval, groups drawn again.
    """

    threshold: float
    asked: float
    agreement: float
    loss: float
    interval: tuple[float, float]


def read_pairs(cheap: Path, strong: Path, labelled: Path | None = None) -> list[Case]:
    """The cases of two files of verdicts, recorded by the benchmark or written by `memalign judge -o`.

    People's labels and groups are those of `labelled`, a file of feedback, else of the `strong` file's lines. Raises
    InputError where a file has no such thing, the cheap one no probabilities, or no case is in both.
    """
    first = {row["id"]: row for row in _rows(cheap)}
    truth = {} if labelled is None else _labels(labelled)
    cases = []
    for row in _rows(strong):
        found, (label, group) = first.get(row["id"]), truth.get(row["id"], (row.get("label"), row.get("group")))
        if found is None or label is None or row.get("value") is None or found.get("value") is None:
            continue
        value, chances = _text(found["value"]), found.get("p") or found.get("probabilities")
        if not isinstance(chances, dict) or not isinstance(chances.get(value), int | float):
            raise InputError(
                f"{cheap}, {row['id']}: no probabilities; judge with --param verdict=direct where they are told"
            )
        case = Case(
            group=group or row["id"],
            label=_text(label),
            cheap=value,
            probability=chances[value],
            strong=_text(row["value"]),
        )
        cases.append(case)
    if not cases:
        raise InputError(f"{cheap} and {strong} have no labelled case in common")
    return cases


def _labels(path: Path) -> dict[str, tuple[str, str | None]]:
    """Of each case its first label and its group."""
    found: dict[str, tuple[str, str | None]] = {}
    for row in read_feedback(path).rows:
        if row.value is not None:
            found.setdefault(row.id, (_text(row.value), row.meta.get("group")))
    return found


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def measure(cases: Sequence[Case], *, threshold: float, seed: int = 0) -> Cascade:
    """What a threshold does on these cases."""
    asked = [case.probability < threshold for case in cases]
    ours = [(case.strong if ask else case.cheap) == case.label for case, ask in zip(cases, asked, strict=True)]
    alone = [case.strong == case.label for case in cases]
    difference = [int(one) - int(other) for one, other in zip(ours, alone, strict=True)]
    return Cascade(
        threshold=threshold,
        asked=sum(asked) / len(cases),
        agreement=sum(ours) / len(cases),
        loss=sum(difference) / len(cases),
        interval=_interval(difference, [case.group for case in cases], seed),
    )


def at_share(cases: Sequence[Case], share: float) -> Cascade:
    """The cascade whose threshold sends about that share of these cases on to the strong judge; of equal ones none."""
    ordered = sorted(case.probability for case in cases)
    place = round(share * len(ordered))
    return measure(cases, threshold=ordered[place] if place < len(ordered) else math.nextafter(ordered[-1], math.inf))


def _interval(values: Sequence[int], groups: Sequence[str], seed: int) -> tuple[float, float]:
    """A percentile interval of the mean, whole groups drawn with replacement."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for value, group in zip(values, groups, strict=True):
        found[group].append(value)
    sums = np.array([sum(each) for each in found.values()], dtype=float)
    sizes = np.array([len(each) for each in found.values()], dtype=float)
    drawn = np.random.default_rng(seed).integers(0, len(sums), size=(_DRAWS, len(sums)))
    means = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return (math.nan, math.nan) if len(sums) < 2 else (float(low), float(high))


def _rows(path: Path) -> list[dict[str, Any]]:
    try:
        found = [json.loads(line) for line in path.read_bytes().splitlines() if line.strip()]
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise InputError(f"{path} is not of JSON lines: {error}") from None
    if not all(isinstance(row, dict) and isinstance(row.get("id"), str) for row in found):
        raise InputError(f"{path} is not of verdicts: a line has no id that is text")
    return found
