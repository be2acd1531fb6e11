"""A case is shown as what it is, and whatever it holds stays text."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from memalign import Example
from memalign_server.pages.content import Block, blocks_of, label_of
from memalign_server.pages.verdicts import question_of
from server_support import world
from server_support.reviewing import answer, expect, put_in
from server_support.tags import Tags
from tests.support.rows import RawRow

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

    from memalign import Judge

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg/onload=alert(1)>',
    "</template><script>alert(1)</script>",
    "</textarea><script>alert(1)</script>",
    "[x](javascript:alert(1))",
    "[x](data:text/html,<script>alert(1)</script>)",
    "![x](http://evil.example/pixel.png)",
    "<https://evil.example>",
    "<div hx-get=/judges hx-trigger=load>",
    "<form action=/judges/tone/teach method=post><button data-key=y>Yes</button></form>",
    "```html\n<script>alert(1)</script>\n```",
    '```"><script>alert(1)</script>\nx\n```',
    "| a |\n|---|\n| <script>alert(1)</script> |",
    "SELECT '<script>alert(1)</script>' FROM t",
    '{"a": "<script>alert(1)</script>", "<b>": 1}',
    "\N{RIGHT-TO-LEFT OVERRIDE}gnp.exe \N{ZERO WIDTH SPACE}hidden",
]


def cut(content: dict[str, Any], kind: str = "bool") -> list[Block]:
    instructions = "Is it good?\nQuestion: {{ inputs }}"
    judge = world.judge("tone").replace(
        instructions=instructions, feedback_value_type=kind
    )
    return blocks_of(Example(id="x", **content), judge)


def labelled(blocks: list[Block]) -> list[tuple[str, str]]:
    """What is above each block, and what is in it."""
    return [(block.label, str(block.html)) for block in blocks]


def only(content: dict[str, Any]) -> Block:
    (block,) = cut(content)
    return block


def test_hostile_cases_are_inert_on_every_page(local: TestClient) -> None:
    rows: list[RawRow] = []
    for n, text in enumerate(HOSTILE):
        name = f"x-{n} {text[:40]!r}"
        outputs = {"a": text, text[:50]: [text]}
        rows.append({"id": name, "inputs": text, "outputs": outputs})
    put_in(local, rows)
    for page in ("review", "learned", "trust", "setup"):
        parsed = Tags(local.get(f"/judges/tone/{page}").text)
        assert parsed.active == []
        assert parsed.tags.count("script") == 1  # ours
        assert {"img", "svg", "iframe", "object"}.isdisjoint(parsed.tags)
    for row in rows:
        said = answer(local, row["id"], value="true", rationale=row["inputs"])
        parsed = Tags(expect(said, 200))
        assert parsed.active == []
        assert "script" not in parsed.tags


def test_a_request_and_its_reply_are_named_as_in_the_instructions() -> None:
    content = {"inputs": "Where is it?", "outputs": "Here.", "expectations": "There."}
    request, reply, reference = cut(content)
    assert (request.speaker, request.label) == ("customer", "Question")
    assert (reply.speaker, reply.label) == ("reply", "")
    assert (reference.speaker, reference.label) == ("reference", "")


CALLS = [
    {"id": "1", "function": {"name": "find_order", "arguments": '{"name": "Okafor"}'}},
    {"id": "2", "function": {"name": "cancel_order", "arguments": '{"order": 7}'}},
]
TALK: list[dict[str, Any]] = [
    {"role": "user", "content": "Cancel it."},
    {"role": "assistant", "content": "**Of course.**", "tool_calls": CALLS},
    {"role": "tool", "tool_call_id": "1", "content": "one Halden"},
    {
        "role": "tool",
        "tool_call_id": "2",
        "content": '{"error": "already with the carrier"}',
    },
    {"role": "assistant", "content": "All done!"},
]


def test_a_conversation_is_bubbles_and_a_line_for_each_tool() -> None:
    asked, promised, found, failed, reply = cut({"conversation": TALK})
    assert asked.kind == promised.kind == reply.kind == "bubble"
    speakers = (asked.speaker, promised.speaker, reply.speaker)
    assert speakers == ("customer", "company", "reply")
    assert "<strong>Of course.</strong>" in promised.html
    assert found.kind == failed.kind == "tool"
    assert labelled([found, failed]) == [
        ("find order", "one Halden"),
        ("cancel order", "already with the carrier"),
    ]
    assert (found.failed, failed.failed) == (False, True)


@pytest.mark.parametrize(
    "text",
    ["```sql\nSELECT a FROM b\n```", "SELECT a.b\nFROM b", "def f():\n    return 1"],
)
def test_code_has_colours_in_markdown_and_alone(text: str) -> None:
    assert '<span class="k">' in only({"outputs": text}).html


@pytest.mark.parametrize(
    "text",
    ["Select a size from the list.", "With regard to it. SET", "Update your address"],
)
def test_a_sentence_is_no_code(text: str) -> None:
    assert "<pre" not in only({"outputs": text}).html


def test_json_is_folded_traces_are_trees() -> None:
    folded = only({"outputs": '{"a": {"b": [1, 2]}}'})
    assert folded.nodes[0].parts[0].note == "2"
    spans = [
        {"name": "agent", "span_id": "1", "start_time": 1, "end_time": 2},
        {
            "name": "search",
            "span_id": "2",
            "parent_id": "1",
            "start_time": 1,
            "end_time": 2,
        },
    ]
    tree = only({"trace": spans})
    assert (tree.speaker, str(tree.nodes[0].name)) == ("steps", "agent")
    names = [str(part.name) for part in tree.nodes[0].parts]
    assert "search" in names


def test_a_long_text_is_shown_whole_in_its_paragraphs() -> None:
    block = only({"outputs": "word " * 3000 + "\n\n" + "end " * 3000})
    assert block.html.count("word") == block.html.count("end") == 3000
    assert block.html.count("<p") == 2


def test_a_pair_stands_side_by_side() -> None:
    sides = {"A": "The parcel arrives on Monday.", "B": "The parcel arrives on Friday."}
    _, left, right = cut({"inputs": "When?", "outputs": sides}, "A|B|tie")
    assert (left.kind, left.label) == ("side", "A")
    assert (right.kind, right.label) == ("side", "B")


def seconds(shown: Callable[[], object]) -> float:
    """How long this process computes, whatever else the machine does."""
    before = time.process_time()
    shown()
    return time.process_time() - before


def spans(number: int, *, nested: bool) -> dict[str, Any]:
    """A trace of so many spans, each below the one before, or all of them below the first."""
    made = []
    for n in range(number):
        parent = str(n - 1 if nested else 0)
        span: dict[str, Any] = {"span_id": str(n), "name": "step"}
        made.append(span | {"parent_id": parent if n else None})
    return {"spans": made}


def call_of(name: Any) -> dict[str, Any]:
    """A turn that calls a tool; its id is the tool's name."""
    call = {"id": name, "function": {"name": f"{name}"}}
    return {"role": "assistant", "tool_calls": [call]}


