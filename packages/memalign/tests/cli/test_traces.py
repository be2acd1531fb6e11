"""A judge of long traces on the command line: what it read is told, and shown again byte for byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.cli.conftest import Run, jsonl
from tests.support.endpoint import Endpoint, user_of
from tests.support.spans import Step, mlflow

if TYPE_CHECKING:
    import pytest


def answer(body: dict[str, Any]) -> dict[str, Any]:
    """Looks for the refund, reads the step that it finds, and says that it failed."""
    if body["response_format"]["json_schema"]["name"] == "judgment":
        return {"rationale": "The refund failed.", "value": False}
    tool_call = {"why": "to see", "tool": "search", "spans": "", "part": 1, "text": 'the "refund"'}
    if "Tool call 1" in user_of(body):
        tool_call |= {"tool": "read", "spans": "S21"}
    return tool_call | ({"tool": "enough"} if "Tool call 2" in user_of(body) else {})


def test_explain_names_the_tool_calls_and_shows_the_prompt_before_them(
    memalign: Run, tmp_path: Path, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMALIGN_CONTEXT_TOKENS", "8001")
    monkeypatch.chdir(tmp_path)
    endpoint.answer = answer
    steps = [Step(parent=0, name=f"step {n}", start=n, outputs="x y " * 300) for n in range(1, 40)]
    steps[19] = Step(parent=0, name="pay", start=20, failed=True, outputs='the "refund" was not booked' * 60)
    examples = jsonl(
        tmp_path / "runs.jsonl", [{"id": "r-1", "trace": mlflow([Step(parent=None, name="agent"), *steps])}]
    )
    settings = ("--instructions", "Did it work? {{ trace }}", "--value-type", "bool", "--model", "openai:reads")
    assert memalign("create", "agent", *settings).code == 0
    judged = memalign("judge", "agent", examples, "-o", tmp_path / "judged.jsonl")
    assert judged.code == 0, judged.err
    notes = json.loads((tmp_path / "judged.jsonl").read_text("utf-8"))["notes"]
    calls = ['tool call: search "the \\"refund\\""', "tool call: read S21"]
    assert [note for note in notes if note.startswith("tool call: ")] == calls
    first, sent = endpoint.requests[0], endpoint.requests[-1]
    explained = memalign("explain", "agent", tmp_path / "judged.jsonl", "r-1", "--examples", examples, "--json")
    assert user_of(first).startswith(explained.json["prompt"]["user"])
    assert explained.json["same_prompt"] is False
    assert "Tool call 2: read S21" in user_of(sent)
    said = memalign("explain", "agent", tmp_path / "judged.jsonl", "r-1", "--examples", examples).out
    assert "read S21" in said
    assert len(endpoint.requests) == 4, "explaining asks no model"
