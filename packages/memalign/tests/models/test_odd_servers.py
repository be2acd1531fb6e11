"""OpenAI-compatible servers as they are: what surrounds an answer is put right, and
what they say decides."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from memalign.errors import (
    AccessDenied,
    InvalidOutput,
    ModelError,
    ModelRefused,
    ModelRejected,
    ModelUnavailable,
    RateLimited,
)
from memalign.models.list_prices import Prices
from memalign.models.provider_errors import PromptTooLong
from memalign.models.retry import Retry
from tests.models.test_provider_chat import ANSWER, QUICK, REQUEST, model_at
from tests.support.endpoint import Answer, Body, Endpoint, Fault, bad_request, user_of

TEXT = json.dumps(ANSWER)
COUNTED = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
REMOVED = object()


def completion(
    message: object = None, *, choice: Body | None = None, **envelope: Any
) -> Body:
    """A completion with one part of it as a server may have it."""
    said = {"role": "assistant", "content": TEXT} if message is None else message
    only = {"index": 0, "finish_reason": "stop", "message": said}
    body = {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [only | (choice or {})],
        "usage": COUNTED,
    }
    whole = body | envelope
    return {name: part for name, part in whole.items() if part is not REMOVED}


def chunk(text: str, reason: str | None = None) -> str:
    event = {
        "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": reason}],
        "model": "m",
    }
    return f"data: {json.dumps(event)}\n\n"


NAME = [None, "", 7, REMOVED]
NOTHING: list[Any] = [None, {}, []]
EMPTY = [*NOTHING, ""]
ODD_PARTS: dict[str, list[Any]] = {
    "id": NAME,
    "object": NAME,
    "model": NAME,
    "created": [None, 1.5, "2026-11-28T00:00:00Z", "1", REMOVED],
    "usage": [
        *NOTHING,
        "15",
        REMOVED,
        COUNTED | {"prompt_tokens": None},
        COUNTED | {"cost": 0.1, "queue": "x"},
        COUNTED | {"prompt_tokens_details": {}, "completion_tokens_details": None},
    ],
    "service_tier": NOTHING,
    "system_fingerprint": NOTHING,
    "error": NOTHING,
    "prompt_filter_results": NOTHING,
}
ODD_IN_A_CHOICE: dict[str, list[Any]] = {
    "finish_reason": [None, "", "eos", "end_turn", "tool_calls", 3, "error"],
    "index": [*NOTHING, "0"],
    "logprobs": [*NOTHING, "0"],
}
ODD_IN_A_MESSAGE: dict[str, list[Any]] = {
    "annotations": EMPTY,
    "refusal": EMPTY,
    "audio": EMPTY,
    "reasoning": EMPTY,
    "role": EMPTY,
    "tool_calls": [*EMPTY, [{}]],
    "content": [ANSWER, [TEXT], [{"type": "text", "text": TEXT}], [{"text": TEXT}]],
}
CALLED = {"name": "verdict", "arguments": TEXT}
THOUGHT = {"type": "thinking", "thinking": "{"}
SAID_AT_LAST = {"type": "output_text", "text": TEXT}
ODD_MESSAGES: list[dict[str, Any]] = [
    {"content": [THOUGHT, SAID_AT_LAST]},
    {"content": None, "tool_calls": [{"function": CALLED}]},
    {"content": "", "tool_calls": [{"id": None, "function": {"arguments": ANSWER}}]},
    {"content": None, "function_call": CALLED},
    {"content": None, "parsed": ANSWER},
    {"content": "", "reasoning_content": f"\n{TEXT}"},
]
ODD_BODIES: list[object] = [
    completion({}, choice={"text": TEXT}),
    {"model": "m", "message": {"content": TEXT}, "done": True, "eval_count": 5},
    {"data": completion(), "code": 0, "status": "ok"},
    {"result": completion(), "code": 0, "status": "ok"},
    {"response": completion(), "code": 0, "status": "ok"},
    [completion()],
    completion(choices={"0": {"message": {"content": TEXT}}}),
    completion(choices=[{"delta": {"content": TEXT}}]),
    completion(choices=[{"message": {"content": ""}}, {"message": {"content": TEXT}}]),
    f"event: message\r\n{chunk(TEXT)}event: done\r\ndata: [DONE]\r\n\r\n",
    "\n\n   " + json.dumps(completion()),
    "\ufeff" + json.dumps(completion()),
    f"{chunk(TEXT[:9])}{chunk(TEXT[9:])}{chunk('', 'stop')}data: [DONE]\n\n",
]


def envelopes() -> Iterator[object]:
    for name, odds in ODD_PARTS.items():
        for odd in odds:
            yield completion(**{name: odd})
    for name, odds in ODD_IN_A_CHOICE.items():
        for odd in odds:
            yield completion(choice={name: odd})
    for name, odds in ODD_IN_A_MESSAGE.items():
        for odd in odds:
            yield completion({"content": TEXT} | {name: odd})
    yield from map(completion, ODD_MESSAGES)
    yield from ODD_BODIES


PRICES = Prices(input=1e6, output=1e6)
"""Each token costs a dollar."""


@pytest.mark.parametrize(
    "body", list(envelopes()), ids=lambda body: json.dumps(body, default=str)[:150]
)
async def test_what_surrounds_an_answer_costs_nothing(body: object) -> None:
    with Endpoint(Fault(body=body)) as endpoint:
        reply = await model_at(endpoint, prices=PRICES).complete(REQUEST)
    assert reply.data == ANSWER
    assert (len(endpoint.requests), reply.usage.calls) == (1, 1)


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        (COUNTED, 15.0),
        ({"prompt_tokens": "10", "completion_tokens": 5.0}, 15.0),
        ({"prompt_tokens": 10, "total_tokens": 15}, 15.0),
        ({"input_tokens": 10, "output_tokens": 5}, 15.0),
        ({}, None),
        (None, None),
        (REMOVED, None),
        ({"prompt_tokens": 10}, None),
        ({"prompt_tokens": -1, "completion_tokens": 5}, None),
    ],
)
async def test_what_was_counted_is_priced_and_nothing_else_is_guessed(
    usage: object, cost: float | None
) -> None:
    with Endpoint(Fault(body=completion(usage=usage))) as endpoint:
        reply = await model_at(endpoint, prices=PRICES).complete(REQUEST)
    assert reply.usage.cost == cost


# -- what is said decides --------------------------------------------------------------


def inside(**error: object) -> Fault:
    return Fault(body={"error": error})


def failing(status: int, message: str, code: object = None, **more: object) -> Fault:
    error = {"message": message, "code": code, **more}
    return Fault(status=status, body={"error": error})


IDLE = completion({}, choice={"error": {"code": 502, "message": "Idle"}})
TPM = (
    "Request too large for model `m` on tokens per minute (TPM): "
    "Limit 6000, Requested 5900, please reduce"
)
SAID: list[tuple[Fault, type[Exception], str, int]] = [
    (
        inside(message="Rate limit exceeded: free-models-per-min.", code=429),
        RateLimited,
        "429, Rate limit",
        3,
    ),
    (
        inside(message="Slow down", code="rate_limit_exceeded"),
        RateLimited,
        "429, Slow down",
        3,
    ),
    (inside(message="Slow down", code="429"), RateLimited, "429, Slow down", 3),
    (
        inside(message="Provider returned error", code=502),
        ModelUnavailable,
        "502, Provider",
        3,
    ),
    (
        inside(message="Overloaded", type="overloaded_error"),
        ModelUnavailable,
        "503, Overloaded",
        3,
    ),
    (
        Fault(body={"object": "error", "message": "Boom", "code": 500}),
        ModelUnavailable,
        "500, Boom",
        3,
    ),
    (Fault(body=IDLE), ModelUnavailable, "502, Idle", 3),
    (
        inside(message="Insufficient credits.", code=402),
        AccessDenied,
        "402, Insufficient credits",
        1,
    ),
    (
        inside(message="Insufficient balance", code="1113"),
        AccessDenied,
        "402, Insufficient balance",
        1,
    ),
    (
        inside(message="Bad key", type="invalid_api_key"),
        AccessDenied,
        "401, Bad key",
        1,
    ),
    (inside(message="The model `x` does not exist"), AccessDenied, "404, The model", 1),
    (inside(message="Blocked", code="content_filter"), ModelRefused, "filter", 1),
    (
        Fault(
            body={
                "errors": [{"message": "Model not found", "code": 5007}],
                "success": False,
            }
        ),
        AccessDenied,
        "404",
        1,
    ),
    (
        Fault(body={"error_code": "PERMISSION_DENIED", "message": "No."}),
        AccessDenied,
        "403, No",
        1,
    ),
    (
        failing(413, TPM, "rate_limit_exceeded"),
        RateLimited,
        "413, Request too large",
        3,
    ),
    (
        failing(
            403,
            "Quota of requests per minute: rate limit exceeded",
            "rateLimitExceeded",
        ),
        RateLimited,
        "403",
        3,
    ),
    (
        failing(
            400,
            "Output data may contain inappropriate content.",
            "data_inspection_failed",
        ),
        ModelRefused,
        "filter stopped",
        1,
    ),
    (
        failing(403, "Input was flagged", 403, metadata={"reasons": ["violence"]}),
        ModelRefused,
        "filter stopped",
        1,
    ),
    (
        Fault(status=403, body="<html>Sorry, you have been blocked</html>"),
        ModelUnavailable,
        "firewall",
        1,
    ),
    (
        failing(400, "Violated guardrail policy: api key found in the text"),
        ModelRefused,
        "filter stopped",
        1,
    ),
    (
        failing(400, "Invalid model name passed in model=m"),
        AccessDenied,
        "model's name",
        1,
    ),
    (
        failing(400, "The requested model 'm' is not supported"),
        AccessDenied,
        "model's name",
        1,
    ),
    (failing(400, "m is not a valid model ID"), AccessDenied, "model's name", 1),
    (
        failing(400, "API key not valid. Please pass a valid API key."),
        AccessDenied,
        "key",
        1,
    ),
    (failing(500, "Authentication failed: invalid api key"), AccessDenied, "key", 1),
    (
        failing(500, "The input is too long: context length exceeded"),
        PromptTooLong,
        "too long",
        1,
    ),
    (failing(400, "Your credit balance is too low"), AccessDenied, "credit", 1),
    (
        Fault(
            status=400, body=[{"error": {"message": "Invalid argument", "code": 400}}]
        ),
        ModelRejected,
        "Invalid arg",
        2,
    ),
    (
        Fault(status=400, body={"error_msg": "Nothing to say"}),
        ModelRejected,
        "Nothing to say",
        2,
    ),
    (
        Fault(status=400, body={"error": "Nothing to say"}),
        ModelRejected,
        "400, Nothing to say",
        2,
    ),
    (
        Fault(status=404, body={"error": "No route with response_format"}),
        ModelRejected,
        "404, No route",
        2,
    ),
    (
        Fault(status=404, body={"error": "model 'm' not found"}),
        AccessDenied,
        "404, model 'm' not found",
        1,
    ),
    (
        Fault(status=500, body={"error": "response_format is unsupported"}),
        ModelRejected,
        "500, response_format",
        2,
    ),
]


@pytest.mark.parametrize(("fault", "kind", "words", "requests"), SAID)
async def test_what_a_server_says_decides_not_its_status(
    fault: Fault, kind: type[Exception], words: str, requests: int
) -> None:
    with (
        Endpoint(fault) as endpoint,
        pytest.raises((ModelError, AccessDenied), match=words) as caught,
    ):
        await model_at(endpoint).complete(REQUEST)
    assert type(caught.value) is kind
    assert len(endpoint.requests) == requests


@pytest.mark.parametrize(
    ("body", "calls"),
    [
        ("<html>Bad gateway</html>", 0),
        ("ok", 0),
        ("", 0),
        ('{"choices": [{"mess', 3),
        ("[1", 3),
        ({"output": 1}, 3),
        ("null", 3),
    ],
)
async def test_a_page_is_no_call_and_a_cut_answer_is_one_of_unknown_cost(
    body: object, calls: int
) -> None:
    with (
        Endpoint(Fault(body=body)) as endpoint,
        pytest.raises(ModelUnavailable, match="not what its API prom") as caught,
    ):
        await model_at(endpoint, prices=PRICES).complete(REQUEST)
    assert len(endpoint.requests) == 3
    used = caught.value.usage
    assert used is not None
    assert (used.calls, used.cost) == (calls, None if calls else 0.0)


async def test_the_calls_of_answers_that_nobody_could_read_are_counted() -> None:
    unread = Fault(body=completion({"content": ""}))
    with (
        Endpoint(unread, faults=[Fault(body=IDLE), Fault(body=IDLE)]) as endpoint,
        pytest.raises(InvalidOutput) as caught,
    ):
        await model_at(endpoint, prices=PRICES).complete(REQUEST)
    used = caught.value.usage
    assert used is not None
    assert (used.calls, used.cost) == (len(endpoint.requests), 15.0 * 4)


# -- parameters that are refused by name -----------------------------------------------


def refuses(name: str, message: str, **more: object) -> dict[str, Any]:
    return {"name": name, "message": message, **more}


USE_OTHER = (
    "Unsupported parameter: 'max_tokens' is not supported with this model. "
    "Use 'max_completion_tokens' instead."
)
ONLY_ONE = (
    "Unsupported value: 'temperature' does not support 0.0 with this model. "
    "Only the default (1) is supported."
)
AT_MOST = (
    "max_tokens is too large: 1024. This model supports at most 512 completion tokens, "
    "whereas you provided more."
)
VLLM = (
    "'max_tokens' or 'max_completion_tokens' is too large: 1024. "
    "This model's maximum context length is 1000 tokens "
    "and your request has 300 input tokens (1024 > 1000 - 300)."
)
LESS = "max_tokens must be less than or equal to `600`, less than the `context_window`"
REFUSALS: list[list[dict[str, Any]]] = [
    [refuses("max_tokens", USE_OTHER, param="max_tokens")],
    [
        refuses("max_tokens", USE_OTHER),
        refuses("temperature", ONLY_ONE, param="temperature"),
    ],
    [
        refuses("temperature", "`temperature` is deprecated for this model."),
        refuses("seed", "seed: Extra inputs"),
    ],
    [refuses("max_tokens", AT_MOST, above=512)],
    [refuses("max_tokens", "Range of max_tokens should be [1, 800]", above=800)],
    [
        refuses("max_tokens", "max_tokens: unknown field"),
        refuses(
            "max_completion_tokens", "unknown field of tokens: max_completion_tokens"
        ),
    ],
    [refuses("max_tokens", LESS, above=600)],
    [refuses("max_tokens", VLLM, above=700)],
    [refuses("reasoning_effort", "Unknown parameter: reasoning_effort")],
    [refuses("top_p", "Unrecognized request argument supplied: top_p")],
    [
        refuses(
            "enable_thinking",
            "parameter.enable_thinking must be set to false for non-streaming calls",
            unless=False,
        )
    ],
]


def _refused_by(rules: list[dict[str, Any]], body: Body) -> dict[str, Any] | None:
    for rule in rules:
        value = body.get(rule["name"], REMOVED)
        if "unless" in rule and value is not rule["unless"]:
            return rule
        if "above" in rule and value is not REMOVED and value > rule["above"]:
            return rule
        if not {"unless", "above"} & rule.keys() and value is not REMOVED:
            return rule
    return None


@pytest.mark.parametrize("rules", REFUSALS)
async def test_a_parameter_that_is_refused_by_name_is_changed_once_and_stays_so(
    rules: list[dict[str, Any]],
) -> None:
    def answer(body: Body) -> object:
        rule = _refused_by(rules, body)
        if rule is None:
            return ANSWER
        kind = "invalid_request_error"
        return failing(400, rule["message"], type=kind, param=rule.get("param"))

    asked = msgspec.structs.replace(REQUEST, seed=7)
    extra = {"openai_reasoning_effort": "low", "top_p": 0.9}
    with Endpoint(answer) as endpoint:  # type: ignore[arg-type]
        model = model_at(endpoint, extra=extra)
        for _ in range(3):
            assert (await model.complete(asked)).data == ANSWER
    assert len(endpoint.requests) == len(rules) + 3
    for body in endpoint.requests:
        assert "response_format" in body, "nothing else is given up"
    last = endpoint.requests[-1]
    for name in ("max_tokens", "max_completion_tokens"):
        assert last.get(name, 400) >= 400


async def test_one_item_that_is_refused_changes_no_other_item() -> None:
    odd = msgspec.structs.replace(REQUEST, user="odd")

    def answer(body: Body) -> Answer:
        if user_of(body) == "odd" and "temperature" in body:
            return bad_request("Unsupported parameter: 'temperature'")
        return ANSWER

    with Endpoint(answer) as endpoint:
        model = model_at(endpoint)
        for request in (REQUEST, odd, REQUEST):
            await model.complete(request)
    sent = ["temperature" in body for body in endpoint.requests]
    assert sent == [True, True, False, True]


# -- waits that a server dictates ------------------------------------------------------

LATER = Retry(attempts=5, base_seconds=0.001, max_wait=60)


def later(status: int, message: str, headers: dict[str, str]) -> Fault:
    return replace(failing(status, message), headers=headers)


@pytest.mark.parametrize("status", [429, 503, 529])
@pytest.mark.parametrize(
    ("headers", "message", "seconds"),
    [
        ({"Retry-After": "3600"}, "Requests per day: limit 200", "3600"),
        ({"Retry-After": "86400.5"}, "Daily", "8640[01]"),
        ({"Retry-After-Ms": "7200000"}, "Daily", "7200"),
        ({"Retry-After": "Tue, 28 Nov 2090 10:00:00 GMT"}, "Daily", r"\d{10}"),
        ({}, "Limit 200, Used 200. Please try again in 1h2m3.5s.", "372[34]"),
        ({}, "Please retry in 27 minutes", "1620"),
    ],
)
async def test_a_wait_of_hours_ends_the_call_with_the_servers_sentence(
    status: int, headers: dict[str, str], message: str, seconds: str
) -> None:
    fault = later(status, message, headers)
    words = rf"HTTP {status}, {message.rstrip('.')}.*asks to wait ({seconds}) s"
    with Endpoint(ANSWER, faults=[fault]) as endpoint:
        model = model_at(endpoint, retry=LATER)
        with pytest.raises((RateLimited, ModelUnavailable), match=words):
            await model.complete(REQUEST)
        started = time.monotonic()
        assert (await model.complete(REQUEST)).data == ANSWER
    assert time.monotonic() - started < 30, "nobody else waits for it"
    assert len(endpoint.requests) == 2


async def test_a_hundred_calls_that_are_told_to_come_tomorrow_end_at_once() -> None:
    with Endpoint(later(429, "Daily limit", {"Retry-After": "86400"})) as endpoint:
        model = model_at(endpoint, retry=LATER)
        calls = [model.complete(REQUEST) for _ in range(100)]
        ended = await asyncio.gather(*calls, return_exceptions=True)
    assert set(map(type, ended)) == {RateLimited}
    assert len(endpoint.requests) == 100
    # A second between two would be a hundred.
    assert endpoint.times[-1] - endpoint.times[0] < 60


async def test_a_wait_beyond_the_timeout_ends_the_call() -> None:
    request = msgspec.structs.replace(REQUEST, timeout=3)
    with (
        Endpoint(later(429, "Later", {"Retry-After": "40"})) as endpoint,
        pytest.raises(RateLimited, match="asks to wait 40 s, and a call waits 3 s"),
    ):
        await model_at(endpoint, retry=LATER).complete(request)
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize(
    "headers",
    [{"Retry-After": "0"}, {"Retry-After-Ms": "5"}, {"Retry-After": "soon"}, {}],
)
async def test_a_short_wait_is_waited(headers: dict[str, str]) -> None:
    fault = later(429, "Rate limit; try again in 5ms", headers)
    with Endpoint(ANSWER, faults=[fault]) as endpoint:
        assert (await model_at(endpoint, retry=QUICK).complete(REQUEST)).data == ANSWER
    assert len(endpoint.requests) == 2
