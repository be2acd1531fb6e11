"""The prefix that a judge's requests share is read by itself, so that no answer hangs on what was asked before."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memalign.models import local
from memalign.models.base import ChatRequest, Question
from memalign.models.local import Answer


def request(user: str = "Is water wet?", *, system: str = "Answer in JSON.") -> ChatRequest:
    return ChatRequest(system=system, user=user, schema={"type": "object"}, temperature=0.0)


class Engine:
    """llama.cpp as far as a chat needs it: it remembers what it reads, and finds `cached` tokens of it."""

    def __init__(self) -> None:
        self.cached = 30
        self.read: list[str] = []

    def handle_chat_completions(self, body: dict[str, Any], receive: Callable[[dict[str, Any]], bool]) -> None:
        prefix = body["max_tokens"] == 0
        self.read.append(("prefix" if prefix else "request") + ("" if body["cache_prompt"] else " anew"))
        token = {"token": "yes", "logprob": -0.1, "top_logprobs": [{"token": "no", "logprob": -2.1}]}
        logprobs = {"content": [token]} if "logprobs" in body else None
        receive({"choices": [{"delta": {"content": "{}"}, "finish_reason": "stop", "logprobs": logprobs}]})
        details = {"cached_tokens": self.cached}
        receive({"usage": {"prompt_tokens": 90, "completion_tokens": 1, "prompt_tokens_details": details}})


def model_on(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> local.LocalChatModel:
    monkeypatch.setattr(local, "load", lambda *_, **__: engine)
    return local.LocalChatModel("local:tiny", Path("tiny.gguf"), context_tokens=512, threads=1)


@pytest.mark.parametrize(
    ("cached_first", "cached_then", "then", "read"),
    [
        (30, 30, request("Is water dry?"), ["prefix", "request"]),
        (30, 29, request("Is water dry?"), ["prefix", "prefix anew", "request"]),  # the rest was cut somewhere else
        (30, 30, request(system="Answer in words."), ["prefix anew", "request"]),
        (0, 0, request("Is water dry?"), ["request"]),  # a model whose prompts cannot be cut
    ],
)
async def test_a_prefix_is_read_apart_until_all_of_it_is_cached(
    monkeypatch: pytest.MonkeyPatch, cached_first: int, cached_then: int, then: ChatRequest, read: list[str]
) -> None:
    engine = Engine()
    model = model_on(engine, monkeypatch)
    engine.cached = cached_first
    await model.complete(request())
    assert engine.read == ["prefix anew", "request"]
    engine.read.clear()
    engine.cached = cached_then
    await model.complete(then)
    assert engine.read == read


async def test_every_question_is_read_from_the_end_of_the_item(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine()
    questions = [Question(key="q1", text="Does it say sorry?"), Question(key="q2", text="Is there a date?")]
    decision = await model_on(engine, monkeypatch).decide("A reply.", questions)
    assert engine.read == ["prefix anew", "request", "prefix", "request"]
    assert [round(shares["yes"], 2) for shares in decision.probabilities.values()] == [0.88, 0.88]


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ({"Yes": 0.2, "yes": 0.2, " YES": 0.2, "No": 0.1, " no": 0.1, "The": 0.1}, math.log(3)),  # all spellings
        ({"Yes": 0.2, "No": 0.2, "Not": 0.3, "Yesterday": 0.1}, 0.0),  # these only begin alike
        ({"Yes": 0.9, "The": 0.03, "Maybe": 0.01}, math.log(90)),  # an untold side equals the least told token
        ({"The": 0.9, "A": 0.1}, 0.0),  # neither is no evidence
        ({"Yes": 1.0, "No": 1e-30}, 15.0),
    ],
)
def test_yes_is_weighed_against_no(weights: dict[str, float], expected: float) -> None:
    rows = [{"token": text, "logprob": math.log(p)} for text, p in weights.items()]
    answer = Answer(deadline=math.inf, given_up=threading.Event())
    answer.receive({"choices": [{"logprobs": {"content": [{**rows[0], "top_logprobs": rows}]}}]})
    assert answer.margin() == pytest.approx(expected)
