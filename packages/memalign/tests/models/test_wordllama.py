"""The in-process embedder: the same vector for the same text whatever stands beside it."""

from __future__ import annotations

import numpy as np
import pytest

from memalign.errors import ConfigurationError
from memalign.models import wordllama
from memalign.models.base import EmbeddingModel
from memalign.models.wordllama import WordLlamaEmbedding

RESTATED = {
    "I was charged twice this month.": "The amount was debited in duplicate on my bill.",
    "My order has not arrived yet.": "The parcel is late and was not delivered.",
    "I cannot get into my account.": "Login fails and the password does not work.",
    "Thanks for the quick help.": "I appreciate the support, it was very fast.",
}


@pytest.fixture(scope="module")
def model() -> WordLlamaEmbedding:
    return WordLlamaEmbedding()


async def test_it_gives_unit_vectors_of_256_numbers(model: WordLlamaEmbedding) -> None:
    assert isinstance(model, EmbeddingModel)
    assert model.name == "wordllama:l2_supercat_256"
    vectors = await model.embed(["I was charged twice", "half a character \ud83d", ""])
    assert vectors.shape == (3, 256)
    assert vectors.dtype == np.float32
    lengths = np.linalg.norm(vectors, axis=1)
    np.testing.assert_allclose(lengths, [1, 1, 0], rtol=1e-5)  # no token, no direction
    assert (await model.embed([])).shape == (0, 256)


async def test_a_vector_does_not_depend_on_its_neighbours(
    model: WordLlamaEmbedding,
) -> None:
    texts = [
        "short",
        "a much longer text about a customer who was charged twice " * 20,
        "",
        "três vezes",
    ]
    together = await model.embed(texts)
    alone = np.concatenate([await model.embed([text]) for text in texts])
    backwards = (await model.embed(texts[::-1]))[::-1]
    np.testing.assert_array_equal(together, alone)
    np.testing.assert_array_equal(together, backwards)


async def test_a_long_text_counts_with_head_and_tail(model: WordLlamaEmbedding) -> None:
    head = "refund " * 1_500
    middle = "weather " * 50_000
    tail = "empathy " * 1_500
    cut = head[:10_000] + " " + tail[-10_000:]
    whole, ends = await model.embed([head + middle + tail, cut])
    assert whole @ ends > 0.99


async def test_a_wheel_without_its_weights_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wordllama._load.cache_clear()
    monkeypatch.setattr("memalign.models.wordllama.files", lambda _: None)
    said = "pip install --force-reinstall wordllama"
    with pytest.raises(ConfigurationError, match=said):
        await WordLlamaEmbedding().embed(["hello"])


async def test_a_restatement_is_nearer_than_something_else(
    model: WordLlamaEmbedding,
) -> None:
    texts = await model.embed([*RESTATED])
    restated = await model.embed([*RESTATED.values()])
    assert (texts @ restated.T).argmax(axis=1).tolist() == [0, 1, 2, 3]
