"""Model objects of the user's: checked when given, and their failures are rows' errors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import memalign as ma
from memalign.errors import ConfigurationError, InputError
from memalign.models import ChatReply, ChatRequest, Limits
from memalign.models.list_prices import Prices
from memalign.testing import HashEmbedding
from memalign.types import Usage
from tests.models.test_provider_chat import model_at
from tests.support.endpoint import Endpoint

TASK: dict[str, Any] = {
    "name": "tone",
    "instructions": "Good? {{ outputs }}",
    "feedback_value_type": bool,
}
ROWS = [{"id": f"a{n}", "outputs": f"reply {n}"} for n in range(3)]
TRUE = {"rationale": "Because.", "value": True}
LISTED: Any = [TRUE]


class Own:
    """A chat model of the user's that gives, or raises, whatever it is told to."""

    name = "own"
    limits = Limits()

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def complete(self, request: ChatRequest) -> Any:
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


class Nameless(Own):
    name = ""


class Unlimited(Own):
    limits = None  # type: ignore[assignment]


class Blocking(Own):
    def complete(self, request: ChatRequest) -> ChatReply:  # type: ignore[override]
        return ChatReply(data=TRUE)


class Mute:
    name = "mute"
    limits = Limits()


@pytest.mark.parametrize(
    ("model", "lacks"),
    [
        (lambda request: TRUE, "limits"),
        (object(), "name"),
        (Nameless(TRUE), "name"),
        (Unlimited(TRUE), "limits"),
        (Mute(), "no method complete or decide"),
        (Blocking(TRUE), "async"),
        (7, "name"),
    ],
)
def test_what_a_model_object_lacks_is_said_when_it_is_given(
    model: Any, lacks: str
) -> None:
    with pytest.raises(InputError, match=f"own model.*{lacks}"):
        ma.Judge(**TASK, model=model)


class Sync:
    name = "sync"

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[1.0, 0.0] for _ in texts]


class Lists(Sync):
    vectors: Any = None

    async def embed(self, texts: Sequence[str]) -> Any:  # type: ignore[override]
        return [[1.0, 0.0] for _ in texts] if self.vectors is None else self.vectors


def test_what_an_embedding_object_lacks_is_said_when_it_is_given() -> None:
    wrong: Any
    for wrong in (Sync(), Mute(), 3):
        with pytest.raises(InputError, match="own model"):
            ma.Judge(**TASK, model=Own(ChatReply(data=TRUE)), embedding_model=wrong)


@pytest.mark.parametrize(
    "vectors", ["no", [], [[1.0, float("nan")]], [[1.0, 2.0], [0.5]], 3, None]
)
def test_lists_of_numbers_are_vectors_and_nothing_else_is(vectors: Any) -> None:
    embedding = Lists()
    judge = ma.Judge(**TASK, model=Own(ChatReply(data=TRUE)), embedding_model=embedding)
    judge = judge.align([{"id": "t-1", "outputs": "old", "value": True}]).judge
    embedding.vectors = vectors
    (judgment,) = judge.judge_many(ROWS[:1])
    if vectors is None:
        assert judgment.error is None
    else:
        assert "sync: embed gave no" in str(judgment.error)


FAILURES: list[tuple[Any, str]] = [
    (ValueError("no room"), "ModelError: own: ValueError: no room"),
    (KeyError("choices"), "ModelError: own: KeyError: 'choices'"),
    (TimeoutError(), "ModelError: own: TimeoutError"),
    (TRUE, "InvalidOutput: own: complete gave a dict, and no ChatReply"),
    (None, "InvalidOutput: own: complete gave a NoneType"),
    (ChatReply(data=LISTED), "InvalidOutput: own: complete gave a ChatReply"),
    (
        ChatReply(data={"value": "perhaps"}),
        "InvalidOutput: own answered outside the value type",
    ),
]


@pytest.mark.parametrize(("failure", "said"), FAILURES)
def test_what_a_model_object_raises_costs_its_row_alone(
    failure: Any, said: str
) -> None:
    good = ChatReply(data=TRUE)
    judge = ma.Judge(**TASK, model=Own(good, failure, good))
    first, failed, last = judge.judge_many(ROWS, concurrency=1)
    assert (first.value, failed.value, last.value) == (True, None, True)
    assert str(failed.error).startswith(said)


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        (None, None),
        (Usage(calls=1), None),
        (Usage(calls=1, cost=0.0), 0.0),
        (Usage(calls=1, cost=2.0), 2.0),
    ],
)
def test_what_a_call_of_an_object_cost_is_what_it_says_and_else_unknown(
    usage: Usage | None, cost: float | None
) -> None:
    reply = ChatReply(data=TRUE) if usage is None else ChatReply(data=TRUE, usage=usage)
    judgment = ma.Judge(**TASK, model=Own(reply))(outputs="Hello")
    assert (judgment.usage.calls, judgment.usage.cost) == (1, cost)


def test_a_judge_saved_with_a_model_object_says_so_when_it_is_loaded(
    tmp_path: Any,
) -> None:
    registry = ma.Registry(f"sqlite:///{tmp_path}/r.db")
    for name in ("own", "mine:large"):
        model = Own(ChatReply(data=TRUE))
        model.name = name
        judge = ma.Judge(**TASK | {"name": name.replace(":", "-")}, model=model)
        registry.create(judge)
        loaded = registry.load(judge.name)
        said = r"saved with a model object.*pass it.*\.replace\(model=…\)"
        with pytest.raises(ConfigurationError, match=said):
            loaded(outputs="Hello")
        assert loaded.replace(model=model)(outputs="Hello").value is True


# -- limits ----------------------------------------------------------------------------


def test_a_limit_that_cannot_be_held_is_refused_before_the_first_call(
    tmp_path: Path,
) -> None:
    with Endpoint(TRUE) as endpoint:
        judge = ma.Judge(**TASK, model=model_at(endpoint))
        with pytest.raises(ConfigurationError, match=r"max_cost cannot hold.*--price"):
            judge.judge_many(ROWS, max_cost=1.0)
        taught = [ROWS[0] | {"value": True, "source": "ana"}]
        model = judge.model
        assert isinstance(model, ma.ChatModel)
        registry = ma.Registry(tmp_path / "judges.db", models=[model])
        registry.save(judge)
        for align in (judge.align, partial(registry.align, judge.name)):
            with pytest.raises(ConfigurationError, match="max_cost cannot hold"):
                align(taught, max_cost=1.0)
        with pytest.raises(ConfigurationError, match="max_cost cannot hold"):
            judge.align(taught, optimizer=ma.MemAlign(max_cost=1.0))
    assert not endpoint.requests


def test_one_item_that_does_not_fit_stops_no_item_that_does() -> None:
    long = {"id": "long", "outputs": "long " * 4_000}
    with Endpoint(TRUE) as endpoint:
        model = model_at(endpoint, prices=Prices(input=1_000.0, output=0.0))
        judge = ma.Judge(**TASK, model=model, embedding_model=HashEmbedding())
        judged = judge.judge_many(
            [*ROWS[:2], long, ROWS[2]], max_cost=3.0, concurrency=2
        )
    first, second, left, last = judged
    assert first.value is second.value is last.value is True
    assert "NotJudged: one more call would pass the limit of $3" in str(left.error)


def test_an_address_without_its_scheme_is_named_before_a_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "localhost:8000/v1")
    said = r"OPENAI_BASE_URL is no address.*http://"
    with pytest.raises(ConfigurationError, match=said):
        ma.Judge(**TASK, model="openai:m")(outputs="Hello")
