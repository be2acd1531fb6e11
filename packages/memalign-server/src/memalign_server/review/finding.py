"""Cases of a judge's memory by word and by meaning."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memalign.errors import InputError
from memalign.memory import Case
from memalign.models import resolve_embedding
from memalign_server.review.judges import Loaded

__all__ = ["Found", "find_cases"]

MOST = 20
ALIKE = 0.3  # cosine from which on a case is near a few words


@dataclass(frozen=True, kw_only=True)
class Found:
    """A case that was found: by `word`, else by what it means; `likeness` is the cosine."""

    case: Case
    word: bool
    likeness: float


async def find_cases(loaded: Loaded, text: str) -> list[Found]:
    """Cases that hold the text, then those nearest in meaning where the in-process embedder made their vectors."""
    memory = loaded.judge.memory
    if not text.strip() or not memory.cases:
        return []
    try:
        named = {key.id for key in memory.matching(text)}
    except InputError:  # a text without a letter
        return []
    scores = np.zeros(len(memory.cases))
    embedder = resolve_embedding(None)
    if memory.embedding_model == embedder.name and memory.matrix.shape[1]:
        (vector,) = await embedder.embed([text])
        scores = memory.matrix @ vector
    ranked = sorted(
        (
            Found(case=case, word=case.id in named, likeness=float(score))
            for case, score in zip(memory.cases, scores, strict=True)
            if case.id in named or score >= ALIKE
        ),
        key=lambda each: (not each.word, -each.likeness),
    )
    return ranked[:MOST]
