"""Traces: read in every usual form, shown whole where they fit, and cut where they do not."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memalign import Judge
from memalign.content import span_tree
from memalign.content.encoding import estimate_tokens
from memalign.content.traces import SpanTree
from memalign.models.base import Limits
from memalign.prompts.fitting import whole
from memalign.prompts.trace_text import outline
from memalign.testing import ScriptedChatModel
from tests.support.scripted import scripted
from tests.support.spans import Step, flat, otlp, runs

VERDICT = {"rationale": "The refund was never booked.", "value": False}


def tree_of(run: list[Step]) -> SpanTree:
    tree = span_tree(flat(run))
    assert tree is not None
    return tree


RUN = [
    Step(parent=None, name="agent", kind="AGENT", seconds=3, inputs={"q": "Refund me"}, outputs="Done, refunded."),
    Step(parent=0, name="plan", kind="LLM", start=1, seconds=1, outputs="call refund"),
    Step(parent=0, name="refund", kind="TOOL", start=2, failed=True, inputs={"order": 17}, outputs="HTTP 500"),
]


def long_run(steps: int = 60, size: int = 1500) -> list[Step]:
    """A run of which 60 steps hold 90,000 characters; the one that matters is S42."""
    words = random.Random(0)
    rest = [
        Step(
            parent=0,
            name=f"step {n}",
            kind="TOOL",
            start=n,
            outputs=(f"w{words.randrange(999)} " * (size // 5)) + ("NEEDLE" if n == 41 else ""),
        )
        for n in range(1, steps)
    ]
    return [Step(parent=None, name="agent", inputs="Refund me", outputs="Done."), *rest]


def judge(answers: Any, *, context: int = 8_000, **changes: Any) -> tuple[Judge, ScriptedChatModel]:
    task = {"instructions": "Did the agent do what it says that it did? {{ trace }}"}
    return scripted(answers, limits=Limits(context_tokens=context), **task | changes)


class TestShown:
    def test_a_small_trace_is_shown_whole(self) -> None:
        one, model = judge([VERDICT])
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
    def test_an_outline_fits_and_names_what_failed_first(self, run: list[Step], tokens: int) -> None:
        tree = tree_of(run)
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
    def test_what_no_convention_knows_is_shown(self, held: dict[str, Any]) -> None:
        text = whole("trace", [{"span_id": "1", "name": "a", **held}], 1_000)
        assert text is not None
        assert "SEEN" in text


class TestTooLong:
    @pytest.mark.parametrize("context", [2_000, 8_000, 32_000])
    def test_everything_fits_the_models_context(self, context: int) -> None:
        one, model = judge([VERDICT], context=context)
        one(trace=otlp(long_run(300, 6000)))
        (request,) = model.requests
        assert estimate_tokens(request.system + request.user) + request.max_tokens <= context * 1.05
