"""Fakes for tests of judges: models that follow a script, and a deterministic embedder."""

from __future__ import annotations

import hashlib
import inspect
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memalign.errors import ModelRejected
from memalign.models.base import ChatReply, ChatRequest, Decision, Limits, Question
from memalign.types import Usage

__all__ = [
    "Decide",
    "HashEmbedding",
    "ScriptedAnswer",
    "ScriptedChatModel",
    "ScriptedDecisionModel",
]

ScriptedAnswer = dict[str, Any] | ChatReply | BaseException
"""What a scripted model answers: the data of a reply, a whole reply, or an error to raise."""

Decide = Callable[[str, Question], float | Mapping[str, float] | str | BaseException]
"""A scripted decision: the chance of yes, those of labels, a refusal, or an error to raise."""


class ScriptedChatModel:
    """A ChatModel that answers from a list, in order, or from a function of the request.

    Answers are not checked against the request's schema, so that a test can let the model
    misbehave. When the list is used up it raises AssertionError, which nothing in memalign takes
    for a model's failure. A token is a word. Safe to use from several threads and event loops.

    Args:
        answers: Dicts, ChatReplies and exceptions, or a function (sync or async) of the ChatRequest
            that returns one.
        name: The name that judgments store.
        limits: What the model claims to take.

    Attributes:
        requests: What it was asked, in the order of arrival.
    """

    def __init__(
        self,
        answers: Iterable[ScriptedAnswer]
        | Callable[[ChatRequest], ScriptedAnswer | Awaitable[ScriptedAnswer]],
        *,
        name: str = "scripted",
        limits: Limits | None = None,
    ) -> None:
        self.name = name
        self.limits = limits or Limits()
        if callable(answers):
            self._answer = answers
        else:
            self._answer = self._scripted
            self._script = iter(list(answers))
        self.requests: list[ChatRequest] = []

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Return the next scripted answer; raise it if it is an exception."""
        self.requests.append(request)
        answer: Any = self._answer(request)
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, ChatReply):
            return answer
        text = json.dumps(answer, ensure_ascii=False)
        read = f"{request.system} {request.user}".split()
        written = text.split()
        usage = Usage(
            calls=1, input_tokens=len(read), output_tokens=len(written), cost=0.0
        )
        return ChatReply(data=answer, text=text, usage=usage)

    def _scripted(self, request: ChatRequest) -> ScriptedAnswer:
        try:
            return next(self._script)
        except StopIteration:
            more = f"{request.schema_name}: {request.user[:80]!r}"
            raise AssertionError(
                f"{self.name}: the script has no answer left for one more ({more})"
            ) from None


class ScriptedDecisionModel:
    """A DecisionModel that answers from a function of the state and the question.

    `decide` gives the probability of yes of a yes/no question, or the probabilities of labels; a
    text refuses the question, and an exception is raised. `asked` records the states and questions,
    `calls` how many questions each request had. A token is a word.
    """

    def __init__(
        self,
        decide: Decide,
        *,
        name: str = "scripted-decision",
        limits: Limits | None = None,
    ) -> None:
        self.name = name
        self.limits = limits or Limits()
        self._decide = decide
        self.asked: list[tuple[str, Question]] = []
        self.calls: list[int] = []

    async def decide(
        self,
        state: str,
        questions: Sequence[Question],
        *,
        timeout: float | None = None,  # noqa: ASYNC109  # the protocol's
    ) -> Decision:
        """Return the scripted answers.

        Raises:
            ModelRejected: All questions are refused.
        """
        answers: dict[str, dict[str, float]] = {}
        refused: dict[str, str] = {}
        self.calls.append(len(questions))
        for question in questions:
            self.asked.append((state, question))
            answer = self._decide(state, question)
            if isinstance(answer, BaseException):
                raise answer
            if isinstance(answer, str):
                refused[question.key] = answer
            elif isinstance(answer, Mapping):
                chances = {label: answer.get(label, 0.0) for label in question.labels}
                answers[question.key] = chances
            else:
                answers[question.key] = {"yes": answer, "no": 1 - answer}
        words = state.split()
        for question in questions:
            words += question.text.split()
        usage = Usage(calls=1, input_tokens=len(words), cost=0.0)
        if questions and not answers:
            raise ModelRejected("; ".join(refused.values()), usage=usage)
        return Decision(probabilities=answers, refused=refused, usage=usage)


class HashEmbedding:
    """A deterministic EmbeddingModel: a word is a fixed direction, a text the sum of its words.

    Texts are as similar as they share words, whatever their case; a text without a word is all
    zeros. Vectors have shape (len(texts), dim), float32. `texts` records what was embedded.
    """

    def __init__(self, dim: int = 64) -> None:
        self._dim = dim
        self.texts: list[str] = []

    @property
    def name(self) -> str:
        """The name that memories store beside their vectors."""
        return f"hash:{self._dim}"

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return unit vectors of `texts`."""
        self.texts.extend(texts)
        vectors = np.zeros((len(texts), self._dim), dtype=np.float32)
        for row, text in enumerate(texts):
            for word in re.findall(r"\w+", text.casefold()):
                vectors[row] += self._direction(word)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors /= np.where(lengths > 0, lengths, 1)
        return vectors

    def _direction(self, word: str) -> NDArray[np.float32]:
        """Return the corner of a cube that a word's hash names."""
        raw = word.encode("utf-8", "replace")
        digest = hashlib.shake_128(raw).digest(self._dim)
        octets = np.frombuffer(digest, dtype=np.uint8)
        bits = np.unpackbits(octets, count=self._dim)
        corner = bits.astype(np.float32) * 2 - 1
        return corner
