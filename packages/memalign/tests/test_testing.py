"""The fakes do what their users rely on: order, a record of what was asked,
deterministic usage and vectors."""

from __future__ import annotations

import numpy as np
import pytest

from memalign.errors import ModelRejected, ModelUnavailable
from memalign.models.base import (
    ChatModel,
    ChatRequest,
    DecisionModel,
    EmbeddingModel,
    Limits,
    Question,
)
from memalign.testing import HashEmbedding, ScriptedChatModel, ScriptedDecisionModel
from tests.support.lists import table


def request(user: str = "Reply: Hello", system: str = "You are a judge") -> ChatRequest:
    return ChatRequest(
        system=system, user=user, schema={"type": "object", "required": ["value"]}
    )


class TestScriptedChatModel:
    async def test_a_list_is_answered_in_order_whatever_the_schema_says(self):
        limits = Limits(shard_size=1, writes=False)
        model = ScriptedChatModel(
            [{"value": True}, ModelUnavailable("down"), {"other": 1}],
            name="weak",
            limits=limits,
        )
        assert isinstance(model, ChatModel)
        assert model.name == "weak"
        assert model.limits == limits
        first = await model.complete(request("first"))
        assert first.data == {"value": True}
        assert first.text == '{"value": true}'
        with pytest.raises(ModelUnavailable, match="down"):
            await model.complete(request("second"))
        assert (await model.complete(request("third"))).data == {"other": 1}
        with pytest.raises(AssertionError, match="weak: the script has no answer left"):
            await model.complete(request("one too many"))
        asked = table(model.requests, "user")
        assert asked == [("first",), ("second",), ("third",), ("one too many",)]


class TestScriptedDecisionModel:
    async def test_answers_follow_the_function_and_questions_are_recorded(self):
        polite = Question(key="q1", text="Is it polite?")
        tone = Question(
            key="value", text="Which tone?", kind="choice", labels=("warm", "cold")
        )
        rude = Question(key="q2", text="Is it rude?")
        chances = {"warm": 0.9, "cold": 0.1}
        answers: dict[str, float | dict[str, float] | str] = {
            "q1": 0.75,
            "value": chances,
            "q2": "it declines",
        }
        model = ScriptedDecisionModel(lambda state, question: answers[question.key])
        decision = await model.decide("so it is", [polite, tone, rude])
        assert decision.probabilities == {
            "q1": {"yes": 0.75, "no": 0.25},
            "value": chances,
        }
        assert decision.refused == {"q2": "it declines"}
        assert decision.usage.calls == 1
        assert decision.usage.input_tokens == 11
        assert model.calls == [3]
        assert model.asked[1] == ("so it is", tone)
        assert isinstance(model, DecisionModel)
        assert not isinstance(model, ChatModel)

    @pytest.mark.parametrize(
        ("answer", "error"),
        [(ModelUnavailable("down"), ModelUnavailable), ("it declines", ModelRejected)],
    )
    async def test_an_exception_is_raised_and_so_is_a_refusal_of_all(
        self, answer, error
    ):
        model = ScriptedDecisionModel(lambda *_: answer)
        with pytest.raises(error, match=r"down|it declines"):
            await model.decide("s", [Question(key="q", text="Is it?")])


async def test_a_hash_embedding_gives_unit_vectors_by_shared_words_alone():
    model = HashEmbedding(dim=64)
    assert isinstance(model, EmbeddingModel)
    assert model.name == "hash:64"
    assert (await model.embed([])).shape == (0, 64)
    texts = ["I was charged twice", "Charged twice, again!", "cold answers hurt", ""]
    charged, again, cold, empty = await model.embed(texts)
    assert charged @ again > 0.5 > charged @ cold
    assert charged.dtype == np.float32
    lengths = np.linalg.norm([charged, again, cold, empty], axis=1)
    assert lengths == pytest.approx([1, 1, 1, 0], rel=1e-6)
    (alone,) = await HashEmbedding().embed(texts[1:2])
    assert (alone == again).all(), "whatever else is in the batch"
    assert model.texts == texts
