"""Whatever reads text from outside takes twice as long for twice as much, and no more:
a long text holds nobody up."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memalign import Example, Feedback
from memalign.content import (
    as_read,
    check_field,
    judged_texts,
    span_tree,
    turns_of,
    words_of,
)
from memalign.content.encoding import encode, shorten
from memalign.content.json_values import decode_json, opened, plain
from memalign.content.normal import literal_form, printable, quote_lines, word_form
from memalign.errors import MemalignError
from memalign.evaluation.feedback_review import review_feedback
from memalign.io import read_feedback
from memalign.io.review import write_review
from memalign.judge.answer import quotation
from memalign.judge.code_tests import Reading, holds, shape
from memalign.judge.spec import named_parts
from memalign.keys import FeedbackKey, select_keys
from memalign.memory.guard import JudgedTexts, guideline_fault, tidy
from memalign.memory.text_search import Finder
from memalign.prompts.fitting import fit_fields
from memalign.types import CodeTest
from memalign.values import ValueType
from tests.support.rows import RawRow

LONG = 1_000_000  # characters
MANY = 4_000  # parts
PIECES = [
    "[", "{", "(", "<", "\\", '"', "'", "`", "{{ a", "{{ inputs.a }}", "<|im", "<<<", "data:image/", "data:image/x;a=",
    "iVBORw0KGgo", "1", "1,", "1.", "0,", " ", "\n", "\t", "a ", "ab", "é", "漢", "\ud83d", "\u200b", "-", "a@", "@",
    "Distilled Guidelines (", "Expert", ". Expert ", "SYSTEM ", "2024-01-", "\\u00e9", "{\"a\":", "[[],", "a\\\"",
]  # fmt: skip

RULE = (
    "Never tell a customer that a parcel will arrive on a given day of the week at all."
)
TYPES = [
    ValueType.of(spec) for spec in ("bool", "int:1..5", "float:0..1", "A|B", "str")
]


def a_test(kind: Any) -> CodeTest:
    return CodeTest(
        kind=kind,
        text="a1",
        field="outputs",
        low=1 if kind in ("length", "number") else None,
    )


READERS: dict[str, Callable[[str], object]] = {
    "a case": lambda text: Example(id="a", outputs=text).content_hash,
    "a row": lambda text: read_feedback([{"id": "a", "outputs": text, "value": True, "rationale": text, text: 1}]),
    "values": lambda text: [refused(value_type.parse, text) for value_type in TYPES],
    "a time": lambda text: refused(lambda: Feedback(id="a", value=True, created_at=text)),
    "a name": lambda text: (refused(lambda: Feedback(id=text, value=True, source=text)), printable(text)),
    "a key": lambda text: (refused(FeedbackKey.parse, text), refused(lambda: select_keys([FeedbackKey("a", "b")], [text]))),
    "JSON": lambda text: (opened(text), refused(decode_json, text)),
    "media": lambda text: (refused(check_field, "outputs", text), refused(check_field, "outputs", {text: text})),
    "a prompt": lambda text: (encode(text), shorten(text, 500), fit_fields({"outputs": text, "trace": [text]}, 2000)),
    "words": lambda text: (list(words_of("outputs", text)), list(judged_texts({"trace": text})), as_read("trace", text)),
    "a conversation": lambda text: refused(turns_of, [{"role": text, "content": text, text: text}]),
    "a trace": lambda text: span_tree([{"span_id": text, "name": text, "attributes": {text: text}, "kind": text}]),
    "instructions": lambda text: refused(named_parts, text),
    "a part": lambda text: refused(named_parts, f"{{{{ inputs.{text} }}}}"),
    "a guideline": lambda text: (guideline_fault(text), tidy(text), word_form(text)),
    "a copied guideline": lambda text: guideline_fault(RULE, JudgedTexts([("outputs", text)])),
    "evidence": lambda text: quotation("Never so.", quote_lines([text])),
    "tests": lambda text: [holds(a_test(kind), Reading({"outputs": text})) for kind in ("word", "shape", "length", "number")],
    "normal forms": lambda text: (literal_form(text), shape(text)),
    "a search": lambda text: Finder("needle").within(text),
}  # fmt: skip


def refused(read: Callable[..., object], *given: object) -> object:
    try:
        return read(*given)
    except MemalignError as error:
        return str(error)


def seconds(work: Callable[[], object]) -> float:
    """The processor time of one try: what others do on this machine counts for little in it."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def grows_with_its_length(
    work: Callable[[int], Callable[[], object]], least: int
) -> None:
    """Four times as much must not take more than eight times as long; sixteen times would be a square.

    A fifth of a second is little whatever the growth: most readers are tried once.
    """
    large = seconds(work(4 * least))
    if large < 0.2:
        return
    small = seconds(work(least))
    if large >= 8 * small:
        large = min(large, seconds(work(4 * least)))
    assert large < 8 * small, f"{small:.2f} s became {large:.2f} s"


