"""Which past cases an item is judged beside, and which demoted guidelines they bring back."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

from memalign.memory.retrieval import Neighbourhood, Retrieved, embedding_text
from memalign.models.base import Limits
from memalign.models.resolve import resolve_embedding
from memalign.types import Example, Guideline

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memalign.judge.judge import Judge

__all__ = ["Retrieval", "retrieve"]

GUIDELINES_FROM = 8
"""Nearest cases whose demoted guidelines come back."""


class Retrieval(msgspec.Struct, frozen=True, kw_only=True):
    """The cases for one item, the most useful first, and demoted guidelines; `seconds` by phase: `embed`, `retrieve`."""

    cases: tuple[Retrieved, ...]
    guidelines: tuple[Guideline, ...]
    notes: tuple[str, ...]
    seconds: dict[str, float]


async def retrieve(judge: Judge, example: Example, limits: Limits, *, guidelines: bool = False) -> Retrieval:
    """Find the cases that a judgment of `example` is made with, for a model of these limits.

    With `guidelines`, also the demoted guidelines that stem from the nearest cases.
    """
    started, memory = time.perf_counter(), judge.memory
    if not memory.cases:  # without the library of vectors, which takes a while to import
        return Retrieval(cases=(), guidelines=(), notes=(), seconds={"embed": 0.0, "retrieve": 0.0})
    # As the judge says, else as an align found good, else as suits the model.
    wishes = (judge.retrieval_k, memory.examples, limits.examples)
    k = next(wish for wish in wishes if wish is not None)
    reach = max(k, GUIDELINES_FROM) if guidelines and memory.demoted else k
    vector, notes = await _embed(judge, example, reach)
    embedded = time.perf_counter()
    around = Neighbourhood(memory, example, vector, judge.value_type, judge=judge.base_fingerprint)
    cases = around.hits(k)
    found = memory.retrieved_for(hit.case for hit in around.hits(reach)) if guidelines and memory.demoted else ()
    seconds = {"embed": embedded - started, "retrieve": time.perf_counter() - embedded}
    return Retrieval(cases=cases, guidelines=found, notes=notes, seconds=seconds)


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
