"""A provider's chat model over a real server that misbehaves."""

from __future__ import annotations

import asyncio
import json
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

from memalign import aio
from memalign.errors import (
    AccessDenied,
    InvalidOutput,
    ModelRefused,
    ModelRejected,
    ModelUnavailable,
    RateLimited,
)
from memalign.models import ChatRequest
from memalign.models.provider_chat import ProviderChatModel
from memalign.models.provider_errors import PromptTooLong
from memalign.models.providers import Target
from memalign.models.retry import Retry
from memalign.types import Usage
from tests.support.endpoint import (
    CLOSED,
    CONTENT_FILTER,
    HANG,
    REFUSAL,
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

PROSE = "It is polite."
TWO_ANSWERS = (
    '{"rationale": "Kind.", "value": true} {"rationale": "Rude.", "value": false}'
)
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"rationale": {"type": "string"}, "value": {"type": "boolean"}},
    "required": ["rationale", "value"],
    "additionalProperties": False,
}
ANSWER = {"rationale": "Because.", "value": True}
REQUEST = ChatRequest(
    system="You judge replies. " * 20,
    user="Reply: hello",
    schema=SCHEMA,
    schema_name="verdict",
)
QUICK = Retry(attempts=3, base_seconds=0.001, max_wait=1.0)


def model_at(
    place: Endpoint | str, *, name: str = "gpt-4.1-mini", **options: Any
) -> ProviderChatModel:
    url = place if isinstance(place, str) else place.base_url
    return ProviderChatModel(
        Target(provider="openai", model=name, base_url=url),
        **{"retry": QUICK, **options},
    )


async def test_an_answer_comes_in_the_strictest_mode_with_its_usage():
    with Endpoint(ANSWER) as endpoint:
        model = model_at(endpoint)
        first = await model.complete(REQUEST)
        second = await model.complete(REQUEST)
    assert first.data == ANSWER
    assert (first.usage.calls, first.usage.cached_tokens) == (1, 0)
    assert first.usage.input_tokens > first.usage.output_tokens > 0
    assert second.usage.cached_tokens == second.usage.input_tokens
    assert first.usage.cost is None, "a server of one's own has no price"
    body = endpoint.requests[0]
    schema = body["response_format"]["json_schema"]
    assert (schema["name"], schema["strict"]) == ("verdict", True)
    assert list(schema["schema"]["properties"]) == ["rationale", "value"]
    assert "tools" not in body
    assert body["temperature"] == 0.0
    assert (system_of(body), user_of(body)) == (REQUEST.system, REQUEST.user)


@pytest.mark.parametrize(
    ("unknown", "refusal"),
    [
        ("response_format", bad_request("json_schema is not supported")),
        ("response_format", PROSE),  # it ignores the form
        (
            "response_format",
            bad_request(
                "No endpoints found that can handle the requested parameters.",
                status=404,
            ),
        ),
        ("response_format", bad_request("failed to parse grammar", status=500)),
        (
            "response_format",
            bad_request("This model does not support structured output", status=403),
        ),
        ("system", bad_request("System role not supported")),
    ],
)
async def test_an_endpoint_that_refuses_a_form_is_asked_plainly_for_good(
    unknown, refusal
):
    def answer(body):
        if unknown in body or (unknown == "system" and system_of(body)):
            return refusal
        return ANSWER

    request = msgspec.structs.replace(REQUEST, seed=7)
    with Endpoint(answer) as endpoint:
        model = model_at(endpoint)
        for _ in range(2):
            assert (await model.complete(request)).data == ANSWER
    assert len(endpoint.requests) == 3
    last = endpoint.requests[-1]
    # The schema goes along.
    sent = json.dumps(last).replace("\\", "")
    assert '"required": ["rationale", "value"]' in sent
    assert REQUEST.system.strip() in user_of(last)


@pytest.mark.parametrize(
    "answer",
    [
        PROSE,
        bad_request("Your prompt was flagged: temperature, json_schema"),
        bad_request(
            "Unsupported parameter: 'temperature', max_tokens at most 20, "
            "enable_thinking must be false"
        ),
    ],
)
async def test_judged_text_moves_no_other_items_form(answer):
    odd = msgspec.structs.replace(REQUEST, user="odd")
    with Endpoint(
        lambda body: answer if user_of(body).startswith("odd") else ANSWER
    ) as endpoint:
        model = model_at(endpoint)
        await model.complete(REQUEST)
        for _ in range(2):
            with pytest.raises((InvalidOutput, ModelRejected, ModelRefused)):
                await model.complete(odd)
        await model.complete(REQUEST)
    first, *_, last = endpoint.requests
    assert first == last
    for body in endpoint.requests:
        assert "response_format" in body


