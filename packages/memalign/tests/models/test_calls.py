"""What steers the calls of a run: what is kept of them, and a run that asks nobody."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memalign import MemAlign
from memalign.aio import run
from memalign.models.base import ChatReply, ChatRequest
from memalign.models.calls import Calls
from memalign.models.dry_run import DryRun
from memalign.testing import HashEmbedding, ScriptedChatModel
from memalign.types import Usage
from tests.support.scripted import scripted


class Store(dict[str, bytes]):
    """Kept answers."""

    async def keep(self, answers: Mapping[str, bytes]) -> None:
        self.update(answers)


class Addressed(ScriptedChatModel):
    """A model at an address."""

    identity = "http://here"


def test_an_answer_is_paid_for_once_a_model_and_request() -> None:
    calls = Calls(answers=Store())
    model = ScriptedChatModel(lambda _: {"value": True})
    addressed = Addressed(lambda _: {"value": True})

    async def ask(model: ScriptedChatModel, **changes: Any) -> ChatReply:
        asked: dict[str, Any] = {"system": "s", "user": "u", "schema": {}, **changes}
        return await calls.complete(model, ChatRequest(**asked))

    first = run(ask(model))
    again = run(ask(model, about="t-2", timeout=3.0))
    assert (again.data, again.usage) == (first.data, Usage())
    run(ask(model, user="v"))
    run(ask(addressed))
    assert (len(model.requests), len(addressed.requests)) == (2, 1)


def test_a_dry_run_asks_no_model_not_even_for_vectors() -> None:
    judge, model = scripted([])
    vectors = HashEmbedding()
    dry_run = DryRun()
    row = {"value": True, "rationale": "warm"}
    rows = [row | {"id": "t-1", "outputs": "a"}, row | {"id": "t-2", "outputs": "b"}]
    optimizer = MemAlign(embedding_model=vectors)
    run(optimizer.align(judge, rows, calls=optimizer.calls(dry_run=dry_run)))
    assert (vectors.texts, model.requests) == ([], [])
    assert dry_run.usage.calls == 1
