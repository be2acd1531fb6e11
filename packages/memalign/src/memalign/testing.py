"""Fakes for tests of judges, yours and ours: models that follow a script, and a deterministic embedder."""

from __future__ import annotations

import hashlib
import inspect
import json
import re
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from memalign.errors import ModelRejected
from memalign.models.base import ChatReply, ChatRequest, Decision, Limits, Question
from memalign.types import Usage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "Answer",
    "Decide",
    "HashEmbedding",
    "ScriptedChatModel",
    "ScriptedDecisionModel",
]

Answer = dict[str, Any] | ChatReply | BaseException
"""What a scripted model answers: the data of a reply, a whole reply, or an error to raise."""

Decide = Callable[[str, Question], float | Mapping[str, float] | str | BaseException]
"""What a scripted decision model answers: the chance of yes, those of labels, why it refuses, or an error to raise."""


class ScriptedChatModel:
    """A ChatModel that answers from a list, in order, or from a function of the request.

    Answers are not checked against the request's schema, so that a test can let the model misbehave. When the list is
    used up it raises AssertionError, which nothing in memalign takes for a model's failure. Usage is deterministic: a
    token is a word, and cached tokens are the words that this request's system message shares from its start with the
    one before. Safe to use from several threads and event loops.

    Args:
        answers: Dicts, ChatReplies and exceptions, or a function (sync or async) of the ChatRequest that returns one.
        name: The name that judgments store.
        limits: What the model claims to take.

    Attributes:
        requests: What it was asked, in the order of arrival.
    """

    def __init__(
        self,
        answers: Iterable[Answer] | Callable[[ChatRequest], Answer | Awaitable[Answer]],
        *,
        name: str = "scripted",
        limits: Limits | None = None,
    ) -> None:
        self._name = name
        self._limits = limits or Limits()
        self._answer = answers if callable(answers) else None
        self._script = [] if callable(answers) else list(answers)
        self._lock = threading.Lock()
        self._next = 0
        self.requests: list[ChatRequest] = []

    @property
    def name(self) -> str:
        """The name that judgments store."""
        return self._name

    @property
    def limits(self) -> Limits:
        """What the model claims to take."""
        return self._limits

    async def complete(self, request: ChatRequest) -> ChatReply:
        """The next scripted answer; raises it when it is an exception."""
        with self._lock:
            before = self.requests[-1].system if self.requests else ""
            self.requests.append(request)
            answer: Any = self._scripted(request) if self._answer is None else None
        if self._answer is not None:
            answer = self._answer(request)
            if inspect.isawaitable(answer):
                answer = await answer
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, ChatReply):
            return answer
        text = json.dumps(answer, ensure_ascii=False)
        usage = Usage(
            calls=1,
            input_tokens=_words(request.system) + _words(request.user),
            cached_tokens=_shared_words(before, request.system),
            output_tokens=_words(text),
        )
        return ChatReply(data=answer, text=text, usage=usage)

    def _scripted(self, request: ChatRequest) -> Answer:
        if self._next >= len(self._script):
            raise AssertionError(
                f"{self._name}: the script has only {len(self._script)} answers and was asked for one "
                f"more ({request.schema_name}: {request.user[:80]!r})"
            )
        self._next += 1
        return self._script[self._next - 1]


class ScriptedDecisionModel:
    """A DecisionModel that answers from a function of the state and the question.

    `decide` gives the probability of yes of a yes/no question, which is then never n/a, or the probabilities of labels;
    a text refuses the question, and an exception is raised. `asked` records the states and questions, `calls` how many
    questions each request had.

    Usage is deterministic: a token is a word, and the state is counted once a request.
    """

    def __init__(self, decide: Decide, *, name: str = "scripted-decision", limits: Limits | None = None) -> None:
        self._name = name
        self._limits = limits or Limits()
        self._decide = decide
        self.asked: list[tuple[str, Question]] = []
        self.calls: list[int] = []

    @property
    def name(self) -> str:
        """The name that judgments store."""
        return self._name

    @property
    def limits(self) -> Limits:
        """What the model claims to take."""
        return self._limits

    async def decide(
        self,
        state: str,
        questions: Sequence[Question],
        *,
        timeout: float | None = None,  # noqa: ASYNC109  # the protocol's
    ) -> Decision:
        """The scripted answers; raises one that is an exception, and ModelRejected where all are refused."""
        answers, refused = dict[str, dict[str, float]](), dict[str, str]()
        self.calls.append(len(questions))
        for question in questions:
            self.asked.append((state, question))
            answer = self._decide(state, question)
            if isinstance(answer, BaseException):
                raise answer
            if isinstance(answer, str):
                refused[question.key] = answer
            elif isinstance(answer, Mapping):
                answers[question.key] = {label: float(answer.get(label, 0.0)) for label in question.labels}
            else:
                answers[question.key] = {"yes": answer, "no": 1 - answer, "n/a": 0.0}
        words = _words(state) + sum(_words(question.text) for question in questions)
        usage = Usage(calls=1, input_tokens=words)
        if questions and not answers:
            raise ModelRejected("; ".join(refused.values()), usage=usage)
        return Decision(probabilities=answers, refused=refused, usage=usage)


class HashEmbedding:
    """A deterministic EmbeddingModel: each word is a fixed pseudo-random direction, a text the sum of its words.

    Texts are as similar as they share words, whatever their case; a text without a word is all zeros. Vectors have
    shape (len(texts), dim), float32. `texts` records what was embedded.
    """

    def __init__(self, dim: int = 64) -> None:
        self._dim = dim
        self.texts: list[str] = []

    @property
    def name(self) -> str:
        """The name that memories store beside their vectors."""
        return f"hash:{self._dim}"

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors of `texts`."""
        import numpy as np

        self.texts.extend(texts)
        vectors = np.zeros((len(texts), self._dim), dtype=np.float32)
        for row, text in enumerate(texts):
            for word in re.findall(r"\w+", text.casefold()):
                digest = hashlib.shake_128(word.encode("utf-8", "replace")).digest((self._dim + 7) // 8)
                bits = np.unpackbits(np.frombuffer(digest, dtype=np.uint8))[: self._dim]
                vectors[row] += bits.astype(np.float32) * 2 - 1
            length = float(np.linalg.norm(vectors[row]))
            if length > 0:
                vectors[row] /= length
        return vectors


def _words(text: str) -> int:
    return len(text.split())


def _shared_words(first: str, second: str) -> int:
    shared = 0
    for one, other in zip(first.split(), second.split(), strict=False):
        if one != other:
            break
        shared += 1
    return shared
