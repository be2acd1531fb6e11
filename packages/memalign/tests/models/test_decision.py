"""Decision models: real servers on loopback that speak System One and OpenAI's
Decisions, and misbehave."""

from __future__ import annotations

import asyncio

import pytest

from memalign.errors import (
    AccessDenied,
    ConfigurationError,
    InvalidOutput,
    ModelRefused,
    ModelRejected,
    ModelUnavailable,
    RateLimited,
)
from memalign.models import DecisionModel, Question, resolve_decision
from memalign.models.decision import ProviderDecisionModel
from memalign.models.providers import Target
from memalign.models.retry import Retry
from memalign.types import Usage
from tests.support.decision_servers import Decide, openai_decisions, system_one
from tests.support.endpoint import (
    CLOSED,
    HANG,
    Endpoint,
    Fault,
    bad_request,
    rate_limited,
    server_error,
)

POLITE = Question(key="q1", text="Is the reply polite?")
REFUND = Question(key="q2", text="Does it name the refund?")
TONE = Question(
    key="value", text="What is its tone?", kind="choice", labels=("warm", "cold")
)
STARS = Question(
    key="value", text="How good is it?", kind="score", labels=("1", "2", "3", "4", "5")
)


def questions(count: int) -> list[Question]:
    return [Question(key=f"q{n}", text=f"Is it {n}?") for n in range(count)]


CHANCES: dict[str, float | dict[str, float]] = {
    POLITE.text: 0.9,
    REFUND.text: 0.1,
    TONE.text: {"warm": 0.75, "cold": 0.25},
    STARS.text: {"4": 0.6, "5": 0.4},
}
REPLY = "Thank you, and sorry for the wait."


def answering(state: str, question: str) -> float | dict[str, float]:
    return CHANCES[question]


def declining(*refused: str) -> Decide:
    return lambda state, question: (
        None if question in refused else CHANCES.get(question, 0.5)
    )


def model_at(
    endpoint: Endpoint, provider: str = "system-one", **settings
) -> ProviderDecisionModel:
    target = Target(
        provider=provider,
        model="m",
        base_url=endpoint.base_url,
        api_key="k",
        addressed=True,
    )
    settings = {"retry": Retry(attempts=3, base_seconds=0.01), **settings}
    return ProviderDecisionModel(target, **settings)


def decide(
    model: DecisionModel,
    *questions: Question,
    state: str = REPLY,
    timeout: float | None = None,
):
    return asyncio.run(model.decide(state, questions, timeout=timeout))


def asked_of(endpoint: Endpoint) -> list[int]:
    """How many questions each request had."""
    return [len(body["questions"]) for body in endpoint.requests]


SERVERS = {
    "system-one": system_one,
    "openai-decisions": openai_decisions,
    "typesafe": system_one,
}


@pytest.fixture(params=SERVERS)
def provider(request):
    if request.param == "typesafe":
        pytest.importorskip("typesafe_sdk")
    return request.param


class TestAnswers:
    def test_every_kind_of_question_has_a_probability_for_each_label(self, provider):
        with SERVERS[provider](answering) as endpoint:
            decision = decide(model_at(endpoint, provider), POLITE, REFUND, TONE)
            stars = decide(model_at(endpoint, provider), STARS)
        chances = decision.probabilities
        assert chances["q1"] == pytest.approx({"yes": 0.9, "no": 0.1})
        assert chances["q2"] == pytest.approx({"yes": 0.1, "no": 0.9})
        assert chances["value"] == pytest.approx({"warm": 0.75, "cold": 0.25})
        shares = {"1": 0, "2": 0, "3": 0, "4": 0.6, "5": 0.4}
        assert stars.probabilities["value"] == pytest.approx(shares)
        assert decision.refused == {}
        body, _ = endpoint.requests
        assert body.get("state", body.get("input")) == REPLY
        assert len(body["questions"]) == 3, "all in one request"
        assert decision.usage.calls == 1
        assert decision.usage.input_tokens > 0


