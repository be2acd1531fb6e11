"""Whatever pydantic-ai opens as a decision model is one, and every judgment says which
version answered."""

from __future__ import annotations

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

TASK: dict[str, Any] = {
    "name": "tone",
    "instructions": "Is it polite? {{ outputs }}",
    "feedback_value_type": bool,
}


def _answer(question: dict[str, Any]) -> dict[str, Any]:
    labels = list(question["criteria"])
    if question["type"] == "score":
        shares = {
            str(level): float(level == len(labels) - 1) for level in range(len(labels))
        }
        return {
            "type": "score",
            "score": len(labels) - 1.0,
            "confidence": 1.0,
            "probabilities": shares,
        }
    shares = {
        label: 0.75 if label == labels[0] else 0.25 / (len(labels) - 1)
        for label in labels
    }
    return {
        "type": "choice",
        "choice": labels[0],
        "confidence": 0.75,
        "probabilities": shares,
    }


def gemini(body: Body) -> Any:
    """What Google's `decisions` endpoint answers: the first label of each question is
    the likeliest."""
    assert all(question["instructions"] for question in body["questions"].values()), (
        "it refuses a question without"
    )
    answers = {key: _answer(question) for key, question in body["questions"].items()}
    return Fault(
        body={
            "answers": answers,
            "usage": {"total_input_tokens": 120, "total_output_tokens": 0},
        }
    )


@pytest.fixture
def google(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    with Endpoint(gemini) as endpoint:
        monkeypatch.setattr(
            import_module("memalign.models.resolve"), "_models", {}
        )  # none that has another address
        monkeypatch.setenv(
            "GOOGLE_GEMINI_BASE_URL", endpoint.base_url.removesuffix("/v1")
        )
        yield endpoint


@pytest.mark.parametrize("key", ["GOOGLE_API_KEY", "GEMINI_API_KEY"])
def test_googles_decisions_judge_with_either_key(
    google: Endpoint, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv(key, "a-key")
    judgment = ma.Judge(**TASK, model="google-decisions:gemini-decision-1")(
        outputs="Thank you!"
    )
    assert (judgment.value, judgment.error, judgment.usage.calls) == (True, None, 1)
    assert judgment.confidence == pytest.approx(0.75)
    assert (judgment.model, judgment.answered_by) == (
        "google-decisions:gemini-decision-1",
        "gemini-decision-1",
    )
    assert (judgment.usage.input_tokens, judgment.usage.cost) == (120, None), (
        "no list knows its price"
    )
    assert google.paths[0].endswith("/decisions")
    assert google.headers[0]["x-goog-api-key"] == "a-key"


def test_a_limit_on_a_decision_model_without_a_price_is_refused_before_a_request(
    google: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "a-key")
    judge = ma.Judge(**TASK, model="google-decisions:gemini-decision-1")
    rows = [{"id": "a", "outputs": "Thank you!"}]
    with pytest.raises(
        ConfigurationError,
        match=r"max_cost cannot hold.*google-decisions:gemini-decision-1",
    ):
        judge.judge_many(rows, max_cost=1.0)
    assert not google.requests
    prices = {
        "google-decisions:gemini-decision-1": {"prices": {"input": 0.1, "output": 0.0}}
    }
    (judged,) = judge.replace(parameters={"models": prices}).judge_many(
        rows, max_cost=1.0
    )
    assert judged.usage.cost == pytest.approx(120 * 0.1 / 1e6)


def test_without_a_key_the_variables_are_named() -> None:
    with pytest.raises(
        ConfigurationError, match="set GOOGLE_API_KEY or GEMINI_API_KEY"
    ):
        ma.Judge(**TASK, model="google-decisions:gemini-decision-1")(outputs="Hello")
    assert names_decision_model("google-decisions:gemini-decision-1"), (
        "which needs no key"
    )


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
    assert (judgment.model, judgment.answered_by) == (
        "acme:oracle",
        "oracle-2026-11-01",
    )
    assert resolve_decision("acme:oracle").name == "acme:oracle"
    with pytest.raises(ConfigurationError, match="is a decision model"):
        resolve("acme:oracle")


def test_a_chat_model_is_none() -> None:
    for name in (
        "openai:gpt-4.1",
        "google:gemini-3",
        "deepseek:deepseek-chat",
        "local:x",
        "nobody-knows:x",
    ):
        assert not names_decision_model(name)
    with pytest.raises(
        ConfigurationError, match=r"not a decision model.*google-decisions:MODEL"
    ):
        resolve_decision("openai:gpt-4.1")


def test_the_version_that_answered_is_kept_everywhere(tmp_path: Any) -> None:

    dated = Fault(body=completion(model="gpt-4.1-mini-2025-04-14"))
    out = tmp_path / "out.jsonl"
    rows = [{"id": "a", "outputs": "Hello", "value": True, "source": "ana"}]
    with Endpoint(dated) as endpoint:
        judge = ma.Judge(**TASK, model=model_at(endpoint))
        judged = judge.judge_many(rows, out=out)
        report = ma.evaluate(judge, rows)
    assert ANSWER["value"] is judged[0].value
    assert (judged[0].model, judged[0].answered_by) == (
        "openai:gpt-4.1-mini",
        "gpt-4.1-mini-2025-04-14",
    )
    assert '"answered_by":"gpt-4.1-mini-2025-04-14"' in out.read_text().replace(
        ": ", ":"
    )
    assert "openai:gpt-4.1-mini (answered by gpt-4.1-mini-2025-04-14)" in str(report)
    assert report.to_dict()["answered_by"] == ["gpt-4.1-mini-2025-04-14"]
    assert list(judged.to_frame(columns="all")["answered_by"]) == [
        "gpt-4.1-mini-2025-04-14"
    ]
