"""Fields as a person reads them."""

from __future__ import annotations

import pytest

from memalign.content import as_read


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        ("inputs", "As it is: {x}\n", "As it is: {x}\n"),
        (
            "inputs",
            {"question": "Why?", "context": ["a\nb", {"n": 1}], "none": None},
            "question: Why?\ncontext:\n  -\n    a\n    b\n  -\n    n: 1\nnone: null",
        ),
        ("outputs", [True, 2.5], "- true\n- 2.5"),
        (
            "conversation",
            [
                {"role": "user", "content": "Two\nlines."},
                {"role": "assistant", "tool_calls": [{"function": {"name": "find", "arguments": '{"q": "x"}'}}]},
            ],
            "user:\n  Two\n  lines.\nassistant:\ncalls:\n  -\n    name: find\n    arguments:\n      q: x",
        ),
        (
            "trace",
            [
                {"span_id": "a", "parent_id": None, "name": "agent", "inputs": "Where?", "outputs": "Here."},
                {"span_id": "b", "parent_id": "a", "name": "search", "inputs": {"q": "x"}},
            ],
            "agent\n  inputs: Where?\n  outputs: Here.\n  search\n    inputs:\n      q: x",
        ),
    ],
)
def test_a_case_reads_as_a_person_would(name: str, value: object, read: str) -> None:
    assert as_read(name, value) == read