class TestLimitsAndRefusals:
    def test_more_questions_than_a_request_takes_go_in_several(self):
        many = questions(450)
        with openai_decisions(lambda *_: 0.8) as endpoint:
            decision = decide(model_at(endpoint, "openai-decisions"), *many)
            assert asked_of(endpoint) == [200, 200, 50]
            endpoint.faults = [None, *[server_error()] * 9]
            with pytest.raises(ModelUnavailable) as caught:
                decide(model_at(endpoint, "openai-decisions"), *many)
        assert {body["input"] for body in endpoint.requests} == {REPLY}
        assert list(decision.probabilities) == [question.key for question in many]
        assert decision.usage.calls == 3
        assert caught.value.usage is not None
        assert caught.value.usage.calls == 1, "what was spent beside a failure is told"

    def test_a_limit_that_only_the_server_knows_is_found_by_halves(self):
        with system_one(lambda *_: 0.8, most=5) as endpoint:
            decision = decide(model_at(endpoint), *questions(12))
        assert len(decision.probabilities) == 12
        assert asked_of(endpoint) == [12, 6, 3, 3, 6, 3, 3]

    def test_all_requests_of_a_call_end_within_its_timeout(self):
        with system_one(lambda *_: 0.8, most=1) as endpoint:
            endpoint.faults = [bad_request("too many questions", "no"), *[HANG] * 3]
            with pytest.raises(ModelUnavailable, match=r"no answer in 2 s"):
                decide(model_at(endpoint), *questions(2), timeout=2.0)
        assert len(endpoint.requests) == 2

    def test_a_question_that_is_declined_is_refused_alone(self):
        with openai_decisions(declining(REFUND.text)) as endpoint:
            model = model_at(endpoint, "openai-decisions")
            decision = decide(model, POLITE, REFUND, TONE)
            with pytest.raises(ModelRefused, match="filter"):
                decide(model, REFUND)
        assert set(decision.probabilities) == {"q1", "value"}
        assert "filter" in decision.refused["q2"]
        assert decision.usage.input_tokens > decision.usage.cached_tokens > 0

    @pytest.mark.parametrize("place", range(5))
    def test_a_refusal_that_names_no_question_is_narrowed_down_to_it(self, place):
        five = questions(5)
        with system_one(declining(five[place].text)) as endpoint:
            decision = decide(model_at(endpoint), *five)
        assert list(decision.refused) == [f"q{place}"]
        assert "cannot be answered" in decision.refused[f"q{place}"]
        assert len(decision.probabilities) == 4


def answered(**answers: object) -> Fault:
    usage = {"input_tokens": 1, "output_tokens": 1}
    return Fault(body={"model": "m", "answers": answers, "usage": usage})


WRONG_NAMES = answered(other={"type": "noul", "noul": 0.5})
IMPOSSIBLE = answered(q1={"type": "noul", "noul": 3})
CUT = Fault(body='{"model": "m", "answers": {"q1": {"type": "cho')


class TestFaults:
    @pytest.mark.parametrize(
        ("fault", "error", "words"),
        [
            (rate_limited(0.1), RateLimited, "429"),
            (server_error(), ModelUnavailable, "500"),
            (CLOSED, ModelUnavailable, "no connection"),
            (CUT, (InvalidOutput, ModelUnavailable), "API promises"),
            (WRONG_NAMES, (InvalidOutput, ModelUnavailable), "API promises"),
            (IMPOSSIBLE, (InvalidOutput, ModelUnavailable), "API promises"),
        ],
    )
    def test_a_fault_costs_another_attempt_and_has_a_name_if_it_stays(
        self, provider, fault, error, words
    ):
        with SERVERS[provider](answering, faults=[fault]) as endpoint:
            decision = decide(model_at(endpoint, provider), POLITE)
            assert decision.probabilities["q1"]["yes"] == pytest.approx(0.9)
            first, second = endpoint.times
            # The wait that a server asks for.
            assert second - first >= float(fault.headers.get("Retry-After", 0))
            endpoint.faults = [fault] * 9
            with pytest.raises(error, match=f"{words}.*3 attempts"):
                decide(model_at(endpoint, provider), POLITE)

    def test_what_a_server_rejects_is_not_tried_again(self, provider):
        rejection = bad_request("no such field")
        with (
            SERVERS[provider](answering, faults=[rejection]) as endpoint,
            pytest.raises(ModelRejected, match="field"),
        ):
            decide(model_at(endpoint, provider), POLITE)


