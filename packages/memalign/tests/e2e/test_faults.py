"""Learning and judging over a real endpoint that fails: nothing is lost, everything is
said, and it is made good."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from memalign import Judge
from memalign.align import AlignResult
from memalign.models import Limits
from memalign.models.provider_chat import ProviderChatModel
from memalign.models.providers import Target
from memalign.models.retry import Retry
from tests.support.endpoint import (
    CLOSED,
    CONTENT_FILTER,
    REFUSAL,
    Body,
    Endpoint,
    Fault,
    bad_request,
    cut,
    rate_limited,
    says,
    server_error,
    system_of,
    user_of,
)
from tests.support.learning import in_state, states
from tests.support.lists import rules, table, texts
from tests.support.paying import INSTRUCTIONS, answer, rows
from tests.support.scripted import scripted
from tests.support.seeds import seeds


def judge_at(endpoint: Endpoint, *, shard_size: int = 2) -> Judge:
    target = Target(provider="openai", model="gpt-4.1-mini", base_url=endpoint.base_url)
    model = ProviderChatModel(target, retry=Retry(attempts=1))
    model.limits = Limits(shard_size=shard_size, concurrency=8)
    return scripted(model=model, instructions=INSTRUCTIONS)[0]


def distilling(body: Body) -> bool:
    return "You maintain the guidelines of a judge" in system_of(body) + user_of(body)


FAULTS = {
    "429": (rate_limited("0"), "RateLimited: .*Rate limit reached"),
    "500": (server_error(), "ModelUnavailable: .*500"),
    "closed": (CLOSED, "ModelUnavailable: "),
    "cut": (cut('{"changes": [{"action": "ADD", "fee'), "InvalidOutput: "),
    "wrong schema": (
        says('{"guidelines": ["x"]}'),
        "InvalidOutput: .*required: .*changes",
    ),
    "no JSON": (says("I would rather talk."), "InvalidOutput: "),
    "refusal": (REFUSAL, "ModelRefused: "),
    "filter": (CONTENT_FILTER, "ModelRefused: "),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_failed_lesson_waits_with_its_reason(name):
    fault, why = FAULTS[name]
    with Endpoint(lambda body: fault if distilling(body) else answer(body)) as endpoint:
        ill = judge_at(endpoint).align(rows(2))
        both_wait(ill, why)
        endpoint.answer = answer
        asked = len(endpoint.requests)
        well = ill.judge.align([])
    assert {*states(well.judge).values()} == {"learned"}
    first, second = texts(well.guidelines)
    assert first.startswith("Mind matter number 0,")
    assert second.startswith("Mind matter number 1,")
    assert all(map(distilling, endpoint.requests[asked:]))


def both_wait(ill: AlignResult, why: str) -> None:
    assert table(ill.rows, "state") == [("pending",), ("pending",)]
    for key, reason in ill.pending:
        assert re.match(why, reason), (key, reason)
        assert "gpt-4.1-mini" in reason, "it says which model"
        assert "matter number" not in reason, "and repeats nobody's words"
    assert not ill.guidelines


@pytest.mark.parametrize("name", ["cut", "wrong schema", "no JSON"])
def test_what_was_paid_and_of_no_use_is_counted(name):
    fault, _ = FAULTS[name]
    with Endpoint(lambda body: fault if distilling(body) else answer(body)) as endpoint:
        usage = judge_at(endpoint).align(rows(2)).usage
    assert usage.calls == len(endpoint.requests)
    assert usage.output_tokens > 0


EVERY_WAY: list[Fault] = [
    *(fault for fault, _ in FAULTS.values()),
    server_error(503),
    bad_request(
        "This model's maximum context length is exceeded", "context_length_exceeded"
    ),
    says(""),
    says("[]"),
    says('{"changes": [{"action": "ADD"'),
]


def canonical(judge: Judge) -> tuple[Any, ...]:
    """A memory without what depends on which lesson was learned first: numbers, and
    which of two that say the same."""
    written = table(judge.memory.guidelines, "text", "supported_by", "origin")
    learned = in_state(judge, "learned") | in_state(judge, "merged")
    return {*written}, {*rules(judge)}, learned, in_state(judge, "disputed")


@pytest.mark.parametrize("seed", seeds(3))
def test_a_storm_of_failures_changes_nothing_learned(seed):
    """Learn in a storm of four calls in ten, heal, align once more, and compare with a
    judge that learned in peace."""

    def stormy(body: Body) -> Any:
        dice = random.Random(f"{seed} {user_of(body)}")
        return dice.choice(EVERY_WAY) if dice.random() < 0.4 else answer(body)

    feedback = rows(16)
    keys = {row["id"] + "@ana" for row in feedback}
    with Endpoint(stormy) as endpoint:
        judge = judge_at(endpoint, shard_size=1)
        ill = judge.align(feedback)
        assert states(ill.judge).keys() == keys
        assert ill.pending or ill.notes, "or the weather was too good to prove anything"
        endpoint.answer = answer
        healed = ill.judge.align([])
        peace = judge.align(feedback)
        assert not healed.pending
        assert not healed.notes
        assert {*states(healed.judge).values()} <= {"learned", "merged", "disputed"}
        assert canonical(healed.judge) == canonical(peace.judge)
        asked = len(endpoint.requests)
        assert healed.judge.align(feedback).judge == healed.judge
        assert len(endpoint.requests) == asked
