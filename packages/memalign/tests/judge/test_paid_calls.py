"""What an answer that was paid for is kept under."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memalign import Judge
from memalign.judge.open_model import open_model
from memalign.judge.paid_calls import _key
from memalign.models.base import ChatRequest

if TYPE_CHECKING:
    import pytest


def test_another_effort_is_another_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    judge = Judge(name="tone", instructions="Warm? {{ outputs }}", feedback_value_type=bool, model="openai:gpt-5-mini")
    request = ChatRequest(system="s", user="u", schema={"type": "object"})
    low, high = (open_model(judge.replace(parameters={"reasoning_effort": effort})) for effort in ("low", "high"))
    assert _key(low, request) != _key(high, request)
    assert _key(low, request) == _key(open_model(judge.replace(parameters={"reasoning_effort": "low"})), request)
