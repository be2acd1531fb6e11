"""Columns and fields that a judge does not read stop nothing, whatever they hold; and
text enters as UTF-8 can hold it."""

from __future__ import annotations

import dataclasses
import json
import math
import sqlite3
from collections import namedtuple
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memalign import Example, Feedback, Judge
from memalign.errors import InputError, InvalidRows
from memalign.io import read_examples, read_feedback
from memalign.types import canonical_json
from memalign.values import ValueType
from tests.support.lists import ids, values
from tests.support.rows import RawRow
from tests.support.scripted import scripted

pd = pytest.importorskip("pandas")

BOOL = ValueType.of("bool")
ROW: RawRow = {"id": "a", "inputs": "q", "outputs": "x"}
PARTS = ("outputs",)

ODD: RawRow = {
    "a list of documents as source": {"source": ["doc-1", "doc-2"]},
    "a label of another kind": {"value": {"score": 1}, "rationale": 7},
    "a text as meta": {"meta": "free text"},
    "an infinite number": {"latency": math.inf},
    "a time": {"at": datetime(2024, 3, 1, tzinfo=UTC)},
    "bytes": {"thumbnail": b"\x89PNG", "raw": b"\xff\x00"},
    "a number as conversation": {"conversation": 17},
    "a set": {"tags": {"a", "b"}},
    "an object of no known kind": {"run": object()},
    "an error": {"failure": ValueError("no")},
    "NaN deep inside": {"trace": [{"x": [math.nan, {"y": math.inf}]}]},
    "a picture in a field": {
        "inputs": [
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
        ]
    },
    "a number of thousands of digits": {"big": 10**5000},
    "no time": {"created_at": "the day before"},
    "many levels": {"deep": [[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]},
    "half an emoji": {"note": "x\ud83d"},
}


def objects(rows: list[RawRow]) -> Any:
    """A frame as pandas makes it of values that Arrow cannot hold."""
    return pd.DataFrame(rows, dtype=object)


@pytest.fixture
def judge() -> Judge:
    return scripted(instructions="Good? {{ outputs }}")[0]


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("frame", [list, objects])
def test_what_no_judge_reads_stops_nothing(judge, frame, name):
    rows = frame([ROW | ODD[name]])
    assert ids(read_examples(rows)) == ["a"]
    assert values(judge.judge_many(rows)) == [True]
    judged = judge.predict_batch(objects([ROW | ODD[name]]))
    assert judged["error"].isna().all()


unused = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=()))
    | st.binary()
    | st.datetimes()
    | st.decimals()
    | st.just(object()),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text() | st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    st.dictionaries(
        st.sampled_from(["trace", "inputs", "meta", "source", "group", "x", "y"]),
        unused,
    )
)
def test_unused_columns_of_any_kind_are_kept_or_named(columns):
    row = columns | {"id": "a", "outputs": "x"}
    (example,) = read_examples([row])
    canonical_json(example.to_dict()).encode()
    labelled = row | {"value": True, "source": "ana"}
    assert values(read_feedback([labelled], fields=PARTS).rows) == [True]


odd_values = st.recursive(
    st.floats()
    | st.text(st.characters(exclude_categories=()), max_size=6)
    | st.just(math.nan),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
)


@settings(max_examples=60)
@given(odd_values)
def test_any_value_of_python_enters_as_json_through_every_door(tmp_path_factory, value):
    folder = tmp_path_factory.mktemp("doors")
    row: RawRow = {
        "id": "a",
        "outputs": {"is": value},
        "inputs": "q",
        "value": True,
        "rationale": "so\ud83d",
        "source": "ana",
    }
    (folder / "f.jsonl").write_text(json.dumps(row) + "\n", "utf-8")
    (folder / "f.json").write_text(json.dumps([row]), "utf-8")
    expected = Feedback(**row)
    canonical_json(expected.to_dict()).encode()
    for door in (
        folder / "f.jsonl",
        folder / "f.json",
        [row],
        [expected],
        objects([row]),
    ):
        (read,) = read_feedback(door, value_type=BOOL).rows
        assert read.content_hash == expected.content_hash
        assert read.rationale == "so\ufffd"


def test_one_poisoned_row_costs_nobody_a_verdict(judge, tmp_path):
    half = '{"a": "x\ud83d"}'
    call = {
        "role": "assistant",
        "tool_calls": [{"function": {"name": "f", "arguments": half}}],
    }
    span = {"span_id": "1", "name": "run", "attributes": {"x": half}, "inputs": half}
    poisons: list[RawRow] = [
        {"conversation": [{"role": "user", "content": "hi\ud83d"}, call]},
        {"trace": {"spans": [span]}},
        {"inputs": half},
        {"outputs": "x\ud83d", "expectations": {"k\udc00": "\udfff"}},
    ]
    named = ("inputs", "outputs", "expectations", "conversation", "trace")
    reads_all = judge.replace(
        instructions="{{inputs}} {{outputs}} {{expectations}} {{conversation}} {{trace}}"
    )
    usual = dict.fromkeys(named, "text")
    rows = []
    for number, poison in enumerate([{}, *poisons, {}]):
        rows.append(usual | poison | {"id": f"t-{number}"})
    for door in (rows, [Example(**row) for row in rows], objects(rows)):
        judged = reads_all.judge_many(door, out=tmp_path / "out.jsonl")
        assert values(judged) == [True] * len(rows)
    said = {"value": True, "source": "ana", "rationale": "why\ud83d"}
    aligned = reads_all.align([row | said for row in rows]).judge
    assert len(aligned.memory.cases) == len(rows)


