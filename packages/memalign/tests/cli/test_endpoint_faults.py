"""What a person reads when the endpoint is the trouble."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import FEEDBACK, Run, answer, jsonl
from tests.support.endpoint import Endpoint, Fault

WORDS = "the erased words of Ana"


def test_an_address_without_v1_names_its_remedy(
    memalign: Run, tone: str, held_out: Path, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    fine, endpoint.answer = endpoint.answer, Fault(status=404, body="404 page not found")
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url.removesuffix("/v1"))
    failed = memalign("judge", tone, held_out, code=2)
    assert failed.err.count("and the address http://127.0.0.1") == failed.err.count("which usually ends in /v1") == 1
    endpoint.answer = fine
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
    memalign("judge", tone, held_out, code=0)


def completion(**message: object) -> dict[str, object]:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "{}", **message}}
    return {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}


@pytest.mark.parametrize(
    "body",
    [
        completion(tool_calls=[{"id": 1, "type": "function", "function": {"name": WORDS, "arguments": [WORDS]}}]),
        completion(tool_calls=WORDS),
        completion() | {"created": WORDS, "usage": {"prompt_tokens": WORDS}},
        completion() | {"choices": WORDS},
        {"output": WORDS},
    ],
)
def test_an_odd_answer_is_never_quoted(
    memalign: Run, tone: str, tmp_path: Path, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, body: object
) -> None:
    monkeypatch.setattr("memalign.models.retry.Retry.wait", lambda *_: 0.0)  # patience is tested elsewhere
    endpoint.answer = Fault(body=body)
    new = jsonl(tmp_path / "new.jsonl", [{"id": "n-1", "inputs": "Where is it?", "outputs": "In the post."}])
    judged = memalign("judge", tone, new, "-o", tmp_path / "judged.jsonl", code=1)
    kept = (tmp_path / "judged.jsonl").read_text("utf-8")
    assert "the server's answer is not what its API promises" in kept
    assert "no connection" not in kept
    assert WORDS not in kept + judged.out + judged.err


def test_an_odd_vector_is_never_quoted(memalign: Run, tone: str, endpoint: Endpoint, feedback: Path) -> None:
    memalign("edit", tone, "--embedding-model", "openai:vectors", code=0)
    vector = {"index": 0, "object": "embedding", "embedding": [WORDS]}
    odd = Fault(body={"object": "list", "model": "m", "data": [vector] * len(FEEDBACK)})
    endpoint.answer = lambda body: odd if "input" in body else answer(body)
    learned = memalign("align", tone, feedback, says="is not what its API promises")
    assert learned.code != 0
    assert WORDS not in learned.out + learned.err
