"""A memo of model calls: what it cannot read it asks again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from memalign import aio
from memalign.errors import ModelUnavailable
from memalign.models.base import ChatReply, ChatRequest, Limits, YesNoModel
from memalign.types import Usage
from memalign_bench.memo import Memo, remembering

REQUEST = ChatRequest(system="You judge.", user="Is it polite?", schema={"type": "object"})


class Counting:
    name = "openai:counting"
    limits = Limits()
    asked = 0

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.asked += 1
        return ChatReply(data={"value": True}, text="", usage=Usage(calls=1))


class Computed(Counting):
    name = "local:counting"

    def __init__(self, engine: str) -> None:
        self.engine = engine


def test_two_builds_keep_their_answers_apart(tmp_path: Path) -> None:
    first, second = Computed("llama.cpp (AVX2)"), Computed("llama.cpp (AMX)")
    for model in (first, second, first):
        aio.run(Memo(model, tmp_path).complete(REQUEST))
    assert (first.asked, second.asked) == (1, 1)


class Served(Counting):
    def __init__(self, base_url: str | None) -> None:
        self.base_url = base_url


def test_two_servers_keep_their_answers_apart(tmp_path: Path) -> None:
    named, served, other = Counting(), Served("http://127.0.0.1:1/v1"), Served("http://127.0.0.1:2/v1")
    own = Served(None)
    for model in (named, served, other, served, own):
        aio.run(Memo(model, tmp_path).complete(REQUEST))
    assert (named.asked, served.asked, other.asked) == (1, 1, 1)
    assert own.asked == 0, "the provider's own address is no other: what was remembered of it is good"


@pytest.mark.parametrize("left", [b"", b'{"data": {"val', b"\x00\x00", b"[]"])
def test_a_cut_answer_is_asked_again_and_remembered(tmp_path: Path, left: bytes) -> None:
    model = Counting()
    aio.run(Memo(model, tmp_path).complete(REQUEST))
    (file,) = tmp_path.rglob("*.json")
    file.write_bytes(left)
    for _ in range(2):
        assert aio.run(Memo(model, tmp_path).complete(REQUEST)).data == {"value": True}
    assert model.asked == 2


class Weighing(Counting):
    def __init__(self) -> None:
        self.questions: list[str] = []

    async def margins(
        self,
        _system: str,
        item: str,
        questions: Sequence[str],
        *,
        timeout: float | None = None,  # noqa: ASYNC109  # the protocol's
    ) -> tuple[list[float], Usage]:
        if item == "fails":
            raise ModelUnavailable("down", usage=Usage(calls=1))
        self.questions += questions
        return [float(len(question)) for question in questions], Usage(calls=len(questions), input_tokens=7)


def test_a_question_about_an_item_is_asked_once(tmp_path: Path) -> None:
    model = Weighing()
    paid: list[Usage] = []

    def asked(*questions: str, item: str = "x") -> tuple[list[float], Usage]:
        memo = remembering(model, tmp_path, paid=paid.append)
        assert isinstance(memo, YesNoModel)
        return aio.run(memo.margins("Yes or no.", item, questions))

    first = asked("Is it?", "Is it so?")
    assert first[0] == [6.0, 9.0]
    assert (first[1].calls, first[1].input_tokens) == (2, 7)
    again = asked("Is it so?", "Is it?")
    assert (again[0], again[1].input_tokens) == ([9.0, 6.0], 7), "what the answers once cost"
    assert asked("Is it so?", "Why?")[0] == [9.0, 4.0]
    asked("Is it?", item="y")
    assert model.questions == ["Is it?", "Is it so?", "Why?", "Is it?"]
    with pytest.raises(ModelUnavailable):
        asked("Is it?", item="fails")
    assert [usage.calls for usage in paid] == [2, 1, 1, 1]


def test_a_memo_tells_only_what_its_model_tells(tmp_path: Path) -> None:
    assert not isinstance(remembering(Counting(), tmp_path), YesNoModel)


def test_an_optional_field_keeps_the_remembered_answer(tmp_path: Path) -> None:
    model = Counting()
    for request in (REQUEST, msgspec.structs.replace(REQUEST, optional=("checks",))):
        aio.run(Memo(model, tmp_path).complete(request))
    assert model.asked == 1
