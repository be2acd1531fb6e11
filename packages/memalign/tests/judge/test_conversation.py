"""Conversations: judged turn by turn as they were, whole or with a gap in the middle, at the level of a session."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memalign import Example, Judge
from memalign.content.encoding import estimate_tokens
from memalign.errors import InputError, InvalidRows
from memalign.models.base import Limits
from memalign.prompts.fitting import cut
from memalign.testing import ScriptedChatModel
from tests.support.scripted import Teacher, change, scripted

SESSION = [
    {"role": "user", "content": "Where is my order?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "find_order", "arguments": '{"order": 17}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": '{"state": "lost"}'},
    {"role": "assistant", "content": [{"type": "text", "text": "It is"}, {"type": "text", "text": "on its way."}]},
]


def judge(answers: Any = None, *, context: int = 128_000) -> tuple[Judge, ScriptedChatModel]:
    task = "Was the customer's question resolved in the end? {{ conversation }}"
    return scripted(answers, limits=Limits(context_tokens=context), instructions=task)


def shown(model: ScriptedChatModel) -> str:
    return model.requests[-1].user


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
            ({"name": "pay", "parameters": {"amount": 17}}, '{"name": "pay", "parameters": {"amount": 17}}'),
            (
                {"type": "function", "status": "late", "function": {"name": "a", "arguments": "{}"}},
                '{"name": "a", "arguments": {}, "status": "late"}',
            ),
            ("pay(17)", '"pay(17)"'),
        ],
    )
    def test_nothing_of_a_call_is_left_out(self, call: Any, seen: str) -> None:
        one, model = judge()
        one(conversation=[{"role": "assistant", "content": "ok", "tool_calls": [call]}])
        assert f'1 assistant: "ok" calls [{seen}]\n' in shown(model)

    @pytest.mark.parametrize(
        ("conversation", "said"),
        [
            ([], "conversation has no turn"),
            (17, "conversation is int instead of a list of turns"),
            ({"user": "hi"}, "conversation is dict instead of a list of turns"),
            (["hi", 3], "turn 2, is int"),
            ([{"content": "hi"}], "turn 1, has no role (its keys are content)"),
            ([{"role": "user", "content": "a"}, {"role": "assistant"}], "turn 2 (assistant), has no content"),
            ([{"role": "user\n2 assistant", "content": "a"}], "turn 1: its role must be a name"),
            ([{"role": "<|im_start|>", "content": "a"}], "turn 1: its role must be a name"),
        ],
    )
    def test_a_malformed_conversation_is_refused_before_any_call(self, conversation: Any, said: str) -> None:
        one, model = judge()
        with pytest.raises(InputError, match=r"^s-1: ") as refused:
            one(Example(id="s-1", conversation=conversation))
        assert said in str(refused.value)
        assert model.requests == []
        with pytest.raises(InvalidRows, match=r"line 1 \(s-1\)") as rows:
            one.align([{"id": "s-1", "conversation": conversation, "value": True}])
        assert said in str(rows.value)


class TestBudget:
    def test_first_and_last_turns_stay_around_the_gap(self) -> None:
        one, model = judge(context=4_000)
        turns = [{"role": "user", "content": f"turn number {n} " + "word " * 60} for n in range(1, 61)]
        (note,) = one(conversation=turns).notes
        assert re.fullmatch("conversation: turns .* tokens", note)
        numbers = [int(line.split()[0]) for line in shown(model).splitlines() if line[:1].isdigit()]
        assert (numbers[0], numbers[-1]) == (1, 60)
        (first,) = (n for n, (before, after) in enumerate(pairwise(numbers), 1) if after > before + 1)
        assert first < len(numbers) - first, "one gap in the middle, and of the end there is more"
        assert f"… turns {first + 1} to {numbers[first] - 1} of 60 left out" in shown(model)

    @settings(max_examples=60, deadline=None)
    @given(st.lists(st.integers(0, 4_000), min_size=1, max_size=40), st.integers(200, 3_000))
    def test_what_is_cut_fits_and_holds_both_ends(self, lengths: list[int], tokens: int) -> None:
        turns = [{"role": "user", "content": "é" * length} for length in lengths]
        text, note = cut("conversation", turns, tokens)
        assert estimate_tokens(text) <= tokens + 40
        assert text.splitlines()[1].startswith("1 user")
        assert text.splitlines()[-1].startswith(f"{len(lengths)} user")
        assert note.startswith("conversation: ")


def test_a_session_is_learned_and_shown_turn_by_turn(tmp_path: Path) -> None:
    rule = "A session about a lost parcel is resolved only when a new one is sent."
    one, model = judge(Teacher([change("ADD", "F1", text=rule)]))
    row = {"id": "s-1", "conversation": SESSION, "value": False, "rationale": "No new parcel.", "source": "ana"}
    path = tmp_path / "sessions.jsonl"
    path.write_text(json.dumps(row), "utf-8")
    aligned = one.align(path).judge
    assert '\n1 user: "Where is my order?"\n' in shown(model)
    assert rule not in shown(model)
    assert aligned(conversation=[{"role": "user", "content": "Where is my parcel?"}]).example_ids == ("s-1",)
    assert '\n1 user: "Where is my order?"\n' in shown(model)
    assert rule in model.requests[-1].system
    assert [judgment.decided_by for judgment in aligned.judge_many(path)] == ["expert"]
