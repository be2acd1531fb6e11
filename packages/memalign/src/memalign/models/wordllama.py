"""The in-process embedder: WordLlama's static word vectors, without a network.

Its 16 MB of weights ship in its wheel.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memalign.errors import ConfigurationError

if TYPE_CHECKING:
    from memalign.models.base import Vectors

__all__ = ["WordLlamaEmbedding"]

_DIMENSIONS = 256
_MAX_CHARACTERS = 20_000


class WordLlamaEmbedding:
    """Averaged word vectors (`l2_supercat`, 256 dimensions) as an EmbeddingModel.

    The weights are loaded at the first `embed` and shared by all instances. Of a text above 20,000
    characters the first and last 10,000 count. English-centred: in another language a paraphrase
    needs shared words (decision 8).
    """

    name = f"wordllama:l2_supercat_{_DIMENSIONS}"

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Return unit vectors of shape (len(texts), 256), float32; zeros for a text without tokens.

        Raises:
            ConfigurationError: wordllama or its weights are missing.
        """
        return await asyncio.to_thread(_embed, tuple(texts))


def _embed(texts: tuple[str, ...]) -> Vectors:
    import numpy as np

    vectors = np.zeros((len(texts), _DIMENSIONS), dtype=np.float32)
    tokenizer, weights = _load()
    for row, text in enumerate(texts):
        # One text at a time: no padding, so that a vector cannot depend on what is embedded beside
        # it, and no thread pool in the tokenizer, which would complain when the process forks
        # later.
        ids = tokenizer.encode(_bounded(text), add_special_tokens=False).ids
        if ids:
            mean = weights.take(ids, axis=0, mode="clip").mean(axis=0, dtype=np.float32)
            vectors[row] = mean / (float(np.linalg.norm(mean)) or 1.0)
    return vectors


def _bounded(text: str) -> str:
    # A tokenizer takes no lone surrogates, which JSON can carry.
    clean = text.encode("utf-8", "replace").decode()
    half = _MAX_CHARACTERS // 2
    return clean if len(clean) <= _MAX_CHARACTERS else f"{clean[:half]} {clean[-half:]}"


@cache
def _load() -> tuple[Any, Any]:
    import numpy as np
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(_shipped("l2_supercat_tokenizer_config.json")))
    tokenizer.no_padding()
    weights = load_file(_shipped(f"l2_supercat_{_DIMENSIONS}.safetensors"))[
        "embedding.weight"
    ]
    return tokenizer, np.ascontiguousarray(weights, dtype=np.float32)


def _shipped(name: str) -> Path:
    """Return a file of wordllama's wheel.

    Its code is not run: it would look into ~/.cache and on the network first.
    """
    with suppress(PackageNotFoundError, StopIteration):
        return next(
            Path(str(file.locate()))
            for file in files("wordllama") or ()
            if file.name == name
        )
    raise ConfigurationError(
        f"no {name} of the in-process embedder: pip install --force-reinstall wordllama"
    )
