"""What is out of force for a locked case."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from memalign.memory import Memory

__all__ = ["bar", "new_guidelines"]

replace = msgspec.structs.replace


def bar(memory: Memory, ids: Iterable[str], case_id: str) -> Memory:
    """`memory` with these guidelines out of force for the locked case; what stood behind them steps in."""
    out = frozenset(ids)
    return replace(
        memory,
        guidelines=tuple(
            replace(g, barred_for=case_id, retired_by=None) if g.id in out else g for g in memory.guidelines
        ),
    )


def new_guidelines(before: Memory, after: Memory, locked_case: str) -> frozenset[str]:
    """What a model wrote since and is in force now, or would be once the others of these are barred, by id."""
    earlier = {guideline.id for guideline in before.guidelines}
    fresh: frozenset[str] = frozenset()
    while True:
        rest = bar(after, fresh, locked_case) if fresh else after
        more = {g.id for g in rest.semantic if g.id not in earlier and g.origin == "distilled" and not g.pinned}
        if not more:
            return fresh
        fresh |= more
