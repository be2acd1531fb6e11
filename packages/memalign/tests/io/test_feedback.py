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


def lines(*rows: object) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_a_jsonl_row_becomes_feedback_with_its_line(write: Write) -> None:
    more = {"group": "g1", "meta": {"split": "dev"}, "created_at": "2026-03-01"}
    file = read_feedback(write("f.jsonl", "\n" + lines(GOOD | more)), value_type=BOOL)
    assert file.lines == (2,)
    (row,) = file.rows
    assert (str(row.key), row.value, row.rationale) == ("t-1@ana", True, "warm")
    assert (row.created_at, row.meta) == (
        "2026-03-01T00:00:00+00:00",
        {"split": "dev", "group": "g1"},
    )


def test_a_csv_row_equals_its_jsonl_row(write: Write) -> None:
    path = write(
        "f.csv",
        "id,inputs,outputs,value,rationale,source,group\r\n"
        't-1,"{""question"": ""why?""}","two\r\nlines, and a comma",yes,,ana,g1\r\n'
        ",,,,,,\r\n"
        "\r\n"
        '7,"[sic] stays text, as {this}",b,,cold,,\r\n',
    )
    file = read_feedback(path, value_type=BOOL)
    assert file.lines == (2, 6)
    first, second = file.rows
    assert (first.inputs, first.outputs) == (
        {"question": "why?"},
        "two\r\nlines, and a comma",
    )
    assert (first.value, first.rationale, first.meta) == (True, None, {"group": "g1"})
    assert (second.id, second.inputs, second.source) == (
        "7",
        "[sic] stays text, as {this}",
        "unknown",
    )
    assert (second.value, second.rationale) == (None, "cold")


def test_a_row_is_the_same_in_every_format(write: Write) -> None:
    big = ("word " * 100_000).strip()
    row = {"id": 7, "outputs": big, "value": True, "source": 3}
    texts = {"f.jsonl": lines(row), "f.json": json.dumps([row])}
    texts |= {"f.csv": f"id,outputs,value,source\n 7 ,{big},true,3\n"}
    for start in ("", "\ufeff"):
        read = [
            read_feedback(write(name, start + text), value_type=BOOL).rows
            for name, text in texts.items()
        ]
        assert read[0] == read[1] == read[2]
        assert (read[0][0].key, read[0][0].outputs) == (("7", "3"), big)


def test_missing_cells_mean_absent(write: Write) -> None:
    absent = GOOD | {
        "rationale": " ",
        "source": None,
        "created_at": None,
        "expectations": float("nan"),
        "note": None,
    }
    (row,) = read_feedback([absent], value_type=BOOL).rows
    assert (row.rationale, row.source, row.expectations, row.meta) == (
        None,
        "unknown",
        None,
        {},
    )
    # As pandas writes truth values beside a cell that is missing.
    table = "id,outputs,value,rationale\n1,a,1.0,\n2,b,0.0,warm\n3,c,,only words\n"
    rows = read_feedback(write("f.csv", table), value_type=BOOL).rows
    assert [(row.value, row.rationale) for row in rows] == [
        (True, None),
        (False, "warm"),
        (None, "only words"),
    ]
    with pytest.raises(InvalidRows, match="a value, a rationale or both"):
        read_feedback(write("g.csv", "id,outputs,value\n1,a,\n"), value_type=BOOL)


def test_python_objects_pass_the_same_checks() -> None:
    feedback = Feedback(
        id="t-1",
        outputs="a",
        value="4",
        source="ana",
        created_at="2026-03-01T10:00:00+02:00",
    )
    file = read_feedback(
        [feedback, {"id": "t-2", "outputs": "b", "value": 2}],
        value_type=ValueType.of("int:1..5"),
    )
    assert ([row.value for row in file.rows], file.lines) == ([4, 2], (1, 2))
    assert file.rows[0].created_at == "2026-03-01T08:00:00+00:00"
    assert read_feedback([]).rows == ()