class TestMessages:
    """Errors are as clear as for chat: no key, no such model, server down."""

    def test_a_wrong_key_stops_the_run_and_names_the_variable(self, monkeypatch):
        pytest.importorskip("typesafe_sdk")
        wrong = bad_request("bad key", "invalid_api_key", status=401)
        with system_one(answering, faults=[wrong]) as endpoint:
            monkeypatch.setenv(
                "TYPESAFE_BASE_URL", endpoint.base_url.removesuffix("/v1")
            )
            monkeypatch.setenv("TYPESAFE_API_KEY", "wrong")
            with pytest.raises(AccessDenied, match="TYPESAFE_API_KEY"):
                decide(resolve_decision("typesafe:jev-latest"), POLITE)
        assert endpoint.headers[0]["authorization"] == "Bearer wrong"

    @pytest.mark.parametrize(
        ("name", "words"),
        [
            ("typesafe:jev-latest", "TYPESAFE_API_KEY"),
            ("openai-decisions:gpt-6-luna", "OPENAI_API_KEY"),
            (
                "system-one:m",
                r"system-one:m@http://localhost:11434.*SYSTEM_ONE_BASE_URL",
            ),
            ("openai:gpt-4.1-mini", r"not a decision model.*system-one:MODEL@URL"),
            ("nobody:m", "not a decision model"),
            ("m", "names no provider"),
        ],
    )
    def test_a_name_that_will_not_do_says_what_is_missing(self, name, words):
        with pytest.raises(ConfigurationError, match=words):
            resolve_decision(name)


class TestNames:
    def test_the_root_of_a_server_and_its_v1_are_one_address(self):
        settings = {"extra_headers": {"X-Team": "support"}}
        with system_one(answering) as endpoint:
            for address in (endpoint.base_url, endpoint.base_url.removesuffix("/v1")):
                name = f"system-one:m@{address}"
                decide(resolve_decision(name, settings=settings), POLITE)
        assert endpoint.paths == ["/v1/systemone"] * 2
        for headers in endpoint.headers:
            assert headers["x-team"] == "support"

    @pytest.mark.parametrize(
        ("name", "key", "server"),
        [
            ("system-one:m", "SYSTEM_ONE_API_KEY", "SYSTEM_ONE_BASE_URL"),
            ("openai-decisions:m", "OPENAI_API_KEY", "OPENAI_BASE_URL"),
            ("typesafe:m", "TYPESAFE_API_KEY", "TYPESAFE_BASE_URL"),
        ],
    )
    def test_a_key_goes_to_no_server_but_this_machines(
        self, monkeypatch, name, key, server
    ):
        if name.startswith("typesafe"):
            pytest.importorskip("typesafe_sdk")
        serve = openai_decisions if name.startswith("openai") else system_one
        monkeypatch.setenv(key, "secret-7")
        with serve(answering) as ours, serve(answering) as theirs:
            suffix = "/v1" if name.startswith("typesafe") else ""
            for each in (ours, theirs):
                address = each.base_url.removesuffix(suffix)
                if each is ours:
                    monkeypatch.setenv(server, address)
                decide(resolve_decision(f"{name}@{address}"), POLITE)
        assert ours.headers[0]["authorization"] == "Bearer secret-7"
        assert "secret-7" not in str(theirs.headers)


class TestPrices:
    def test_a_known_address_has_its_list_price_and_context(self, monkeypatch):
        million = Usage(calls=1, input_tokens=1_000_000, output_tokens=1_000)
        monkeypatch.setenv("TYPESAFE_API_KEY", "k")
        jev = resolve_decision("typesafe:jev-latest")
        assert isinstance(jev, ProviderDecisionModel)
        luna = ProviderDecisionModel(
            Target(provider="openai-decisions", model="gpt-6-luna", api_key="k")
        )
        assert jev.price_of(million) == pytest.approx(0.042)
        assert luna.price_of(million) == pytest.approx(0.2)  # above 272,000 tokens
        thousand = Usage(calls=1, input_tokens=1_000)
        assert luna.price_of(thousand) == pytest.approx(0.0001)
        assert jev.limits.context_tokens == 32_000
