"""A case is shown as what it is, and whatever it holds stays text."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest

from memalign import Example
from memalign_server.pages.content import Block, blocks_of
from memalign_server.pages.texts import prose, visible
from server_support import world
from server_support.reviewing import answer, put_in

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

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


class Tags(HTMLParser):
    """Every tag of a page, and the attributes that could do something."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.active: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            away = name in ("href", "src", "action", "formaction") and not (value or "").startswith(("/", "#"))
            if name.startswith("on") or name == "style" or away:
                self.active.append(f"{tag} {name}={value}")


def cut(content: dict[str, Any], kind: str = "bool") -> list[Block]:
    judge = world.judge("tone").replace(instructions="Is it good?\nQuestion: {{ inputs }}", feedback_value_type=kind)
    return blocks_of(Example(id="x", **content), judge)


def only(content: dict[str, Any]) -> Block:
    (block,) = cut(content)
    return block


def test_hostile_text_becomes_no_element() -> None:
    allowed = {"p", "div", "span", "pre", "code", "small", "strong", "em", "table", "thead", "tbody", "tr", "th", "td"}
    for text in HOSTILE:
        for html in (prose(text), visible(text)):
            assert Tags(html).active == []
            assert set(Tags(html).tags) <= allowed, text
            assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in html
        assert ("202E" in visible(text)) == ("\N{RIGHT-TO-LEFT OVERRIDE}" in text), "shown by its number"


def test_hostile_cases_are_inert_on_every_page(local: TestClient) -> None:
    cases = {f"x-{n} {text[:40]!r}": text for n, text in enumerate(HOSTILE)}
    rows = [{"id": id, "inputs": text, "outputs": {"a": text, text[:50]: [text]}} for id, text in cases.items()]
    put_in(local, rows)
    for page in ("review", "learned", "trust", "setup"):
        parsed = Tags(local.get(f"/judges/tone/{page}").text)
        assert (parsed.active, parsed.tags.count("script")) == ([], 2)  # ours
        assert not {"img", "svg", "iframe", "object"} & set(parsed.tags)
    for id, text in cases.items():
        page = answer(local, id, value="true", rationale=text)
        assert (page.status_code, Tags(page.text).active) == (200, [])
        assert "script" not in Tags(page.text).tags


def test_a_request_and_its_reply_are_named_as_in_the_instructions() -> None:
    blocks = cut({"inputs": "Where is it?", "outputs": "Here.", "expectations": "There."})
    assert [(block.speaker, block.label) for block in blocks] == [
        ("customer", "Question"), ("reply", ""), ("reference", ""),
    ]  # fmt: skip


CALLS = [
    {"id": "1", "function": {"name": "find_order", "arguments": '{"name": "Okafor"}'}},
    {"id": "2", "function": {"name": "cancel_order", "arguments": '{"order": 7}'}},
]
TALK: list[dict[str, Any]] = [
    {"role": "user", "content": "Cancel it."},
    {"role": "assistant", "content": "**Of course.**", "tool_calls": CALLS},
    {"role": "tool", "tool_call_id": "1", "content": "one Halden"},
    {"role": "tool", "tool_call_id": "2", "content": '{"error": "already with the carrier"}'},
    {"role": "assistant", "content": "All done!"},
]


def test_a_conversation_is_bubbles_and_a_line_for_each_tool() -> None:
    blocks = cut({"conversation": TALK})
    assert [block.kind for block in blocks] == ["bubble", "bubble", "tool", "tool", "bubble"]
    assert [block.speaker for block in blocks if block.kind == "bubble"] == ["customer", "company", "reply"]
    assert "<strong>Of course.</strong>" in blocks[1].html
    assert [(block.label, str(block.html), block.failed) for block in blocks[2:4]] == [
        ("find order", "one Halden", False),
        ("cancel order", "already with the carrier", True),
    ]


@pytest.mark.parametrize("text", ["```sql\nSELECT a FROM b\n```", "SELECT a.b\nFROM b", "def f():\n    return 1"])
def test_code_has_colours_in_markdown_and_alone(text: str) -> None:
    assert '<span class="k">' in only({"outputs": text}).html


@pytest.mark.parametrize("text", ["Select a size from the list.", "With regard to it. SET", "Update your address"])
def test_a_sentence_is_no_code(text: str) -> None:
    assert "<pre" not in only({"outputs": text}).html


def test_json_is_folded_traces_are_trees() -> None:
    folded = only({"outputs": '{"a": {"b": [1, 2]}}'})
    assert folded.nodes[0].parts[0].note == "2"
    spans = [
        {"name": "agent", "span_id": "1", "start_time": 1, "end_time": 2},
        {"name": "search", "span_id": "2", "parent_id": "1", "start_time": 1, "end_time": 2},
    ]
    tree = only({"trace": spans})
    assert (tree.speaker, str(tree.nodes[0].name)) == ("steps", "agent")
    assert "search" in [str(part.name) for part in tree.nodes[0].parts]


def test_a_long_text_is_shown_whole_in_its_paragraphs() -> None:
    block = only({"outputs": "word " * 3000 + "\n\n" + "end " * 3000})
    assert block.html.count("word") == block.html.count("end") == 3000
    assert block.html.count("<p") == 2


def test_a_pair_stands_side_by_side() -> None:
    sides = {"A": "The parcel arrives on Monday.", "B": "The parcel arrives on Friday."}
    blocks = cut({"inputs": "When?", "outputs": sides}, "A|B|tie")
    assert [(block.kind, block.label) for block in blocks[1:]] == [("side", "A"), ("side", "B")]