def test_a_case_need_not_be_repeated() -> None:
    second = {"id": "t-1", "value": False, "source": "ben"}
    for rows in ([GOOD, second], [second, GOOD]):
        assert [row.content for row in read_feedback(rows, value_type=BOOL).rows] == [
            {"inputs": "q", "outputs": "a"}
        ] * 2
    hashes = {"t-9": Example(id="t-9", outputs="a").content_hash}
    (row,) = read_feedback(
        [{"id": "t-9", "value": True}], value_type=BOOL, hashes=hashes
    ).rows
    assert row.content == {}
    read_feedback([{"id": "t-9", "value": True, "outputs": "a"}], hashes=hashes)
    with pytest.raises(InvalidRows, match="has a case 't-9' with other content"):
        read_feedback([{"id": "t-9", "value": True, "outputs": "b"}], hashes=hashes)


def test_a_feedback_file_gives_examples_without_labels(write: Write) -> None:
    second = GOOD | {"source": "ben", "value": "not even a label"}
    third = {"id": "t-1", "source": "eva", "rationale": "cold"}
    path = write(
        "f.jsonl",
        lines(third, GOOD | {"group": "g"}, second, {"id": "t-2", "outputs": "b"}),
    )
    assert read_examples(path) == [
        Example(id="t-1", inputs="q", outputs="a", meta={"group": "g"}),
        Example(id="t-2", outputs="b"),
    ]


json_values = st.recursive(
    st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=20), inner, max_size=3)
    ),
    max_leaves=8,
)


comments = st.text(max_size=20).filter(lambda text: "\x00" not in text)


@given(st.lists(st.tuples(json_values, comments), min_size=1, max_size=5))
def test_what_is_written_as_jsonl_or_csv_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, cells: list[tuple[Any, str]]
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    rows = [
        Feedback(id=f"t-{i}", outputs=value, value=True, source="ana")
        for i, (value, _) in enumerate(cells)
    ]
    (folder / "f.jsonl").write_bytes(
        b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
    )
    assert read_feedback(folder / "f.jsonl", value_type=BOOL).rows == tuple(rows)
    with (folder / "f.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "outputs", "value", "rationale"])
        writer.writerows(
            [f"t-{i}", "a", "true", text] for i, (_, text) in enumerate(cells)
        )
    read = [
        row.rationale or ""
        for row in read_feedback(folder / "f.csv", value_type=BOOL).rows
    ]
    said = ["" if text.strip() in MISSING | {""} else text for _, text in cells]
    assert read == said, "a cell such as N/A is empty"


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"outputs": "a", "value": True}, "id is missing"),
        ({"id": ["x"], "outputs": "a", "value": True}, "id must be text, not list"),
        ({"id": "a\nb", "outputs": "a", "value": True}, "one line"),
        ({"id": "t", "outputs": "a"}, "a value, a rationale or both"),
        ({"id": "t", "value": True}, "no content: one of inputs"),
        (GOOD | {"value": "maybe"}, "value 'maybe' is not allowed; use true or false"),
        (GOOD | {"rationale": 7}, "rationale must be text"),
        *(
            (GOOD | {"source": source}, "must be one line of text")
            for source in ("a\nb", "\x00")
        ),
        *(
            (GOOD | {"created_at": time}, "not a time in ISO 8601")
            for time in ("yesterday", "2026-13-01", "01/02/2026", 45000)
        ),
        (GOOD | {"source": {"name": "ana"}}, "source must be text"),
        (
            GOOD | {"meta": {"group": 1}, "group": 2},
            "group is both a column and a key of meta",
        ),
        ("text", "a row is a JSON object, not 'text'"),
        ([1], "a row is a JSON object, not '[1]'"),
    ],
)
def test_a_bad_row_is_named_by_line(write: Write, row: object, reason: str) -> None:
    path = write("f.jsonl", lines(GOOD | {"id": "good"}, row))
    with pytest.raises(InvalidRows) as error:
        read_feedback(path, value_type=BOOL)
    (bad,) = error.value.rows
    assert (bad.line, reason in bad.reason, str(path) in str(error.value)) == (
        2,
        True,
        True,
    )
    file = read_feedback(path, value_type=BOOL, skip_invalid=True)
    assert ([row.id for row in file.rows], file.invalid) == (["good"], (bad,))