@pytest.mark.parametrize(
    ("fault", "named"),
    [
        (cut(), "cut after 1024 tokens"),
        (
            says('{"rationale": "A secret.", "value": "perhaps"}'),
            'answer.value breaks the rule type: "boolean"',
        ),
    ],
)
async def test_a_retry_names_what_was_wrong(fault, named):
    with Endpoint(ANSWER, faults=[fault]) as endpoint:
        reply = await model_at(endpoint).complete(REQUEST)
    assert (reply.data, reply.usage.calls) == (ANSWER, 2)
    first, second = endpoint.requests
    assert second["max_tokens"] > first["max_tokens"] or "cut" not in named
    assert system_of(first) == system_of(second)
    assert named in user_of(second)
    assert "secret" not in user_of(second)


FIELDS = [{"loc": ["body", "messages"], "msg": "field required", "input": REQUEST.user}]
QUOTING = {"message": "Bad request.", "type": "invalid_request_error"}
PAGE = Fault(body="<html>Welcome</html>", headers={"Content-Type": "text/html"})
TOO_LONG = bad_request(
    "Maximum context length is 8192 tokens", "context_length_exceeded"
)


def body_of(choices: object, **more: object) -> Fault:
    """An answer with these choices, which need not be any."""
    body = {"id": "x", "object": "chat.completion", "created": 1, "model": "m"}
    return Fault(body=body | {"choices": choices} | more)


def chosen(**message: object) -> list[object]:
    return [{"message": {"role": "assistant", "content": "{}", **message}}]


CALL = {
    "id": 1,
    "type": "function",
    "function": {"name": REQUEST.user, "arguments": [REQUEST.user]},
}
UNFIT = (InvalidOutput, "gave no answer that fits the schema", 2)
OTHER_API = (ModelUnavailable, "^(?!.*no connection).*not what its API promises", 3)


def quoting(text: str) -> Fault:
    return Fault(status=400, body={"error": QUOTING | {"request": text}})


@pytest.mark.parametrize(
    ("answer", "error", "words", "calls"),
    [
        (cut(), InvalidOutput, r"cut after 2048 tokens.*--param max_tokens=N", 2),
        (
            Fault(
                content=f"<think>perhaps {json.dumps(ANSWER)}, or",
                finish_reason="length",
            ),
            InvalidOutput,
            "cut after 2048 tokens",
            2,
        ),
        (
            {"verdict": True},
            InvalidOutput,
            r'breaks the rule required: \["rationale", "value"',
            2,
        ),
        (PROSE, InvalidOutput, "no JSON object", 2),
        (TWO_ANSWERS, InvalidOutput, "no JSON object, or several that differ", 2),
        (
            Fault(content="", reasoning="The secret is"),
            InvalidOutput,
            r"^(?!.*secret).*--param max_tokens=N",
            2,
        ),
        (REFUSAL, ModelRefused, None, 1),
        (CONTENT_FILTER, ModelRefused, None, 1),
        (bad_request("Filtered.", "content_filter"), ModelRefused, None, 1),
        (bad_request("Bad things"), ModelRejected, "HTTP 400, Bad things", 2),
        (
            TOO_LONG,
            PromptTooLong,
            "^(?!.*cut to fit).*memalign edit NAME --context N",
            1,
        ),
        (Fault(status=422, body={"detail": FIELDS}), ModelRejected, "HTTP 422", 2),
        (quoting("we set a content_filter"), ModelRejected, "Bad request", 2),
        (quoting("the maximum context is too long"), ModelRejected, "Bad request", 2),
        (quoting("your credit and quota"), ModelRejected, "Bad request", 2),
        (body_of(REQUEST.user), *OTHER_API),
        (Fault(body={"output": REQUEST.user}), *OTHER_API),
        (body_of(chosen(tool_calls=[CALL])), *UNFIT),
        (body_of(chosen(tool_calls=REQUEST.user)), *UNFIT),
        (body_of([]), *UNFIT),
        (body_of([None]), *UNFIT),
        (body_of([{"message": None}]), *UNFIT),
        (body_of(chosen(), created=REQUEST.user), *UNFIT),
        (body_of(chosen(), usage={"prompt_tokens": REQUEST.user}), *UNFIT),
        (
            Fault(body={"error": "No models loaded."}),
            ModelUnavailable,
            "200 with the error 502, No models load",
            3,
        ),
        (
            PAGE,
            ModelUnavailable,
            r"answer is not what its API promises.*Check that a server listens",
            3,
        ),
        (
            server_error(),
            ModelUnavailable,
            r"HTTP 500, The server had an error \(3 attempts\).*not your request",
            3,
        ),
        (
            rate_limited(),
            RateLimited,
            r"openai:gpt-4.1-mini at http://127.* HTTP 429.*3 attempts.*MEMALIGN_CONC",
            3,
        ),
    ],
)
async def test_what_lasts_is_an_error_of_its_kind_after_so_many_calls(
    answer, error, words, calls
):
    with Endpoint(answer) as endpoint, pytest.raises(error, match=words) as caught:
        await model_at(endpoint).complete(REQUEST)
    # Judged text that an endpoint quotes changes no kind.
    assert type(caught.value) is error
    assert REQUEST.user not in str(caught.value)
    assert len(endpoint.requests) == calls
    if error is InvalidOutput:
        assert caught.value.usage.calls == calls


