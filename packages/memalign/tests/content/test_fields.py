"""Fields as a person reads them, their parts by name, and the sides of a pair."""

from __future__ import annotations

import pytest

from memalign.content import Part, as_read, part_in
from memalign.errors import InputError

CONTENT = {"inputs": {"question": "q", "n": [1, 2, {"deep key": None}], "5": "five"}}


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("inputs", CONTENT["inputs"]),
        ("inputs.question", "q"),
        ("inputs . question", "q"),
        ("inputs['question']", "q"),
        ("inputs.n[1]", 2),
        ("inputs.n.1", 2),
        ("inputs.n[-2]", 2),
        ('inputs.n[2]["deep key"]', None),
        ("inputs[5]", "five"),
    ],
)
def test_a_part_is_read_however_it_is_written(written, value):
    part = Part.parse(written)
    assert part.of(CONTENT) == value
    assert Part.parse(str(part)) == part


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("outputs", "none"),
        ("inputs.query", "none: inputs has question, n"),
        ("inputs.question.text", "none: inputs.question has no such part"),
        ("inputs.n[2]", "none: inputs.n has no such part"),
        ("inputs.n[-3]", "none: inputs.n has no such part"),
        ("inputs.n.first", "none: inputs.n has no such part"),
    ],
)
def test_where_the_way_to_a_part_ends(written, why):
    content = {"inputs": {"question": "q", "n": [1, 2]}}
    with pytest.raises(InputError) as caught:
        Part.parse(written).of(content)
    assert str(caught.value) == why
    assert part_in(content, written) is None


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
                {
                    "role": "assistant",
                    "tool_calls": [
                        {"function": {"name": "find", "arguments": '{"q": "x"}'}}
                    ],
                },
            ],
            "user:\n  Two\n  lines.\n"
            "assistant:\ncalls:\n  -\n    name: find\n    arguments:\n      q: x",
        ),
        (
            "trace",
            [
                {
                    "span_id": "a",
                    "parent_id": None,
                    "name": "agent",
                    "inputs": "Where?",
                    "outputs": "Here.",
                },
                {
                    "span_id": "b",
                    "parent_id": "a",
                    "name": "search",
                    "inputs": {"q": "x"},
                },
            ],
            "agent\n  inputs: Where?\n  outputs: Here.\n  search\n    inputs:\n      q: x",
        ),
    ],
)
def test_a_case_reads_as_a_person_would(name, value, read):
    assert as_read(name, value) == read
