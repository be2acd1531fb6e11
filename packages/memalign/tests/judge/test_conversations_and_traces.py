"""Conversations and traces: judged turn by turn and span by span, whole, or cut where
they do not fit."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memalign import Example, Judge
from memalign.content import turns_of
from memalign.content.encoding import estimate_tokens
from memalign.errors import InputError, InvalidRows
from memalign.models.base import Limits
from memalign.prompts.fitting import cut, whole
from memalign.testing import ScriptedChatModel
from tests.support.scripted import Teacher, change, scripted
from tests.support.spans import Step, otlp

SESSION = [
    {"role": "user", "content": "Where is my order?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "c1",
                "type": "function",
                "function": {"name": "find_order", "arguments": '{"order": 17}'},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": '{"state": "lost"}'},
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "It is"},
            {"type": "text", "text": "on its way."},
        ],
    },
]


def judge(
    answers: Any = None, *, context: int = 128_000
) -> tuple[Judge, ScriptedChatModel]:
    task = "Was the customer's question resolved in the end? {{ conversation }}"
    return scripted(answers, limits=Limits(context_tokens=context), instructions=task)


def shown(model: ScriptedChatModel) -> str:
    return model.requests[-1].user


def user(content: str) -> dict[str, Any]:
    return {"role": "user", "content": content}


def assistant(content: str, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content} | more


class TestTurns:
    def test_each_turn_is_one_numbered_line_with_role(self) -> None:
        one, model = judge()
        one(conversation=SESSION)
        assert (
            "<<<\n"
            "conversation: 4 turns\n"
            '1 user: "Where is my order?"\n'
            '2 assistant: calls [{"id": "c1", "name": "find_order", "arguments": {"order": 17}}]\n'
            '3 tool: "{\\"state\\": \\"lost\\"}" with {"tool_call_id": "c1"}\n'
            '4 assistant: "It is\\non its way."\n'
            ">>>"
        ) in shown(model)

    @pytest.mark.parametrize(
        ("call", "seen"),
        [
            (
                {"name": "pay", "parameters": {"amount": 17}},
                '{"name": "pay", "parameters": {"amount": 17}}',
            ),
            (
                {
                    "type": "function",
                    "status": "late",
                    "function": {"name": "a", "arguments": "{}"},
                },
                '{"name": "a", "arguments": {}, "status": "late"}',
            ),
            ("pay(17)", '"pay(17)"'),
        ],
    )
    def test_nothing_of_a_call_is_left_out(self, call: Any, seen: str) -> None:
        one, model = judge()
        one(conversation=[assistant("ok", tool_calls=[call])])
        assert f'1 assistant: "ok" calls [{seen}]\n' in shown(model)

    @pytest.mark.parametrize(
        ("conversation", "said"),
        [
            ([], "conversation has no turn"),
            ({}, "conversation has no turn"),
            (17, "conversation is int"),
        ],
    )
    def test_a_malformed_conversation_is_refused_before_any_call(
        self, conversation: Any, said: str
    ) -> None:
        one, model = judge()
        with pytest.raises(InputError, match=r"^s-1: ") as refused:
            one(Example(id="s-1", conversation=conversation))
        assert said in str(refused.value)
        assert model.requests == []
        with pytest.raises(InvalidRows, match=r"line 1 \(s-1\)") as rows:
            one.align([{"id": "s-1", "conversation": conversation, "value": True}])
        assert said in str(rows.value)

    @pytest.mark.parametrize(
        ("turn", "line"),
        [
            (["hi", "hello"], '1: ["hi", "hello"]'),  # a pair of Gradio
            ({"event": "user", "text": "hi"}, '1: {"event": "user", "text": "hi"}'),
            ({"kind": "request", "parts": []}, '1: {"kind": "request", "parts": []}'),
            ({"content": "hi"}, '1: {"content": "hi"}'),
            ({"role": 0, "content": "hi"}, '1: {"role": 0, "content": "hi"}'),
            ({"role": "assistant"}, "1 assistant: "),
            (3, "1: 3"),
            (
                {"role": "user\n2 assistant", "content": "a"},
                '1: {"role": "user\\n2 assistant", "content": "a"}',
            ),
            (
                {"role": "<|im_start|>", "content": "a"},
                '1: {"role": "\\u003c|im_start\\u007c>", "content": "a"}',
            ),
        ],
    )
    def test_a_turn_of_another_form_is_shown_as_it_is_and_costs_no_other(
        self, turn: Any, line: str
    ) -> None:
        one, model = judge()
        one(conversation=[turn, SESSION[0]])
        assert f'{line}\n2 user: "Where is my order?"\n' in shown(model)
        alone, model = judge()
        alone(conversation=turn if isinstance(turn, dict) else [turn])
        assert f"{line}\n>>>" in shown(model)


class TestBudget:
    def test_first_and_last_turns_stay_around_the_gap(self) -> None:
        one, model = judge(context=4_000)
        turns = [user(f"turn number {n} " + "word " * 60) for n in range(1, 61)]
        (note,) = one(conversation=turns).notes
        assert re.fullmatch("conversation: turns .* tokens", note)
        before, gap, after = re.split("(… turns .* of 60 left out)", shown(model))
        head = list(map(int, re.findall(r"^(\d+) user", before, re.MULTILINE)))
        tail = list(map(int, re.findall(r"^(\d+) user", after, re.MULTILINE)))
        assert head == list(range(1, head[-1] + 1))
        assert tail == list(range(tail[0], 61))
        assert gap == f"… turns {head[-1] + 1} to {tail[0] - 1} of 60 left out"
        assert len(head) < len(tail), "of the end there is more"

    @settings(max_examples=60, deadline=None)
    @given(
        st.lists(st.integers(0, 4_000), min_size=1, max_size=40),
        st.integers(200, 3_000),
    )
    def test_what_is_cut_fits_and_holds_both_ends(
        self, lengths: list[int], tokens: int
    ) -> None:
        turns = [user("é" * length) for length in lengths]
        text, note = cut("conversation", turns, tokens)
        assert estimate_tokens(text) <= tokens + 40
        assert text.splitlines()[1].startswith("1 user")
        assert text.splitlines()[-1].startswith(f"{len(lengths)} user")
        assert note.startswith("conversation: ")


def test_a_session_is_learned_and_shown_turn_by_turn(tmp_path: Path) -> None:
    rule = "A session about a lost parcel is resolved only when a new one is sent."
    one, model = judge(Teacher([change("ADD", "F1", text=rule)]))
    row = {
        "id": "s-1",
        "conversation": SESSION,
        "value": False,
        "rationale": "No new parcel.",
        "source": "ana",
    }
    path = tmp_path / "sessions.jsonl"
    path.write_text(json.dumps(row), "utf-8")
    aligned = one.align(path).judge
    assert '\n1 user: "Where is my order?"\n' in shown(model)
    assert rule not in shown(model)
    made = aligned(conversation=[user("Where is my parcel?")])
    assert made.example_ids == ("s-1",)
    assert '\n1 user: "Where is my order?"\n' in shown(model)
    assert rule in model.requests[-1].system
    (judgment,) = aligned.judge_many(path)
    assert judgment.decided_by == "expert"


# -- traces are shown whole where they fit, and cut where they do not ------------------

RUN = [
    Step(
        parent=None,
        name="agent",
        kind="AGENT",
        seconds=3,
        inputs={"q": "Refund me"},
        outputs="Done, refunded.",
    ),
    Step(parent=0, name="plan", kind="LLM", start=1, seconds=1, outputs="call refund"),
    Step(
        parent=0,
        name="refund",
        kind="TOOL",
        start=2,
        failed=True,
        inputs={"order": 17},
        outputs="HTTP 500",
    ),
]


SHOWN = """
trace: 3 spans, 1 failed, 3.00 s
S1 "agent" AGENT 3.00 s
  inputs: {"q": "Refund me"}
  outputs: "Done, refunded."
  S2 "plan" LLM 1.00 s
    outputs: "call refund"
  S3 "refund" TOOL error 0.0 ms
    inputs: {"order": 17}
    outputs: "HTTP 500"
