"""Traces: read in every usual form, shown whole where they fit, and cut where they do not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memalign import Judge
from memalign.content import span_tree
from memalign.content.encoding import estimate_tokens
from memalign.models.base import Limits
from memalign.prompts.fitting import whole
from memalign.prompts.trace_text import outline
from memalign.testing import ScriptedChatModel
from tests.support.scripted import scripted
from tests.support.spans import Step, flat, otlp, runs

RUN = [
    Step(parent=None, name="agent", kind="AGENT", seconds=3, inputs={"q": "Refund me"}, outputs="Done, refunded."),
    Step(parent=0, name="plan", kind="LLM", start=1, seconds=1, outputs="call refund"),
    Step(parent=0, name="refund", kind="TOOL", start=2, failed=True, inputs={"order": 17}, outputs="HTTP 500"),
]


def judge(context: int = 8_000) -> tuple[Judge, ScriptedChatModel]:
    task = "Did the agent do what it says that it did? {{ trace }}"
    return scripted(limits=Limits(context_tokens=context), instructions=task)


def test_a_small_trace_is_shown_whole() -> None:
    one, model = judge()
    judgment = one(trace=otlp(RUN))
    assert judgment.notes == ()
    assert (
        'trace: 3 spans, 1 failed, 3.00 s\n'
        'S1 "agent" AGENT 3.00 s\n'
        '  inputs: {"q": "Refund me"}\n'
        '  outputs: "Done, refunded."\n'
        '  S2 "plan" LLM 1.00 s\n'
        '    outputs: "call refund"\n'
        '  S3 "refund" TOOL error 0.0 ms\n'
        '    inputs: {"order": 17}\n'
        '    outputs: "HTTP 500"\n'
    ) in model.requests[0].user  # fmt: skip
    assert len(model.requests) == 1


@settings(max_examples=20, deadline=None)
@given(runs(most=10), st.integers(40, 400))
def test_an_outline_fits_and_names_what_failed_first(run: list[Step], tokens: int) -> None:
    tree = span_tree(flat(run))
    assert tree is not None
    text = outline(tree, tokens)
    assert estimate_tokens(text) <= tokens + 120  # one name and the ends may be longer than their room
    left = [line for line in text.splitlines() if "more spans are not named" in line]
    named = {line.split()[0] for line in text.splitlines() if line.strip().startswith("S")}
    if not left:
        assert {span.id for span in tree.spans} <= named


@pytest.mark.parametrize(
    "held",
    [
        {"attributes": {"context": "SEEN"}},
        {"attributes": {"status": "SEEN", "id": "order-17"}},
        {"attributes": {"feedback": "SEEN"}},
        {"attributes": {"name": "SEEN"}},
        {"attributes": {"links": ["SEEN"]}},
        {"attributes": [{"key": "a", "value": {"arrayValue": {"values": "SEEN"}}}]},
        {"attributes": [{"key": "a", "value": {"kvlistValue": {"values": "SEEN"}}}]},
        {"attributes": {"model": "a"}, "prompt": "SEEN"},
        {"attributes": {"input.value": "a", "gen_ai.prompt": "SEEN"}},
        {"error": {"type": "SEEN"}},
        {"status": "SEEN"},
        {"status": {"code": "SEEN", "message": "late"}},
        {"events": [{"name": "exception", "message": "SEEN"}]},
    ],
)
def test_what_no_convention_knows_is_shown(held: dict[str, Any]) -> None:
    text = whole("trace", [{"span_id": "1", "name": "a", **held}], 1_000)
    assert text is not None
    assert "SEEN" in text


@pytest.mark.parametrize("context", [2_000, 8_000, 32_000])
def test_everything_fits_the_models_context(context: int) -> None:
    one, model = judge(context=context)
    one(trace=otlp([*RUN, *(Step(parent=0, name=f"step {n}", start=n, outputs="word " * 1200) for n in range(300))]))
    (request,) = model.requests
    assert estimate_tokens(request.system + request.user) + request.max_tokens <= context * 1.05
