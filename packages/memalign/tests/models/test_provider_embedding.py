"""A provider's embeddings over a real server that misbehaves."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from memalign.errors import InvalidOutput, ModelRejected, ModelUnavailable
from memalign.models.provider_embedding import MAX_TEXT, ProviderEmbedding
from memalign.models.providers import Target
from memalign.models.retry import Retry
from tests.support.endpoint import (
    Answer,
    Body,
    Endpoint,
    bad_request,
    rate_limited,
    server_error,
    vector_of,
)


def model_at(endpoint: Endpoint) -> ProviderEmbedding:
    target = Target(
        provider="openai", model="text-embedding-3-small", base_url=endpoint.base_url
    )
    return ProviderEmbedding(target, retry=Retry(attempts=3, base_seconds=0.001))


def direction_of(text: str) -> NDArray[np.float64]:
    plain = np.asarray(vector_of(text))
    unit: NDArray[np.float64] = plain / np.linalg.norm(plain)
    return unit


async def test_unit_vectors_keep_the_order_of_their_texts():
    texts = [f"text {n}" for n in range(100)]
    with Endpoint() as endpoint:
        vectors = await model_at(endpoint).embed(texts)
    sizes = sorted(len(body["input"]) for body in endpoint.embedding_requests)
    assert sizes == [4, 32, 32, 32]
    assert vectors.dtype == np.float32
    for text, row in zip(texts, vectors, strict=True):
        assert row == pytest.approx(direction_of(text), abs=1e-6)


async def test_a_text_that_cannot_be_embedded_as_it_is_is_changed():
    with Endpoint() as endpoint:
        model = model_at(endpoint)
        assert (await model.embed([])).shape == (0, 0)
        assert not endpoint.embedding_requests, "no text needs no request"
        vectors = await model.embed(["", "word", " \n", "x" * 5_000_000])
    (asked,) = endpoint.embedding_requests
    assert all(map(str.strip, asked["input"]))
    assert max(map(len, asked["input"])) == MAX_TEXT
    assert (vectors[0] == vectors[2]).all()


async def test_only_the_overlong_text_is_cut_further():
    too_long = bad_request("At most 8192 tokens", "context_length_exceeded")

    def answer(body: Body) -> Answer:
        return too_long if max(map(len, body["input"])) > 8_000 else {}

    texts = ["short", "x" * 10_000, "word"]
    with Endpoint(answer) as endpoint:
        model = model_at(endpoint)
        together = await model.embed(texts)
        alone = await model.embed(texts[1:2])
    assert together[1] == pytest.approx(alone[0])
    assert together[2] == pytest.approx(direction_of("word"), abs=1e-6)


async def test_errors_are_those_of_chat_models():
    with Endpoint({}, faults=[rate_limited("0.01")]) as endpoint:
        model = model_at(endpoint)
        assert len(await model.embed(["a"])) == 1
        assert len(endpoint.embedding_requests) == 2, "what may pass is tried again"
        endpoint.answer = server_error()
        said = r"text-embedding-3-small at http.*HTTP 500.*3 attempts"
        with pytest.raises(ModelUnavailable, match=said):
            await model.embed(["a"])
        assert len(endpoint.embedding_requests) == 5
        endpoint.answer = bad_request("Wrong key", "invalid_api_key", status=401)
        with pytest.raises(ModelRejected, match="OPENAI_API_KEY"):
            await model.embed(["a"])


@pytest.mark.parametrize("number", [float("nan"), float("inf"), "erased words"])
async def test_a_vector_that_is_not_finite_is_refused_and_not_quoted(
    monkeypatch, number
):
    vector = [number, 1.0, 0.0]
    monkeypatch.setattr("tests.support.endpoint.vector_of", lambda _: vector)
    with (
        Endpoint() as endpoint,
        pytest.raises(InvalidOutput, match=r"^(?!.*erased).*no finite number"),
    ):
        await model_at(endpoint).embed(["a"])
