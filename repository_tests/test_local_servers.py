"""The page on local models: its commands run as they are, against a server that answers
as theirs do.

Only the port is another one. Commands of the servers themselves (`ollama`, `vllm`, `lms`) are
not run.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from checkout import FENCE, commands, text_of

from tests.cli.conftest import invoke, read_jsonl
from tests.support.decision_servers import system_one
from tests.support.endpoint import Body, Endpoint, system_of, user_of
from tests.support.learning import changes_of
from tests.support.rows import RawRow

PAGE = text_of("docs/how-to/local-models.md")
PARTS = re.split(r"^(?:#+ |\*\*(?=[A-Z]))", PAGE, flags=re.MULTILINE)
ADDRESS = re.compile(r"http://localhost:\d+")


def fill(body: Body) -> dict[str, Any]:
    """A model that likes every reply that says sorry, and writes one rule for each comment."""
    properties = body["response_format"]["json_schema"]["schema"]["properties"]
    if "changes" in properties:
        rule = "A reply to an upset customer must begin with regret"
        return changes_of(user_of(body), lambda label, _: f"{rule} ({label}).")
    return {
        "rationale": "It says sorry, or not.",
        "value": "sorry" in user_of(body).rpartition("item")[2],
    }


def follow(server: Endpoint, monkeypatch: pytest.MonkeyPatch, *parts: str) -> int:
    """Type what the parts of the page say that begin so; how many commands ran."""
    ran = 0
    address = server.base_url.removesuffix("/v1")
    for start in parts:
        (part,) = (text for text in PARTS if text.startswith(start))
        for fence in FENCE.finditer(ADDRESS.sub(address, part)):
            for words in commands(fence[3]):
                if words[0] == "export":
                    monkeypatch.setenv(*words[1].split("=", 1))
                else:
                    invoke(shlex.join(words[1:]), code=0)
                    ran += 1
    for path in server.paths:
        assert path.startswith(("/v1/chat", "/v1/systemone")), "a path unknown to them"
    return ran


def judgments(name: str) -> list[RawRow]:
    """The lines of a file of judgments, which all have a verdict."""
    rows = read_jsonl(name)
    for row in rows:
        assert row["error"] is None
    return rows


def models(server: Endpoint) -> set[str]:
    return {body["model"] for body in server.requests}


def keys(server: Endpoint) -> set[str]:
    return {headers["authorization"] for headers in server.headers}


COMMON = "2. Judge, align and evaluate"
VERDICTS = [False, False, False, True]


@pytest.mark.usefixtures("folder")
def test_ollama(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another-server")
    slow = ("Slow servers", "Models that think")
    with Endpoint(fill) as server:
        follow(server, monkeypatch, "Ollama", COMMON, *slow)
        invoke("judge tone more.jsonl")
    assert models(server) == {"qwen2.5:7b"}
    assert "sk-of-another-server" not in str(server.headers)
    assert server.requests[-1]["reasoning_effort"] == "low"
    assert [each["value"] for each in judgments("judged.jsonl")] == VERDICTS
    for each in judgments("judged-3.jsonl"):
        assert each["confidence"] is None
    # What was learned is in the prompt.
    assert "must begin with regret" in system_of(server.requests[-1])


@pytest.mark.usefixtures("folder")
def test_a_decision_model_of_ollama_judges(monkeypatch: pytest.MonkeyPatch) -> None:
    def decide(state: str, _: str) -> dict[str, float]:
        yes = 0.9 if "sorry" in state else 0.2
        return {"true": yes, "false": 1 - yes}

    with system_one(decide) as server:
        follow(server, monkeypatch, "Ollama", "A decision model")
        invoke("judge tone new.jsonl -o judged.jsonl", code=0)
    assert models(server) == {"NAME"}
    assert set(server.paths) == {"/v1/systemone"}
    assert [each["value"] for each in judgments("judged.jsonl")] == VERDICTS
    for each in judgments("judged.jsonl"):
        assert each["confidence"] > 0.5


def test_vllm(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Endpoint(fill) as server:
        follow(server, monkeypatch, "vLLM", COMMON)
    assert models(server) == {"Qwen/Qwen2.5-32B-Instruct"}
    assert keys(server) == {"Bearer choose-one"}
    assert [each["value"] for each in judgments("judged.jsonl")] == VERDICTS
    for each in judgments("judged.jsonl"):
        assert each["usage"]["cost"] > 0
    assert b"choose-one" not in (folder / "memalign.db").read_bytes()


@pytest.mark.usefixtures("folder")
def test_the_strong_model_beside_vllm_writes_the_guidelines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Endpoint(fill) as server, Endpoint(fill) as provider:
        # What stands for the provider in this test; on the page it is OpenAI's own address.
        monkeypatch.setenv("OPENAI_BASE_URL", provider.base_url)
        assert follow(server, monkeypatch, "vLLM", "A strong model") == 3
    assert models(provider) == {"gpt-4.1"}
    assert keys(provider) == {"Bearer YOUR-KEY"}
    assert "choose-one" not in str(provider.headers)
    assert "YOUR-KEY" not in str(server.headers)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("name", "model"),
    [("LM Studio", "qwen2.5-7b-instruct"), ("llama.cpp", "model.gguf")],
)
def test_any_other_server(
    name: str, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Endpoint(fill) as server:
        assert follow(server, monkeypatch, name, COMMON) == 4
    assert models(server) == {model}
    for body in server.requests:
        # LM Studio takes no other.
        assert body["response_format"]["type"] == "json_schema"
    for each in judgments("judged.jsonl"):
        assert each["usage"]["calls"] == 1
