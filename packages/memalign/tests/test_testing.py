"""The fakes do what their users rely on: order, a record of what was asked, deterministic usage and vectors."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from memalign.errors import ModelRejected, ModelUnavailable
from memalign.models.base import ChatModel, ChatRequest, DecisionModel, EmbeddingModel, Limits, Question
from memalign.testing import (
    HashEmbedding,
    ScriptedChatModel,
    ScriptedDecisionModel,
    ScriptedEmbeddedModel,
)


def request(user: str = "Reply: Hello", system: str = "You are a judge") -> ChatRequest:
    return ChatRequest(system=system, user=user, schema={"type": "object"})


class TestScriptedChatModel:
    async def test_answers_come_in_order_and_requests_are_recorded(self) -> None:
        model = ScriptedChatModel([{"value": True}, {"value": False}])
        replies = [await model.complete(request(user)) for user in ("first", "second")]
        assert [reply.data for reply in replies] == [{"value": True}, {"value": False}]
        assert replies[0].text == '{"value": true}'
        assert [asked.user for asked in model.requests] == ["first", "second"]

    async def test_an_exception_in_the_script_is_raised(self) -> None:
        model = ScriptedChatModel([ModelUnavailable("down"), {"value": True}])
        with pytest.raises(ModelUnavailable, match="down"):
            await model.complete(request())
        assert (await model.complete(request())).data == {"value": True}

    async def test_a_function_may_be_async_and_see_requests(self) -> None:
        async def later(asked: ChatRequest) -> dict[str, object]:
            await asyncio.sleep(0)
            return {"length": len(asked.user)}

        assert (await ScriptedChatModel(later).complete(request("four"))).data == {"length": 4}
        now = ScriptedChatModel(lambda asked: {"user": asked.user})
        assert (await now.complete(request("four"))).data == {"user": "four"}

    async def test_a_function_may_fail(self) -> None:
        model = ScriptedChatModel(lambda _: ModelUnavailable("always"))
        with pytest.raises(ModelUnavailable):
            await model.complete(request())

    async def test_a_call_too_many_fails_the_test(self) -> None:
        model = ScriptedChatModel([], name="judge-model")
        with pytest.raises(AssertionError, match="judge-model: the script has 0 answers"):
            await model.complete(request())

    async def test_misbehaving_on_purpose_is_allowed(self) -> None:
        asked = ChatRequest(system="", user="", schema={"type": "object", "required": ["value"]})
        assert (await ScriptedChatModel([{"other": 1}]).complete(asked)).data == {"other": 1}

    async def test_words_are_tokens_with_a_cached_shared_prefix(self) -> None:
        model = ScriptedChatModel(lambda _: {"value": True})
        first = await model.complete(request("a b", system="one two three"))
        second = await model.complete(request("a b c", system="one two four"))
        assert (first.usage.input_tokens, first.usage.cached_tokens, first.usage.output_tokens) == (5, 0, 2)
        assert (second.usage.input_tokens, second.usage.cached_tokens) == (6, 2)
        assert (first.usage + second.usage).calls == 2
        assert first.usage.cost == 0.0

    def test_a_scripted_model_takes_its_name_and_limits(self) -> None:
        model = ScriptedChatModel([], name="weak", limits=Limits(shard_size=1, brief=True))
        assert isinstance(model, ChatModel)
        assert (model.name, model.limits.shard_size, model.limits.brief) == ("weak", 1, True)


class TestScriptedDecisionModel:
    async def test_answers_follow_the_function_and_questions_are_recorded(self) -> None:
        polite = Question(key="q1", text="Is it polite?")
        tone = Question(key="value", text="Which tone?", kind="choice", labels=("warm", "cold"))
        rude = Question(key="q2", text="Is it rude?")
        told: dict[str, float | dict[str, float] | str] = {
            "q1": 0.75,
            "value": {"warm": 0.9, "cold": 0.1},
            "q2": "it declines",
        }
        model = ScriptedDecisionModel(lambda state, question: told[question.key])
        decision = await model.decide("so it is", [polite, tone, rude])
        assert decision.probabilities == {
            "q1": {"yes": 0.75, "no": 0.25, "n/a": 0.0},
            "value": {"warm": 0.9, "cold": 0.1},
        }
        assert decision.refused == {"q2": "it declines"}
        assert (decision.usage.calls, decision.usage.input_tokens) == (1, 11)
        assert (model.calls, model.asked[1]) == ([3], ("so it is", tone))
        assert isinstance(model, DecisionModel)
        assert not isinstance(model, ChatModel)

    async def test_an_exception_is_raised_and_so_is_a_refusal_of_all(self) -> None:
        question = [Question(key="q", text="Is it?")]
        with pytest.raises(ModelUnavailable, match="down"):
            await ScriptedDecisionModel(lambda *_: ModelUnavailable("down")).decide("s", question)
        with pytest.raises(ModelRejected, match="declines"):
            await ScriptedDecisionModel(lambda *_: "it declines").decide("s", question)

    async def test_the_scripted_embedded_model_writes_and_decides(self) -> None:
        model = ScriptedEmbeddedModel([{"value": True}], decide=lambda *_: 0.5)
        assert (await model.complete(request())).data == {"value": True}
        assert (await model.decide("s", [Question(key="q", text="Is it?")])).probabilities["q"]["yes"] == 0.5
        assert isinstance(model, ChatModel)
        assert isinstance(model, DecisionModel)


class TestHashEmbedding:
    async def test_shared_words_mean_similarity(self) -> None:
        model = HashEmbedding()
        charged, again, cold = await model.embed(["I was charged twice", "Charged twice, again!", "cold answers hurt"])
        assert charged @ again > 0.5 > charged @ cold

    async def test_vectors_of_length_one_ignore_their_batch(self) -> None:
        together = await HashEmbedding(dim=10).embed(["one", "two three", ""])
        alone = await HashEmbedding(dim=10).embed(["two three"])
        assert together.shape == (3, 10)
        assert together.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(together, axis=1), [1, 1, 0], rtol=1e-6)
        np.testing.assert_array_equal(together[1], alone[0])

    async def test_a_hash_embedding_remembers_its_texts(self) -> None:
        model = HashEmbedding(dim=8)
        assert isinstance(model, EmbeddingModel)
        assert model.name == "hash:8"
        assert (await model.embed([])).shape == (0, 8)
        await model.embed(["a"])
        assert model.texts == ["a"]
