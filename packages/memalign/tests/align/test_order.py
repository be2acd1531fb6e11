"""In what order feedback is distilled: like cases with other labels side by side, at any number of them."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from memalign import Memory
from memalign.align import distil
from memalign.memory import Annotation, Case
from memalign.types import Example, FeedbackKey

GROUPS, EACH = 4, 30


def memory() -> Memory:
    """Four groups of cases that are nearly alike, in which every other case has the other label."""
    cases = []
    for number in range(GROUPS * EACH):
        group, nth = number % GROUPS, number // GROUPS
        vector = np.zeros(8, dtype="<f4")
        vector[group], vector[group + 4] = 1.0, nth / 1_000
        name = f"t-{number:03d}"
        annotation = Annotation(id=name, source="ana", value=nth % 2 == 0)
        example = Example(id=name, outputs=f"Reply {number}.")
        cases.append(Case(example=example, annotations=(annotation,), vector=vector.tobytes()))
    return Memory(cases=tuple(cases), embedding_model="test")


@pytest.mark.parametrize(("compared", "parts"), [(1_000, 1), (40, 3)])
def test_like_cases_with_other_labels_stand_together(
    monkeypatch: pytest.MonkeyPatch, compared: int, parts: int
) -> None:
    monkeypatch.setattr(distil, "COMPARED", compared)
    one = memory()
    keys = [annotation.key for annotation in one.annotations()]
    order = distil.by_likeness(one, keys)
    assert sorted(order) == keys
    assert order == distil.by_likeness(one, random.Random(0).sample(keys, len(keys)))
    pairs = list(itertools.pairwise(order))
    assert sum(group_of(a) == group_of(b) for a, b in pairs) >= len(pairs) - parts * GROUPS
    assert sum(label_of(one, a) != label_of(one, b) for a, b in pairs) > 0.8 * len(pairs)


def group_of(key: FeedbackKey) -> int:
    return int(key.id.removeprefix("t-")) % GROUPS


def label_of(one: Memory, key: FeedbackKey) -> object:
    annotation = one.annotation(key)
    assert annotation is not None
    return annotation.value
