"""Rows of files and of Python become feedback and examples; every bad one is named by
line and reason."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memalign.errors import InputError, InvalidRows
from memalign.io import read_examples, read_feedback
from memalign.io.fields import MISSING
from memalign.types import Example, Feedback
from memalign.values import ValueType
from tests.support.lists import ids, table, values
from tests.support.registry import json_values
from tests.support.rows import RawRow

BOOL = ValueType.of("bool")
GOOD: RawRow = {
    "id": "t-1",
    "inputs": "q",
    "outputs": "a",
    "value": True,
    "rationale": "warm",
    "source": "ana",
}

Write = Callable[[str, str | bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(name: str, text: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def read(given: Any, **options: Any) -> Any:
    return read_feedback(given, value_type=BOOL, **options)


def lines(*rows: object) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def lines_of(invalid: Any) -> list[int]:
    return [bad.line for bad in invalid]


def test_a_jsonl_row_becomes_feedback_with_its_line(write):
    more = {"group": "g1", "meta": {"split": "dev"}, "created_at": "2026-03-01"}
    file = read(write("f.jsonl", "\n" + lines(GOOD | more)))
    assert file.lines == (2,)
    (row,) = file.rows
    assert str(row.key) == "t-1@ana"
    assert row.value is True
    assert row.rationale == "warm"
    assert row.created_at == "2026-03-01T00:00:00+00:00"
    assert row.meta == {"split": "dev", "group": "g1"}


def test_a_csv_row_equals_its_jsonl_row(write):
    path = write(
        "f.csv",
        "id,inputs,outputs,value,rationale,source,group\r\n"
        't-1,"{""question"": ""why?""}","two\r\nlines, and a comma",yes,,ana,g1\r\n'
        ",,,,,,\r\n"
        "\r\n"
        '7,"[sic] stays text, as {this}",b,,cold,,\r\n',
    )
    file = read(path)
    assert file.lines == (2, 6)
    first, second = file.rows
    assert first.inputs == {"question": "why?"}
    assert first.outputs == "two\r\nlines, and a comma"
    assert first.value is True
    assert first.rationale is None
    assert first.meta == {"group": "g1"}
    assert second.id == "7"
    assert second.source == "unknown"
    assert second.inputs == "[sic] stays text, as {this}"
    assert second.value is None
    assert second.rationale == "cold"


@pytest.mark.parametrize("start", ["", "\ufeff"])
@pytest.mark.parametrize("name", ["f.jsonl", "f.json", "f.csv"])
def test_a_row_is_the_same_in_every_format(write, name, start):
    big = ("word " * 100_000).strip()
    row = {"id": 7, "outputs": big, "value": True, "source": 3}
    texts = {
        "f.jsonl": lines(row),
        "f.json": json.dumps([row]),
        "f.csv": f"id,outputs,value,source\n 7 ,{big},true,3\n",
    }
    (found,) = read(write(name, start + texts[name])).rows
    assert found == Feedback(id="7", outputs=big, value=True, source="3")


def test_missing_cells_mean_absent(write):
    absent = GOOD | {
        "rationale": " ",
        "source": None,
        "created_at": None,
        "expectations": float("nan"),
        "note": None,
    }
    (row,) = read([absent]).rows
    assert row.rationale is None
    assert row.source == "unknown"
    assert row.expectations is None
    assert row.meta == {}
    # As pandas writes truth values beside a cell that is missing.
    cells = "id,outputs,value,rationale\n1,a,1.0,\n2,b,0.0,warm\n3,c,,only words\n"
    assert table(read(write("f.csv", cells)).rows, "value", "rationale") == [
        (True, None),
        (False, "warm"),
        (None, "only words"),
    ]


def test_python_objects_pass_the_same_checks():
    feedback = Feedback(
        id="t-1",
        outputs="a",
        value="4",
        source="ana",
        created_at="2026-03-01T10:00:00+02:00",
    )
    rows: list[Any] = [feedback, {"id": "t-2", "outputs": "b", "value": 2}]
    file = read_feedback(rows, value_type=ValueType.of("int:1..5"))
    assert values(file.rows) == [4, 2]
    assert file.lines == (1, 2)
    assert file.rows[0].created_at == "2026-03-01T08:00:00+00:00"
    assert read_feedback([]).rows == ()


def test_a_case_need_not_be_repeated():
    second = {"id": "t-1", "value": False, "source": "ben"}
    content = {"inputs": "q", "outputs": "a"}
    for rows in ([GOOD, second], [second, GOOD]):
        assert table(read(rows).rows, "content") == [(content,), (content,)]


def test_a_case_that_is_known_needs_no_content():
    hashes = {"t-9": Example(id="t-9", outputs="a").content_hash}
    row = {"id": "t-9", "value": True}
    assert read([row], hashes=hashes).rows[0].content == {}
    assert read([row | {"outputs": "a"}], hashes=hashes).rows
    with pytest.raises(InvalidRows, match="has a case 't-9' with other content"):
        read([row | {"outputs": "b"}], hashes=hashes)


def test_a_feedback_file_gives_examples_without_labels(write):
    rows = [
        {"id": "t-1", "source": "eva", "rationale": "cold"},
        GOOD | {"group": "g"},
        GOOD | {"source": "ben", "value": "not even a label"},
        {"id": "t-2", "outputs": "b"},
    ]
    assert read_examples(write("f.jsonl", lines(*rows))) == [
        Example(id="t-1", inputs="q", outputs="a", meta={"group": "g"}),
        Example(id="t-2", outputs="b"),
    ]


comments = st.text(max_size=20).filter(lambda text: "\x00" not in text)
NAMES = [f"t-{n}" for n in range(5)]


@given(st.lists(json_values.filter(lambda value: value is not None), max_size=5))
def test_what_is_written_as_jsonl_is_read_back(tmp_path_factory, contents):
    path = tmp_path_factory.mktemp("rows") / "f.jsonl"
    rows = []
    for name, content in zip(NAMES, contents, strict=False):
        rows.append(Feedback(id=name, outputs=content, value=True, source="ana"))
    first = Feedback(id="first", outputs="x", value=True, source="ana")
    written = list(map(msgspec.json.encode, [first, *rows]))
    path.write_bytes(b"\n".join(written))
    assert read(path).rows == (first, *rows)


@given(st.lists(comments, min_size=1, max_size=5))
def test_what_is_written_as_csv_is_read_back(tmp_path_factory, said):
    path = tmp_path_factory.mktemp("rows") / "f.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "outputs", "value", "rationale"])
        for name, text in zip(NAMES, said, strict=False):
            writer.writerow([name, "a", "true", text])
    for row, text in zip(read(path).rows, said, strict=True):
        empty = text.strip() in MISSING | {""}
        assert row.rationale == (None if empty else text), "N/A is an empty cell"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"id": None}, "id is missing"),
        ({"id": ["x"]}, "id must be text, not list"),
        ({"id": "a\nb"}, "one line"),
        ({"value": None, "rationale": None}, "a value, a rationale or both"),
        ({"inputs": None, "outputs": None}, "no content: one of inputs"),
        ({"value": "maybe"}, "value 'maybe' is not allowed; use true or false"),
        ({"rationale": 7}, "rationale must be text"),
        ({"source": "a\nb"}, "must be one line of text"),
        ({"source": "\x00"}, "must be one line of text"),
        ({"source": {"name": "ana"}}, "source must be text"),
        ({"created_at": "yesterday"}, "not a time in ISO 8601"),
        ({"created_at": "2026-13-01"}, "not a time in ISO 8601"),
        ({"created_at": "01/02/2026"}, "not a time in ISO 8601"),
        ({"created_at": 45000}, "not a time in ISO 8601"),
        (
            {"meta": {"group": 1}, "group": 2},
            "group is both a column and a key of meta",
        ),
    ],
)
def test_a_bad_row_is_named_by_line(write, changes, reason):
    path = write("f.jsonl", lines(GOOD | {"id": "good"}, GOOD | changes))
    with pytest.raises(InvalidRows) as error:
        read(path)
    assert str(path) in str(error.value)
    (bad,) = error.value.rows
    assert bad.line == 2
    assert reason in bad.reason
    file = read(path, skip_invalid=True)
    assert ids(file.rows) == ["good"]
    assert file.invalid == (bad,)


def test_an_impossible_python_row_is_named():
    odd = GOOD | {"id": "t-2", "outputs": {"a": [1, object()]}}
    rows = [GOOD, cast("Any", 7), odd, GOOD | {"id": "t-4", "value": ["Refuted"]}]
    file = read_feedback(rows, skip_invalid=True, fields=["outputs"])
    number, impossible, listed = (bad.reason for bad in file.invalid)
    assert number == "a row is a mapping, an Example or a Feedback, not int"
    why = "outputs.a[1] is a object, which is not a JSON value; pass text"
    assert impossible.startswith(why)
    assert "not a label" in listed


ROWS = [
    GOOD,
    GOOD | {"id": "t-2", "outputs": {"say": ["b", "}\n["]}},
    GOOD | {"id": "t-3"},
]
ONE_BY_ONE = [json.dumps(row) for row in ROWS]
PRETTY = [json.dumps(row, indent=1) for row in ROWS]
LAYOUTS = {
    "lines": lines(*ROWS),
    "lines with commas": ",\n".join(ONE_BY_ONE) + ",\n",
    "array": json.dumps(ROWS),
    "pretty": json.dumps(ROWS, indent=2),
    "mark": "\ufeff\n\n" + json.dumps(ROWS, indent=2) + "\n",
    "array of lines": "[\n" + ",\n".join(ONE_BY_ONE) + "\n]\n",
    "pretty objects": "\n".join(PRETTY),
    "pretty objects with commas": ",\n".join(PRETTY),
}


@pytest.mark.parametrize("suffix", ["jsonl", "ndjson", "json"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_json_is_read_however_it_is_laid_out(write, suffix, layout):
    file = read(write(f"f.{suffix}", LAYOUTS[layout]))
    assert table(file.rows, "id", "outputs") == [
        ("t-1", "a"),
        ("t-2", {"say": ["b", "}\n["]}),
        ("t-3", "a"),
    ]
    assert file.invalid == ()


MIXED = [GOOD, 7, None, ["t-9"], "t-9", GOOD | {"id": "t-5"}]
BAD_PLACES = [2, 3, 4, 5]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(MIXED),
        json.dumps(MIXED, indent=2),
        lines(*MIXED),
        "\n\n" + json.dumps(MIXED, indent=1),
    ],
    ids=["array", "pretty", "lines", "blanks"],
)
def test_an_entry_that_is_no_object_costs_itself(write, text):
    path = write("f.json", text)
    with pytest.raises(InvalidRows, match=r"line 4: a row is a JSON object, not .*t-9"):
        read(path)
    file = read(path, skip_invalid=True)
    assert ids(file.rows) == ["t-1", "t-5"]
    assert lines_of(file.invalid) == BAD_PLACES
    with pytest.raises(InvalidRows) as refused:
        read_examples(path)
    assert lines_of(refused.value.rows) == BAD_PLACES


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize(
    "row",
    [
        {"id": "t-1", "outputs": "fine", "value": True, "data": [{"a": 1}]},
        {
            "id": "t-1",
            "conversation": [{"role": "user", "content": "hi"}],
            "value": True,
        },
    ],
)
def test_a_list_of_objects_inside_a_row_is_no_list_of_rows(write, row, indent):
    path = write("f.json", json.dumps(row, indent=indent))
    assert ids(read_feedback(path).rows) == ["t-1"]


@pytest.mark.parametrize("indent", [None, 1])
def test_a_report_of_an_evaluation_is_no_feedback_of_people(write, indent):
    case = {"id": "t-1", "label": True, "value": False, "rationale": "the judge's"}
    text = json.dumps({"n": 1, "cases": [case]}, indent=indent)
    with pytest.raises(InputError):
        read(write("f.json", text))


@pytest.mark.parametrize(
    ("text", "good", "reason"),
    [
        (LAYOUTS["pretty"][:-40], ["t-1", "t-2"], "broken JSON on line"),
        (LAYOUTS["pretty"][:-2], ["t-1", "t-2", "t-3"], "the array is not closed"),
        (json.dumps([GOOD], indent=2) + "\n{oops", ["t-1"], "broken JSON on line"),
    ],
)
def test_json_that_is_cut_keeps_what_came_before(write, text, good, reason):
    path = write("f.jsonl", text)
    with pytest.raises(InvalidRows, match=reason):
        read(path)
    file = read(path, skip_invalid=True)
    assert ids(file.rows) == good
    assert len(file.invalid) == 1


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (
            '{"id": "t-9", "outputs": "a", "value": true, "value": false}',
            "'value' .* true and false",
        ),
        (
            '{"id": "t-9", "value": true, "outputs": {"a": {"b": [1], "b": [2]}}}',
            "'b' is there twice",
        ),
        (
            '{"id": "t-9", "outputs": "a", "value": true, "meta": {"x": NaN, "x": 1}}',
            "'x' is there",
        ),
    ],
)
def test_a_key_with_two_contents_is_named_by_row(write, row, reason):
    good = json.dumps(GOOD)
    for text in (f"{good}\n{row}\n", f"[{good},\n{row}]"):
        with pytest.raises(InvalidRows, match=f"line 2: the key {reason}"):
            read(write("f.jsonl", text))


@pytest.mark.parametrize(
    ("text", "outputs"),
    [
        (
            '{"id": "t-1", "outputs": "a", "outputs": "a", "value": true, "value": true}\n',
            "a",
        ),
        # A text that says two things stays a text.
        (
            '{"id": "t-1", "outputs": "{\\"a\\": 1, \\"a\\": 2}", "value": true}\n',
            '{"a": 1, "a": 2}',
        ),
    ],
)
def test_a_key_twice_with_equal_contents_is_one_key(write, text, outputs):
    (row,) = read(write("f.jsonl", text)).rows
    assert row.outputs == outputs
    assert row.value is True


def test_broken_lines_cost_themselves_only(write):
    text = (
        lines(GOOD).encode()
        + b'{"id": "t-2", "outputs":\n{"id": "t-3", "outputs": "caf\xe9"}\n'
        + b"[" * 100_000
    )
    file = read(write("f.jsonl", text), skip_invalid=True)
    assert file.lines == (1,)
    assert lines_of(file.invalid) == [2, 3, 4]
    cut, encoded, deep = (bad.reason for bad in file.invalid)
    assert encoded.startswith("byte 30 (0xe9) is not UTF-8; save the file as UTF-8")
    assert "broken JSON" in cut
    assert "broken JSON" in deep


def test_broken_csv_lines_are_named_where_they_begin(write):
    text = (
        b"id,outputs,value\n"
        b"t-1,a,true\n"
        b"t-2,b\n"
        b"t-3,c,true,extra\n"
        b'"t-5"x,e,true\n'
        b"t-6,f,true\n"
        b't-7,"never closed,true\n'
        b"t-8,g,true\n"
    )
    file = read(write("f.csv", text), skip_invalid=True)
    assert ids(file.rows) == ["t-1", "t-6"]
    assert file.lines == (2, 6)
    assert table(file.invalid, "line", "reason") == [
        (3, "the row has 2 cells and the header 3; write one cell for each column"),
        (4, "the row has 4 cells and the header 3; write one cell for each column"),
        (5, "broken CSV: a quotation mark inside a quoted cell is not doubled"),
        (
            7,
            "broken CSV: a quotation mark opens a cell and is never closed, "
            "so the cell runs on to line 8",
        ),
    ]


OTHER = GOOD | {"source": "ben", "outputs": "something else"}


@pytest.mark.parametrize(
    ("read", "rows", "reason"),
    [
        (read_feedback, [GOOD, GOOD], "line 2 (t-1): t-1@ana is also on line 1"),
        (
            read_feedback,
            [GOOD | {"source": None}, {"id": "t-1", "value": False}],
            "t-1@unknown is also on line 1",
        ),
        (read_feedback, [GOOD, OTHER], "outputs differ from 't-1' on line 1"),
        (read_examples, [GOOD, OTHER], "its content differs from 't-1' on line 1"),
        (
            read_examples,
            [{"outputs": "a"}, {"id": "t-2", "outputs": "b"}],
            "line 1: id is missing",
        ),
        (read_examples, [{"id": "t-2"}, GOOD], "line 1 (t-2): no content"),
        (
            read_examples,
            [{"id": "t-3", "value": True}, GOOD],
            "line 1 (t-3): no content",
        ),
    ],
)
def test_a_row_that_does_not_go_with_others_is_named(read, rows, reason):
    with pytest.raises(InvalidRows) as error:
        read(rows)
    assert len(error.value.rows) == 1
    assert reason in str(error.value)


def test_of_rows_that_differ_the_first_is_kept():
    rows = [GOOD, OTHER, GOOD | {"value": False}, GOOD | {"id": "t-2"}]
    file = read_feedback(rows, skip_invalid=True)
    assert table(file.rows, "id", "outputs", "value") == [
        ("t-1", "a", True),
        ("t-2", "a", True),
    ]
    assert file.lines == (1, 4)
    assert lines_of(file.invalid) == [2, 3]


@pytest.mark.parametrize("name", ["f.jsonl", "f.csv", "f.json"])
@pytest.mark.parametrize("text", ["", "\n\n", "\ufeff"])
def test_an_empty_file_has_no_rows(write, name, text):
    with pytest.raises(InputError, match="has no rows"):
        read_feedback(write(name, text))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("f.csv", "id,outputs,value\n", "has no rows"),
        (
            "f.csv",
            "name,answer\na,b\n",
            "no column for inputs, outputs, value. Its columns are name, answer",
        ),
        ("f.csv", "id,value,value\na,b,c\n", "value twice"),
        (
            "f.csv",
            b"id,outputs\na,caf\xe9\n",
            r"line 2: byte 6 \(0xe9\) is not UTF-8.*save it as CSV UTF-8",
        ),
        (
            "f.csv",
            'id,"outputs\na,b\n',
            "the header on line 1 is broken: a quotation mark",
        ),
        ("f.json", "[]", "has no rows"),
        ("f.json", '{"rows": []}', "Its columns are rows"),
        ("f.csv", b"\xff\xfei\x00d", "cannot read"),
        ("f.csv", b"id\n\xe9\n", "is not UTF-8"),
        ("f.xlsx", "PK", "as an XLSX file"),
        ("f.parquet", "PAR1", "as a Parquet file"),
        ("f.ods", "PK", "the name of a file ends in .jsonl"),
        ("none.jsonl", None, "no such file"),
        ("", None, "is a folder without JSON lines or Parquet files; name a file"),
    ],
)
def test_an_unreadable_file_says_why(write, tmp_path, name, text, message):
    if text is not None:
        write(name, text)
    with pytest.raises(InputError, match=message):
        read_feedback(tmp_path / name, skip_invalid=True)
