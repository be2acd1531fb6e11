"""A provider's chat model over a real server that misbehaves."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
import time
from typing import Any

import msgspec
import pytest

from memalign import aio
from memalign.errors import AccessDenied, InvalidOutput, ModelRefused, ModelRejected, ModelUnavailable, RateLimited
from memalign.models import ChatRequest, Limits
from memalign.models.list_prices import Prices
from memalign.models.provider_chat import ProviderChatModel
from memalign.models.providers import Target
from memalign.models.retry import Retry
from memalign.types import Usage
from tests.support import endpoint as served
from tests.support.endpoint import (
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

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"rationale": {"type": "string"}, "value": {"type": "boolean"}},
    "required": ["rationale", "value"],
    "additionalProperties": False,
}
ANSWER = {"rationale": "Because.", "value": True}
REQUEST = ChatRequest(system="You judge replies. " * 20, user="Reply: hello", schema=SCHEMA, schema_name="verdict")
QUICK = Retry(attempts=3, base_seconds=0.001, max_wait=1.0)


def model_at(endpoint: Endpoint, *, name: str = "gpt-4.1-mini", **options: Any) -> ProviderChatModel:
    target = Target(provider="openai", model=name, base_url=endpoint.base_url)
    return ProviderChatModel(target, **{"retry": QUICK, **options})


async def test_an_answer_comes_with_its_usage():
    with Endpoint(ANSWER) as endpoint:
        model = model_at(endpoint)
        first = await model.complete(REQUEST)
        second = await model.complete(REQUEST)
    assert first.data == ANSWER
    assert first.usage.calls == 1
    assert first.usage.input_tokens > first.usage.output_tokens > 0
    assert first.usage.cached_tokens == 0
    assert second.usage.cached_tokens == second.usage.input_tokens


async def test_the_strictest_mode_is_tried_first():
    with Endpoint(ANSWER) as endpoint:
        await model_at(endpoint).complete(REQUEST)
    (body,) = endpoint.requests
    schema = body["response_format"]["json_schema"]
    assert (schema["name"], schema["strict"]) == ("verdict", True)
    assert list(schema["schema"]["properties"]) == ["rationale", "value"]
    assert "tools" not in body
    assert body["temperature"] == 0.0
    assert system_of(body) == REQUEST.system
    assert user_of(body) == REQUEST.user


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
    with Endpoint(lambda body: "Sure!\n```json\n" + '{"rationale": "Because.", "value": true}' + "\n```") as endpoint:
        endpoint.refuses = {"response_format", "tools"}
        model = model_at(endpoint)
        for _ in range(2):
            assert (await model.complete(REQUEST)).data == ANSWER
    assert len(endpoint.requests) == 4
    asked = endpoint.requests[-1]
    assert not {"response_format", "tools"} & set(asked)
    assert system_of(asked).startswith(REQUEST.system)
    assert '"required": ["rationale", "value"]' in system_of(asked)
    assert user_of(asked) == REQUEST.user


@pytest.mark.parametrize(
    "refuse",
    [
        bad_request("Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model."),
        bad_request("No endpoints found that can handle the requested parameters.", status=404),
        bad_request("json_schema: extra fields not permitted", status=422),
        bad_request("failed to parse grammar"),
    ],
)
async def test_endpoints_refuse_a_mode_in_their_own_words(refuse):
    with Endpoint(lambda body: refuse if "response_format" in body else ANSWER) as endpoint:
        assert (await model_at(endpoint).complete(REQUEST)).data == ANSWER
    assert len(endpoint.requests) == 2


PROSE = "It is polite."


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


async def test_one_mode_has_one_system_text():
    with Endpoint(lambda body: '{"rationale": "Because.", "value": true}') as endpoint:
        endpoint.refuses = {"response_format", "tools"}
        endpoint.faults = [says("no idea")]
        model = model_at(endpoint)
        for user in ("one", "two", "three"):
            await model.complete(ChatRequest(system="S", user=user, schema=SCHEMA))
    prompted = [body for body in endpoint.requests if "tools" not in body and "response_format" not in body]
    assert len(prompted) == 3
    assert len({system_of(body) for body in prompted}) == 1


async def test_a_cut_json_answer_costs_one_retry():
    with Endpoint(ANSWER, faults=[cut()]) as endpoint:
        reply = await model_at(endpoint).complete(REQUEST)
    assert reply.data == ANSWER
    assert reply.usage.calls == 2
    first, second = endpoint.requests
    assert second["max_tokens"] > first["max_tokens"]
    assert system_of(first) == system_of(second)
    assert "cut after 1024 tokens" in user_of(second)


async def test_a_twice_cut_answer_names_the_larger_limit():
    with (
        Endpoint(cut()) as endpoint,
        pytest.raises(InvalidOutput, match=r"cut after 2048 tokens.*--param max_tokens=N"),
    ):
        await model_at(endpoint).complete(REQUEST)
    assert [body["max_tokens"] for body in endpoint.requests] == [1024, 2048]


async def test_an_overlong_prompt_gets_general_advice():
    fault = bad_request("Maximum context length is 8192 tokens", "context_length_exceeded")
    with Endpoint(fault) as endpoint, pytest.raises(ModelRejected) as caught:
        await model_at(endpoint).complete(REQUEST)
    assert "cut to fit" not in str(caught.value), "not every prompt has a field that is cut"
    assert "MEMALIGN_CONTEXT_TOKENS" in str(caught.value)


async def test_a_retry_names_what_was_wrong():
    with Endpoint(ANSWER, faults=[says('{"rationale": "A secret.", "value": "perhaps"}')]) as endpoint:
        reply = await model_at(endpoint).complete(REQUEST)
    assert reply.usage.calls == 2
    assert "answer.value must be boolean, not string" in user_of(endpoint.requests[1])
    assert "secret" not in user_of(endpoint.requests[1])


async def test_a_second_bad_answer_is_a_costed_error():
    with (
        Endpoint({"verdict": True}) as endpoint,
        pytest.raises(InvalidOutput, match="lacks rationale, value") as caught,
    ):
        await model_at(endpoint).complete(REQUEST)
    assert len(endpoint.requests) == 2
    assert caught.value.usage is not None
    assert caught.value.usage.calls == 2


async def test_words_in_every_mode_end_in_an_error():
    with Endpoint(PROSE) as endpoint, pytest.raises(InvalidOutput, match="no JSON object") as caught:
        await model_at(endpoint).complete(REQUEST)
    assert len(endpoint.requests) == 8  # two for each mode, and whether it heeds the first two
    assert caught.value.usage is not None
    assert caught.value.usage.calls == 8


async def test_an_answer_without_choices_fails_alone(monkeypatch):
    whole = served._completion

    def completion(endpoint: Endpoint, body: dict[str, Any], answer: Any) -> dict[str, Any]:
        made = whole(endpoint, body, answer)
        return made | {"choices": []} if user_of(body) == "odd" else made

    monkeypatch.setattr(served, "_completion", completion)
    with Endpoint(ANSWER) as endpoint:
        model = model_at(endpoint)
        with pytest.raises(InvalidOutput, match="not what its API promises"):
            await model.complete(ChatRequest(system="S", user="odd", schema=SCHEMA))
        assert len(endpoint.requests) == 1
        assert (await model.complete(REQUEST)).data == ANSWER


@pytest.mark.parametrize("fault", [refusal(), content_filter(), bad_request("Filtered.", "content_filter")])
async def test_a_refusal_is_not_retried(fault):
    with Endpoint(fault) as endpoint, pytest.raises(ModelRefused):
        await model_at(endpoint).complete(REQUEST)
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize("fault", [rate_limited(), closed(), *map(server_error, (408, 409, 500, 502, 503, 504))])
async def test_a_temporary_failure_is_retried_once_by_us(fault):
    with Endpoint(ANSWER, faults=[fault]) as endpoint:
        reply = await model_at(endpoint).complete(REQUEST)
    assert reply.data == ANSWER
    assert reply.usage.calls == 1
    assert len(endpoint.requests) == 2


async def test_there_is_one_layer_of_retries():
    with Endpoint(server_error()) as endpoint, pytest.raises(ModelUnavailable, match=r"HTTP 500.*3 attempts"):
        await model_at(endpoint).complete(REQUEST)
    assert len(endpoint.requests) == 3


async def test_retry_after_is_honoured():
    with Endpoint(ANSWER, faults=[rate_limited("0.2")]) as endpoint:
        await model_at(endpoint).complete(REQUEST)
    assert endpoint.times[1] - endpoint.times[0] >= 0.2


async def test_no_slot_is_held_while_a_retry_waits():
    first, second = (msgspec.structs.replace(REQUEST, user=user) for user in ("Reply: first", "Reply: second"))
    patient = Retry(attempts=2, base_seconds=0.001, max_wait=60)
    with Endpoint(ANSWER, faults=[None, rate_limited("2")]) as endpoint:
        model = model_at(endpoint, limits=Limits(concurrency=1), retry=patient)
        await model.complete(REQUEST)  # a refusal of the first attempt of all would say that nothing is taken
        replies = await asyncio.gather(model.complete(first), model.complete(second))
    assert [reply.data for reply in replies] == [ANSWER, ANSWER]
    assert [user_of(body) for body in endpoint.requests[1:]] == [first.user, second.user, first.user]


async def test_a_long_retry_after_is_shortened():
    with Endpoint(ANSWER, faults=[rate_limited(3600)]) as endpoint:
        started = time.monotonic()
        await model_at(endpoint, retry=Retry(attempts=2, base_seconds=0.001, max_wait=0.05)).complete(REQUEST)
    assert time.monotonic() - started < PATIENCE


async def test_a_lasting_rate_limit_names_the_setting():
    with Endpoint(rate_limited()) as endpoint, pytest.raises(RateLimited) as caught:
        await model_at(endpoint).complete(REQUEST)
    said = str(caught.value)
    assert re.search(r"openai:gpt-4.1-mini at http://127.* HTTP 429.*3 attempts.*MEMALIGN_CONCURRENCY", said)


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
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    model = ProviderChatModel(Target(provider="openai", model="m", base_url=url), retry=QUICK)
    with pytest.raises(ModelUnavailable) as caught:
        await model.complete(REQUEST)
    assert re.search(rf"openai:m at {url}: no connection .*3 attempts.*OPENAI_BASE_URL", str(caught.value))


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


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (bad_request("Maximum context length is 8192 tokens", "context_length_exceeded"), "MEMALIGN_CONTEXT_TOKENS"),
        (bad_request("Bad things"), "HTTP 400, Bad things"),
    ],
)
async def test_a_rejected_request_is_tried_once_with_advice(fault, said):
    with Endpoint(fault) as endpoint, pytest.raises(ModelRejected, match=said):
        await model_at(endpoint).complete(REQUEST)
    assert len(endpoint.requests) == 1


async def test_an_error_never_repeats_the_echoed_request():
    fault = bad_request("x", status=422)
    detail = [{"loc": ["body", "messages"], "msg": "field required", "input": REQUEST.user}]
    with Endpoint(type(fault)(status=422, body={"detail": detail})) as endpoint, pytest.raises(ModelRejected) as caught:
        await model_at(endpoint).complete(REQUEST)
    assert "body.messages: field required" in str(caught.value)
    assert REQUEST.user not in str(caught.value)


async def test_a_refused_temperature_stays_left_out():
    with Endpoint(ANSWER, refuses=["temperature"]) as endpoint:
        model = model_at(endpoint)
        for _ in range(2):
            assert (await model.complete(REQUEST)).data == ANSWER
    assert ["temperature" in body for body in endpoint.requests] == [True, False, False]
    assert all("response_format" in body for body in endpoint.requests)


@pytest.mark.parametrize(
    "words",
    [
        "`temperature` is deprecated for this model.",
        "invalid temperature: only 1 is allowed for this model",
        "This model doesn't support temperature",
        "temperature: Extra inputs are not permitted",
    ],
)
async def test_endpoints_refuse_a_temperature_in_their_own_words(words):
    refuse = bad_request(words)
    with Endpoint(lambda body: refuse if "temperature" in body else ANSWER) as endpoint:
        assert (await model_at(endpoint).complete(REQUEST)).data == ANSWER
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
    "words", ["we set a content_filter", "the maximum context is too long", "your credit and quota"]
)
async def test_judged_text_changes_no_refusals_kind(words):
    body = {"error": {"message": "Bad request.", "type": "invalid_request_error", "request": {"content": words}}}
    with (
        Endpoint(Fault(status=400, body=body)) as endpoint,
        pytest.raises(ModelRejected, match="Bad request") as caught,
    ):
        await model_at(endpoint).complete(REQUEST)
    assert type(caught.value) is ModelRejected, "neither refused by a filter nor too long"


@pytest.mark.parametrize(
    "only", [("max_tokens", "max_completion_tokens"), ("max_completion_tokens", "max_tokens")], ids=["old", "new"]
)
async def test_either_name_of_the_token_limit_is_learned(only):
    known, refused = only
    with Endpoint(ANSWER, refuses=[refused]) as endpoint:
        model = model_at(endpoint)
        for _ in range(2):
            await model.complete(REQUEST)
    assert endpoint.requests[-1][known] == 1024
    assert len(endpoint.requests) <= 3


async def test_an_endpoint_without_token_limits_may_refuse():
    with Endpoint(ANSWER, refuses=["max_tokens", "max_completion_tokens"]) as endpoint, pytest.raises(ModelRejected):
        await model_at(endpoint).complete(REQUEST)
    assert len(endpoint.requests) == 2


async def test_a_reasoning_model_gets_room_and_no_temperature():
    with Endpoint(ANSWER) as endpoint:
        await model_at(endpoint, name="o4-mini").complete(REQUEST)
    assert "temperature" not in endpoint.requests[0]
    assert endpoint.requests[0]["max_tokens"] > REQUEST.max_tokens


async def test_calls_in_flight_stay_within_the_limit():
    with Endpoint(ANSWER, latency=0.01) as endpoint:
        model = model_at(endpoint, limits=Limits(concurrency=8))
        replies = await asyncio.gather(*(model.complete(REQUEST) for _ in range(64)))
    assert len(replies) == len(endpoint.requests) == 64
    assert 2 <= endpoint.max_in_flight <= 8


def test_one_model_serves_several_event_loops():
    with Endpoint(ANSWER, latency=0.005) as endpoint:
        model = model_at(endpoint, limits=Limits(concurrency=4))

        async def many() -> int:
            return len(await asyncio.gather(*(model.complete(REQUEST) for _ in range(6))))

        done: list[int] = []
        threads = [threading.Thread(target=lambda: done.append(asyncio.run(many()))) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=PATIENCE)
        done += [asyncio.run(many()), aio.run(many())]
    assert done == [6] * 5
    assert endpoint.max_in_flight <= 4


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


async def test_a_server_of_ones_own_has_no_price():
    with Endpoint(ANSWER) as endpoint:
        reply = await model_at(endpoint).complete(REQUEST)
    assert reply.usage.cost is None


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


class Busy:
    """A server that takes `room` calls at a time, and refuses all others for being too many.

    Once it has answered `first`, it holds all calls until more than that were in flight at a time.
    """

    def __init__(self, room: int, *, first: int | None = None) -> None:
        self.room, self.first = room, first
        self._answered = 0
        self.most = self.refused = 0
        self._now = 0
        self._lock = threading.Lock()

    def answer(self, body: dict[str, Any]) -> Any:
        with self._lock:
            if self._now >= self.room:
                self.refused += 1
                return rate_limited(0.05)
            self._now += 1
            self.most = max(self.most, self._now)
        time.sleep(0.02)
        while self.first is not None and self._answered >= self.first >= self.most:
            time.sleep(0.002)
        with self._lock:
            self._now -= 1
            self._answered += 1
        return ANSWER


async def test_more_calls_are_sent_where_the_provider_allows():
    busy = Busy(room=1000, first=16)
    with Endpoint(busy.answer) as endpoint:
        model = model_at(endpoint, max_concurrency=64)
        await asyncio.gather(*(model.complete(REQUEST) for _ in range(300)))
    assert busy.refused == 0
    assert 16 < busy.most <= 64


async def test_a_provider_that_takes_few_calls_answers_all():
    busy = Busy(room=4)
    with Endpoint(busy.answer) as endpoint:
        model = model_at(endpoint, max_concurrency=64, retry=Retry(attempts=8, base_seconds=0.02))
        replies = await asyncio.gather(*(model.complete(REQUEST) for _ in range(120)))
    assert [reply.data for reply in replies] == [ANSWER] * 120
    assert model._limiter.limit < 64, "where it ends depends on the moments of the last answers"
    assert busy.refused < 120


LABELLED = ChatRequest(system="s", user="u", schema=SCHEMA, labels=("true", "false"))


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("Unrecognized request argument supplied: logprobs", 400),
        ("You are not allowed to request logprobs from this model", 403),
        ("KeyError: 'output_top_logprobs'", 500),
    ],
)
async def test_refused_token_probabilities_are_done_without(words, status):
    refuse = bad_request(words, status=status)
    with Endpoint(lambda body: refuse if "logprobs" in body else ANSWER) as endpoint:
        model = model_at(endpoint)
        for _ in range(2):
            reply = await model.complete(LABELLED)
            assert (reply.data, reply.probabilities) == (ANSWER, None)
    assert ["logprobs" in body for body in endpoint.requests] == [True, False, False]


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("Requested sample logprobs of 20, which is greater than max allowed: 5", 400),
        ("Number of top log probabilities must be at most 5", 422),
        ("Invalid 'top_logprobs': must be between 0 and 5", 400),
    ],
)
async def test_an_endpoint_with_fewer_alternatives_is_asked_fewer(words, status):
    refuse = bad_request(words, status=status)
    told = [
        {"token": '{"value": ', "logprob": 0.0, "bytes": None, "top_logprobs": []},
        {
            "token": "true",
            "logprob": -0.5,
            "bytes": None,
            "top_logprobs": [{"token": "true", "logprob": -0.5}, {"token": "false", "logprob": -1.5}],
        },
    ]
    with Endpoint(
        lambda body: refuse if body.get("top_logprobs", 0) > 5 else ANSWER, logprobs=lambda _: {"content": told}
    ) as endpoint:
        model = model_at(endpoint)
        for _ in range(2):
            reply = await model.complete(LABELLED)
            assert reply.probabilities is not None
            assert reply.probabilities["true"] == pytest.approx(1 / (1 + 2.718281828**-1))
    assert [body["top_logprobs"] for body in endpoint.requests] == [20, 5, 5]


async def test_where_fewer_are_refused_too_there_are_none():
    refuse = bad_request("Logprobs is not enabled for models/gemini-2.5-pro")
    with Endpoint(lambda body: refuse if "logprobs" in body else ANSWER) as endpoint:
        model = model_at(endpoint)
        for _ in range(2):
            reply = await model.complete(LABELLED)
            assert (reply.data, reply.probabilities) == (ANSWER, None)
    assert [body.get("top_logprobs") for body in endpoint.requests] == [20, 5, None, None]


@pytest.mark.parametrize("most", [5, 0])
async def test_calls_refused_side_by_side_learn_the_same(most):
    refuse = bad_request("top_logprobs is too large")
    with Endpoint(lambda body: refuse if body.get("top_logprobs", 0) > most else ANSWER) as endpoint:
        model = model_at(endpoint)
        replies = await asyncio.gather(*(model.complete(LABELLED) for _ in range(8)))
        assert [reply.data for reply in replies] == [ANSWER] * 8
        await model.complete(LABELLED)
    assert endpoint.requests[-1].get("top_logprobs", 0) == most


async def test_the_users_own_alternatives_can_be_refused():
    refuse = bad_request("top_logprobs is too large")
    with Endpoint(lambda body: refuse if body.get("top_logprobs", 0) > 5 else ANSWER) as endpoint:
        model = model_at(endpoint, extra={"openai_top_logprobs": 9})
        assert (await model.complete(LABELLED)).data == ANSWER
    assert [body.get("top_logprobs") for body in endpoint.requests] == [9, None]


@pytest.mark.parametrize(
    "told",
    [
        [{"token": "true", "logprob": -0.5, "bytes": None}],
        [{"token": "true", "logprob": -0.5, "bytes": None, "top_logprobs": None}],
        [{"token": "true", "logprob": None, "bytes": None, "top_logprobs": []}],
        ["true"],
    ],
)
async def test_unreadable_token_probabilities_cost_no_verdict(told):
    with Endpoint(ANSWER, logprobs=lambda _: {"content": told}) as endpoint:
        reply = await model_at(endpoint).complete(LABELLED)
    assert (reply.data, reply.probabilities) == (ANSWER, None)
    assert len(endpoint.requests) == 2


@pytest.mark.parametrize("told", [None, {"content": None}, {}, {"content": []}])
async def test_withheld_token_probabilities_are_none(told):
    with Endpoint(ANSWER, logprobs=lambda _: told) as endpoint:
        assert (await model_at(endpoint).complete(LABELLED)).probabilities is None
    assert len(endpoint.requests) == 1
