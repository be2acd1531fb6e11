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
    ("given", "name", "model", "url"),
    [
        ("openai:qwen2.5:7b@http://localhost:11434/v1", "openai:qwen2.5:7b@http://localhost:11434/v1", "qwen2.5:7b", "http://localhost:11434/v1"),
        ("openai:/m@https://gpu.example.org/v1/", "openai:m@https://gpu.example.org/v1", "m", "https://gpu.example.org/v1"),
        ("openai/org/m@http://[::1]:8000/v1", "openai:org/m@http://[::1]:8000/v1", "org/m", "http://[::1]:8000/v1"),
        ("openai:m@latest@http://h/v1", "openai:m@latest@http://h/v1", "m@latest", "http://h/v1"),
        ("openai:m@latest", "openai:m@latest", "m@latest", None),
        ("openai:/gpt-4.1-mini", "openai:gpt-4.1-mini", "gpt-4.1-mini", None),
        ("openai/gpt-4.1-mini", "openai:gpt-4.1-mini", "gpt-4.1-mini", None),
        (" OpenAI:gpt-4.1-mini ", "openai:gpt-4.1-mini", "gpt-4.1-mini", None),
        ("openai:Qwen/Qwen2.5-7B", "openai:Qwen/Qwen2.5-7B", "Qwen/Qwen2.5-7B", None),
        ("openai:ft:gpt-4.1-mini:acme::1", "openai:ft:gpt-4.1-mini:acme::1", "ft:gpt-4.1-mini:acme::1", None),
    ],
)  # fmt: skip
def test_every_spelling_gives_one_model_and_a_name_may_hold_an_address(
    given, name, model, url, monkeypatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    target = target_of(given)
    assert (target.name, target.model, target.base_url) == (name, model, url)
    assert target_of(name) == target
    assert resolve(given) is resolve(name)
    assert isinstance(resolve(given), ChatModel)
    assert resolve(given).name == name


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
    monkeypatch.setenv(
        "OPENAI_BASE_URL", "http://user:pass123@127.0.0.1:9/v1?key=pass123"
    )
    target = target_of("openai:m")
    assert (str(target), target.name) == (
        "openai:m at http://127.0.0.1:9/v1",
        "openai:m",
    )


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
        places = [f"@{one.base_url}", f"@{other.base_url}", "", f"@{usual.base_url}"]
        replies = [
            (await resolve(f"openai:m{place}").complete(REQUEST)).data["value"]
            for place in places
        ]
    assert replies == [True, False, True, True]
    assert [len(each.requests) for each in (one, other, usual)] == [1, 1, 2]
    assert "sk-" not in str(one.headers + other.headers)
    assert all(each["authorization"] == "Bearer sk-usual" for each in usual.headers)
    assert all(
        each["openai-organization"] == "sk-OPENAI_ORG_ID" for each in usual.headers
    )
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
    assert (
        bare.replace(model="openai:m@http://other/v1").fingerprint != bare.fingerprint
    )
    assert bare.replace(model=name).fingerprint == bare.fingerprint
    assert (
        bare.replace(parameters={"reasoning_effort": "low"}).fingerprint
        != bare.fingerprint
    )


def test_prices_given_are_what_a_judgment_costs():
    with Endpoint() as endpoint:
        name = f"openai:unknown@{endpoint.base_url}"
        judge = judge_of(name)
        assert judge(outputs="Hello!").usage.cost is None
        priced = judge.replace(
            parameters={"models": {name: {"prices": {"input": 10, "output": 100}}}}
        )
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
    with pytest.raises(
        ConfigurationError, match=f"{named} holds a line break or a character"
    ) as caught:
        resolve("deepseek:m" if "DEEPSEEK_API_KEY" in variables else "openai:m")
    assert "abc123" not in str(caught.value)


def test_a_servers_key_goes_to_its_address_alone(monkeypatch):
    monkeypatch.setenv(
        "MEMALIGN_SERVER_KEYS", "http://h.com/v1/=sk-abc123 http://other/v1=sk-other=="
    )
    assert target_of("openai:m@http://h.com/v1/").api_key == "sk-abc123"
    hosts = [
        "http://h.com:80/v1",
        "https://h.com/v1",
        "http://h.com.evil/v1",
        "http://H.com/v1",
    ]
    paths = ["http://h.com", "http://h.com/v1/more", "http://evil/http://h.com/v1"]
    for other in hosts + paths:
        assert target_of(f"openai:m@{other}").api_key is None, other


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
    with pytest.raises(
        ConfigurationError, match="MEMALIGN_SERVER_KEYS holds what is not ADDRESS=KEY"
    ) as caught:
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
    with (
        Endpoint() as other,
        Endpoint(
            Fault(status=307, headers={"Location": other.base_url}, body="")
        ) as server,
    ):
        monkeypatch.setenv("MEMALIGN_SERVER_KEYS", f"{server.base_url}=sk-abc123")
        with pytest.raises(
            AccessDenied, match=r"HTTP 307\. Check the model's name, and the address"
        ):
            await resolve(f"openai:m@{server.base_url}").complete(REQUEST)
    assert (len(server.requests), len(other.headers)) == (1, 0)