def test_an_impossible_python_row_is_named() -> None:
    odd = GOOD | {"id": "t-2", "outputs": {"a": [1, object()]}}
    rows = [GOOD, cast("Any", 7), odd, GOOD | {"id": "t-4", "value": ["Refuted"]}]
    file = read_feedback(rows, skip_invalid=True, fields=["outputs"])
    reasons = [bad.reason for bad in file.invalid]
    assert reasons[0] == "a row is a mapping, an Example or a Feedback, not int"
    assert reasons[1].startswith(
        "outputs.a[1] is a object, which is not a JSON value; pass text"
    )
    assert "not a label" in reasons[2]


ROWS = [
    GOOD,
    GOOD | {"id": "t-2", "outputs": {"say": ["b", "}\n["]}},
    GOOD | {"id": "t-3"},
]


@pytest.mark.parametrize("suffix", ["jsonl", "ndjson", "json"])
@pytest.mark.parametrize(
    "text",
    [
        lines(*ROWS),
        json.dumps(ROWS),
        json.dumps(ROWS, indent=2),
        "\ufeff\n\n" + json.dumps(ROWS, indent=2) + "\n",
        "[\n" + ",\n".join(map(json.dumps, ROWS)) + "\n]\n",
        "\n".join(json.dumps(row, indent=1) for row in ROWS),
        ",\n".join(json.dumps(row, indent=1) for row in ROWS),
    ],
    ids=[
        "lines",
        "array",
        "pretty",
        "mark",
        "array of lines",
        "pretty objects",
        "with commas",
    ],
)
def test_json_is_read_however_it_is_laid_out(
    write: Write, suffix: str, text: str
) -> None:
    file = read_feedback(write(f"f.{suffix}", text), value_type=BOOL)
    assert [(row.id, row.outputs) for row in file.rows] == [
        (row["id"], row["outputs"]) for row in ROWS
    ]
    assert file.invalid == ()


MIXED = [GOOD, 7, None, ["t-9"], "t-9", {**GOOD, "id": "t-5"}]
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
def test_an_entry_that_is_no_object_costs_itself(write: Write, text: str) -> None:
    path = write("f.json", text)
    with pytest.raises(InvalidRows, match=r"line 4: a row is a JSON object, not .*t-9"):
        read_feedback(path, value_type=BOOL)
    file = read_feedback(path, value_type=BOOL, skip_invalid=True)
    assert [row.id for row in file.rows] == ["t-1", "t-5"]
    assert [row.line for row in file.invalid] == BAD_PLACES
    with pytest.raises(InvalidRows) as refused:
        read_examples(path)
    assert [row.line for row in refused.value.rows] == BAD_PLACES


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
def test_a_list_of_objects_inside_a_row_is_no_list_of_rows(
    write: Write, row: dict[str, Any]
) -> None:
    for text in (json.dumps(row), json.dumps(row, indent=1)):
        assert [r.id for r in read_feedback(write("f.json", text)).rows] == ["t-1"]


@pytest.mark.parametrize("indent", [None, 1])
def test_a_report_of_an_evaluation_is_no_feedback_of_people(
    write: Write, indent: int | None
) -> None:
    case = {"id": "t-1", "label": True, "value": False, "rationale": "the judge's"}
    text = json.dumps({"n": 1, "cases": [case]}, indent=indent)
    with pytest.raises(InputError):
        read_feedback(write("f.json", text), value_type=BOOL)


@pytest.mark.parametrize(
    ("text", "good", "reason"),
    [
        (json.dumps(ROWS, indent=2)[:-40], ["t-1", "t-2"], "broken JSON on line"),
        (
            json.dumps(ROWS, indent=2)[:-2],
            ["t-1", "t-2", "t-3"],
            "the array is not closed",
        ),
        (json.dumps(ROWS[:1], indent=2) + "\n{oops", ["t-1"], "broken JSON on line"),
        (json.dumps([GOOD, 7], indent=2), ["t-1"], "a row is a JSON object, not '7'"),
    ],
)
def test_json_that_is_cut_keeps_what_came_before(
    write: Write, text: str, good: list[str], reason: str
) -> None:
    path = write("f.jsonl", text)
    with pytest.raises(InvalidRows, match=reason):
        read_feedback(path, value_type=BOOL)
    file = read_feedback(path, value_type=BOOL, skip_invalid=True)
    assert ([row.id for row in file.rows], len(file.invalid)) == (good, 1)


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
def test_a_key_with_two_contents_is_named_by_row(
    write: Write, row: str, reason: str
) -> None:
    for text in (f"{json.dumps(GOOD)}\n{row}\n", f"[{json.dumps(GOOD)},\n{row}]"):
        with pytest.raises(InvalidRows, match=f"line 2: the key {reason}"):
            read_feedback(write("f.jsonl", text), value_type=BOOL)