@pytest.mark.parametrize("fault", [rate_limited(), CLOSED, server_error()])
async def test_a_temporary_failure_is_retried_once_by_us(fault):
    """Which failures are temporary, the tests of errors say of every status."""
    with Endpoint(ANSWER, faults=[fault]) as endpoint:
        reply = await model_at(endpoint).complete(REQUEST)
    assert reply.data == ANSWER
    assert reply.usage.calls == 1
    assert len(endpoint.requests) == 2


async def test_no_slot_is_held_while_a_retry_waits():
    first = msgspec.structs.replace(REQUEST, user="first")
    second = msgspec.structs.replace(REQUEST, user="second")
    patient = Retry(attempts=2, base_seconds=0.001, max_wait=60)
    with Endpoint(ANSWER, faults=[None, rate_limited("0.5")]) as endpoint:
        model = model_at(endpoint, concurrency=1, retry=patient)
        # A refusal of the first attempt of all would say that nothing is taken.
        await model.complete(REQUEST)
        one, two = await asyncio.gather(model.complete(first), model.complete(second))
    assert one.data == two.data == ANSWER
    order = list(map(user_of, endpoint.requests[1:]))
    assert order == ["first", "second", "first"]


async def test_without_a_timeout_of_ones_own_a_hung_attempt_is_tried_again(monkeypatch):
    monkeypatch.setattr(ProviderChatModel, "attempt", 0.5)
    with Endpoint(ANSWER, faults=[HANG]) as endpoint:
        assert (await model_at(endpoint).complete(REQUEST)).data == ANSWER


SLOW = rate_limited("2")


@pytest.mark.parametrize(
    ("faults", "seconds", "retry", "said", "requests"),
    [
        ([HANG] * 5, 1.0, QUICK, r"no answer in 1 s\. .*timeout=SECONDS", 1),
        ([says(PROSE), HANG], 1.0, QUICK, "no answer in 1 s", 2),
        ([server_error(), HANG], 1.0, QUICK, "no answer in 1 s .2 attempts", 2),
        (
            [server_error()] * 5,
            5.0,
            Retry(attempts=5, base_seconds=60),
            "HTTP 500.*no time is left of the call's 5 s",
            1,
        ),
        (
            [SLOW, SLOW, SLOW],
            3.5,
            Retry(attempts=5, base_seconds=0.001),
            "wait 2 s, and a call waits 3.5 s at most, attempts included .2 attempts",
            2,
        ),
    ],
    ids=["hangs", "asked once more", "fails, then hangs", "back-off", "Retry-After"],
)
async def test_a_call_ends_within_its_timeout_in_all(
    faults, seconds, retry, said, requests
):
    request = msgspec.structs.replace(REQUEST, timeout=seconds)
    with Endpoint(ANSWER, faults=faults) as endpoint:
        model = model_at(endpoint, retry=retry)
        await model.ready()
        with pytest.raises((ModelUnavailable, RateLimited), match=said):
            await asyncio.wait_for(model.complete(request), timeout=60)
    assert len(endpoint.requests) == requests