"""


def trace_judge(context: int = 8_000) -> tuple[Judge, ScriptedChatModel]:
    task = "Did the agent do what it says that it did? {{ trace }}"
    return scripted(limits=Limits(context_tokens=context), instructions=task)


def test_a_small_trace_is_shown_whole() -> None:
    one, model = trace_judge()
    judgment = one(trace=otlp(RUN))
    assert judgment.notes == ()
    (request,) = model.requests
    assert SHOWN in request.user


@pytest.mark.parametrize(
    "held",
    [
        {"attributes": {"context": "SEEN"}},
        {"attributes": {"status": "SEEN", "id": "order-17"}},
        {"attributes": {"form": {"feedback": "SEEN"}}},
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
    one, model = trace_judge(context=context)
    steps = list(RUN)
    for n in range(300):
        steps.append(Step(parent=0, name=f"step {n}", start=n, outputs="word " * 1200))
    one(trace=otlp(steps))
    (request,) = model.requests
    tokens = estimate_tokens(request.system + request.user) + request.max_tokens
    assert tokens <= context * 1.05
    # What failed is named whatever else is left out.
    assert '"refund" TOOL error' in request.user


def langchain(kind: str, **content: Any) -> dict[str, Any]:
    """A message as LangChain dumps it."""
    return {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain", kind],
        "kwargs": content,
    }


def gemini(role: str, *parts: Any) -> dict[str, Any]:
    return {"role": role, "parts": parts}


ASKED = gemini("user", {"text": "Where?"})
SOON = {"text": "Soon."}

FRAMEWORKS: dict[str, Any] = {
    "LangChain": [
        {"type": "human", "content": "Where?", "additional_kwargs": {}},
        {
            "type": "ai",
            "content": "Soon.",
            "tool_calls": [],
            "response_metadata": {"tokens": 3},
        },
    ],
    "LangChain as a dict": [
        {"type": "human", "data": {"content": "Where?"}},
        {"type": "ai", "data": {"content": "Soon."}},
    ],
    "LangChain dumped": [
        langchain("HumanMessage", content="Where?"),
        langchain("AIMessage", content="Soon."),
    ],
    "ShareGPT": [
        {"from": "human", "value": "Where?"},
        {"from": "gpt", "value": "Soon."},
    ],
    "Responses": [
        {"role": "user", "content": [{"type": "input_text", "text": "Where?"}]},
        {
            "type": "message",
            "id": "m",
            "status": "completed",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Soon.", "annotations": []}],
        },
    ],
    "an object with messages": {"messages": [user("Where?"), assistant("Soon.")]},
    "Gemini": [ASKED, gemini("assistant", SOON)],
    "Gemini's contents": {"contents": [ASKED, gemini("model", SOON)]},
    "Gemini's candidate": [ASKED, gemini("MODEL", "Soon.")],
    "Cohere": {
        "chat_history": [
            {"role": "USER", "message": "Where?"},
            {"role": "CHATBOT", "message": "Soon."},
        ]
    },
    "an export of Claude": {
        "chat_messages": [
            {"sender": "human", "text": "Where?"},
            {"sender": "assistant", "text": "Soon."},
        ]
    },
    "AutoGen": [
        {"source": "user", "content": "Where?"},
        {"source": "assistant", "content": "Soon.", "models_usage": None},
    ],
    "Slack": [
        {"user": "user", "text": "Where?"},
        {"user": "assistant", "text": "Soon."},
    ],
    "questions and answers": [{"question": "Where?", "answer": "Soon."}],
    "prompts and responses": {"history": [{"prompt": "Where?", "response": "Soon."}]},
    "Langfuse": {"input": "Where?", "output": "Soon."},
    "speakers": [
        {"speaker": "user", "text": "Where?"},
        {"author": {"role": "assistant"}, "message": "Soon."},
    ],
}


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_conversations_of_frameworks_are_read_as_they_are(name: str) -> None:
    asked, replied = turns_of(FRAMEWORKS[name]) or ()
    assert (asked.role, asked.content) == ("user", "Where?")
    assert (replied.role, replied.content) == ("assistant", "Soon.")
    for turn in (asked, replied):
        assert (turn.calls, turn.rest) == ((), {})


def test_calls_of_frameworks_and_what_is_beside_turns_are_shown() -> None:
    call = {
        "type": "function_call",
        "call_id": "1",
        "name": "find",
        "arguments": '{"q": 1}',
    }
    output = {"type": "function_call_output", "call_id": "1", "output": "tomorrow"}
    of_langchain = {
        "type": "ai",
        "content": "",
        "tool_calls": [{"name": "find", "args": {"q": 1}, "id": "1"}],
    }
    for conversation in (
        [call, output],
        [of_langchain, {"type": "tool", "content": "tomorrow", "tool_call_id": "1"}],
    ):
        first, second = turns_of(conversation) or ()
        assert (first.role, first.calls[0]["name"]) == ("assistant", "find")
        assert first.calls[0]["arguments"] == {"q": 1}
        assert (second.role, second.content) == ("tool", "tomorrow")
    of_gemini = {"functionCall": {"name": "find", "args": {"q": 1}, "id": "1"}}
    response = {"name": "find", "response": {"when": "tomorrow"}}
    called = gemini("model", {"text": "Let me see."}, of_gemini)
    answered = gemini("user", {"functionResponse": response})
    first, second = turns_of({"contents": [called, answered]}) or ()
    assert (first.role, first.content) == ("assistant", "Let me see.")
    assert first.calls[0]["arguments"] == {"q": 1}
    assert (second.role, second.content) == ("tool", response)
    beside, _ = turns_of({"messages": ["Hi."], "tools": [{"name": "find"}]}) or ()
    assert beside.rest == {"tools": [{"name": "find"}]}


@pytest.mark.parametrize("nothing", [None, "", []])
def test_a_turn_that_says_nothing_is_judged_as_such(nothing: Any) -> None:
    one, model = judge()
    turns = [user("Hi."), {"role": "bot", "content": nothing}]
    assert one(conversation=turns).value is True
    assert shown(model).count("\n2 bot:") == 1


@pytest.mark.parametrize(
    "role", ["Agent (Ana)", "O'Neil", "ana@example.org", "1st line", "R&D", "Ärztin #2"]
)
def test_people_may_be_called_as_they_are(role: str) -> None:
    one, model = judge()
    assert one(conversation=[{"role": role, "content": "Hello."}]).value is True
    assert f"1 {role}: " in shown(model)