def test_a_key_twice_with_equal_contents_is_one_key(write: Write) -> None:
    text = (
        '{"id": "t-1", "outputs": "a", "outputs": "a", "value": true, "value": true}\n'
    )
    (row,) = read_feedback(write("f.jsonl", text), value_type=BOOL).rows
    assert (row.outputs, row.value) == ("a", True)
    text = '{"id": "t-1", "outputs": "{\\"a\\": 1, \\"a\\": 2}", "value": true}\n'
    (row,) = read_feedback(write("f.jsonl", text), value_type=BOOL).rows
    assert row.outputs == '{"a": 1, "a": 2}', "a text that says two things stays a text"


def test_broken_lines_cost_themselves_only(write: Write) -> None:
    text = (
        lines(GOOD).encode()
        + b'{"id": "t-2", "outputs":\n{"id": "t-3", "outputs": "caf\xe9"}\n'
        + b"[" * 100_000
    )
    file = read_feedback(write("f.jsonl", text), value_type=BOOL, skip_invalid=True)
    reasons = {bad.line: bad.reason for bad in file.invalid}
    assert reasons[3].startswith("byte 30 (0xe9) is not UTF-8; save the file as UTF-8")
    assert ["broken JSON" in reasons[line] for line in (2, 4)] == [True, True]
    assert file.lines == (1,)


def test_broken_csv_lines_are_named_where_they_begin(write: Write) -> None:
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
    file = read_feedback(write("f.csv", text), value_type=BOOL, skip_invalid=True)
    assert ([row.id for row in file.rows], file.lines) == (["t-1", "t-6"], (2, 6))
    assert [(bad.line, bad.reason) for bad in file.invalid] == [
        (3, "the row has 2 cells and the header 3; write one cell for each column"),
        (4, "the row has 4 cells and the header 3; write one cell for each column"),
        (5, "broken CSV: a quotation mark inside a quoted cell is not doubled"),
        (
            7,
            "broken CSV: a quotation mark opens a cell and is never closed, so the cell runs on to line 8",
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
def test_a_row_that_does_not_go_with_others_is_named(
    read: Callable[[Any], Any], rows: list[Any], reason: str
) -> None:
    with pytest.raises(InvalidRows) as error:
        read(rows)
    assert len(error.value.rows) == 1
    assert reason in str(error.value)


def test_of_rows_that_differ_the_first_is_kept() -> None:
    file = read_feedback(
        [GOOD, OTHER, GOOD | {"value": False}, GOOD | {"id": "t-2"}], skip_invalid=True
    )
    assert [(row.id, row.outputs, row.value) for row in file.rows] == [
        ("t-1", "a", True),
        ("t-2", "a", True),
    ]
    assert (file.lines, [bad.line for bad in file.invalid]) == ((1, 4), [2, 3])


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        *(
            (name, text, "has no rows")
            for name in ("f.jsonl", "f.csv", "f.json")
            for text in ("", "\n\n", "\ufeff")
        ),
        ("f.csv", "id,outputs,value\n", "has no rows"),
        (
            "f.csv",
            "name,answer\na,b\n",
            "no column for inputs, outputs, value. Its columns are name, answer. Name the right ones",
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
        ("", None, "is a folder without JSON lines or Parquet files"),
    ],
)
def test_an_unreadable_file_says_why(
    write: Write, tmp_path: Path, name: str, text: str | bytes | None, message: str
) -> None:
    if text is not None:
        write(name, text)
    with pytest.raises(InputError, match=message.replace("[", r"\[")):
        read_feedback(tmp_path / name, skip_invalid=True)
