"""Guidelines that already say something like an expert's words."""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from memalign.models import resolve_embedding
from memalign.types import Guideline
from memalign_server.review.judges import Loaded

__all__ = ["Similar"]

ALIKE = 0.5  # cosine of the in-process embedder
SHORTEST = 8  # characters


class Similar:
    """Finds guidelines by meaning; each guideline is embedded once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, tuple[str, NDArray[np.float32]]] = {}

    async def to(self, loaded: Loaded, words: str, *, n: int = 3) -> list[Guideline]:
        """The guidelines in force nearest to `words`, the nearest first; none for a few letters."""
        rules = loaded.judge.memory.semantic
        if not rules or len(words.strip()) < SHORTEST:
            return []
        matrix = await self._matrix(loaded, [each.text for each in rules])
        (vector,) = await resolve_embedding(None).embed([words])
        scores = matrix @ vector
        order = [int(place) for place in np.argsort(-scores)[:n]]
        return [rules[place] for place in order if scores[place] >= ALIKE]

    async def _matrix(self, loaded: Loaded, texts: list[str]) -> NDArray[np.float32]:
        name, state = loaded.judge.name, f"{loaded.version} {loaded.judge.memory.hash}"
        with self._lock:
            kept = self._known.get(name)
        if kept is not None and kept[0] == state:
            return kept[1]
        matrix = await resolve_embedding(None).embed(texts)
        with self._lock:
            self._known[name] = (state, matrix)
        return matrix
