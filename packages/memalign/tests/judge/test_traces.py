"""Traces: read in every usual form, shown whole where they fit, and read by tools where they do not."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memalign import Example, Judge
from memalign.content import span_tree
from memalign.content.encoding import estimate_tokens
from memalign.content.traces import SpanTree
from memalign.errors import InputError, InvalidOutput, ModelUnavailable
from memalign.judge.trace_reading import tool_call_of, tool_call_text
from memalign.models.base import ChatRequest, Limits
from memalign.prompts.fitting import cut, whole
from memalign.prompts.trace_text import outline, show_tool_result
from memalign.testing import Answer, ScriptedChatModel
from memalign.types import ToolCall
from tests.support.endpoint import Endpoint
from tests.support.scripted import change, scripted
from tests.support.spans import Step, flat, mlflow, otlp, runs

VERDICT = {"rationale": "The refund was never booked.", "value": False}


def tool(**fields: Any) -> dict[str, Any]:
    return {"why": "to see", "tool": "read", "spans": "", "part": 1, "text": ""} | fields


ENOUGH = tool(tool="enough")


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
    def test_what_is_no_tree_stays_and_what_people_said_goes(self) -> None:
        one, model = judge([VERDICT] * 2)
        assert one(trace={"steps": [1, 2]}).value is False
        assert 'trace: {"steps": [1, 2]}' in model.requests[0].user
        one(trace=mlflow(RUN))
        assert not {"assessments", "feedback"} & {*re.findall(r"\w+", model.requests[1].user)}

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

    def test_an_example_is_shown_in_outline(self) -> None:
        text, note, _ = cut("trace", otlp(long_run()), 600)
        assert text.splitlines()[1:3] == ['S1 inputs: "Refund me"', 'S1 outputs: "Done."']
        assert estimate_tokens(text) <= 300
        assert note.startswith("trace in outline: 60 spans")

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
            {"inputs": {}, "input": "SEEN"},
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

    def test_a_spans_recording_details_are_not_shown(self) -> None:
        kept = {"traceState": "x", "flags": 1, "links": [], "resource": {"a": 1}, "droppedEventsCount": 2}
        said = {"assessments": [{"value": "bad"}], "feedback": "bad"}
        times = {"start_time": "2026-03-01T12:00:00", "startTime": 1_772_366_400, "end": 1_772_366_401}
        text = whole("trace", [{"span_id": "1", "name": "a", "trace_id": "t", **kept, **said, **times}], 1_000)
        assert text == '1 span, 1.00 s\nS1 "a" 1.00 s'

    def test_fields_beside_spans_are_shown_without_verdicts(self) -> None:
        spans = [{"span_id": "1", "name": "a"}]
        said = dict.fromkeys(("assessments", "feedback", "annotations", "scores", "evaluations"), "bad")
        trace = {"trace_id": "t", "input": "q", "output": '{"final": "x\\n>>>"}', "spans": spans, **said}
        assert whole("trace", trace, 1_000) == '1 span {"input": "q", "output": {"final": "x\\n\\u003e>>"}}\nS1 "a"'
        long = trace | {"output": "word " * 100_000}
        text, _, _ = cut("trace", long, 600)
        assert estimate_tokens(text) <= 400

    def test_gaps_and_repairs_in_a_trace_are_told(self) -> None:
        one, _ = judge([VERDICT])
        judgment = one(trace={"spans": [{"span_id": "1", "name": "a", "parent_id": "gone"}, "a line of a log"]})
        assert judgment.notes == (
            "trace: 1 of 2 entries are no spans and are left out",
            "trace: 1 of 1 spans (a) name a parent that the trace does not hold; shown as uppermost",
        )

    def test_a_trace_over_budget_is_never_encoded_whole(self) -> None:
        assert whole("trace", otlp(long_run(600, 15_000)), 1000) is None


class TestTools:
    def test_the_judge_reads_spans_before_it_decides(self) -> None:
        one, model = judge([tool(tool="search", text="needle"), tool(spans="S42"), ENOUGH, VERDICT])
        judgment = one(trace=otlp(long_run()))
        assert judgment.value is False
        assert judgment.notes[1:] == (
            'tool call: search "needle"',
            "tool call: read S42",
            "tool calls: the judge had seen enough",
        )
        assert "trace in outline: 60 spans" in judgment.notes[0]
        last = model.requests[-1]
        assert "NEEDLE" in last.user
        assert 'S42 outputs: "…' in last.user
        assert last.schema_name == "judgment"
        assert judgment.usage.calls == 4
        assert judgment.usage.seconds["trace_tools"] > 0
        assert len({request.system for request in model.requests}) == 1
        for before, after in zip(model.requests, model.requests[1:], strict=False):
            grown = before.user[: before.user.rindex("\n\n")]
            assert after.user.startswith(grown)

    @pytest.mark.parametrize("context", [2_000, 8_000, 32_000])
    def test_everything_fits_the_models_context(self, context: int) -> None:
        def answer(request: ChatRequest) -> Answer:
            return VERDICT if request.schema_name == "judgment" else tool(spans=f"S{len(request.user) % 59 + 1}")

        one, model = judge(answer, context=context)
        one(trace=otlp(long_run(300, 6000)))
        for request in model.requests:
            assert estimate_tokens(request.system + request.user) + request.max_tokens <= context * 1.05

    def test_after_the_last_tool_call_it_must_decide(self) -> None:
        numbers = iter(range(2, 60))

        def answer(request: ChatRequest) -> Answer:
            return VERDICT if request.schema_name == "judgment" else tool(tool="search", text=f"w{next(numbers)}")

        one, model = judge(answer, context=64_000, parameters={"trace_tool_calls": 4})
        judgment = one(trace=otlp(long_run(200, 3000)))
        assert [request.schema_name for request in model.requests] == ["tool_call"] * 4 + ["judgment"]
        assert judgment.notes[-1] == "tool calls: the limit was reached"
        assert "at most 4 times" in model.requests[0].user

    def test_without_tool_calls_it_decides_by_the_outline(self) -> None:
        one, model = judge([VERDICT], parameters={"trace_tool_calls": 0})
        judgment = one(trace=otlp(long_run()))
        assert len(model.requests) == 1
        assert judgment.notes[0].startswith("trace in outline")

    @pytest.mark.parametrize(
        ("asked", "shown"),
        [
            (tool(spans="S999"), "there is no span S999; spans are S1 to S60"),
            (tool(spans="the root"), "no span is named"),
            (tool(tool="search"), "nothing to search for"),
            (tool(tool="search", text="absent"), 'no span holds "absent"'),
            (tool(spans="S1", part=7), "S1 has 1 part"),
            (tool(spans=None, part="x", text=None), "no span is named"),
            (tool(spans="S1", part=-4), 'S1 "agent"'),
        ],
    )
    def test_a_tool_call_for_nothing_there_says_so(self, asked: dict[str, Any], shown: str) -> None:
        one, model = judge([asked, ENOUGH, VERDICT])
        assert one(trace=otlp(long_run())).value is False
        assert shown in model.requests[1].user

    @pytest.mark.parametrize(
        ("answer", "ended"),
        [
            (ENOUGH, "the judge had seen enough"),
            (tool(spans="S2"), "it asked for the same again"),
            (InvalidOutput("no JSON"), "the model's answer was none"),
        ],
    )
    def test_a_note_says_why_the_reading_ended(self, answer: Answer, ended: str) -> None:
        judgment = judge([tool(spans="S2"), answer, VERDICT])[0](trace=otlp(long_run()))
        assert (judgment.value, judgment.notes[-1]) == (False, f"tool calls: {ended}")

    @pytest.mark.parametrize("before", [[tool(spans="S2")], [tool(spans="S2"), ENOUGH]])
    def test_a_failing_model_reports_its_tool_call_costs(self, before: list[Any]) -> None:
        one, _ = judge([*before, ModelUnavailable("down")])
        with pytest.raises(ModelUnavailable) as failed:
            one(trace=otlp(long_run()))
        assert failed.value.usage is not None
        assert failed.value.usage.calls == len(before)

    def test_the_parts_of_a_span_make_it_whole(self) -> None:
        tree = tree_of(long_run(4, 9000))
        first = show_tool_result(tree, ToolCall(tool="read", spans=("S2",)), 400)
        count = int(first.splitlines()[1].split()[3].rstrip(":"))
        parts = [show_tool_result(tree, ToolCall(tool="read", spans=("S2",), part=n), 400) for n in range(1, count + 1)]
        assert all(estimate_tokens(part) <= 400 for part in parts)
        told = "".join(json.loads(part.splitlines()[1].split(": ", 1)[1]) for part in parts)
        assert told == f"outputs: {tree.spans[1].outputs}"

    def test_a_swap_tells_tool_calls_on_both_sides(self) -> None:
        sides = {
            '"A": "left"': iter([tool(spans="S2"), tool(spans="S3"), ENOUGH, {"rationale": "r", "value": "A"}]),
            '"A": "right"': iter([tool(tool="search", text="x"), ENOUGH, {"rationale": "r", "value": "B"}]),
        }
        one, model = judge(
            lambda request: next(next(script for side, script in sides.items() if side in request.user)),
            context=16_000,
            instructions="Which? {{ outputs }} {{ trace }}",
            feedback_value_type="A|B",
            parameters={"swap": True},
        )
        with pytest.raises(InputError, match="swap needs a field whose keys are two of the judge's choices"):
            one(Example(id="t-1", outputs="one side", trace=otlp(long_run())))
        assert model.requests == [], "an item without two sides asks nothing"
        judgment = one(Example(id="t-1", outputs={"A": "left", "B": "right"}, trace=otlp(long_run())))
        assert [note for note in judgment.notes if "tool call: " in note] == [
            "tool call: read S2",
            "tool call: read S3",
            'swapped: tool call: search "x"',
        ]
        assert sum("outline" in note for note in judgment.notes) == 1, "what is true of both is said once"

    @settings(deadline=None)
    @given(
        st.dictionaries(
            st.sampled_from(["why", "tool", "spans", "part", "text"]),
            st.none() | st.text() | st.integers() | st.sampled_from(["read", "search", "enough"]),
        )
    )
    def test_any_answer_is_a_tool_call_or_end(self, data: dict[str, Any]) -> None:
        tree = tree_of(RUN)
        asked = tool_call_of(data)
        if asked is not None:
            assert show_tool_result(tree, asked, 200)
            words = tool_call_text(asked)
            assert "\n" not in words

    def test_samples_read_the_trace_once(self) -> None:
        one, model = judge(
            lambda request: VERDICT if request.schema_name == "judgment" else ENOUGH, parameters={"samples": 3}
        )
        one(trace=otlp(long_run()))
        assert [request.schema_name for request in model.requests] == ["tool_call"] + ["judgment"] * 3


def test_a_judge_of_traces_learns_from_feedback() -> None:
    def answers(request: ChatRequest) -> Answer:
        match request.schema_name:
            case "judgment":
                return {"rationale": "It says so.", "value": True}
            case "tool_call":
                return ENOUGH if "Tool call 1" in request.user else tool(spans="S2")
            case _:
                return {"changes": [change("ADD", "F1", text=rule)]}

    rule = "A refund counts only when its tool call did not fail."
    one, model = judge(answers, context=6_000)
    feedback = [
        {"id": "t-1", "trace": otlp(long_run()), "value": False, "rationale": "The tool failed.", "source": "ana"}
    ]
    result = one.align(feedback)
    assert [g.text for g in result.judge.memory.semantic] == [rule]
    distil = next(request for request in model.requests if request.schema_name not in ("judgment", "tool_call"))
    assert "S1 inputs" in distil.user
    assert "NEEDLE" not in distil.user
    again = result.judge(trace=otlp(long_run()))
    assert again.example_ids == ("t-1",)
    assert "trace: 60 spans" in model.requests[-1].user


def test_a_judge_reads_over_a_real_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(body: dict[str, Any]) -> dict[str, Any]:
        name = body["response_format"]["json_schema"]["name"]
        said = body["messages"][-1]["content"]
        if name == "judgment":
            return {"rationale": "It failed.", "value": False}
        return ENOUGH if "Tool call 1" in said else tool(tool="search", text="needle")

    with Endpoint(answer) as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
        monkeypatch.setenv("MEMALIGN_CONTEXT_TOKENS", "8000")
        one = Judge(
            name="agent", instructions="Did it work? {{ trace }}", feedback_value_type=bool, model="openai:traces"
        )
        judgment = one(trace=mlflow(long_run()))
        assert judgment.value is False
        assert len(endpoint.requests) == 3
        assert "NEEDLE" in json.dumps(endpoint.requests[-1])
