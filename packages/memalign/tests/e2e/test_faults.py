"""Learning and judging over a real endpoint that fails: nothing is lost, everything is said, and it is made good."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from memalign import Judge
from memalign.models import ChatReply, ChatRequest, Limits
from memalign.models.provider_chat import ProviderChatModel
from memalign.models.providers import Target
from memalign.models.retry import Retry
from tests.support.endpoint import (
    Answer,
    Endpoint,
    Fault,
    bad_request,
    closed,
    content_filter,
    cut,
    hang,
    rate_limited,
    refusal,
    says,
    server_error,
    system_of,
    user_of,
)
from tests.support.patience import PATIENCE
from tests.support.paying import INSTRUCTIONS, answer, rows
from tests.support.scripted import scripted
from tests.support.seeds import seeds


class Impatient(ProviderChatModel):
    """Gives up soon the calls that hang, and those alone: on a busy machine others may take as long."""

    hangs: Callable[[ChatRequest], bool] = staticmethod(lambda _: False)

    async def complete(self, request: ChatRequest) -> ChatReply:
        return await super().complete(structs.replace(request, timeout=0.3) if self.hangs(request) else request)


def judge_at(
    endpoint: Endpoint,
    *,
    shard_size: int = 2,
    hangs: Callable[[ChatRequest], bool] = lambda _: False,
) -> Judge:
    model = Impatient(
        Target(provider="openai", model="gpt-4.1-mini", base_url=endpoint.base_url),
        retry=Retry(attempts=1),
        timeout=PATIENCE,
    )
    model.limits = Limits(shard_size=shard_size, concurrency=8)
    model.hangs = hangs
    return scripted(model=model, instructions=INSTRUCTIONS)[0]


DISTILLING = "You maintain the guidelines of a judge"


def distilling(body: dict[str, Any]) -> bool:
    return DISTILLING in system_of(body) + user_of(body)


class Weather:
    """A model whose answers fail while it storms; `fault` chooses how, by request."""

    def __init__(self, fault: Callable[[dict[str, Any]], Fault | None]) -> None:
        self.fault = fault
        self.storm = True

    def __call__(self, body: dict[str, Any]) -> Answer:
        return (self.fault(body) if self.storm else None) or answer(body)


def states(judge: Judge) -> set[str]:
    return {entry.state for entry in judge.memory.ledger()}


FAULTS = {
    "429": (rate_limited("0"), "RateLimited: .*Rate limit reached"),
    "500": (server_error(), "ModelUnavailable: .*500"),
    "hang": (hang(), r"ModelUnavailable: .*no answer in 0\.3 s"),
    "closed": (closed(), "ModelUnavailable: "),
    "cut": (cut('{"changes": [{"action": "ADD", "fee'), "InvalidOutput: "),
    "wrong schema": (says('{"guidelines": ["x"]}'), "InvalidOutput: .*required: .*changes"),
    "no JSON": (says("I would rather talk."), "InvalidOutput: "),
    "refusal": (refusal(), "ModelRefused: "),
    "filter": (content_filter(), "ModelRefused: "),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_failed_lesson_waits_with_its_reason(name: str) -> None:
    fault, why = FAULTS[name]
    weather = Weather(lambda body: fault if distilling(body) else None)
    with Endpoint(weather) as endpoint:
        judge = judge_at(endpoint, hangs=lambda request: name == "hang" and DISTILLING in request.system)
        ill = judge.align(rows(2))
        assert [report.state for report in ill.rows] == ["pending", "pending"]
        for key, reason in ill.pending:
            assert re.match(why, reason), (key, reason)
            assert "gpt-4.1-mini" in reason, "it says which model"
            assert "matter number" not in reason, "and repeats nobody's words"
        assert not ill.guidelines
        if name in ("cut", "wrong schema", "no JSON"):
            assert ill.usage.calls == len(endpoint.requests), "what was paid and of no use is counted"
            assert ill.usage.output_tokens > 0
        weather.storm = False
        asked = len(endpoint.requests)
        well = judge_at(endpoint).replace(memory=ill.judge.memory).align([])
        assert states(well.judge) == {"learned"}
        assert [g.text.partition(",")[0] for g in well.guidelines] == ["Mind matter number 0", "Mind matter number 1"]
        assert all(map(distilling, endpoint.requests[asked:]))


@pytest.mark.parametrize("name", FAULTS)
def test_a_failed_judgment_stops_no_other(name: str, tmp_path: Path) -> None:
    fault, _ = FAULTS[name]
    weather = Weather(lambda body: fault if "answer 1" in user_of(body) else None)
    items = [{"id": f"i-{n}", "inputs": "q", "outputs": f"answer {n}"} for n in range(4)]
    out = tmp_path / "judged.jsonl"
    with Endpoint(weather) as endpoint:
        judge = judge_at(
            endpoint, hangs=lambda request: name == "hang" and weather.storm and "answer 1" in request.user
        )
        judgments = judge.judge_many(items, out=out)
        assert [judgment.value for judgment in judgments] == [True, None, True, True]
        assert judgments[1].error
        assert "gpt-4.1-mini" in judgments[1].error
        weather.storm = False
        asked = len(endpoint.requests)
        again = judge.judge_many(items, out=out)
        assert [judgment.value for judgment in again] == [True] * 4
        assert len(endpoint.requests) - asked == 1, "only the failed one is judged again"


EVERY_WAY = [
    *(fault for fault, _ in FAULTS.values()),
    server_error(503),
    bad_request("This model's maximum context length is exceeded", "context_length_exceeded"),
    says(""),
    says("[]"),
    says('{"changes": [{"action": "ADD"'),
]


def canonical(judge: Judge) -> dict[str, Any]:
    """A memory without what depends on which lesson was learned first: numbers, and which of two that say the same."""
    memory = judge.memory
    text = {guideline.id: guideline.text for guideline in memory.guidelines}
    return {
        "rules": {(g.text, g.supported_by, g.origin) for g in memory.guidelines},
        "in force": {text[g.id] for g in memory.semantic},
        "states": {e.key: "in" if e.state in ("learned", "merged") else e.state for e in memory.ledger()},
    }


@pytest.mark.parametrize("seed", seeds(3))
def test_a_storm_of_failures_changes_nothing_learned(seed: int) -> None:
    """Learn in a storm of four calls in ten, heal, align once more, and compare with a judge that learned in peace."""

    def drawn(user: str) -> Fault | None:
        """By the text that is asked, so that the client knows which calls hang."""
        dice = random.Random(f"{seed} {user}")
        return dice.choice(EVERY_WAY) if dice.random() < 0.4 else None

    def hangs(request: ChatRequest) -> bool:
        return bool((fault := drawn(request.user)) and fault.hang)

    given = rows(16)
    weather = Weather(lambda body: drawn(user_of(body)))
    with Endpoint(weather) as endpoint:
        ill = judge_at(endpoint, shard_size=1, hangs=hangs).align(given)
        assert {str(entry.key) for entry in ill.judge.memory.ledger()} == {row["id"] + "@ana" for row in given}
        assert ill.pending or ill.notes, "or the weather was too good to prove anything"
        weather.storm = False
        healed = judge_at(endpoint, shard_size=1).replace(memory=ill.judge.memory).align([])
        peace = judge_at(endpoint, shard_size=1).align(given)
        assert not healed.pending
        assert not healed.notes
        assert states(healed.judge) <= {"learned", "merged", "disputed"}
        assert canonical(healed.judge) == canonical(peace.judge)
        asked = len(endpoint.requests)
        assert healed.judge.align(given).judge == healed.judge
        assert len(endpoint.requests) == asked
