"""Forgetting is exact: a judge without some feedback is the one that never had it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memalign import Judge
from memalign.align import lock
from memalign.errors import ModelRejected
from memalign.judge import signature_of
from memalign.models.base import ChatRequest
from memalign.testing import Answer
from tests.support.invariants import check_memory
from tests.support.learning import SETTINGS, Imp, bare, learn, own_words, row, states, text_of, without, words_in
from tests.support.world import World, judge_in, labelled, said

RULE = "Accept whatever names a date."


def entry(judge: Judge, key: str) -> tuple[str, str]:
    """State and reason of a piece of feedback."""
    return next((each.state, each.reason) for each in judge.memory.ledger() if str(each.key) == key)


@pytest.mark.parametrize("agrees", [True, False], ids=["agrees by the rule", "errs by the rule"])
def test_a_verdict_given_by_forgotten_rules_decides_nothing(agrees: bool) -> None:
    judge, _ = judge_in(World(lambda rules, _: (RULE in rules) == agrees))
    taught = learn(judge, [said("d", RULE, value=None)]).judge
    label = labelled(["b"], True)
    left = learn(taught, label).judge.unalign("t-d").judge
    alone = learn(judge, label).judge
    assert entry(left, "t-b@ana") == entry(alone, "t-b@ana")
    assert [guideline.text for guideline in left.memory.guidelines] == []
    check_memory(left)


@pytest.mark.parametrize("way", SETTINGS)
def test_a_judge_that_forgot_everything_is_the_unaligned_one(way: tuple[int, bool]) -> None:
    judge, _ = bare(shard_size=way[0], brief=way[1])
    rows = [row(1, "ana", "add"), row(2, "ben", "add", value=True), row(3, "cleo", None, value=True)]
    empty = learn(judge, rows).judge.unalign(*(each["id"] for each in rows)).judge
    assert empty.fingerprint == judge.fingerprint
    assert signature_of(empty) == signature_of(judge)
    assert empty.memory.hash == judge.memory.hash


def test_what_the_bare_judge_judged_is_not_judged_again(tmp_path: Path) -> None:
    judge, model = bare()
    items: list[dict[str, Any]] = [{"id": f"i-{n}", "inputs": "q", "outputs": f"answer {n}"} for n in range(3)]
    judge.judge_many(items, out=tmp_path / "judged.jsonl")
    empty = learn(judge, [row(1, "ana", "add")]).judge.unalign("t-1").judge
    asked = len(model.requests)
    empty.judge_many(items, out=tmp_path / "judged.jsonl")
    assert len(model.requests) == asked


@pytest.mark.parametrize("step", ["distil", "unalign", "lock"])
def test_an_error_that_quotes_the_prompt_keeps_no_withdrawn_word(step: str) -> None:
    quoting = [step == "distil"]

    class Server(Imp):
        """Some servers send back what they refuse."""

        async def __call__(self, request: ChatRequest) -> Answer:
            if quoting[0] and (request.schema_name == "judgment") == (step == "lock"):
                return ModelRejected(f"blocked: {request.system} {request.user}")
            return await super().__call__(request)

    rows = [row(1, "ana", "add", value=True), row(2, "ben", "add", value=True), row(3, "cleo", "add", value=True)]
    judge, _ = bare(Server(), shard_size=3)
    if step == "lock":
        judge = lock(learn(judge, rows[:1]).judge, "t-1")
        quoting[0] = True
        judge = learn(judge, rows[1:]).judge
    elif step == "unalign":
        judge = learn(judge, rows).judge
        quoting[0] = True
        judge = judge.unalign("t-1").judge
    else:
        judge = learn(judge, rows).judge
    assert set(states(judge).values()) & {"pending"}, "or the test is about nothing"
    gone = rows[0] if step == "lock" else rows[1]
    left = without(judge.memory, gone["id"])
    assert not own_words([gone]) & set(words_in(text_of(left)))
