"""The label that experts have given an item already: no model is asked about such a one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from memalign.cache import cached
from memalign.content import part_in
from memalign.errors import InvalidValue
from memalign.judge.spec import named_parts
from memalign.memory.label_policy import policy_label
from memalign.memory.model import Annotation, Case
from memalign.types import Example, Judgment, canonical_json

if TYPE_CHECKING:
    from memalign.judge.judge import Judge

__all__ = ["expert_words", "same_cases", "standing_judgment"]


def same_cases(judge: Judge, example: Example) -> tuple[Case, ...]:
    """The cases, by id, that look to the judge just like `example`: equal in the parts that its instructions name."""
    memory, parts = judge.memory, named_parts(judge.instructions)

    def seen(example: Example) -> str:
        text = canonical_json([part_in(example.content, name) for name in parts])
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    def make() -> dict[str, list[Case]]:
        groups: dict[str, list[Case]] = {}
        for case in memory.cases:
            groups.setdefault(seen(case.example), []).append(case)
        return groups

    return (
        tuple(cached(memory, ("same cases", parts), make).get(seen(example), ()))
        if memory.cases
        else ()
    )


def standing_judgment(judge: Judge, example: Example) -> Judgment | None:
    """The experts' label on `example` as a judgment; None where by the label policy none counts, and for free text."""
    if not judge.value_type.closed or not (cases := same_cases(judge, example)):
        return None
    memory = judge.memory
    annotations = [annotation for case in cases for annotation in case.annotations]
    label = policy_label(annotations, memory.authority)
    try:
        value = judge.value_type.parse(label)
    except InvalidValue:  # none counts, or it was given when the judge had another value type
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
    """The comments of all who gave the `label`, or none."""
    agreeing = (annotation for annotation in annotations if annotation.value in (None, label))
    return " ".join(annotation.rationale for annotation in agreeing if annotation.rationale)
