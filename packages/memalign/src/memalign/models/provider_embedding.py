"""Embeddings from a provider, or any OpenAI-compatible server, through pydantic-ai."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from memalign.aio import shared, together
from memalign.errors import InvalidOutput
from memalign.models.base import checked_vectors
from memalign.models.provider_errors import PromptTooLong
from memalign.models.provider_model import ProviderModel, open_provider
from memalign.models.providers import Target

if TYPE_CHECKING:
    from pydantic_ai.embeddings import (
        EmbeddingModel,
        EmbeddingResult,
        EmbeddingSettings,
    )

    from memalign.models.base import Vectors

__all__ = ["ProviderEmbedding"]

MAX_TEXTS = 32
"""Texts of one request; with all of the longest, as many tokens as OpenAI takes."""

MAX_TEXT = 24_000
"""Characters of one text; OpenAI takes 8,192 tokens."""

_SHORT = 64
"""Characters below which no text is cut further."""

_BLANK = "(empty)"
"""Sent in the place of an empty text, which providers refuse."""


class ProviderEmbedding(ProviderModel["EmbeddingModel"]):
    """An EmbeddingModel of a provider that pydantic-ai knows, or of any OpenAI-compatible server.

    Texts go out in batches of at most 32, side by side. A text beyond 24,000 characters is cut, and
    further if the model still finds it too long.
    """

    def __init__(
        self, target: Target, *, dimensions: int | None = None, **settings: Any
    ) -> None:
        """Take a model of a provider.

        Args:
            target: The model, with its address and key.
            dimensions: The length of the vectors to ask for, None for the model's own.
            settings: As of `ProviderModel`.
        """
        self.dimensions = dimensions
        super().__init__(target, **settings)

    @property
    def name(self) -> str:
        """The resolved name, `openai:m`, with `@512` for vectors of that length."""
        name = self.target.name
        return name if self.dimensions is None else f"{name}@{self.dimensions}"

    @shared
    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Return unit vectors: shape (len(texts), d), float32; (0, 0) for no text.

        Args:
            texts: What is embedded.

        Raises:
            ConfigurationError: The provider cannot be opened.
            ModelError: The provider failed, or its vectors are no finite numbers of one length.
        """
        import numpy as np

        if not texts:
            return np.zeros((0, 0), dtype=np.float32)
        cut = [text if text.strip() else _BLANK for text in texts]
        batches = [
            cut[start : start + MAX_TEXTS] for start in range(0, len(cut), MAX_TEXTS)
        ]
        rows = list(chain.from_iterable(await together(map(self._batch, batches))))
        vectors = checked_vectors(self.name, rows, len(texts))
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit: Vectors = (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)
        return unit

    def _open(self) -> EmbeddingModel:
        from pydantic_ai.embeddings import infer_embedding_model

        provider = open_provider(self.target)
        return infer_embedding_model(
            self.target.plain_name, provider_factory=lambda _: provider
        )

    async def _batch(
        self, texts: Sequence[str], longest: int = MAX_TEXT
    ) -> list[Sequence[float]]:
        try:
            return await self._request([text[:longest] for text in texts])
        except PromptTooLong:
            if longest < _SHORT:
                raise
        # One of the texts is too long: find it, and cut only that one.
        found = await together(self._batch([text], longest // 2) for text in texts)
        return list(chain.from_iterable(found))

    async def _request(self, texts: Sequence[str]) -> list[Sequence[float]]:
        model: EmbeddingModel = await self._client()
        # Always as documents, so that the same text has one vector, as query and as record.
        settings: EmbeddingSettings = {}
        if self.dimensions is not None:
            settings["dimensions"] = self.dimensions

        def send() -> Awaitable[EmbeddingResult]:
            return model.embed(texts, input_type="document", settings=settings)

        result = await self._answered(send, self._begun())
        found = list(result.embeddings)
        if len(found) != len(texts):
            raise InvalidOutput(
                f"{self.name} gave {len(found)} vectors for {len(texts)} texts"
            )
        return found
