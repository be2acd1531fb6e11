"""The protocols through which memalign talks to models, and the values that pass through them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import msgspec

from memalign.errors import InvalidOutput
from memalign.types import Usage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]
    """Of shape (number of texts, length of a vector)."""

__all__ = [
    "ChatModel",
    "ChatReply",
    "ChatRequest",
    "Decision",
    "DecisionModel",
    "EmbeddingModel",
    "JudgeModels",
    "Limits",
    "PricedModel",
    "Question",
    "checked_vectors",
]


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a model can take.

    Attributes:
        context_tokens: Prompt and answer together.
        shard_size: Pieces of feedback in one distillation call at most; 1 for a weak model.
        concurrency: Calls in flight.
        examples: Similar past cases that a judgment profits from, if the judge does not say.
        writes: It can be asked to write guidelines, and findings beside a verdict; else it judges
            with a short reason.
    """

    context_tokens: int = 128_000
    shard_size: int = 50
    concurrency: int = 16
    examples: int = 5
    writes: bool = True


class ChatRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One question to a chat model, answered by one JSON object.

    Attributes:
        system: The same for many requests, so that providers can serve it from cache.
        user: What varies.
        schema: The JSON schema of the answer, an object that is generated in the order of its
            properties.
        schema_name: In small letters and underscores.
        timeout: Seconds for the whole call; None for the adapter's default.
        optional: Properties that an answer may lack or have in another form.
        about: What is asked about, such as an item's id; no model sees it.
    """

    system: str
    user: str
    schema: dict[str, Any]
    schema_name: str = "answer"
    max_tokens: int = 1024
    temperature: float | None = 0.0
    seed: int | None = None
    timeout: float | None = None
    optional: tuple[str, ...] = ()
    about: str = ""


class ChatReply(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a ChatRequest.

    Attributes:
        data: An object that answers the request's schema.
        text: What the model wrote.
        usage: What all attempts cost: a call of unknown cost where nothing else is said.
        answered_by: The name that the answer gives, such as a dated version, or "".
    """

    data: dict[str, Any]
    text: str = ""
    usage: Usage = Usage(calls=1, cost=None)
    answered_by: str = ""


@runtime_checkable
class ChatModel(Protocol):
    """Anything that answers a ChatRequest.

    `name` is the resolved name (`openai:gpt-4.1-mini`), stored with judges and judgments.
    `complete` retries what can be retried and then raises a `ModelError`; it is safe to call
    concurrently, from any event loop.
    """

    @property
    def name(self) -> str: ...

    @property
    def limits(self) -> Limits: ...

    async def complete(self, request: ChatRequest) -> ChatReply: ...


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """One typed question to a decision model.

    Attributes:
        key: What names its answer: the id of a guideline, or `value`.
        text: The question, or for a verdict what is to be decided.
        kind: `yes_no` is answered by yes or no; `choice` by one of the labels; `score` by a level,
            with the labels in rising order.
        labels: The answers, as text; of `yes_no` they are fixed.
    """

    key: str
    text: str
    kind: Literal["yes_no", "choice", "score"] = "yes_no"
    labels: tuple[str, ...] = ("yes", "no")


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The answers of a decision model to some questions.

    Attributes:
        probabilities: By the question's key a probability in [0, 1] for each of its labels, adding
            up to 1.
        refused: By the question's key why it has no answer.
        usage: What all attempts cost.
        answered_by: The name that the answer gives, such as a dated version, or "".
    """

    probabilities: dict[str, dict[str, float]]
    refused: dict[str, str] = {}
    usage: Usage = Usage()
    answered_by: str = ""


@runtime_checkable
class DecisionModel(Protocol):
    """Anything that answers typed questions about a text with probabilities, and writes nothing.

    `decide` asks all questions about `state`, in as many requests as the model's limits make
    necessary. It retries what can be retried and raises a ModelError when no question has an
    answer. `timeout` is in seconds, for the whole call.
    """

    @property
    def name(self) -> str: ...

    @property
    def limits(self) -> Limits: ...

    async def decide(
        self,
        state: str,
        questions: Sequence[Question],
        *,
        timeout: float | None = None,  # noqa: ASYNC109  # the protocol's
    ) -> Decision: ...


@runtime_checkable
class PricedModel(Protocol):
    """A model that knows what its tokens cost before it is asked.

    `price_of` returns US dollars for a usage, or None if nobody said.
    """

    def price_of(self, usage: Usage) -> float | None: ...


@runtime_checkable
class EmbeddingModel(Protocol):
    """Anything that turns texts into unit vectors.

    `embed` gives an array of shape (len(texts), d), float32, every row of length 1 (a text without
    a word may be all zeros). The same text gives the same vector whatever is embedded beside it.
    """

    @property
    def name(self) -> str: ...

    async def embed(self, texts: Sequence[str]) -> Vectors: ...


def checked_vectors(name: str, rows: Any, count: int) -> Vectors:
    """Return what an embedding model gave as an array of shape (count, d).

    Args:
        name: The model, for the error.
        rows: What it gave.
        count: How many texts it was given.

    Raises:
        InvalidOutput: It is no vector of finite numbers for each text. Kept in a memory, one such
            vector would be nearest to everything or hide all others.
    """
    import numpy as np

    try:
        vectors = np.asarray(rows, dtype=np.float32)
    except (TypeError, ValueError):  # whose words may quote the answer
        vectors = np.zeros(0, dtype=np.float32)
    if vectors.ndim != 2 or len(vectors) != count or not np.isfinite(vectors).all():
        raise InvalidOutput(
            f"{name}: embed gave no vector of one length for each of {count} texts, or one that "
            "holds what is no finite number"
        )
    return vectors


class JudgeModels(Protocol):
    """A judge's word on its models: `parameters` have their prices, context and effort."""

    @property
    def model(self) -> str | ChatModel | DecisionModel | None: ...

    @property
    def model_name(self) -> str | None: ...

    @property
    def parameters(self) -> Mapping[str, Any]: ...
