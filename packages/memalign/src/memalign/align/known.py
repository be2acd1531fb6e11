"""Asking about a case of memory costs its verdict and nothing else: its vector is there, and no head is fitted for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from memalign.judge import Judge
from memalign.memory import Case
from memalign.memory.retrieval import embedding_text
from memalign.models import resolve_embedding
from memalign.models.base import EmbeddingModel

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["asked_about"]


class _Known:
    """An embedding model that knows one text's vector already."""

    def __init__(self, model: EmbeddingModel, text: str, vector: bytes) -> None:
        self._model, self._text, self._vector = model, text, vector

    @property
    def name(self) -> str:
        return self._model.name

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np  # see retrieval

        if list(texts) == [self._text]:
            return np.frombuffer(self._vector, dtype=np.float32)[None, :]
        return await self._model.embed(texts)


def asked_about(judge: Judge, case: Case) -> Judge:
    """`judge`, for which the case's text costs no embedding; `case` is one of a memory that this judge's model embedded.

    Nor does it calibrate: only the verdict counts, and a head would be fitted anew to every memory that hides a case.
    """
    judge = judge.replace(parameters={**judge.parameters, "calibrate": False})
    if not case.vector:
        return judge
    model = resolve_embedding(judge.embedding_model)
    return judge.replace(embedding_model=_Known(model, embedding_text(case.example), case.vector))