@pytest.mark.parametrize("name", READERS)
def test_a_text_of_a_million_characters_takes_its_length(name: str) -> None:
    def work(length: int) -> Callable[[], object]:
        texts = [(piece * (length // len(piece) + 1))[:length] for piece in PIECES]
        texts += [text[:-1] + "x" for text in texts[:12]]
        return lambda: [READERS[name](text) for text in texts]

    grows_with_its_length(work, LONG // 100)


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("piece", ["[", "{{ a", '"', " ", "data:image/"])
def test_a_megabyte_is_read(name: str, piece: str) -> None:
    READERS[name](piece * (LONG // len(piece)))


def chain(count: int) -> list[RawRow]:
    return [
        {
            "span_id": str(n),
            "parent_id": str(n - 1) if n else None,
            "name": "step",
            "inputs": "x",
        }
        for n in range(count)
    ]


PARTS: dict[str, Callable[[int], tuple[str, Any]]] = {
    "nested spans": lambda count: ("trace", chain(count)),
    "spans in a row": lambda count: ("trace", [span | {"parent_id": None} for span in chain(count)]),
    "spans in a circle": lambda count: ("trace", [span | {"parent_id": str(-n)} for n, span in enumerate(chain(count))]),
    "turns": lambda count: ("conversation", [{"role": "user", "content": "x"}] * count),
    "calls": lambda count: ("conversation", [{"role": "user", "tool_calls": [{"name": "f", "arguments": "{}"}] * count}]),
    "parts of a turn": lambda count: ("conversation", [{"role": "user", "content": [{"type": "text", "text": "x"}] * count}]),
    "keys": lambda count: ("outputs", {f"key {n}": n for n in range(count)}),
    "objects under long keys": lambda count: ("outputs", {"k" * count: [{"x": 1}] * count}),
    "levels": lambda count: ("outputs", nested(["x"] * count, 190)),
    "lists in lists": lambda count: ("outputs", [[[]]] * count),
}  # fmt: skip


def nested(value: Any, levels: int) -> Any:
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("name", PARTS)
def test_thousands_of_parts_take_their_number(tmp_path: Path, name: str) -> None:
    def work(count: int) -> Callable[[], object]:
        field, value = PARTS[name](count)
        case = Example(id="a", **{field: value})

        def read() -> None:
            plain(value)
            refused(check_field, field, value)
            fit_fields({field: value}, 4000)
            list(words_of(field, value))
            list(judged_texts({field: value}))
            assert len(as_read(field, value)) < 500 * count, (
                "nor is the text that people read much longer"
            )
            opened(json.dumps(value))
            write_review([(case, None)], tmp_path / "sheet.xlsx", value_type=TYPES[0])

        return read

    grows_with_its_length(work, MANY // 4)


def test_many_rows_of_feedback_take_their_number() -> None:
    def work(count: int) -> Callable[[], object]:
        row = {"outputs": "x", "label": True}
        bad = [
            row | {"id": f"t-{n}", f"coment {n}": "x", "values": n}
            for n in range(count)
        ]
        people = [
            {"id": "t", "outputs": "x", "value": True, "source": f"p{n}"}
            for n in range(count)
        ]

        def read() -> None:
            refused(read_feedback, bad)
            read_feedback(bad, skip_invalid=True)
            review_feedback(people, TYPES[0])

        return read

    grows_with_its_length(work, MANY // 4)


def test_many_rules_beside_many_long_texts_are_compared_once_each() -> None:
    words = "the parcel will arrive at your door on Monday as you asked for it in your letter "

    def work(length: int) -> Callable[[], object]:
        texts = [("outputs", words * (length // len(words))) for _ in range(20)]

        def compare() -> None:
            judged = JudgedTexts(texts)
            for number in range(20):
                assert (
                    guideline_fault(
                        f"{RULE} {number} the parcel will arrive at your door", judged
                    )
                    is None
                )

        return compare

    grows_with_its_length(work, 50_000)
    assert (
        guideline_fault(f"Say: {words}", JudgedTexts([("outputs", words)])) is not None
    )
    assert (
        guideline_fault(f"Say: {words}", JudgedTexts([("outputs", words)]), [words])
        is None
    )
