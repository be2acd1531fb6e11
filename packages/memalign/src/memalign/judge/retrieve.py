"""Which past cases an item is judged beside."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

from memalign.memory.retrieval import Neighbourhood, Retrieved, embedding_text
from memalign.models.base import Limits
from memalign.models.resolve import resolve_embedding
from memalign.types import Example

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memalign.judge.judge import Judge

__all__ = ["Retrieval", "retrieve"]

ENOUGH = 8
"""Cases from which on a weak model learns more from guidelines: similar cases mislead it (docs/decisions/0009-stages.md)."""


class Retrieval(msgspec.Struct, frozen=True, kw_only=True):
    """The cases for one item, the most useful first; `seconds` by phase: `embed`, `retrieve`."""

    cases: tuple[Retrieved, ...]
    notes: tuple[str, ...]
    seconds: dict[str, float]


async def retrieve(judge: Judge, example: Example, limits: Limits) -> Retrieval:
    """Find the cases that a judgment of `example` is made with, for a model of these limits."""
    started, memory = time.perf_counter(), judge.memory
    if not memory.cases:  # without the library of vectors, which takes a while to import
        return Retrieval(cases=(), notes=(), seconds={"embed": 0.0, "retrieve": 0.0})
    usual = 0 if limits.brief and len(memory.cases) >= ENOUGH else limits.examples
    k = usual if judge.retrieval_k is None else judge.retrieval_k
    vector, notes = await _embed(judge, example, k)
    embedded = time.perf_counter()
    around = Neighbourhood(memory, example, vector, judge.value_type, judge=judge.base_fingerprint)
    cases = around.hits(k)
    seconds = {"embed": embedded - started, "retrieve": time.perf_counter() - embedded}
    return Retrieval(cases=cases, notes=notes, seconds=seconds)


async def _embed(judge: Judge, example: Example, k: int) -> tuple[NDArray[np.float32], tuple[str, ...]]:
    """The example's vector, of length 0 where there is nothing to compare it with, and notes."""
    import numpy as np  # not at import: see retrieval

    memory = judge.memory
    if k == 0:
        return np.zeros(0, dtype=np.float32), ()
    model = resolve_embedding(judge.embedding_model)
    if memory.embedding_model not in (None, model.name):
        # Vectors of two models compare to noise, and with equal lengths nothing else would tell.
        note = f"no similar examples: memory has vectors of {memory.embedding_model}, not of {model.name}"
        return np.zeros(0, dtype=np.float32), (note,)
    return (await model.embed([embedding_text(example)]))[0], ()
