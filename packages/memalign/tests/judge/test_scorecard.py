"""A scorecard: several judges over the same cases."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import memalign as ma
from memalign import Judge, Scorecard
from memalign.errors import ConfigurationError, InputError, InvalidRows, ModelUnavailable
from memalign.io import read_judgments
from memalign.judge.scorecard import file_name
from memalign.models.base import ChatReply, ChatRequest, Limits
from memalign.testing import Answer, HashEmbedding, ScriptedChatModel
from memalign.types import Usage
from tests.support.endpoint import Endpoint

CASES = [{"id": f"t-{n}", "inputs": f"question {n}", "outputs": f"answer {n}"} for n in range(1, 7)]


def judge(name: str, answer: Any, *, value_type: object = bool, **changes: Any) -> tuple[Judge, ScriptedChatModel]:
    model = ScriptedChatModel(answer if callable(answer) else lambda _: {"rationale": "r", "value": answer})
    settings: dict[str, Any] = {
        "name": name,
        "instructions": "Good? {{ outputs }}",
        "feedback_value_type": value_type,
        "model": model,
        "embedding_model": HashEmbedding(dim=8),
    }
    return Judge(**settings | changes), model


def only_even(request: ChatRequest) -> Answer:
    number = int(request.user.split("answer ")[-1].split('"')[0])
    return {"rationale": "r", "value": number % 2 == 0}


def test_every_case_has_verdicts_from_every_judge() -> None:
    even, _ = judge("even", only_even)
    grade, _ = judge("grade", 4, value_type="int:1..5")
    card = ma.score([even, grade], CASES)
    assert isinstance(card, Scorecard)
    assert card.judges == ("even", "grade")
    assert [row.id for row in card] == [case["id"] for case in CASES]
    assert next(iter(card)).values == {"even": False, "grade": 4}
    first, second = card.totals
    assert first.shares == {"false": 0.5, "true": 0.5}
    assert (second.shares, second.mean) == ({"4": 1.0}, 4.0)
    assert first.usage.calls == 6
    assert card.usage.calls == 12
    assert "even: 6 judged, false 50%, true 50%" in str(card)
    assert "grade: 6 judged, 4 100%, mean 4.00" in str(card)
    json.dumps(card.to_dict())


def test_a_failing_judge_is_named_and_stops_nobody() -> None:
    def fails(request: ChatRequest) -> Answer:
        return ModelUnavailable("down") if "answer 3" in request.user else {"rationale": "r", "value": True}

    shaky, _ = judge("shaky", fails)
    steady, _ = judge("steady", True)
    refers, _ = judge("refers", True, instructions="Same? {{ outputs }} {{ expectations }}")
    card = ma.score([shaky, steady, refers], [*CASES, {"id": "r-1", "outputs": "answer 9", "expectations": "x"}])
    failures = list(card.failures())
    assert ("shaky", "t-3", "ModelUnavailable: down") in failures
    assert sum(name == "refers" for name, _, _ in failures) == 6, "those without a reference"
    assert not any(name == "steady" for name, _, _ in failures)
    assert [each.failed for each in card.totals] == [1, 0, 6]
    assert [each.judged for each in card.totals] == [6, 7, 1]


def test_judges_of_one_model_share_its_call_limit() -> None:
    flying = most = 0

    async def answer(_: ChatRequest) -> Answer:
        nonlocal flying, most
        flying += 1
        most = max(most, flying)
        await asyncio.sleep(0.001)
        flying -= 1
        return {"rationale": "r", "value": True}

    model = ScriptedChatModel(answer, limits=Limits(concurrency=2))
    judges = [judge(name, True, model=model)[0] for name in ("a", "b", "c")]
    assert len(ma.score(judges, CASES)) == 6
    assert most == 2


def test_a_scored_folder_resumes_where_a_run_stopped(tmp_path: Path) -> None:
    down = True

    def at_times(request: ChatRequest) -> Answer:
        return ModelUnavailable("down") if down and "answer 2" in request.user else {"rationale": "r", "value": True}

    shaky, asked = judge("shaky", at_times)
    steady, steadily = judge("steady", False)
    seen: list[tuple[int, int]] = []
    ma.score(
        [shaky, steady], CASES, out=tmp_path / "scores", progress=lambda _, done, total: seen.append((done, total))
    )
    assert seen[-1] == (12, 12)
    assert sorted(path.name for path in (tmp_path / "scores" / "judges").iterdir()) == ["shaky.jsonl", "steady.jsonl"]
    lines = [json.loads(line) for line in (tmp_path / "scores" / "scorecard.jsonl").read_text("utf-8").splitlines()]
    assert lines[0] == {"id": "t-1", "values": {"shaky": True, "steady": False}}
    assert lines[1] == {
        "id": "t-2",
        "values": {"shaky": None, "steady": False},
        "errors": {"shaky": "ModelUnavailable: down"},
    }
    down = False
    again = ma.score([shaky, steady], CASES, out=tmp_path / "scores")
    assert not list(again.failures())
    assert (len(asked.requests), len(steadily.requests)) == (7, 6), "only what failed is judged again"
    assert len(read_judgments(tmp_path / "scores" / "judges" / "shaky.jsonl").judgments) == 6
    assert [row.values for row in again] == [{"shaky": True, "steady": False}] * 6


def test_an_iterator_of_cases_reaches_all_judges() -> None:
    judges = [judge(name, only_even)[0] for name in ("a", "b")]
    card = ma.score(judges, (case for case in CASES))
    assert all(row.values["a"] == row.values["b"] for row in card)


def test_what_is_given_is_checked_before_any_call(tmp_path: Path) -> None:
    one, model = judge("tone", True)
    with pytest.raises(InputError, match="at least one judge"):
        ma.score([], CASES)
    with pytest.raises(InputError, match="two judges are called tone"):
        ma.score([one, one.replace(instructions="Bad? {{ outputs }}")], CASES)
    with pytest.raises(InvalidRows, match="line 2"):
        ma.score([one], [CASES[0], {"id": "t-9"}])
    file = tmp_path / "taken"
    file.write_text("", "utf-8")
    with pytest.raises(InputError, match="cannot be made a folder"):
        ma.score([one], CASES, out=file)
    assert model.requests == []


def test_a_judge_without_a_key_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    one, model = judge("tone", True)
    other = one.replace(name="safety", model="openai:gpt-4.1-mini")
    with pytest.raises(ConfigurationError, match=r"^judge safety: "):
        ma.score([one, other], CASES)
    assert model.requests == []


@pytest.mark.parametrize(
    ("name", "file"), [("tone", "tone"), ("a:b?", "a%3ab%3f"), ("..", "%2e"), ("größe 2", "größe 2")]
)
def test_a_judges_name_becomes_that_of_a_file(name: str, file: str) -> None:
    assert file_name(name) == file


class Priced:
    """A model whose every call costs the same."""

    def __init__(self, cost: float | None) -> None:
        self.name, self.limits, self.cost, self.calls = "priced", Limits(concurrency=4), cost, 0

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.calls += 1
        await asyncio.sleep(0)
        usage = Usage(calls=1, cost=self.cost)
        return ChatReply(data={"rationale": "r", "value": True}, text="", usage=usage)


@pytest.mark.parametrize("concurrency", [1, 4])
def test_all_judges_share_one_spend_limit(tmp_path: Path, concurrency: int) -> None:
    cheap, dear = Priced(0.01), Priced(0.03)
    judges = [judge("cheap", True, model=cheap)[0], judge("dear", True, model=dear)[0]]
    settings: dict[str, Any] = {"out": tmp_path / "scores", "concurrency": concurrency}
    card = ma.score(judges, CASES, max_cost=0.13, **settings)
    assert 0.08 <= (card.usage.cost or 0) <= 0.13
    assert all(each.judged > 0 and each.failed == 0 for each in card.totals)
    assert [each.judged + each.not_judged for each in card.totals] == [6, 6]
    assert "not judged" in str(card)
    assert "NotJudged: one more would pass the limit of $0.13 ($0.1" in next(card.failures())[2]
    rest = ma.score(judges, CASES, max_cost=10, **settings)
    assert not list(rest.failures())
    assert (cheap.calls, dear.calls) == (6, 6), "nothing is judged twice"


def test_first_calls_of_judges_stay_within_the_limit() -> None:
    models = [Priced(0.02) for _ in range(5)]
    card = ma.score([judge(f"judge {n}", True, model=model)[0] for n, model in enumerate(models)], CASES, max_cost=0.05)
    assert sum(model.calls for model in models) == 2
    assert (card.usage.cost or 0) <= 0.05


def test_a_spend_limit_needs_a_price_and_amount() -> None:
    one = judge("tone", True, model=Priced(None))[0]
    with pytest.raises(ConfigurationError, match="what a call of priced costs is not known"):
        ma.score([one, judge("other", True, model=Priced(0.01))[0]], CASES, max_cost=1)
    with pytest.raises(InputError, match="max_cost is a number of dollars above 0"):
        ma.score([one], CASES, max_cost=0)


def test_over_a_real_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    with Endpoint({"rationale": "Fine.", "value": True}) as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
        monkeypatch.setenv("MEMALIGN_CONTEXT_TOKENS", "8000")
        judges = [judge(name, True, model="openai:scores")[0] for name in ("a", "b")]
        card = ma.score(judges, CASES)
        assert [row.values for row in card] == [{"a": True, "b": True}] * 6
        assert len(endpoint.requests) == 12
