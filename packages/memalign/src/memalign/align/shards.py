"""Shards: which pieces of feedback are distilled together. A shard bounds what a guideline can be exposed to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from memalign.memory import Memory, Shard
from memalign.types import FeedbackKey, Guideline

__all__ = ["assign_shards", "guidelines_by_feedback", "shard_guidelines"]


def assign_shards(memory: Memory, keys: Sequence[FeedbackKey], size: int) -> Memory:
    """`memory` with every key of `keys` in a shard: the most similar one with room, else a new one.

    Keys are placed in canonical order, so the order within a batch does not matter. A key keeps its shard.
    """
    placed = {key for shard in memory.shards for key in shard.keys}
    shards = _Shards(memory, size)
    for key in sorted(set(keys) - placed):
        shards.place(key)
    return msgspec.structs.replace(memory, shards=tuple(Shard(keys=tuple(sorted(keys))) for keys in shards.keys))


class _Shards:
    """Shards that grow: each with the sum of its cases' vectors, so that placing a key is one product."""

    def __init__(self, memory: Memory, size: int) -> None:
        import numpy as np  # see Memory.matrix

        rows = {case.id: index for index, case in enumerate(memory.cases)}
        self._row = {annotation.key: rows[annotation.id] for annotation in memory.annotations()}
        self._matrix = memory.matrix
        self._size = size
        self.keys = [list(shard.keys) for shard in memory.shards]
        # Only those with room matter, and that is rarely more than a few of thousands.
        self._sums = {
            n: self._matrix[[self._row[key] for key in keys]].sum(axis=0, dtype=np.float64)
            for n, keys in enumerate(self.keys)
            if size > 1 and len(keys) < size
        }

    def place(self, key: FeedbackKey) -> None:
        """Put the key into the shard with room whose cases are the most similar to its own on average, else a new one."""
        import numpy as np

        vector = self._matrix[self._row[key]].astype(np.float64)
        if self._sums:
            counts = np.array([len(self.keys[n]) for n in self._sums])
            home = list(self._sums)[int(np.argmax((np.stack(list(self._sums.values())) @ vector) / counts))]
            self.keys[home].append(key)
            self._sums[home] += vector
        else:
            home = len(self.keys)
            self.keys.append([key])
            self._sums[home] = vector
        if len(self.keys[home]) >= self._size:
            del self._sums[home]


def shard_guidelines(memory: Memory, guidelines: Iterable[Guideline], shard: Shard) -> list[Guideline]:
    """What the shard has written so far, also where a guideline of another shard is shown in its place.

    Without what was revised within the shard, what is retired, and what says the same as a retired one.
    """
    known, keys = tuple(guidelines), set(shard.keys)
    retired = {g.id for g in memory.guidelines if memory.status(g) in ("retired", "barred")}
    own = [
        g
        for g in known
        if g.exposed_to and keys.issuperset(g.exposed_to) and retired.isdisjoint((g.id, memory.successor(g)))
    ]
    ids = {guideline.id for guideline in own}
    return [guideline for guideline in own if memory.successor(guideline) not in ids]


def guidelines_by_feedback(memory: Memory) -> dict[FeedbackKey, tuple[Guideline, ...]]:
    """The guidelines exposed to each piece of feedback, and what is shown in their place: no shard needs others."""
    found: dict[FeedbackKey, dict[str, Guideline]] = {}
    for guideline in memory.guidelines:
        successor = memory.successor(guideline)
        shown = guideline if successor is None else memory.guideline(successor)
        for key in guideline.exposed_to:
            found.setdefault(key, {}).update({guideline.id: guideline, shown.id: shown})
    return {key: tuple(several.values()) for key, several in found.items()}