async def test_a_server_that_is_down_names_its_remedy():
    with Endpoint() as endpoint:
        model = model_at(endpoint, name="m")
    words = (
        rf"openai:m at {endpoint.base_url}: no connection .*3 attempts.*"
        "Check that a server listens"
    )
    with pytest.raises(ModelUnavailable, match=words):
        await model.complete(REQUEST)


UNKNOWN = bad_request("The model `gpt-9` does not exist", "no", status=404)


@pytest.mark.parametrize(
    ("fault", "said", "later"),
    [
        (
            bad_request("Wrong API key", "invalid_api_key", status=401),
            "HTTP 401.*OPENAI_API_KEY",
            ModelRejected,
        ),
        (
            bad_request("No access", status=403),
            "HTTP 403.*OPENAI_API_KEY",
            ModelRejected,
        ),
        (UNKNOWN, "gpt-9.*model's name.*ends in /v1", ModelRejected),
        (
            bad_request("No credit", status=402),
            "HTTP 402.*without credit",
            ModelRejected,
        ),
        (rate_limited(code="insufficient_quota"), "quota", RateLimited),
    ],
)
async def test_denied_access_is_told_at_once(fault, said, later):
    with Endpoint(fault) as endpoint, pytest.raises(AccessDenied, match=said):
        await model_at(endpoint).complete(REQUEST)
    assert len(endpoint.requests) == 1
    with Endpoint(ANSWER, faults=[None, fault]) as endpoint:
        model = model_at(endpoint)
        await model.complete(REQUEST)
        with pytest.raises(later, match=said):
            await model.complete(REQUEST)
    assert len(endpoint.requests) == 2


async def test_a_reasoning_model_gets_room_and_no_temperature():
    with Endpoint(ANSWER) as endpoint:
        await model_at(endpoint, name="o4-mini").complete(REQUEST)
    assert "temperature" not in endpoint.requests[0]
    assert endpoint.requests[0]["max_completion_tokens"] > REQUEST.max_tokens


def test_one_model_serves_several_event_loops_within_its_limit():
    with Endpoint(ANSWER, latency=0.005) as endpoint:
        model = model_at(endpoint, concurrency=4)

        async def many() -> None:
            await asyncio.gather(*(model.complete(REQUEST) for _ in range(6)))

        with ThreadPoolExecutor(3) as threads:
            list(threads.map(lambda _: asyncio.run(many()), range(3)))
        asyncio.run(many())
        aio.run(many())
    assert len(endpoint.requests) == 5 * 6
    assert 2 <= endpoint.max_in_flight <= 4


@pytest.mark.parametrize(
    ("model", "url", "priced"),
    [
        ("gpt-4.1-mini", None, True),
        ("gpt-4.1-mini", "https://api.openai.com/v1", True),
        ("no-such-model", None, False),
        ("gpt-4.1-mini", "http://127.0.0.1:1/v1", False),
    ],
)
def test_a_known_model_and_address_have_a_price(model, url, priced):
    target = Target(provider="openai", model=model, base_url=url)
    usage = Usage(input_tokens=1_000, cached_tokens=500, output_tokens=100)
    cost = ProviderChatModel(target).price_of(usage)
    if not priced:
        assert cost is None
        return
    assert cost is not None
    assert 0 < cost < 0.01


@pytest.mark.parametrize(("seconds", "said"), [(0.5, 1), (0.01, 0)])
async def test_a_long_wait_alone_is_said_aloud_and_once(
    caplog, monkeypatch, seconds, said
):
    monkeypatch.setattr("memalign.models.retry.LONG_WAIT", 0.3)
    patient = Retry(attempts=3, base_seconds=0.001, max_wait=0.6)
    with (
        Endpoint(faults=[rate_limited(seconds)] * 4, latency=0.05) as endpoint,
        caplog.at_level(logging.INFO),
    ):
        model = model_at(endpoint, name="small", retry=patient)
        await asyncio.gather(*(model.complete(REQUEST) for _ in range(4)))
    words = f"small at {endpoint.base_url}: HTTP 429, Rate limit reached; waiting"
    waits = [line for line in caplog.text.splitlines() if words in line]
    assert len(waits) == 4, "every wait is logged"
    assert "\n".join(waits).count("WARNING") == said
