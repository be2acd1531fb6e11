"""Model objects of the user's: checked when they are given, and their failures are rows' errors."""

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
    for wrong in (Sync(), Mute(), 3):
        with pytest.raises(InputError, match="own model"):
            ma.Judge(**TASK, model=Own(ChatReply(data=TRUE)), embedding_model=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "vectors", ["no", [], [[1.0, float("nan")]], [[1.0, 2.0], [0.5]], 3, None]
)
def test_lists_of_numbers_are_vectors_and_nothing_else_is(vectors: Any) -> None:
    embedding = Lists()
    judge = ma.Judge(**TASK, model=Own(ChatReply(data=TRUE)), embedding_model=embedding)
    embedding.vectors = None
    judge = judge.align(
        [{"id": "t-1", "outputs": "old", "value": True, "source": "ana"}]
    ).judge
    embedding.vectors = vectors
    judgment = judge.judge_many(ROWS[:1])[0]
    assert (judgment.error is None) == (vectors is None)
    assert vectors is None or "sync: embed gave no" in str(judgment.error)


FAILURES: list[tuple[Any, str]] = [
    (ValueError("no room"), "ModelError: own: ValueError: no room"),
    (KeyError("choices"), "ModelError: own: KeyError: 'choices'"),
    (TimeoutError(), "ModelError: own: TimeoutError"),
    (TRUE, "InvalidOutput: own: complete gave a dict, and no ChatReply"),
    (None, "InvalidOutput: own: complete gave a NoneType"),
    (ChatReply(data=[TRUE]), "InvalidOutput: own: complete gave a ChatReply"),  # type: ignore[arg-type]
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
    judged = judge.judge_many(ROWS, concurrency=1)
    assert [judgment.value for judgment in judged] == [True, None, True]
    assert str(judged[1].error).startswith(said)


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
        with pytest.raises(
            ConfigurationError,
            match=r"saved with a model object.*pass it.*\.replace\(model=…\)",
        ):
            loaded(outputs="Hello")
        assert loaded.replace(model=model)(outputs="Hello").value is True


def test_two_spellings_of_a_model_are_one() -> None:
    spelled = [
        ma.Judge(**TASK, model=name)
        for name in (
            "openai:/gpt-4.1-mini",
            "openai:gpt-4.1-mini",
            "openai/gpt-4.1-mini",
        )
    ]
    assert spelled[0] == spelled[1] == spelled[2]
    assert {judge.model for judge in spelled} == {"openai:gpt-4.1-mini"}


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
    rows = [
        {"id": f"a{n}", "outputs": "long " * 4_000 if n == 2 else "short"}
        for n in range(6)
    ]
    with Endpoint(TRUE) as endpoint:
        model = model_at(endpoint, prices=Prices(input=1_000.0, output=0.0))
        judge = ma.Judge(**TASK, model=model, embedding_model=HashEmbedding())
        judged = judge.judge_many(rows, max_cost=3.0, concurrency=2)
    assert [judgment.value for judgment in judged] == [
        True,
        True,
        None,
        True,
        True,
        True,
    ]
    assert "NotJudged: one more call would pass the limit of $3" in str(judged[2].error)


def test_an_address_without_its_scheme_is_named_before_a_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "localhost:8000/v1")
    with pytest.raises(
        ConfigurationError, match=r"OPENAI_BASE_URL is no address.*http://"
    ):
        ma.Judge(**TASK, model="openai:m")(outputs="Hello")
