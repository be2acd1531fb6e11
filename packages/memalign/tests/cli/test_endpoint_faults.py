"""What a person reads when the endpoint is the trouble."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import FEEDBACK, Run, answer, jsonl
from tests.support.endpoint import Endpoint, Fault, says


def test_verbose_shows_the_raw_answer_that_failed(memalign: Run, tone: str, held_out: Path, endpoint: Endpoint) -> None:
    endpoint.answer = says("It is \x1b[31mkind\x1b[0m, I think.")
    quiet = memalign("judge", tone, held_out)
    assert "I think" not in quiet.out + quiet.err
    told = memalign("judge", tone, held_out, "--verbose", "--json")
    assert told.code == 1
    assert f"raw answer: t-2: openai:test at {endpoint.base_url}, attempt 1: it held no JSON object" in told.err
    assert "  | It is \N{REPLACEMENT CHARACTER}[31mkind\N{REPLACEMENT CHARACTER}[0m, I think." in told.err
    assert "I think" not in told.out, "judgments are kept, and what is kept repeats no answer"
    assert "I think" not in memalign("judge", tone, held_out).err, "the next command is quiet again"


def test_verbose_shows_the_body_of_a_refusal(memalign: Run, tone: str, feedback: Path, endpoint: Endpoint) -> None:
    endpoint.answer = Fault(status=400, body={"error": {"message": "No."}, "detail": "line 3 of the template"})
    assert "line 3 of the template" not in memalign("align", tone, feedback).err
    told = memalign("align", tone, jsonl(feedback, FEEDBACK), "--verbose")
    assert "HTTP 400, No." in told.err
    assert "line 3 of the template" in told.err
    assert "raw answer: lessons of t-1@ana, t-2@ana, t-3@ben: openai:test" in told.err


def test_an_address_without_v1_names_its_remedy(
    memalign: Run, tone: str, held_out: Path, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint.elsewhere = Fault(status=404, body="404 page not found")
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url.removesuffix("/v1"))
    failed = memalign("judge", tone, held_out)
    assert failed.code == 2
    assert failed.err.count("and the address http://127.0.0.1") == failed.err.count("which usually ends in /v1") == 1
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
    assert memalign("judge", tone, held_out).code == 0


WORDS = "the erased words of Ana"


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
def test_an_odd_answer_is_asked_for_once_and_never_quoted(
    memalign: Run, tone: str, tmp_path: Path, endpoint: Endpoint, body: object
) -> None:
    endpoint.answer = Fault(body=body)
    new = jsonl(tmp_path / "new.jsonl", [{"id": "n-1", "inputs": "Where is it?", "outputs": "In the post."}])
    judged = memalign("judge", tone, new, "-o", tmp_path / "judged.jsonl")
    assert judged.code == 1
    assert len(endpoint.requests) == 1
    kept = (tmp_path / "judged.jsonl").read_text("utf-8")
    assert "the server's answer is not what its API promises" in kept
    assert "no connection" not in kept
    assert WORDS not in kept + judged.out + judged.err


def test_an_odd_vector_is_never_quoted(memalign: Run, tmp_path: Path, endpoint: Endpoint, feedback: Path) -> None:
    made = memalign(
        *("create", "near", "--value-type", "bool", "--instructions", "Kind? {{ inputs }} {{ outputs }}"),
        *("--model", "openai:test", "--embedding-model", "openai:vectors"),
    )
    assert made.code == 0, made.err
    vector = {"index": 0, "object": "embedding", "embedding": [WORDS]}
    odd = Fault(body={"object": "list", "model": "m", "data": [vector] * len(FEEDBACK)})
    endpoint.answer = lambda body: odd if "input" in body else answer(body)
    learned = memalign("align", "near", feedback)
    assert learned.code != 0
    assert "is not what its API promises" in learned.err
    assert WORDS not in learned.out + learned.err
