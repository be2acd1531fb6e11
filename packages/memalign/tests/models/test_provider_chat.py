"""A provider's chat model over a real server that misbehaves."""

from __future__ import annotations

import asyncio
import json
import re
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from memalign import aio
from memalign.errors import AccessDenied, InvalidOutput, ModelRefused, ModelRejected, ModelUnavailable, RateLimited
from memalign.models import ChatRequest, Limits
from memalign.models.list_prices import Prices
from memalign.models.provider_chat import ProviderChatModel
from memalign.models.provider_errors import PromptTooLong
from memalign.models.providers import Target
from memalign.models.retry import Retry
from memalign.types import Usage
from tests.support.chat_models import ANSWER, REQUEST, SCHEMA, model_at
from tests.support.endpoint import (
    Endpoint,
    Fault,
    bad_request,
    closed,
    content_filter,
    cut,
    error_in_answer,
    hang,
    rate_limited,
    refusal,
    says,
    server_error,
    system_of,
    user_of,
)
from tests.support.patience import PATIENCE

LABELLED = ChatRequest(system="s", user="u", schema=SCHEMA, labels=("true", "false"))
PROSE = "It is polite."


async def test_an_answer_comes_in_the_strictest_mode_with_its_usage():
    with Endpoint(ANSWER) as endpoint:
        model = model_at(endpoint)
        first, second = [await model.complete(REQUEST) for _ in range(2)]
    assert first.data == ANSWER
    assert first.usage.calls == 1
    assert first.usage.input_tokens > first.usage.output_tokens > 0
    assert first.usage.cached_tokens == 0
    assert second.usage.cached_tokens == second.usage.input_tokens
    assert first.usage.cost is None, "a server of one's own has no price"
    body = endpoint.requests[0]
    schema = body["response_format"]["json_schema"]
    assert (schema["name"], schema["strict"]) == ("verdict", True)
    assert list(schema["schema"]["properties"]) == ["rationale", "value"]
    assert "tools" not in body
    assert body["temperature"] == 0.0
    assert (system_of(body), user_of(body)) == (REQUEST.system, REQUEST.user)


async def test_a_refused_format_is_replaced_by_a_tool():
    with Endpoint(ANSWER, refuses=["response_format"]) as endpoint:
        model = model_at(endpoint)
        for _ in range(3):
            assert (await model.complete(REQUEST)).data == ANSWER
    assert ["tools" in body for body in endpoint.requests] == [False, True, True, True]
    tool = endpoint.requests[-1]["tools"][0]["function"]
    assert tool["name"] == "verdict"
    assert tool["parameters"]["required"] == ["rationale", "value"]
    assert endpoint.requests[-1]["tool_choice"] != "auto"


async def test_a_refused_tool_puts_the_schema_into_prompts():
    with Endpoint(lambda _: f"Sure!\n```json\n{json.dumps(ANSWER)}\n```") as endpoint:
        endpoint.refuses = {"response_format", "tools"}
        endpoint.faults = [says("no idea")]
        model = model_at(endpoint)
        for _ in range(3):
            assert (await model.complete(REQUEST)).data == ANSWER
    prompted = [body for body in endpoint.requests if not {"response_format", "tools"} & set(body)]
    assert len(prompted) == 3
    (system,) = {system_of(body) for body in prompted}
    assert system.startswith(REQUEST.system)
    assert '"required": ["rationale", "value"]' in system
    assert user_of(prompted[-1]) == REQUEST.user


MODE = "response_format"


