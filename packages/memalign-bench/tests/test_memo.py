"""A memo of model calls: what it cannot read it asks again."""

from __future__ import annotations

from pathlib import Path

import pytest

from memalign import aio
from memalign.models.base import ChatReply, ChatRequest, Limits
from memalign.types import Usage
from memalign_bench.memo import Memo

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


def test_the_answers_of_two_builds_of_an_embedded_model_are_kept_apart(tmp_path: Path) -> None:
    first, second = Computed("llama.cpp (AVX2)"), Computed("llama.cpp (AMX)")
    for model in (first, second, first):
        aio.run(Memo(model, tmp_path).complete(REQUEST))
    assert (first.asked, second.asked) == (1, 1)


class Served(Counting):
    def __init__(self, base_url: str | None) -> None:
        self.base_url = base_url


def test_the_answers_of_two_servers_that_call_their_models_alike_are_kept_apart(tmp_path: Path) -> None:
    named, served, other = Counting(), Served("http://127.0.0.1:1/v1"), Served("http://127.0.0.1:2/v1")
    own = Served(None)
    for model in (named, served, other, served, own):
        aio.run(Memo(model, tmp_path).complete(REQUEST))
    assert (named.asked, served.asked, other.asked) == (1, 1, 1)
    assert own.asked == 0, "the provider's own address is no other: what was remembered of it is good"


@pytest.mark.parametrize("left", [b"", b'{"data": {"val', b"\x00\x00", b"[]"])
def test_an_answer_that_a_crash_left_cut_is_asked_again_and_remembered(tmp_path: Path, left: bytes) -> None:
    model = Counting()
    aio.run(Memo(model, tmp_path).complete(REQUEST))
    (file,) = tmp_path.rglob("*.json")
    file.write_bytes(left)
    for _ in range(2):
        assert aio.run(Memo(model, tmp_path).complete(REQUEST)).data == {"value": True}
    assert model.asked == 2
