"""Whatever pydantic-ai opens as a decision model is one, and every judgment says which
version answered."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
from pydantic_ai import models as pydantic_models
from pydantic_ai import providers as pydantic_providers
from pydantic_ai.models.decision import (
    ChoiceAnswer,
    DecisionModel,
    DecisionRequest,
    DecisionResponse,
)
from pydantic_ai.usage import RequestUsage

import memalign as ma
from memalign.errors import ConfigurationError
from memalign.models.resolve import names_decision_model, resolve, resolve_decision
from tests.models.test_odd_servers import completion
from tests.models.test_provider_chat import ANSWER, model_at
from tests.support.endpoint import Body, Endpoint, Fault

GEMINI = "google-decisions:gemini-decision-1"
TASK: dict[str, Any] = {
    "name": "tone",
    "instructions": "Is it polite? {{ outputs }}",
    "feedback_value_type": bool,
}


def gemini(body: Body) -> Any:
    """What Google's `decisions` endpoint answers: the first of two labels is likelier."""
    answers = {}
    for key, question in body["questions"].items():
        assert question["instructions"], "it refuses a question without"
        first, second = question["criteria"]
        answers[key] = {
            "type": "choice",
            "choice": first,
            "confidence": 0.75,
            "probabilities": {first: 0.75, second: 0.25},
        }
    usage = {"total_input_tokens": 120, "total_output_tokens": 0}
    return Fault(body={"answers": answers, "usage": usage})


@pytest.fixture
def google(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    with Endpoint(gemini) as endpoint:
        # No model that has another address.
        monkeypatch.setattr(import_module("memalign.models.resolve"), "_models", {})
        address = endpoint.base_url.removesuffix("/v1")
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", address)
        yield endpoint


@pytest.mark.parametrize("key", ["GOOGLE_API_KEY", "GEMINI_API_KEY"])
def test_googles_decisions_judge_with_either_key(
    google: Endpoint, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv(key, "a-key")
    judgment = ma.Judge(**TASK, model=GEMINI)(outputs="Thank you!")
    assert (judgment.value, judgment.error, judgment.confidence) == (True, None, 0.75)
    assert judgment.model == GEMINI
    assert judgment.answered_by == "gemini-decision-1"
    # No list knows its price.
    usage = judgment.usage
    assert (usage.calls, usage.input_tokens, usage.cost) == (1, 120, None)
    assert google.paths[0].endswith("/decisions")
    assert google.headers[0]["x-goog-api-key"] == "a-key"


def test_a_limit_on_a_decision_model_without_a_price_is_refused_before_a_request(
    google: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "a-key")
    judge = ma.Judge(**TASK, model=GEMINI)
    rows = [{"id": "a", "outputs": "Thank you!"}]
    with pytest.raises(ConfigurationError, match=rf"max_cost cannot hold.*{GEMINI}"):
        judge.judge_many(rows, max_cost=1.0)
    assert not google.requests
    prices = {GEMINI: {"prices": {"input": 0.1, "output": 0.0}}}
    priced = judge.replace(parameters={"models": prices})
    (judged,) = priced.judge_many(rows, max_cost=1.0)
    assert judged.usage.cost == pytest.approx(120 * 0.1 / 1e6)


def test_without_a_key_the_variables_are_named() -> None:
    named = "set GOOGLE_API_KEY or GEMINI_API_KEY"
    with pytest.raises(ConfigurationError, match=named):
        ma.Judge(**TASK, model=GEMINI)(outputs="Hello")
    assert names_decision_model(GEMINI), "which needs no key"


class Acme(DecisionModel[None]):
    """A decision model of a provider that nobody here has heard of."""

    model_name = "oracle"
    system = "acme"
    base_url = "http://acme"

    async def decide(
        self, request: DecisionRequest, model_settings: Any
    ) -> DecisionResponse:
        answers: dict[str, Any] = {}
        for name, question in request.questions.items():
            criteria: Any = question.criteria
            first, *others = criteria
            shares = {first: 1.0, **dict.fromkeys(others, 0.0)}
            answers[name] = ChoiceAnswer(
                choice=first, confidence=1.0, probabilities=shares
            )
        return DecisionResponse(
            answers=answers,
            model_name="oracle-2026-11-01",
            usage=RequestUsage(input_tokens=9),
        )


@pytest.fixture
def acme(monkeypatch: pytest.MonkeyPatch) -> None:
    class Provider:
        client = None

    opened = pydantic_models.infer_model
    provided = pydantic_providers.infer_provider

    def infer_model(name: Any, *given: Any) -> Any:
        return Acme() if str(name).startswith("acme:") else opened(name, *given)

    def infer_provider(name: str) -> Any:
        return Provider() if name == "acme" else provided(name)

    def infer_provider_class(name: str) -> Any:
        return Provider

    monkeypatch.setattr(pydantic_models, "infer_model", infer_model)
    monkeypatch.setattr(pydantic_providers, "infer_provider", infer_provider)
    monkeypatch.setattr(
        pydantic_providers, "infer_provider_class", infer_provider_class
    )


def test_the_next_provider_of_decision_models_needs_no_line_here(acme: None) -> None:
    judgment = ma.Judge(**TASK, model="acme:oracle")(outputs="Thank you!")
    assert (judgment.value, judgment.confidence) == (True, 1.0)
    assert judgment.model == resolve_decision("acme:oracle").name == "acme:oracle"
    assert judgment.answered_by == "oracle-2026-11-01"
    with pytest.raises(ConfigurationError, match="is a decision model"):
        resolve("acme:oracle")


@pytest.mark.parametrize(
    "name",
    [
        "openai:gpt-4.1",
        "google:gemini-3",
        "deepseek:deepseek-chat",
        "local:x",
        "nobody-knows:x",
    ],
)
def test_a_chat_model_is_none(name: str) -> None:
    assert not names_decision_model(name)
    said = r"not a decision model.*google-decisions:MODEL"
    with pytest.raises(ConfigurationError, match=said):
        resolve_decision(name)


def test_the_version_that_answered_is_kept_everywhere(tmp_path: Any) -> None:
    version = "gpt-4.1-mini-2025-04-14"
    dated = Fault(body=completion(model=version))
    out = tmp_path / "out.jsonl"
    rows = [{"id": "a", "outputs": "Hello", "value": True, "source": "ana"}]
    with Endpoint(dated) as endpoint:
        judge = ma.Judge(**TASK, model=model_at(endpoint))
        judged = judge.judge_many(rows, out=out)
        report = ma.evaluate(judge, rows)
    (made,) = judged
    assert made.value is ANSWER["value"]
    assert (made.model, made.answered_by) == ("openai:gpt-4.1-mini", version)
    assert json.loads(out.read_text())["answered_by"] == version
    assert f"openai:gpt-4.1-mini (answered by {version})" in str(report)
    assert report.to_dict()["answered_by"] == [version]
    assert list(judged.to_frame(columns="all")["answered_by"]) == [version]
