"""The label that experts have given an item already: no model is asked about such an item."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from memalign.cache import cached
from memalign.errors import InvalidValue
from memalign.judge.task import Task
from memalign.memory import Annotation, Case, Memory
from memalign.memory.label_policy import policy_label
from memalign.types import Example, Judgment, canonical_json

__all__ = ["expert_words", "same_cases", "standing_judgment"]


def same_cases(task: Task, memory: Memory, example: Example) -> tuple[Case, ...]:
    """Return the cases that look to a judge just like an item, by id.

    Args:
        task: Only the parts that its instructions name are compared.
        memory: Holds the cases.
        example: The item.
    """

    def make() -> dict[str, list[Case]]:
        groups: dict[str, list[Case]] = {}
        for case in memory.cases:
            key = _hash(task.seen(case.example.content))
            groups.setdefault(key, []).append(case)
        return groups

    groups = cached(memory, ("same cases", task.parts), make)
    return tuple(groups.get(_hash(task.seen(example.content)), ()))


def _hash(seen: Mapping[str, Any]) -> str:
    text = canonical_json(list(seen.values()))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def standing_judgment(task: Task, memory: Memory, example: Example) -> Judgment | None:
    """Return the experts' label on an item as a judgment.

    Args:
        task: What the judge asks.
        memory: What it was taught.
        example: What is to be judged.

    Returns:
        The judgment, or None if no label counts by the label policy, and for free text.
    """
    if not task.value_type.closed:
        return None
    cases = same_cases(task, memory, example)
    if not cases:
        return None
    annotations = [annotation for case in cases for annotation in case.annotations]
    label = policy_label(annotations, memory.authority)
    try:
        value = task.value_type.parse(label)
    except InvalidValue:  # no label counts, or the judge had another value type then
        return None
    return Judgment(
        id=example.id,
        value=value,
        rationale=expert_words(annotations, label) or None,
        decided_by="expert",
        example_ids=tuple(case.id for case in cases),
        memory_hash=memory.hash,
    )


def expert_words(annotations: Iterable[Annotation], label: object) -> str:
    """Join the comments of all who gave a label, or gave none."""
    words = []
    for annotation in annotations:
        if annotation.rationale and annotation.value in (None, label):
            words.append(annotation.rationale)
    return " ".join(words)
