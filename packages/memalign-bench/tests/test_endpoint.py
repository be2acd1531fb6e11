"""Competitors ask the very same model as we do: nothing of their requests is lost, and every call is counted once."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from bench_support.raw_models import Scripted
from memalign import aio
from memalign.errors import ConfigurationError, ModelRejected, RateLimited
from memalign.models import resolve_embedding
from memalign.models.base import ChatReply, ChatRequest, Limits
from memalign.models.local import LocalChatModel
from memalign.models.provider_errors import PromptTooLong
from memalign.models.providers import target_of
from memalign.models.retry import Retry
from memalign_bench.embedded import LocalRaw
from memalign_bench.endpoint import Endpoint, OpenAIRaw, RawMemo, raw_model
from memalign_bench.memo import Memo
from memalign_bench.prices import Prices
from memalign_bench.spending import Spending
from tests.support.endpoint import Endpoint as Provider
from tests.support.endpoint import bad_request, rate_limited
from tests.support.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MESSAGES = [
    {"role": "system", "content": "You judge."},
    {"role": "user", "content": "Is it polite?"},
    {"role": "assistant", "content": "Yes."},
    {"role": "user", "content": "Are you sure?"},
]


def post(endpoint: Endpoint, path: str, body: object) -> dict[str, Any]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(f"{endpoint.base_url}{path}", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE) as response:
        reply: dict[str, Any] = json.load(response)
        return reply


def refusal(endpoint: Endpoint, path: str, body: object) -> tuple[int, dict[str, Any]]:
    with pytest.raises(urllib.error.HTTPError) as caught:
        post(endpoint, path, body)
    with caught.value as error:
        return error.code, json.load(error)["error"]


def serve(model: Any, **options: Any) -> Endpoint:
    return Endpoint(model, resolve_embedding(None), **options)


class TestServing:
    def test_a_request_reaches_the_model_unchanged(self) -> None:
        model = Scripted(lambda _: "Quite sure.")
        body = {"model": "m", "messages": MESSAGES, "stop": ["\n"], "n": 1, "temperature": 0.7}
        with serve(model) as endpoint:
            reply = post(endpoint, "/chat/completions", body)
        assert model.bodies == [body]
        assert reply["choices"][0]["message"]["content"] == "Quite sure."
        assert "seconds" not in reply

    def test_an_omitted_setting_takes_the_common_default(self) -> None:
        model = Scripted(lambda _: "Yes.")
        with serve(model, defaults={"temperature": 0.0, "max_tokens": 7}) as endpoint:
            post(endpoint, "/chat/completions", {"model": "m", "messages": MESSAGES})
            post(endpoint, "/chat/completions", {"model": "m", "messages": MESSAGES, "temperature": 1.0})
        assert [(body["temperature"], body["max_tokens"]) for body in model.bodies] == [(0.0, 7), (1.0, 7)]

    def test_every_call_is_counted_and_paid_once(self) -> None:
        prices = Prices(input=10.0, cached=1.0, output=100.0)
        with serve(Scripted(lambda _: "Yes."), prices=prices) as endpoint:
            for _ in range(2):
                post(endpoint, "/chat/completions", {"model": "m", "messages": MESSAGES})
            spent, again = endpoint.take(), endpoint.take()
        assert (spent.calls, spent.input_tokens, spent.cached_tokens, spent.output_tokens) == (2, 200, 80, 20)
        assert spent.seconds["model"] == 5.0
        assert spent.cost == pytest.approx(2 * (60 * 10 + 40 * 1 + 10 * 100) / 1e6)
        assert again.calls == 0

    def test_a_providers_list_prices_the_competitor_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", "for-its-price-only")
        monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
        with serve(Scripted(lambda _: "Yes.", "openai:gpt-4.1-mini")) as endpoint:
            post(endpoint, "/chat/completions", {"model": "m", "messages": MESSAGES})
            assert endpoint.take().cost == pytest.approx((60 * 0.4 + 40 * 0.1 + 10 * 1.6) / 1e6)

    def test_only_an_embedded_model_is_free_without_prices(self) -> None:
        costs = []
        for name in ("openai:scripted", "local:scripted"):
            with serve(Scripted(lambda _: "Yes.", name)) as endpoint:
                post(endpoint, "/chat/completions", {"model": "m", "messages": MESSAGES})
                costs.append(endpoint.take().cost)
        assert costs == [None, 0.0]

    def test_vectors_are_equal_as_numbers_and_base64(self) -> None:
        with serve(Scripted(lambda _: "")) as endpoint:
            body = {"model": "e", "input": ["a late parcel", "a kind word"], "dimensions": 512}
            numbers = post(endpoint, "/embeddings", body)["data"]
            packed = post(endpoint, "/embeddings", {**body, "encoding_format": "base64"})["data"]
            single = post(endpoint, "/embeddings", {**body, "input": "a kind word"})["data"]
        unpacked = struct.unpack("<256f", base64.b64decode(packed[1]["embedding"]))
        assert list(unpacked) == numbers[1]["embedding"] == single[0]["embedding"]
        assert [each["index"] for each in numbers] == [0, 1]

    def test_the_model_is_listed(self) -> None:
        with (
            serve(Scripted(lambda _: "")) as endpoint,
            urllib.request.urlopen(f"{endpoint.base_url}/models", timeout=PATIENCE) as response,
        ):
            assert json.load(response)["data"][0]["id"] == "scripted"

    @pytest.mark.parametrize(
        ("path", "body", "status", "says"),
        [
            ("/completions", {}, 404, "nothing at /v1/completions"),
            ("/chat/completions", b"{no", 400, "no JSON"),
            ("/embeddings", {"model": "e", "input": [[1, 2]]}, 400, "texts only"),
        ],
    )
    def test_what_cannot_be_served_is_said(self, path: str, body: object, status: int, says: str) -> None:
        with serve(Scripted(lambda _: "")) as endpoint:
            code, error = refusal(endpoint, path, body)
        assert code == status
        assert says in error["message"]

    def test_an_overlong_prompt_is_told_like_openai_does(self) -> None:
        with serve(Scripted(lambda _: PromptTooLong("9,000 tokens"))) as endpoint:
            status, error = refusal(endpoint, "/chat/completions", {"model": "m", "messages": MESSAGES})
        assert (status, error["code"]) == (400, "context_length_exceeded")
        assert "maximum context length" in error["message"]

    def test_our_failed_retries_start_no_competitors_retries(self) -> None:
        with serve(Scripted(lambda _: RateLimited("still 429 after 5 attempts"))) as endpoint:
            status, error = refusal(endpoint, "/chat/completions", {"model": "m", "messages": MESSAGES})
            assert endpoint.take().calls == 0
        assert status == 400
        assert "still 429" in error["message"]

    def test_a_stopped_run_gives_only_remembered_answers(self, tmp_path: Path) -> None:
        model = Scripted(lambda _: "Yes.")
        spending = Spending(0.5, lambda _: 1.0)
        told: list[bool] = []
        first, second = [{"model": "m", "messages": MESSAGES[:n], "temperature": 0} for n in (2, 4)]
        memo = RawMemo(model, tmp_path, gate=spending.gate)
        with serve(memo, paid=spending.pay) as endpoint:
            endpoint.on_stop = lambda: told.append(True)
            post(endpoint, "/chat/completions", first)
            post(endpoint, "/chat/completions", first)
            assert told == []
            status, error = refusal(endpoint, "/chat/completions", second)
        assert status == 400
        assert "the spend limit is $0.5" in error["message"]
        assert told == [True]
        assert len(model.bodies) == 1


class TestRemembering:
    async def test_a_remembered_call_keeps_its_usage_and_seconds(self, tmp_path: Path) -> None:
        model = Scripted(lambda _: "Yes.")
        body = {"model": "m", "messages": MESSAGES}
        with serve(RawMemo(model, tmp_path)) as first, serve(RawMemo(model, tmp_path)) as second:
            await asyncio.to_thread(post, first, "/chat/completions", body)
            await asyncio.to_thread(post, second, "/chat/completions", body)
            spent = second.take()
        assert len(model.bodies) == 1
        assert (spent.calls, spent.input_tokens) == (1, 100)
        assert spent.seconds == {"model": 2.5, "remembered": 2.5}

    async def test_another_seed_model_or_word_is_another_call(self, tmp_path: Path) -> None:
        model, other = Scripted(lambda _: "Yes."), Scripted(lambda _: "No.", "openai:other")
        body = {"model": "m", "messages": MESSAGES, "temperature": 0}
        for changed in (body, {**body, "seed": 1}, {**body, "n": 2}, {**body, "messages": MESSAGES[:2]}):
            await RawMemo(model, tmp_path).raw(changed)
        await RawMemo(other, tmp_path).raw(body)
        assert (len(model.bodies), len(other.bodies)) == (4, 1)

    async def test_two_builds_keep_their_answers_apart(self, tmp_path: Path) -> None:
        model, other = Scripted(lambda _: "Yes."), Scripted(lambda _: "No.")
        model.engine, other.engine = "llama.cpp (AVX2)", "llama.cpp (AMX)"  # type: ignore[attr-defined]
        body = {"model": "m", "messages": MESSAGES, "temperature": 0}
        for asked in (model, other, model):
            await RawMemo(asked, tmp_path).raw(body)
        assert (len(model.bodies), len(other.bodies)) == (1, 1)

    async def test_two_samples_are_two_answers_every_time(self, tmp_path: Path) -> None:
        numbers = iter(range(10))
        model = Scripted(lambda _: str(next(numbers)))
        body = {"model": "m", "messages": MESSAGES, "temperature": 1.0}
        runs = []
        for _ in range(2):
            memo = RawMemo(model, tmp_path)
            replies = [await memo.raw(dict(body)) for _ in range(3)]
            runs.append([reply["choices"][0]["message"]["content"] for reply in replies])
        assert runs == [["0", "1", "2"]] * 2

    async def test_a_failure_is_not_remembered(self, tmp_path: Path) -> None:
        said: list[str | Exception] = [RateLimited("429"), "Yes."]
        memo = RawMemo(Scripted(lambda _: said.pop(0)), tmp_path)
        body = {"model": "m", "messages": MESSAGES, "temperature": 0}
        with pytest.raises(RateLimited):
            await memo.raw(body)
        assert (await memo.raw(body))["choices"][0]["message"]["content"] == "Yes."

    @pytest.mark.parametrize("left", [b"", b'{"id": "chatc', b"[]"])
    def test_a_cut_answer_is_asked_again_and_remembered(self, tmp_path: Path, left: bytes) -> None:
        model = Scripted(lambda _: "Yes.")
        body = {"model": "m", "messages": MESSAGES, "temperature": 0}
        aio.run(RawMemo(model, tmp_path).raw(body))
        (file,) = tmp_path.rglob("*.json")
        file.write_bytes(left)
        for _ in range(2):
            reply = aio.run(RawMemo(model, tmp_path).raw(body))
            assert reply["choices"][0]["message"]["content"] == "Yes."
        assert len(model.bodies) == 2


class NoRaw:
    name = "anthropic:claude"
    limits = Limits()

    async def complete(self, request: ChatRequest) -> ChatReply:
        raise NotImplementedError


class TestFindingTheModel:
    def test_a_memo_around_a_model_is_looked_through(self, tmp_path: Path) -> None:
        model = Scripted(lambda _: "")
        assert raw_model(Memo(model, tmp_path)) is model

    def test_a_model_without_openai_is_refused_by_name(self) -> None:
        with pytest.raises(ConfigurationError, match=r"anthropic:claude takes no OpenAI requests"):
            raw_model(NoRaw())


class TestPassingOn:
    def raw(self, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> OpenAIRaw:
        monkeypatch.setenv("OPENAI_BASE_URL", provider.base_url)
        return OpenAIRaw(target_of("openai:judge-mini"), retry=Retry(attempts=2, base_seconds=0.01))

    async def test_a_busy_server_is_asked_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with Provider("Yes.", faults=[rate_limited(0)]) as provider:
            reply = await self.raw(provider, monkeypatch).raw({"model": "any", "messages": MESSAGES})
        assert reply["choices"][0]["message"]["content"] == "Yes."
        assert reply["seconds"] > 0
        assert [body["model"] for body in provider.requests] == ["judge-mini"] * 2
        assert provider.requests[1]["messages"] == MESSAGES

    async def test_errors_are_those_of_every_other_model(self, monkeypatch: pytest.MonkeyPatch) -> None:
        faults = [bad_request("maximum context length is 128 tokens"), bad_request("no such thing")]
        with Provider("Yes.", faults=[*faults, rate_limited(0), rate_limited(0)]) as provider:
            raw = self.raw(provider, monkeypatch)
            for error in (PromptTooLong, ModelRejected, RateLimited):
                with pytest.raises(error):
                    await raw.raw({"model": "m", "messages": MESSAGES})


@pytest.fixture(scope="module")
def embedded() -> Iterator[LocalRaw]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEMALIGN_LOCAL_CONTEXT", "512")
        patch.setenv("MEMALIGN_LOCAL_THREADS", "1")
        LocalChatModel.open("qwen2.5-coder-0.5b").close()  # another test may have opened it with other settings
        model = LocalChatModel.open("qwen2.5-coder-0.5b")
    yield LocalRaw(model)
    model.close()


@pytest.mark.embedded
class TestTheEmbeddedModel:
    @pytest.mark.slow
    async def test_it_talks_freely_and_counts(self, embedded: LocalRaw) -> None:
        reply = await embedded.raw({"model": "m", "messages": MESSAGES, "max_tokens": 5, "temperature": 0})
        assert reply["choices"][0]["message"]["content"]
        assert reply["choices"][0]["finish_reason"] in {"length", "stop"}
        assert reply["usage"]["completion_tokens"] <= 5
        assert reply["seconds"] > 0

    @pytest.mark.parametrize("nested", [pytest.param(False, marks=pytest.mark.slow), True])
    async def test_an_embedded_answer_has_the_requested_form(self, embedded: LocalRaw, nested: bool) -> None:
        yes_no: dict[str, Any] = {"type": "string", "enum": ["yes", "no"]}
        schema: dict[str, Any] = {"type": "object", "properties": {"value": yes_no}, "required": ["value"]}
        if nested:
            schema["properties"]["value"] = {"$ref": "#/$defs/Value"}
            schema["$defs"] = {"Value": yes_no}
        shape = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}}
        body = {"model": "m", "messages": MESSAGES, "max_tokens": 20, "response_format": shape, "temperature": 0}
        reply = await embedded.raw(body)
        assert json.loads(reply["choices"][0]["message"]["content"])["value"] in {"yes", "no"}

    @pytest.mark.slow
    async def test_a_requested_object_is_answered_with_any_object(self, embedded: LocalRaw) -> None:
        messages = [{"role": "user", "content": [{"type": "text", "text": 'Answer {"polite": true}'}]}]
        body = {"messages": messages, "max_tokens": 24, "response_format": {"type": "json_object"}, "n": 2}
        reply = await embedded.raw(body)
        assert [choice["index"] for choice in reply["choices"]] == [0, 1]
        assert all(choice["message"]["content"].startswith("{") for choice in reply["choices"])

    async def test_control_tokens_in_a_text_stay_words(self, embedded: LocalRaw) -> None:
        text = "Thanks. <|im_end|>"
        plain, marked = [
            await embedded.raw({"messages": [{"role": "user", "content": each}], "max_tokens": 1})
            for each in ("Thanks.", text)
        ]
        # As one control token it would add one or two.
        assert marked["usage"]["prompt_tokens"] >= plain["usage"]["prompt_tokens"] + 4

    @pytest.mark.slow
    async def test_a_prompt_beyond_its_context_is_too_long(self, embedded: LocalRaw) -> None:
        with pytest.raises(PromptTooLong, match="limit is 512"):
            await embedded.raw({"messages": [{"role": "user", "content": "word " * 600}]})

    async def test_it_says_what_it_does_not_serve(self, embedded: LocalRaw) -> None:
        with pytest.raises(ModelRejected, match="no tools"):
            await embedded.raw({"messages": MESSAGES, "tools": [{"type": "function"}]})
