"""The page on local models: its commands run as they are, against a server that answers as theirs do.

Only the port is another one. Commands of the servers themselves (`ollama`, `vllm`, `lms`) are not run.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from checkout import FENCE, ROOT, commands

from tests.cli.conftest import invoke
from tests.support.decision_servers import system_one
from tests.support.endpoint import Body, Endpoint, system_of, user_of
from tests.support.learning import changes_of
from tests.support.rows import RawRow

PAGE = (ROOT / "docs" / "how-to" / "local-models.md").read_text("utf-8")
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


def follow(server: Endpoint, monkeypatch: pytest.MonkeyPatch, *parts: str) -> list[str]:
    """Type what the parts of the page say, which begin with these words; the commands that ran."""
    ran = []
    for part in parts:
        (start,) = (
            match.start()
            for match in re.finditer(
                rf"^(?:#+ |\*\*){re.escape(part)}", PAGE, re.MULTILINE
            )
        )
        end = re.compile(r"^(?:#+ |\*\*[A-Z])", re.MULTILINE).search(PAGE, start + 3)
        for fence in FENCE.finditer(PAGE[start : end.start() if end else None]):
            for words in commands(
                ADDRESS.sub(server.base_url.removesuffix("/v1"), fence[3])
            ):
                if words[0] == "export":
                    monkeypatch.setenv(*words[1].split("=", 1))
                else:
                    invoke(*words[1:], code=0)
                    ran.append(shlex.join(words))
    assert {path.partition("/chat")[0] for path in server.paths} <= {
        "/v1",
        "/v1/systemone",
    }, "other paths are unknown"
    return ran


def judgments(path: Path) -> list[RawRow]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


COMMON = "2. Judge, align and evaluate"


def test_ollama(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another-server")
    with Endpoint(fill) as server:
        follow(
            server, monkeypatch, "Ollama", COMMON, "Slow servers", "Models that think"
        )
        invoke("judge", "tone", "more.jsonl")
    assert {body["model"] for body in server.requests} == {"qwen2.5:7b"}
    assert "sk-of-another-server" not in str(server.headers)
    assert server.requests[-1]["reasoning_effort"] == "low"
    assert [each["value"] for each in judgments(folder / "judged.jsonl")] == [
        False,
        False,
        False,
        True,
    ]
    assert all(
        each["error"] is None and each["confidence"] is None
        for each in judgments(folder / "judged-3.jsonl")
    )
    assert "must begin with regret" in system_of(server.requests[-1]), (
        "what was learned is in the prompt"
    )


def test_a_decision_model_of_ollama_judges(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def decide(state: str, _: str) -> dict[str, float]:
        yes = 0.9 if "sorry" in state else 0.2
        return {"true": yes, "false": 1 - yes}

    with system_one(decide) as server:
        follow(server, monkeypatch, "Ollama", "A decision model")
        invoke("judge", "tone", "new.jsonl", "-o", "judged.jsonl", code=0)
    assert {body["model"] for body in server.requests} == {"NAME"}
    assert set(server.paths) == {"/v1/systemone"}
    made = judgments(folder / "judged.jsonl")
    assert [each["value"] for each in made] == [False, False, False, True]
    assert all(each["error"] is None and each["confidence"] > 0.5 for each in made)


def test_vllm(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Endpoint(fill) as server:
        follow(server, monkeypatch, "vLLM", COMMON)
    assert {body["model"] for body in server.requests} == {"Qwen/Qwen2.5-32B-Instruct"}
    assert {each["authorization"] for each in server.headers} == {"Bearer choose-one"}
    assert all(each["usage"]["cost"] > 0 for each in judgments(folder / "judged.jsonl"))
    assert [each["value"] for each in judgments(folder / "judged.jsonl")] == [
        False,
        False,
        False,
        True,
    ]
    assert b"choose-one" not in (folder / "memalign.db").read_bytes()


def test_the_strong_model_beside_vllm_writes_the_guidelines(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Endpoint(fill) as server, Endpoint(fill) as provider:
        # What stands for the provider in this test; on the page it is OpenAI's own address.
        monkeypatch.setenv("OPENAI_BASE_URL", provider.base_url)
        assert len(follow(server, monkeypatch, "vLLM", "A strong model")) == 3
    assert {body["model"] for body in provider.requests} == {"gpt-4.1"}
    assert {each["authorization"] for each in provider.headers} == {"Bearer YOUR-KEY"}
    assert "choose-one" not in str(provider.headers)
    assert "YOUR-KEY" not in str(server.headers)


def test_lm_studio(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Endpoint(fill) as server:
        assert len(follow(server, monkeypatch, "LM Studio", COMMON)) == 4
    assert {body["model"] for body in server.requests} == {"qwen2.5-7b-instruct"}
    assert {body["response_format"]["type"] for body in server.requests} == {
        "json_schema"
    }, "it takes no other"
    assert all(
        each["error"] is None and each["usage"]["calls"] == 1
        for each in judgments(folder / "judged.jsonl")
    )


def test_any_other_server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Endpoint(fill) as server:
        assert len(follow(server, monkeypatch, "llama.cpp", COMMON)) == 4
    assert {body["model"] for body in server.requests} == {"model.gguf"}
