"""Whatever reads text from outside takes twice as long for twice as much, and no more:
a long text holds nobody up."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
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
    *"[{(<\\\"'`1 \n\té漢\ud83d\u200b-@",
    *("{{ a", "{{ inputs.a }}", "<|im", "<<<", "data:image/", "data:image/x;a="),
    *("iVBORw0KGgo", "1,", "1.", "0,", "a ", "ab", "a@", '{"a":', "[[],", 'a\\"'),
    *("Distilled Guidelines (", "Expert", ". Expert ", "SYSTEM ", "2024-01-"),
    "\\u00e9",
]

RULE = (
    "Never tell a customer that a parcel will arrive on a given day of the week at all."
)
TYPES = list(map(ValueType.of, ("bool", "int:1..5", "float:0..1", "A|B", "str")))


KEY = FeedbackKey("a", "b")
ROW = {"id": "a", "value": True}
TESTS = (
    CodeTest(kind="word", text="a1", field="outputs"),
    CodeTest(kind="shape", text="a1", field="outputs"),
    CodeTest(kind="length", text="a1", field="outputs", low=1),
    CodeTest(kind="number", text="a1", field="outputs", low=1),
)


def run_tests(text: str) -> None:
    for test in TESTS:
        holds(test, Reading({"outputs": text}))


def read_span(text: str) -> None:
    span = {"span_id": text, "name": text, "kind": text, "attributes": {text: text}}
    span_tree([span])


READERS: dict[str, list[Callable[[str], object]]] = {
    "a case": [lambda text: Example(id="a", outputs=text).content_hash],
    "a row": [
        lambda text: read_feedback([ROW | {"outputs": text, "rationale": text}]),
        lambda text: read_feedback([ROW | {"outputs": text, text: 1}]),
    ],
    "labels": [value_type.parse for value_type in TYPES],
    "a time": [lambda text: Feedback(id="a", value=True, created_at=text)],
    "a name": [printable, lambda text: Feedback(id=text, value=True, source=text)],
    "a key": [FeedbackKey.parse, lambda text: select_keys([KEY], [text])],
    "JSON": [opened, decode_json],
    "media": [
        lambda text: check_field("outputs", text),
        lambda text: check_field("outputs", {text: text}),
    ],
    "a prompt": [
        encode,
        lambda text: shorten(text, 500),
        lambda text: fit_fields({"outputs": text, "trace": [text]}, 2000),
    ],
    "words": [
        lambda text: list(words_of("outputs", text)),
        lambda text: list(judged_texts({"trace": text})),
        lambda text: as_read("trace", text),
    ],
    "a conversation": [
        lambda text: turns_of([{"role": text, "content": text, text: text}])
    ],
    "a trace": [read_span],
    "instructions": [
        named_parts,
        lambda text: named_parts(f"{{{{ inputs.{text} }}}}"),
    ],
    "a guideline": [
        guideline_fault,
        tidy,
        word_form,
        lambda text: guideline_fault(RULE, JudgedTexts([("outputs", text)])),
    ],
    "evidence": [lambda text: quotation("Never so.", quote_lines([text]))],
    "tests": [run_tests],
    "normal forms": [literal_form, shape],
    "a search": [Finder("needle").within],
}


def read(name: str, text: str) -> None:
    for reader in READERS[name]:
        refused(reader, text)


def refused(read: Callable[..., object], *given: object) -> object:
    try:
        return read(*given)
    except MemalignError as error:
        return str(error)


def seconds(work: Callable[[], object]) -> float:
    """The processor time of one try: what others do on this machine counts for little."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def grows_with_its_length(
    work: Callable[[int], Callable[[], object]], least: int
) -> None:
    """Four times as much must not take more than eight times as long; a square would take sixteen.

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
def test_a_text_of_a_million_characters_takes_its_length(name):
    def work(length: int) -> Callable[[], object]:
        texts = []
        for piece in PIECES:
            times = length // len(piece) + 1
            texts.append((piece * times)[:length])
        texts += [text[:-1] + "x" for text in texts[:24]]

        def read_all() -> None:
            for text in texts:
                read(name, text)

        return read_all

    grows_with_its_length(work, LONG // 100)


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("piece", ["[", "{{ a", '"', " ", "data:image/"])
def test_a_megabyte_is_read(name, piece):
    read(name, piece * (LONG // len(piece)))


def spans(count: int, parent: Callable[[int], str | None]) -> list[RawRow]:
    found = []
    for n in range(count):
        span = {"span_id": str(n), "parent_id": parent(n), "name": "step"}
        found.append(span | {"inputs": "x"})
    return found


def turn(**parts: Any) -> list[RawRow]:
    return [{"role": "user", **parts}]


def nested(value: Any, levels: int) -> Any:
    for _ in range(levels):
        value = [value]
    return value


CALL = {"name": "f", "arguments": "{}"}
WORDS = {"type": "text", "text": "x"}
PARTS: dict[str, tuple[str, Callable[[int], Any]]] = {
    "nested spans": ("trace", lambda n: spans(n, lambda at: str(at - 1))),
    "spans in a row": ("trace", lambda n: spans(n, lambda _: None)),
    "spans in a circle": ("trace", lambda n: spans(n, lambda at: str(-at))),
    "turns": ("conversation", lambda n: turn(content="x") * n),
    "calls": ("conversation", lambda n: turn(tool_calls=[CALL] * n)),
    "parts of a turn": ("conversation", lambda n: turn(content=[WORDS] * n)),
    "keys": ("outputs", lambda n: dict.fromkeys(map(str, range(n)), 1)),
    "objects under long keys": ("outputs", lambda n: {"k" * n: [{"x": 1}] * n}),
    "levels": ("outputs", lambda n: nested(["x"] * n, 190)),
    "lists in lists": ("outputs", lambda n: [[[]]] * n),
}


@pytest.mark.parametrize("name", PARTS)
def test_thousands_of_parts_take_their_number(tmp_path, name):
    field, write = PARTS[name]

    def work(count: int) -> Callable[[], object]:
        value = write(count)
        case = Example(id="a", **{field: value})

        def read() -> None:
            plain(value)
            refused(check_field, field, value)
            fit_fields({field: value}, 4000)
            list(words_of(field, value))
            list(judged_texts({field: value}))
            shown = as_read(field, value)
            assert len(shown) < 500 * count, "nor is the text that people read longer"
            opened(json.dumps(value))
            write_review([(case, None)], tmp_path / "sheet.xlsx", value_type=TYPES[0])

        return read

    grows_with_its_length(work, MANY // 4)


def test_many_rows_of_feedback_take_their_number():
    def work(count: int) -> Callable[[], object]:
        bad = []
        people = []
        for n in range(count):
            row = {"id": f"t-{n}", "outputs": "x", "label": True}
            bad.append(row | {f"coment {n}": "x", "values": n})
            said = {"id": "t", "outputs": "x", "value": True}
            people.append(said | {"source": f"p{n}"})

        def read() -> None:
            refused(read_feedback, bad)
            read_feedback(bad, skip_invalid=True)
            review_feedback(people, TYPES[0])

        return read

    grows_with_its_length(work, MANY // 4)


def test_many_rules_beside_many_long_texts_are_compared_once_each():
    words = "the parcel will arrive at your door on Monday as you asked in your letter "

    def work(length: int) -> Callable[[], object]:
        texts = [("outputs", words * (length // len(words))) for _ in range(20)]

        def compare() -> None:
            judged = JudgedTexts(texts)
            for number in range(20):
                rule = f"{RULE} {number} the parcel will arrive at your door"
                assert guideline_fault(rule, judged) is None

        return compare

    grows_with_its_length(work, 50_000)
    judged = JudgedTexts([("outputs", words)])
    assert guideline_fault(f"Say: {words}", judged) is not None
    assert guideline_fault(f"Say: {words}", judged, [words]) is None
