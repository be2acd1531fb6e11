"""Cases that a judge has judged and people have labelled, without either."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memalign.evaluation import ScoredCase


def scored(
    values: Sequence[Any],
    labels: Any = "",
    *,
    together: int = 1,
    start: int = 0,
    **fields: Any,
) -> list[ScoredCase]:
    """Return a case for each value: what a judge says of it.

    Args:
        values: What the judge says.
        labels: What people say: a list, or the label of all. Traffic has none.
        together: How many cases in a row are a group. One is nobody's group.
        start: The number of the first case.
        fields: What else all cases have.
    """
    cases = []
    for n, value in enumerate(values):
        label = labels[n] if isinstance(labels, list) else labels
        group = f"g{n // together}" if together > 1 else None
        name = f"t-{start + n}"
        case = ScoredCase(id=name, value=value, label=label, group=group, **fields)
        cases.append(case)
    return cases
