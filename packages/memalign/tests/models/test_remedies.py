"""Each way in which an endpoint fails has a sentence of its own: what happened, and what to do."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from memalign.errors import AccessDenied, InvalidOutput, ModelRejected, ModelUnavailable, RateLimited
from memalign.models.retry import Retry
from tests.support.chat_models import REQUEST, model_at
from tests.support.endpoint import Endpoint, Fault, bad_request, error_in_answer, rate_limited, server_error, thinks

NOT_FOUND = Fault(status=404, body={"detail": "Not Found"})
UNEXPECTED = error_in_answer("Unexpected endpoint or method. (POST /chat/completions)")


@pytest.mark.parametrize(
    "elsewhere", [NOT_FOUND, Fault(status=404, body="404 page not found"), UNEXPECTED], ids=["vllm", "ollama", "lms"]
)
@pytest.mark.parametrize("path", ["", "/", "/v1/chat/completions", "/api"])
async def test_an_address_without_path_names_the_right_one(elsewhere: Fault, path: str) -> None:
    with Endpoint(elsewhere=elsewhere, models=["small"]) as endpoint:
        if path == "/v1/chat/completions":
            endpoint.answer = NOT_FOUND
        model = model_at(endpoint.base_url.removesuffix("/v1") + path, name="small")
        failures = await asyncio.gather(*(model.complete(REQUEST) for _ in range(8)), return_exceptions=True)
    assert {type(each) for each in failures} == {AccessDenied}
    assert f"A server answers at {endpoint.base_url}: use this address (--base-url, OPENAI_BASE_URL)." in str(
        failures[0]
    )
    assert endpoint.looked.count("/v1/models") == 1, "eight calls failed alike, and one looked"


MANY = [f"model-{n}" for n in range(300)]


@pytest.mark.parametrize(
    ("served", "said"),
    [
        (["big", "medium"], "It serves big, medium."),
        ([], "It serves no model: load one there."),
        ([*MANY, "smal"], "It serves 301 models, among them smal."),
        (MANY, "It serves 300 models, none like small."),
        (None, "Check the model's name against what"),
    ],
)
async def test_a_wrong_name_lists_what_is_served(served: list[str] | None, said: str) -> None:
    missing = bad_request("The model `small` does not exist.", status=404)
    url = "" if served is None else "/v1"
    with Endpoint(missing, models=served, elsewhere=NOT_FOUND) as endpoint, pytest.raises(AccessDenied) as caught:
        await model_at(endpoint.base_url.removesuffix("/v1") + url, name="small").complete(REQUEST)
    assert said in str(caught.value)
    assert "use this address" not in str(caught.value), "no promise is made where nothing answers"


@pytest.mark.parametrize("status", [500, 502, 503, 529])
async def test_a_failing_server_is_named_at_fault(status: int) -> None:
    with Endpoint(server_error(status)) as endpoint, pytest.raises(ModelUnavailable) as caught:
        await model_at(endpoint).complete(REQUEST)
    said = str(caught.value)
    assert f"HTTP {status}, The server had an error (3 attempts)" in said
    assert "The server failed, not your request: its log says why." in said
    assert "Try later, or ask for less at once (--concurrency)." in said
    assert "check that a server listens" not in said
    assert len(endpoint.requests) == 3, "there is one layer of retries"


@pytest.mark.parametrize(
    ("error", "expected", "calls"),
    [
        ("Unexpected endpoint or method. (POST /v1/chat)", AccessDenied, 1),
        ({"message": "No models loaded. Please load a model."}, AccessDenied, 1),
        ({"message": "No auth credentials found", "code": 401}, AccessDenied, 1),
        ({"message": "Upstream is down", "code": 502}, ModelUnavailable, 3),
        ({"message": "Provider is overloaded"}, ModelUnavailable, 3),
        ({"message": "Rate limit exceeded: free-models-per-min"}, RateLimited, 3),
        ({"message": "something else"}, ModelRejected, 1),
        ("a text alone", ModelRejected, 1),
    ],
)
async def test_an_error_inside_an_answer_is_classified(error: object, expected: type[Exception], calls: int) -> None:
    with Endpoint(error_in_answer(error)) as endpoint, pytest.raises(expected) as caught:
        await model_at(endpoint).complete(REQUEST)
    words = error["message"] if isinstance(error, dict) else error
    assert f"an error inside an answer of HTTP 200, {words}" in str(caught.value)
    assert len(endpoint.requests) == calls


CHOICE = {"index": 0, "finish_reason": "error", "message": {"role": "assistant", "content": ""}}
BROKEN_OFF = CHOICE | {"error": {"code": 502, "message": "The upstream model broke off"}}


async def test_an_error_inside_a_choice_is_shown_too() -> None:
    body = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [BROKEN_OFF]}
    with Endpoint(Fault(body=body)) as endpoint, pytest.raises(ModelUnavailable, match="The upstream model broke off"):
        await model_at(endpoint).complete(REQUEST)


@pytest.mark.parametrize("finish_reason", ["stop", "length"])
async def test_reasoning_without_answers_names_limit_and_effort(finish_reason: str) -> None:
    with (
        Endpoint(thinks("Let me see. The secret is", finish_reason=finish_reason)) as endpoint,
        pytest.raises(InvalidOutput) as caught,
    ):
        await model_at(endpoint).complete(REQUEST)
    said = str(caught.value)
    assert "it held only reasoning and no answer" in said
    assert ("was cut after 2048 tokens" in said) == (finish_reason == "length")
    assert "--param max_tokens=N" in said
    assert "--param reasoning_effort=low" in said
    assert "secret" not in said
    assert len(endpoint.requests) == 2


@pytest.mark.parametrize(("seconds", "said"), [(0.5, 1), (0.01, 0)])
async def test_a_long_wait_alone_is_said_aloud_and_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: Any, seconds: float, said: int
) -> None:
    monkeypatch.setattr("memalign.models.retry.LONG_WAIT", 0.3)
    patient = Retry(attempts=3, base_seconds=0.001, max_wait=0.4)
    with Endpoint(faults=[rate_limited(seconds)] * 4, latency=0.05) as endpoint, caplog.at_level(logging.WARNING):
        model = model_at(endpoint, name="small", retry=patient)
        await asyncio.gather(*(model.complete(REQUEST) for _ in range(4)))
    records = [each.getMessage() for each in caplog.records if each.name == "memalign.models.retry"]
    assert len(records) == said
    for record in records:
        assert f"small at {endpoint.base_url}: HTTP 429, Rate limit reached; waiting" in record
        assert "then attempt 2 of 3" in record


async def test_the_raw_answer_is_logged_for_whoever_asks(caplog: pytest.LogCaptureFixture) -> None:
    odd = Fault(content='{"rationale": "Kind of.", "value": "perhaps"}')
    with Endpoint(odd) as endpoint, caplog.at_level(logging.DEBUG, logger="memalign.raw_answers"):
        model = model_at(endpoint)
        with pytest.raises(InvalidOutput) as caught:
            await model.complete(REQUEST)
    first, _ = [each.getMessage() for each in caplog.records if each.name == "memalign.raw_answers"]
    assert "Kind of." not in str(caught.value)
    assert f"at {endpoint.base_url}, native output, attempt 1: answer.value must be boolean, not string" in first
    assert '{"rationale": "Kind of.", "value": "perhaps"}' in first