def test_bare_nan_in_json_lines_is_absent(tmp_path):
    path = tmp_path / "f.jsonl"
    path.write_text(
        '{"id": "1", "outputs": "a", "value": true, "rationale": NaN}\n'
        '{"id": "2", "outputs": [-Infinity, 1],'
        ' "value": NaN, "rationale": "Cold \\ud83d."}',
        "utf-8",
    )
    first, second = read_feedback(path, value_type=BOOL).rows
    assert first.rationale is None
    assert second.value is None
    assert second.outputs == [None, 1]
    assert second.rationale == "Cold \ufffd."


@dataclasses.dataclass
class Answer:
    text: str
    at: datetime


def test_objects_of_python_are_read_by_their_fields(judge):
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Reply", text=(str, ...), parts=(list[Any], []))
    answer = Answer("Soon.", datetime(2024, 3, 1, tzinfo=UTC))
    example = Example(
        id="a",
        inputs=answer,
        outputs=model(text="Soon.", parts=[answer]),
        trace=b"plain text",
    )
    assert example.inputs == {"text": "Soon.", "at": "2024-03-01T00:00:00+00:00"}
    assert example.outputs == {"text": "Soon.", "parts": [example.inputs]}
    assert example.trace == "plain text"
    message = r"^a: outputs\.x\[1\] is a object, which is not a JSON value"
    with pytest.raises(InputError, match=message):
        judge(Example(id="a", outputs={"x": [1, object()]}))


def test_rows_may_be_objects_of_python():
    pydantic = pytest.importorskip("pydantic")
    row = {"id": "a", "outputs": "x", "value": True}
    database = sqlite3.connect(":memory:")
    database.row_factory = sqlite3.Row
    model = pydantic.create_model("Row", id=str, outputs=str, value=bool)
    made: list[Any] = [
        dataclasses.make_dataclass("Row", row)(**row),
        namedtuple("Row", row)(**row),
        model(**row),
        pd.Series(row),
        database.execute("SELECT 'a' AS id, 'x' AS outputs, TRUE AS value").fetchone(),
    ]
    for item in made:
        assert read_feedback([item], value_type=BOOL) == read_feedback([row])


def test_what_was_left_out_is_named_with_its_row():
    odd = {"thumbnail": b"\x89PNG", "trace": [b"\x00"]}
    rows = [ROW | {"value": True}, ROW | {"id": "b", "value": True} | odd]
    notes = "\n".join(read_feedback(rows, fields=PARTS).notes)
    why = "trace[0] was left out on line 2: it holds bytes that are not text"
    assert "thumbnail was left out on line 2: it is an image (bytes)" in notes
    assert why in notes
    message = r"line 2 \(b\): trace\[0\] holds bytes that are not text"
    with pytest.raises(InvalidRows, match=message):
        read_feedback(rows, fields=("outputs", "trace"))


# -- columns that come close to a field ------------------------------------------------


@pytest.mark.parametrize(
    ("column", "field"),
    [
        ("coment", "rationale"),
        ("rationnale", "rationale"),
        ("Comment", "rationale"),
        ("anotator", "source"),
        ("Time stamp", "created_at"),
        ("expectation", "expectations"),
    ],
)
def test_a_column_that_comes_close_to_a_field_is_named(tmp_path, column, field):
    row = ROW | {"value": True, column: "never so", "region": "north"}
    (tmp_path / "f.jsonl").write_text(json.dumps(row), "utf-8")
    pd.DataFrame([row]).to_csv(tmp_path / "f.csv", index=False)
    for door in (tmp_path / "f.jsonl", tmp_path / "f.csv", [row], pd.DataFrame([row])):
        notes = read_feedback(door).notes
        said = f"{column}: not used; did you mean {column} → {field}? Use --map"
        assert said in "\n".join(notes)
        assert "not used, and kept as meta: region" in notes
    judge, _ = scripted()
    notes = judge.align([row]).notes
    assert f"{column} → {field}" in "\n".join(notes)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            {"label": True, "comment": "x"},
            "label: not used; did you mean label → value",
        ),
        ({"region": True}, "not used, and kept as meta: region"),
    ],
)
def test_a_row_without_label_or_words_names_what_it_has(more, said):
    with pytest.raises(InvalidRows, match=f"a value, a rationale or both; {said}"):
        read_feedback([ROW | more])


def test_columns_may_be_named_for_one_call():
    judge, _ = scripted()
    row = {"id": "a", "answer": "Soon.", "label": True, "why": "Says when."}
    columns = {"outputs": "answer", "value": "label", "rationale": "why"}
    aligned = judge.align([row], columns=columns).judge
    assert dict(aligned.columns) == columns
    assert values(judge.judge_many([row], columns={"outputs": "answer"})) == [True]
    assert read_examples([row], columns=columns)[0].outputs == "Soon."