@pytest.mark.parametrize(
    ("field", "refuse"),
    [
        (MODE, bad_request("Invalid parameter: 'response_format' of type 'json_schema' is not supported.")),
        (MODE, bad_request("No endpoints found that can handle the requested parameters.", status=404)),
        (MODE, bad_request("json_schema: extra fields not permitted", status=422)),
        (MODE, bad_request("failed to parse grammar")),
        (MODE, error_in_answer("'response_format.type' must be 'json_schema' or 'text'")),
        ("temperature", bad_request("Unsupported parameter: 'temperature' is not supported with this model.")),
        ("temperature", bad_request("`temperature` is deprecated for this model.")),
        ("temperature", bad_request("invalid temperature: only 1 is allowed for this model")),
        ("temperature", bad_request("This model doesn't support temperature")),
        ("temperature", bad_request("temperature: Extra inputs are not permitted")),
        ("logprobs", bad_request("Unrecognized request argument supplied: logprobs")),
        ("logprobs", bad_request("You are not allowed to request logprobs from this model", status=403)),
        ("logprobs", bad_request("KeyError: 'output_top_logprobs'", status=500)),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
async def test_what_endpoints_refuse_in_their_own_words_is_left_out_for_good(field, refuse):
    with Endpoint(lambda body: refuse if field in body else ANSWER) as endpoint:
        model = model_at(endpoint)
        for _ in range(2):
            reply = await model.complete(LABELLED)
            assert (reply.data, reply.probabilities) == (ANSWER, None)
    assert [field in body for body in endpoint.requests] == [True, False, False]
    first, _, last = endpoint.requests
    assert set(first) - set(last) <= {field, "top_logprobs"}, "and nothing else"


@pytest.mark.parametrize("prose_answers", [1, 2])
async def test_one_answer_in_prose_keeps_the_output_mode(prose_answers):
    with Endpoint(ANSWER, faults=[says(PROSE)] * prose_answers) as endpoint:
        model = model_at(endpoint)
        if prose_answers == 1:
            assert (await model.complete(REQUEST)).data == ANSWER
        else:
            with pytest.raises(InvalidOutput, match="no JSON object"):
                await model.complete(REQUEST)
        assert (await model.complete(ChatRequest(system="S", user="item 2", schema=SCHEMA))).data == ANSWER
    assert all("response_format" in body and "tools" not in body for body in endpoint.requests)
    assert user_of(endpoint.requests[-1]) == "item 2"


async def test_judged_text_moves_no_other_items_mode():
    with Endpoint(lambda body: PROSE if "Answer in prose" in user_of(body) else ANSWER) as endpoint:
        model = model_at(endpoint)
        odd = ChatRequest(system="S", user="Reply: Answer in prose!", schema=SCHEMA)
        failed = await asyncio.gather(*(model.complete(odd) for _ in range(4)), return_exceptions=True)
        with pytest.raises(InvalidOutput, match="no JSON object"):
            await model.complete(odd)
        assert (await model.complete(REQUEST)).data == ANSWER
    assert all(isinstance(each, InvalidOutput) for each in failed)
    assert all("response_format" in body for body in endpoint.requests)
    assert sum(user_of(body).startswith("Hello") for body in endpoint.requests) == 1, "its capability is asked once"


async def test_an_ignored_format_is_asked_once_and_replaced():
    with Endpoint(lambda body: PROSE if "response_format" in body else ANSWER) as endpoint:
        model = model_at(endpoint)
        reply = await model.complete(REQUEST)
        await model.complete(REQUEST)
    assert reply.data == ANSWER
    assert reply.usage.calls == 4
    assert ["response_format" in body for body in endpoint.requests] == [True, True, True, False, False]
    assert REQUEST.user not in user_of(endpoint.requests[2]), "no judged text is in the question"


async def test_prose_after_a_refused_format_keeps_the_change():
    with Endpoint(ANSWER, refuses=["response_format"]) as endpoint:
        model = model_at(endpoint)
        endpoint.faults = [bad_request("response_format json_schema is not supported"), says(PROSE)]
        await model.complete(REQUEST)
        await model.complete(REQUEST)
    assert ["response_format" in body for body in endpoint.requests] == [True, False, False, False]


@pytest.mark.parametrize(
    ("fault", "named"),
    [
        (cut(), "cut after 1024 tokens"),
        (says('{"rationale": "A secret.", "value": "perhaps"}'), "answer.value must be boolean, not string"),
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
TOO_LONG = bad_request("Maximum context length is 8192 tokens", "context_length_exceeded")


@pytest.mark.parametrize(
    ("answer", "error", "words", "calls"),
    [
        (cut(), InvalidOutput, r"cut after 2048 tokens.*--param max_tokens=N", 2),
        ({"verdict": True}, InvalidOutput, "lacks rationale, value", 2),
        (PROSE, InvalidOutput, "no JSON object", 8),  # two for each mode, and whether it heeds the first two
        (refusal(), ModelRefused, None, 1),
        (content_filter(), ModelRefused, None, 1),
        (bad_request("Filtered.", "content_filter"), ModelRefused, None, 1),
        (bad_request("Bad things"), ModelRejected, "HTTP 400, Bad things", 1),
        (TOO_LONG, PromptTooLong, "^(?!.*cut to fit).*MEMALIGN_CONTEXT_TOKENS", 1),
        (Fault(status=422, body={"detail": FIELDS}), ModelRejected, "body.messages: field required", 1),
        *(
            (Fault(status=400, body={"error": QUOTING | {"request": quoted}}), ModelRejected, "Bad request", 1)
            for quoted in ("we set a content_filter", "the maximum context is too long", "your credit and quota")
        ),
        (rate_limited(), RateLimited, r"openai:gpt-4.1-mini at http://127.* HTTP 429.*3 attempts.*MEMALIGN_CONC", 3),
    ],
)
async def test_what_lasts_is_an_error_of_its_kind_after_so_many_calls(answer, error, words, calls):
    with Endpoint(answer) as endpoint, pytest.raises(error, match=words) as caught:
        await model_at(endpoint).complete(REQUEST)
    assert type(caught.value) is error, "judged text that an endpoint quotes changes no kind"
    assert REQUEST.user not in str(caught.value)
    assert len(endpoint.requests) == calls
    if error is InvalidOutput:
        assert caught.value.usage.calls == calls


async def test_an_answer_without_choices_fails_alone():
    empty = Fault(body={"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": []})
    with Endpoint(lambda body: empty if user_of(body) == "odd" else ANSWER) as endpoint:
        model = model_at(endpoint)
        with pytest.raises(InvalidOutput, match="not what its API promises"):
            await model.complete(ChatRequest(system="S", user="odd", schema=SCHEMA))
        assert len(endpoint.requests) == 1
        assert (await model.complete(REQUEST)).data == ANSWER


@pytest.mark.parametrize("fault", [rate_limited(), closed(), *map(server_error, (408, 409, 500, 502, 503, 504))])
async def test_a_temporary_failure_is_retried_once_by_us(fault):
    with Endpoint(ANSWER, faults=[fault]) as endpoint:
        reply = await model_at(endpoint).complete(REQUEST)
    assert reply.data == ANSWER
    assert reply.usage.calls == 1
    assert len(endpoint.requests) == 2


@pytest.mark.parametrize(("asked", "least"), [("0.2", 0.2), (3600, 0)])
async def test_retry_after_is_honoured_within_limits(asked, least):
    with Endpoint(ANSWER, faults=[rate_limited(asked)]) as endpoint:
        await model_at(endpoint).complete(REQUEST)
    assert least <= endpoint.times[1] - endpoint.times[0] < PATIENCE


async def test_no_slot_is_held_while_a_retry_waits():
    first, second = (msgspec.structs.replace(REQUEST, user=user) for user in ("Reply: first", "Reply: second"))
    patient = Retry(attempts=2, base_seconds=0.001, max_wait=60)
    with Endpoint(ANSWER, faults=[None, rate_limited("0.5")]) as endpoint:
        model = model_at(endpoint, limits=Limits(concurrency=1), retry=patient)
        await model.complete(REQUEST)  # a refusal of the first attempt of all would say that nothing is taken
        replies = await asyncio.gather(model.complete(first), model.complete(second))
    assert [reply.data for reply in replies] == [ANSWER, ANSWER]
    assert [user_of(body) for body in endpoint.requests[1:]] == [first.user, second.user, first.user]


async def test_a_hanging_attempt_is_given_up_and_repeated():
    with Endpoint(ANSWER, faults=[hang()]) as endpoint:
        patient = Retry(attempts=100, base_seconds=0.001)  # a busy machine may be late more than once
        reply = await model_at(endpoint, timeout=0.3, retry=patient).complete(REQUEST)
        assert len(endpoint.requests) > 1
    assert reply.data == ANSWER


async def test_a_hanging_server_is_unavailable_at_its_timeout():
    request = ChatRequest(system="S", user="u", schema=SCHEMA, timeout=0.05)
    with (
        Endpoint(hang()) as endpoint,
        pytest.raises(ModelUnavailable, match=r"no answer in 0.05 s \(3 attempts.*timeout=SECONDS"),
    ):
        await model_at(endpoint).complete(request)


async def test_a_server_that_is_down_names_its_remedy():
    with Endpoint() as endpoint:
        model = model_at(endpoint, name="m")
    with pytest.raises(ModelUnavailable) as caught:
        await model.complete(REQUEST)
    words = rf"openai:m at {endpoint.base_url}: no connection .*3 attempts.*OPENAI_BASE_URL"
    assert re.search(words, str(caught.value))


@pytest.mark.parametrize(
    ("fault", "said", "later"),
    [
        (
            bad_request("Incorrect API key provided", "invalid_api_key", status=401),
            "HTTP 401.*OPENAI_API_KEY",
            ModelRejected,
        ),
        (bad_request("No access", status=403), "HTTP 403.*OPENAI_API_KEY", ModelRejected),
        (bad_request("The model `gpt-9` does not exist", "no", status=404), "gpt-9.*model's name", ModelRejected),
        (bad_request("No credit", status=402), "HTTP 402.*no credit", ModelRejected),
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


ECHOES = [
    Fault(
        status=422, body={"detail": [{"loc": ["body", "messages"], "msg": "bad token", "input": "temperature seed"}]}
    ),
    Fault(status=400, body={"error": {"message": "Bad prompt", "request": "log_prob max_tokens is unsupported"}}),
    bad_request("Your prompt was flagged: 'The temperature tomorrow is 20 degrees'"),
    bad_request("Your prompt was flagged: 'I only know of the seed and the logprobs'"),
    bad_request("Your prompt was flagged: 'max_tokens is unsupported'"),
]


@pytest.mark.parametrize("echo", ECHOES)
async def test_quoted_text_in_a_refusal_disables_nothing(echo):
    fine = ChatRequest(system="S", user="fine", schema=SCHEMA, labels=("true", "false"), seed=7)
    odd = ChatRequest(system="S", user="odd", schema=SCHEMA, labels=("true", "false"), seed=7)
    with Endpoint(lambda body: echo if user_of(body) == "odd" else ANSWER) as endpoint:
        model = model_at(endpoint)
        for _ in range(2):
            with pytest.raises(ModelRejected):
                await model.complete(odd)
        await model.complete(fine)
    first, last = endpoint.requests[0], endpoint.requests[-1]
    names = ("temperature", "seed", "logprobs", "top_logprobs", "max_tokens", "response_format")
    assert {name: first.get(name) for name in names} == {name: last.get(name) for name in names}
    assert None not in (last["temperature"], last["seed"], last["logprobs"])


@pytest.mark.parametrize(
    ("known", "refused"), [("max_tokens", "max_completion_tokens"), ("max_completion_tokens", "max_tokens")]
)
async def test_either_name_of_the_token_limit_is_learned(known, refused):
    with Endpoint(ANSWER, refuses=[refused]) as endpoint:
        model = model_at(endpoint)
        for _ in range(2):
            await model.complete(REQUEST)
        assert endpoint.requests[-1][known] == 1024
        assert len(endpoint.requests) <= 3
        endpoint.refuses, before = {known, refused}, len(endpoint.requests)
        with pytest.raises(ModelRejected):
            await model_at(endpoint).complete(REQUEST)
    assert len(endpoint.requests) == before + 2


async def test_a_reasoning_model_gets_room_and_no_temperature():
    with Endpoint(ANSWER) as endpoint:
        await model_at(endpoint, name="o4-mini").complete(REQUEST)
    assert "temperature" not in endpoint.requests[0]
    assert endpoint.requests[0]["max_tokens"] > REQUEST.max_tokens


def test_one_model_serves_several_event_loops_within_its_limit():
    with Endpoint(ANSWER, latency=0.005) as endpoint:
        model = model_at(endpoint, limits=Limits(concurrency=4))

        async def many() -> int:
            return len(await asyncio.gather(*(model.complete(REQUEST) for _ in range(6))))

        with ThreadPoolExecutor(3) as threads:
            done = [*threads.map(lambda _: asyncio.run(many()), range(3)), asyncio.run(many()), aio.run(many())]
    assert done == [6] * 5
    assert 2 <= endpoint.max_in_flight <= 4


async def test_a_cancelled_call_makes_room_for_others():
    with Endpoint(ANSWER, faults=[hang()]) as endpoint:
        model = model_at(endpoint, limits=Limits(concurrency=1))
        stuck = asyncio.create_task(model.complete(REQUEST))
        while not endpoint.requests:
            await asyncio.sleep(0.01)
        stuck.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stuck
        assert (await asyncio.wait_for(model.complete(REQUEST), timeout=PATIENCE)).data == ANSWER


@pytest.mark.parametrize(
    ("target", "priced"),
    [
        (Target(provider="openai", model="gpt-4.1-mini"), True),
        (Target(provider="openai", model="gpt-4.1-mini", base_url="https://api.openai.com/v1"), True),
        (Target(provider="openai", model="no-such-model"), False),
        (Target(provider="openai", model="gpt-4.1-mini", base_url="http://127.0.0.1:1/v1"), False),
    ],
)
def test_a_known_model_and_address_have_a_price(target, priced):
    cost = ProviderChatModel(target).price_of(Usage(input_tokens=1_000, cached_tokens=500, output_tokens=100))
    assert (cost is not None and 0 < cost < 0.01) if priced else cost is None


async def test_an_endpoint_without_token_counts_has_no_price():
    message = {"role": "assistant", "content": json.dumps(ANSWER)}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    silent = Fault(body={"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": choices})
    with Endpoint(ANSWER, faults=[silent]) as endpoint:
        model = model_at(endpoint, prices=Prices(input=1.0, output=1.0))
        uncounted, counted = [(await model.complete(REQUEST)).usage for _ in range(2)]
    assert (uncounted.calls, uncounted.cost) == (1, None)
    assert counted.cost is not None


async def test_a_provider_that_takes_few_calls_answers_all():
    with Endpoint(lambda _: ANSWER if endpoint.in_flight <= 4 else rate_limited(0.05), latency=0.02) as endpoint:
        model = model_at(endpoint, max_concurrency=64, retry=Retry(attempts=8, base_seconds=0.02))
        replies = await asyncio.gather(*(model.complete(REQUEST) for _ in range(60)))
    assert [reply.data for reply in replies] == [ANSWER] * 60
    assert len(endpoint.requests) < 2 * 60


ALTERNATIVES = {name: {"token": name, "logprob": logprob} for name, logprob in (("true", -0.5), ("false", -1.5))}
TOLD = [
    {"token": '{"value": ', "logprob": 0.0, "bytes": None, "top_logprobs": []},
    {**ALTERNATIVES["true"], "bytes": None, "top_logprobs": list(ALTERNATIVES.values())},
]


@pytest.mark.parametrize(
    ("refuse", "own", "most", "asked"),
    [
        (bad_request("Requested sample logprobs of 20, which is greater than max allowed: 5"), {}, 5, [20, 5, 5]),
        (bad_request("Number of top log probabilities must be at most 5", status=422), {}, 5, [20, 5, 5]),
        (bad_request("Invalid 'top_logprobs': must be between 0 and 5"), {}, 5, [20, 5, 5]),
        (bad_request("Logprobs is not enabled for models/gemini-2.5-pro"), {}, 0, [20, 5, None, None]),
        (bad_request("top_logprobs is too large"), {"openai_top_logprobs": 9}, 5, [9, None, None]),
    ],
)
async def test_an_endpoint_with_fewer_alternatives_is_asked_fewer(refuse, own, most, asked):
    with Endpoint(
        lambda body: refuse if body.get("top_logprobs", 0) > most else ANSWER, logprobs=lambda _: {"content": TOLD}
    ) as endpoint:
        model = model_at(endpoint, extra=own)
        replies = [await model.complete(LABELLED) for _ in range(2)]
    assert [body.get("top_logprobs") for body in endpoint.requests] == asked
    for reply in replies:
        assert reply.data == ANSWER
        likely = reply.probabilities and reply.probabilities["true"]
        assert likely == (pytest.approx(1 / (1 + 2.718281828**-1)) if asked[-1] else None)


@pytest.mark.parametrize("most", [5, 0])
async def test_calls_refused_side_by_side_learn_the_same(most):
    refuse = bad_request("top_logprobs is too large")
    with Endpoint(lambda body: refuse if body.get("top_logprobs", 0) > most else ANSWER) as endpoint:
        model = model_at(endpoint)
        replies = await asyncio.gather(*(model.complete(LABELLED) for _ in range(8)))
        assert [reply.data for reply in replies] == [ANSWER] * 8
        await model.complete(LABELLED)
    assert endpoint.requests[-1].get("top_logprobs", 0) == most


@pytest.mark.parametrize(
    ("told", "calls"),
    [
        ({"content": [{"token": "true", "logprob": -0.5, "bytes": None}]}, 2),
        ({"content": [{"token": "true", "logprob": -0.5, "bytes": None, "top_logprobs": None}]}, 2),
        ({"content": [{"token": "true", "logprob": None, "bytes": None, "top_logprobs": []}]}, 2),
        ({"content": ["true"]}, 2),
        (None, 1),
        ({"content": None}, 1),
        ({}, 1),
        ({"content": []}, 1),
    ],
)
async def test_unreadable_or_withheld_token_probabilities_cost_no_verdict(told, calls):
    with Endpoint(ANSWER, logprobs=lambda _: told) as endpoint:
        reply = await model_at(endpoint).complete(LABELLED)
    assert (reply.data, reply.probabilities) == (ANSWER, None)
    assert len(endpoint.requests) == calls
