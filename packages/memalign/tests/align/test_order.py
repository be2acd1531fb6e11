"""In what order feedback is distilled: like cases with other labels side by side, at any number of them."""

from __future__ import annotations

import itertools
import random

import pytest

from memalign import Memory
from memalign.align import distil
from tests.support.scripted import case

GROUPS, EACH = 4, 30


def memory() -> Memory:
    """Four groups of cases that are nearly alike, in which every other case has the other label."""
    cases = []
    for number in range(GROUPS * EACH):
        group, nth = number % GROUPS, number // GROUPS
        vector = [float(place == group) for place in range(8)]
        vector[group + 4] = nth / 1_000
        cases.append(case(f"t-{number:03d}", nth % 2 == 0, vector=vector, outputs=f"Reply {number}."))
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
    groups = [int(key.id.removeprefix("t-")) % GROUPS for key in order]
    labels = [one.record(key)[0].value for key in order]
    pairs = len(order) - 1
    assert sum(a == b for a, b in itertools.pairwise(groups)) >= pairs - parts * GROUPS
    assert sum(a != b for a, b in itertools.pairwise(labels)) > 0.8 * pairs
