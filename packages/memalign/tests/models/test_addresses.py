"""A model's name may hold its address; a key goes to the server that it is meant for,
and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

from memalign import Judge
from memalign.errors import AccessDenied, ConfigurationError
from memalign.models import ChatModel, ChatRequest, resolve
from memalign.models.providers import parse_name, target_of
from tests.support.endpoint import Endpoint, Fault, bad_request

SCHEMA = {
    "type": "object",
    "properties": {"value": {"type": "boolean"}},
    "required": ["value"],
}
REQUEST = ChatRequest(system="You judge.", user="Reply: hello", schema=SCHEMA)


def judge_of(model: str | None = None, **settings: Any) -> Judge:
    return Judge(
        name="j",
        instructions="Kind? {{ outputs }}",
        feedback_value_type=bool,
        model=model,
        **settings,
    )


@pytest.mark.parametrize(
    ("given", "model", "url"),
    [
        ("openai:qwen2.5:7b@http://h:11434/v1", "qwen2.5:7b", "http://h:11434/v1"),
        ("openai:/m@https://gpu.example.org/v1/", "m", "https://gpu.example.org/v1"),
        ("openai/org/m@http://[::1]:8000/v1", "org/m", "http://[::1]:8000/v1"),
        ("openai:m@latest@http://h/v1", "m@latest", "http://h/v1"),
        ("openai:m@latest", "m@latest", None),
        ("openai:/gpt-4.1-mini", "gpt-4.1-mini", None),
        ("openai/gpt-4.1-mini", "gpt-4.1-mini", None),
        (" OpenAI:gpt-4.1-mini ", "gpt-4.1-mini", None),
        ("openai:Qwen/Qwen2.5-7B", "Qwen/Qwen2.5-7B", None),
        ("openai:ft:gpt-4.1-mini:acme::1", "ft:gpt-4.1-mini:acme::1", None),
    ],
)
def test_every_spelling_gives_one_model_and_a_name_may_hold_an_address(
    given, model, url, monkeypatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    name = f"openai:{model}@{url}" if url else f"openai:{model}"
    target = target_of(given)
    assert (target.name, target.model, target.base_url) == (name, model, url)
    assert target_of(name) == target
    assert resolve(given) is resolve(name)
    assert isinstance(resolve(given), ChatModel)
    assert resolve(given).name == name
    assert judge_of(given).model == name


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "anthropic:m@http://h/v1",
            r"an address needs an OpenAI-compatible server.*openai:m@http://h/v1",
        ),
        ("openai:m@http://", "stands an address such as"),
        ("openai:m@http://h:port/v1", "stands an address such as"),
        ("openai:m@http://user:pass123@h/v1", "holds no user, password or query"),
        ("openai:m@http://h/v1?key=pass123", "holds no user, password or query"),
    ],
)
def test_what_is_no_address_is_refused(name, said):
    with pytest.raises(ConfigurationError, match=said) as caught:
        parse_name(name)
    assert "pass123" not in str(caught.value)
    with pytest.raises(ConfigurationError):
        judge_of(name)


def test_what_the_environments_address_hides_is_told_nobody(monkeypatch):
    address = "http://user:pass123@127.0.0.1:9/v1?key=pass123"
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    target = target_of("openai:m")
    assert target.name == "openai:m"
    assert str(target) == "openai:m at http://127.0.0.1:9/v1"


async def test_neither_of_two_servers_gets_the_others_key(monkeypatch):
    with (
        Endpoint({"value": True}) as one,
        Endpoint({"value": False}) as other,
        Endpoint({"value": True}) as usual,
    ):
        monkeypatch.setenv("OPENAI_API_KEY", "sk-usual")
        for variable in ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY"):
            monkeypatch.setenv(variable, f"sk-{variable}")
        monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Gateway: sk-gateway")
        monkeypatch.setenv("OPENAI_BASE_URL", usual.base_url)
        for place, value in (
            (f"@{one.base_url}", True),
            (f"@{other.base_url}", False),
            ("", True),
            (f"@{usual.base_url}", True),
        ):
            reply = await resolve(f"openai:m{place}").complete(REQUEST)
            assert reply.data["value"] is value
    assert (len(one.requests), len(other.requests), len(usual.requests)) == (1, 1, 2)
    assert "sk-" not in str(one.headers + other.headers)
    for headers in usual.headers:
        assert headers["authorization"] == "Bearer sk-usual"
        assert headers["openai-organization"] == "sk-OPENAI_ORG_ID"
    assert one.requests[0]["model"] == "m"


def test_only_the_address_of_a_model_changes_fingerprints():
    bare = judge_of("openai:m@http://h/v1")
    name = "openai:/m@http://h/v1/"
    told = bare.replace(
        parameters={
            "reflection_model": "openai/big",
            "models": {name: {"prices": {"input": 1, "output": 2}}},
        }
    )
    assert told.fingerprint == bare.fingerprint
    assert told.parameters["reflection_model"] == "openai:big"
    assert list(told.parameters["models"]) == ["openai:m@http://h/v1"]
    assert bare.replace(model=name) == bare
    for changes in (
        {"model": "openai:m@http://other/v1"},
        {"parameters": {"reasoning_effort": "low"}},
    ):
        assert bare.replace(**changes).fingerprint != bare.fingerprint


def test_prices_given_are_what_a_judgment_costs():
    with Endpoint() as endpoint:
        name = f"openai:unknown@{endpoint.base_url}"
        judge = judge_of(name)
        assert judge(outputs="Hello!").usage.cost is None
        prices = {name: {"prices": {"input": 10, "output": 100}}}
        priced = judge.replace(parameters={"models": prices})
        usage = priced(outputs="Hello, you!").usage
    cost = (usage.input_tokens * 10 + usage.output_tokens * 100) / 1e6
    assert usage.cost == pytest.approx(cost)
    assert cost > 0


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"DEEPSEEK_API_KEY": "sk-abc123\n"}, "DEEPSEEK_API_KEY"),
        ({"OPENAI_API_KEY": "sk-abc123…"}, "OPENAI_API_KEY"),
        ({"OPENAI_API_KEY": "sk-abc123\n"}, "OPENAI_API_KEY"),
        (
            {
                "OPENAI_BASE_URL": "http://h/v1",
                "MEMALIGN_SERVER_KEYS": "http://h/v1=sk-abc123…",
            },
            "OPENAI_API_KEY or MEMALIGN_SERVER_KEYS",
        ),
    ],
)
def test_an_unusable_key_is_named_before_any_call(monkeypatch, variables, named):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    said = f"{named} holds a line break or a character"
    with pytest.raises(ConfigurationError, match=said) as caught:
        resolve("deepseek:m" if "DEEPSEEK_API_KEY" in variables else "openai:m")
    assert "abc123" not in str(caught.value)


@pytest.mark.parametrize(
    "other",
    [
        "http://h.com:80/v1",
        "https://h.com/v1",
        "http://h.com.evil/v1",
        "http://H.com/v1",
        "http://h.com",
        "http://h.com/v1/more",
        "http://evil/http://h.com/v1",
    ],
)
def test_a_servers_key_goes_to_its_address_alone(monkeypatch, other):
    keys = "http://h.com/v1/=sk-abc123 http://other/v1=sk-other=="
    monkeypatch.setenv("MEMALIGN_SERVER_KEYS", keys)
    assert target_of("openai:m@http://h.com/v1/").api_key == "sk-abc123"
    assert target_of(f"openai:m@{other}").api_key is None


@pytest.mark.parametrize(
    "keys",
    [
        "sk-abc123",
        "=sk-abc123",
        "/=sk-abc123",
        "http://h/v1 = sk-abc123",
        "http://h/v1:sk-abc123",
    ],
)
@pytest.mark.parametrize("name", ["openai:m", "anthropic:m", "openai:m@http://h/v1"])
def test_keys_of_servers_that_nobody_can_read_go_nowhere(monkeypatch, keys, name):
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(variable, "sk-usual")
    monkeypatch.setenv("MEMALIGN_SERVER_KEYS", keys)
    said = "MEMALIGN_SERVER_KEYS holds what is not ADDRESS=KEY"
    with pytest.raises(ConfigurationError, match=said) as caught:
        resolve(name)
    assert "abc123" not in str(caught.value)


async def test_a_refused_key_of_a_servers_own_names_its_variable():
    words = r"the server's key \(MEMALIGN_SERVER_KEYS=ADDRESS=KEY\): missing"
    with (
        Endpoint(bad_request("No key.", status=401)) as server,
        pytest.raises(AccessDenied, match=words),
    ):
        await resolve(f"openai:m@{server.base_url}").complete(REQUEST)


async def test_a_server_that_sends_its_callers_elsewhere_is_named_and_the_key_stays(
    monkeypatch,
):
    said = r"HTTP 307\. Check the model's name, and the address"
    with Endpoint() as other, Endpoint() as server:
        elsewhere = {"Location": other.base_url}
        server.answer = Fault(status=307, headers=elsewhere, body="")
        monkeypatch.setenv("MEMALIGN_SERVER_KEYS", f"{server.base_url}=sk-abc123")
        with pytest.raises(AccessDenied, match=said):
            await resolve(f"openai:m@{server.base_url}").complete(REQUEST)
    assert (len(server.requests), len(other.headers)) == (1, 0)
