"""The in-process embedder: WordLlama's static word vectors, whose 16 MB of weights ship in its wheel. No network."""

from __future__ import annotations

import asyncio
import importlib.util
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memalign.errors import ConfigurationError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["WordLlamaEmbedding"]

_DIMENSIONS = 256
_WEIGHTS = f"l2_supercat_{_DIMENSIONS}.safetensors"
_MAX_CHARACTERS = 20_000

_lock = threading.Lock()
_loaded: tuple[Any, Any] | None = None


class WordLlamaEmbedding:
    """Averaged word vectors (`l2_supercat`, 256 dimensions) as an EmbeddingModel.

    The weights are loaded at the first `embed` and shared by all instances. Texts above 20,000 characters count with
    their first and last 10,000. English-centred: an English paraphrase is found without a shared word (9 of 10 among twenty
    sentences), a Portuguese or Spanish one only with it (7 and 8 of 10; without, 1 of 10). Retrieval therefore compares
    items in these two languages by their words (decision 8).
    """

    @property
    def name(self) -> str:
        """The name that memories store beside their vectors."""
        return f"wordllama:l2_supercat_{_DIMENSIONS}"

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors of shape (len(texts), 256), float32; a text without a token is all zeros.

        Raises ConfigurationError when wordllama or its weights are missing.
        """
        return await asyncio.to_thread(_embed, tuple(texts))


def _embed(texts: tuple[str, ...]) -> NDArray[np.float32]:
    import numpy as np

    vectors = np.zeros((len(texts), _DIMENSIONS), dtype=np.float32)
    if not texts:
        return vectors
    tokenizer, weights = _load()
    for row, text in enumerate(texts):
        # One text at a time: no padding, so that a vector cannot depend on what is embedded beside it, and no thread
        # pool in the tokenizer, which would complain when the process forks later.
        ids = tokenizer.encode(_bounded(text), add_special_tokens=False).ids
        if not ids:
            continue
        mean = weights[np.minimum(ids, len(weights) - 1)].mean(axis=0, dtype=np.float32)
        length = float(np.linalg.norm(mean))
        if length > 0:
            vectors[row] = mean / length
    return vectors


def _bounded(text: str) -> str:
    # Lone surrogates, which JSON can carry, cannot cross into the tokenizer.
    clean = text.encode("utf-8", "replace").decode("utf-8")
    if len(clean) <= _MAX_CHARACTERS:
        return clean
    half = _MAX_CHARACTERS // 2
    return f"{clean[:half]} {clean[-half:]}"


def _load() -> tuple[Any, Any]:
    global _loaded  # noqa: PLW0603  # 32 MB of weights once a process
    with _lock:
        if _loaded is None:
            _loaded = _files()
        return _loaded


def _files() -> tuple[Any, Any]:
    """Tokenizer and weights from the files that ship in wordllama's wheel.

    Without importing it: its own loader takes 0.8 s more (pydantic, requests), configures the program's logging, and looks
    for the tokenizer in ~/.cache and on the network.
    """
    import numpy as np

    spec = importlib.util.find_spec("wordllama")
    if spec is None or spec.origin is None:
        raise ConfigurationError(
            "the in-process embedder needs wordllama: pip install wordllama, or name an embedding model"
        )
    from safetensors.numpy import load_file  # wordllama requires both
    from tokenizers import Tokenizer

    home = Path(spec.origin).parent
    files = [home / "tokenizers" / "l2_supercat_tokenizer_config.json", home / "weights" / _WEIGHTS]
    missing = next((file for file in files if not file.is_file()), None)
    if missing is not None:
        raise ConfigurationError(
            f"wordllama is installed without its weights (no {missing.name}); reinstall it: "
            "pip install --force-reinstall wordllama"
        )
    tokenizer = Tokenizer.from_file(str(files[0]))
    tokenizer.no_padding()
    return tokenizer, load_file(files[1])["embedding.weight"].astype(np.float32)