def calls(number: int) -> list[dict[str, Any]]:
    """A conversation of so many calls of a tool, and then all their results, the last one
    first."""
    turns = [*map(call_of, range(number))]
    for n in reversed(range(number)):
        turns.append({"role": "tool", "tool_call_id": n, "content": f"gave {n}"})
    return turns


GROWING: dict[str, Callable[[int], dict[str, Any]]] = {
    "brackets": lambda n: {"outputs": "[" * n},
    "links": lambda n: {"outputs": "[a](b) " * (n // 7)},
    "addresses": lambda n: {"outputs": "- <http://a> " * (n // 13)},
    "backticks": lambda n: {"outputs": "`a" * (n // 2)},
    "stars": lambda n: {"outputs": "*a **b " * (n // 7)},
    "fences": lambda n: {"outputs": "```\n" * (n // 4)},
    "a fence in a rare language": lambda n: {"outputs": f"```systemd\n{' ' * n}x\n```"},
    "a fence of blank lines": lambda n: {
        "outputs": "```python\n" + " \n" * (n // 2) + "```"
    },
    "a statement": lambda n: {"outputs": "select a, " * (n // 10)},
    "a fence of types": lambda n: {"outputs": "```ts\n" + "a.b." * (n // 4) + "\n```"},
    "parts": lambda n: {"outputs": dict.fromkeys(map(str, range(n // 100)), "**x**")},
    "parts in parts": lambda n: {
        "outputs": json.loads("[" * (n // 5000) + "]" * (n // 5000))
    },
    "a text of parts in parts": lambda n: {"outputs": "[" * (n // 2) + "]" * (n // 2)},
    "flat spans": lambda n: {"trace": spans(n // 100, nested=False)},
    "nested spans": lambda n: {"trace": spans(n // 100, nested=True)},
    "calls and results": lambda n: {"conversation": calls(n // 200)},
    "a failed tool": lambda n: {
        "conversation": [{"role": "tool", "content": "error" + ": " * (n // 2)}]
    },
}


@pytest.mark.parametrize("name", GROWING)
def test_a_case_is_shown_in_seconds_and_in_time_that_grows_with_it(name: str) -> None:
    def took(size: int) -> float:
        content = GROWING[name](size)
        return seconds(lambda: cut(content))

    took(500_000)  # what is loaded once is loaded now
    assert took(1_000_000) < 3 * took(500_000) + 2
    # Just below the limits beyond which a text is shown as it is.
    assert took(15_000) < 10
    assert took(99_000) < 10


@pytest.mark.parametrize(
    "unit", ["{{ a ", "{% a ", "Reply" + " " * 50 + ":", "a: {{ ", "a " * 20]
)
def test_the_question_of_long_instructions_is_found_in_time_that_grows_with_them(
    unit: str,
) -> None:
    def found(size: int) -> None:
        text = unit * (size // len(unit))
        judge = cast("Judge", SimpleNamespace(name="tone", instructions=text))
        question_of(judge)
        label_of("outputs", judge)

    half = seconds(lambda: found(50_000))
    whole = seconds(lambda: found(100_000))
    assert whole < 3 * half + 2


def test_each_result_of_a_tool_is_shown_once_beside_its_call() -> None:
    lost = {"role": "tool", "content": "of no call"}
    blocks = cut({"conversation": [*calls(3), lost]})
    shown = [text for _, text in labelled(blocks)]
    assert shown == ["gave 0", "gave 1", "gave 2", "of no call"]


def test_a_result_without_an_id_belongs_to_the_first_call_that_waits() -> None:
    results = [
        {"role": "tool", "content": "plain"},
        {"role": "tool", "tool_call_id": "b", "content": "named"},
    ]
    blocks = cut({"conversation": [call_of("a"), call_of("b"), *results]})
    assert labelled(blocks) == [("a", "plain"), ("b", "named")]


def test_what_there_is_no_room_for_is_an_ellipsis() -> None:
    (block,) = cut({"trace": spans(10_000, nested=False)})
    parts = block.nodes[0].parts
    assert len(parts) == 2_000
    assert parts[-1].name == "…"
