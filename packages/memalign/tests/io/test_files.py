from __future__ import annotations

import csv
import json
from datetime import UTC, datetime
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memalign.errors import InputError, InvalidRows
from memalign.io import (
    JudgmentWriter,
    read_examples,
    read_feedback,
    read_judgments,
)
from memalign.types import Example, Feedback, Judgment, Usage
from memalign.values import ValueType

BOOL = ValueType.of("bool")
GOOD = {"id": "t-1", "inputs": "q", "outputs": "a", "value": True, "rationale": "warm", "source": "ana"}


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def reasons(error):
    return {row.line: row.reason for row in error.value.rows}


# -- what is read ------------------------------------------------------------------------------------------------------


def test_a_jsonl_row_becomes_feedback_with_its_line(write):
    path = write("f.jsonl", "\n" + lines(GOOD | {"group": "g1", "meta": {"split": "dev"}, "created_at": "2026-03-01"}))
    found = read_feedback(path, value_type=BOOL)
    assert found.lines == (2,)
    (row,) = found.rows
    assert (str(row.key), row.value, row.rationale) == ("t-1@ana", True, "warm")
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
    found = read_feedback(path, value_type=BOOL)
    assert found.lines == (2, 6)
    first, second = found.rows
    assert first.inputs == {"question": "why?"}
    assert first.outputs == "two\r\nlines, and a comma"
    assert (first.value, first.rationale, first.meta) == (True, None, {"group": "g1"})
    assert (second.id, second.inputs, second.source) == ("7", "[sic] stays text, as {this}", "unknown")
    assert (second.value, second.rationale) == (None, "cold")


def test_numeric_ids_are_one_case_in_every_format(write):
    row = {"id": 7, "outputs": "a", "value": True, "source": 3}
    (jsonl,) = read_feedback(write("f.jsonl", lines(row)), value_type=BOOL).rows
    (array,) = read_feedback(write("f.json", json.dumps([row])), value_type=BOOL).rows
    (table,) = read_feedback(write("f.csv", "id,outputs,value,source\n 7 ,a,true,3\n"), value_type=BOOL).rows
    assert jsonl == array == table
    assert table.key == ("7", "3")


def test_booleans_with_a_missing_pandas_cell_are_read(write):
    table = "id,outputs,value,rationale\n1,a,1.0,\n2,b,0.0,warm\n3,c,,only words\n4,d,NaN,these too\n5,e,1.0,nan\n"
    rows = read_feedback(write("f.csv", table), value_type=BOOL).rows
    assert [(row.value, row.rationale) for row in rows] == [
        (True, None), (False, "warm"), (None, "only words"), (None, "these too"), (True, None)
    ]  # fmt: skip
    with pytest.raises(InvalidRows, match="a value, a rationale or both"):
        read_feedback(write("g.csv", "id,outputs,value\n1,a,nan\n"), value_type=BOOL)
    assert read_examples(write("h.csv", "id,outputs\n1,nan\n"))[0].outputs == "nan", "which may be what was judged"


def test_null_and_nan_and_empty_cells_mean_absent(write):
    row = GOOD | {"rationale": None, "source": None, "created_at": None, "expectations": float("nan"), "note": None}
    (found,) = read_feedback([row], value_type=BOOL).rows
    assert (found.rationale, found.source, found.expectations, found.meta) == (None, "unknown", None, {})
    (blank,) = read_feedback([GOOD | {"rationale": "  "}]).rows
    assert blank.rationale is None


def test_a_byte_order_mark_joins_no_name(write):
    for name, text in (
        ("f.jsonl", lines(GOOD)),
        ("f.csv", "id,outputs,value\nt-1,a,no\n"),
        ("f.json", json.dumps([GOOD])),
    ):
        assert read_feedback(write(name, b"\xef\xbb\xbf" + text.encode()), value_type=BOOL).rows[0].id == "t-1"


def test_a_huge_field_is_read_from_both_formats(write):
    big = "word " * 1_000_000
    (one,) = read_feedback(write("f.jsonl", lines(GOOD | {"outputs": big}))).rows
    (two,) = read_feedback(write("f.csv", f"id,outputs,value\nt-1,{big.strip()},true\n")).rows
    assert len(one.outputs) == len(big)
    assert len(two.outputs) == len(big) - 1


def test_values_without_a_type_stay_unchanged(write):
    (row,) = read_feedback([GOOD | {"value": "Refuted"}]).rows
    assert row.value == "Refuted"
    with pytest.raises(InvalidRows, match="not a label"):
        read_feedback([GOOD | {"value": ["Refuted"]}])


def test_python_objects_pass_the_same_checks():
    feedback = Feedback(id="t-1", outputs="a", value="4", source="ana", created_at="2026-03-01T10:00:00+02:00")
    found = read_feedback([feedback, {"id": "t-2", "outputs": "b", "value": 2}], value_type=ValueType.of("int:1..5"))
    assert [row.value for row in found.rows] == [4, 2]
    assert found.lines == (1, 2)
    assert found.rows[0].created_at == "2026-03-01T08:00:00+00:00"
    (dated,) = read_feedback([GOOD | {"created_at": datetime(2026, 3, 1, tzinfo=UTC)}]).rows
    assert dated.created_at == "2026-03-01T00:00:00+00:00"


def test_a_wrong_time_names_its_row():
    class NaT(datetime):  # as pandas has it: a datetime that equals nothing
        __eq__ = object.__ne__
        __hash__ = None  # type: ignore[assignment]

        def __ne__(self, other):
            return True

    (row,) = read_feedback([GOOD | {"created_at": NaT(2026, 3, 1)}]).rows
    assert row.created_at is None
    for wrong in ("0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-05:00", 1701010112345, "1701010112345", True):
        with pytest.raises(InvalidRows, match=r"line 1.*is not an ISO 8601 time"):
            read_feedback([GOOD | {"created_at": wrong}])
    assert read_feedback([]).rows == ()


def test_a_second_annotation_need_not_repeat_the_case():
    second = {"id": "t-1", "value": False, "source": "ben"}
    for rows in ([GOOD, second], [second, GOOD]):
        found = read_feedback(rows, value_type=BOOL)
        assert {row.source: row.content for row in found.rows} == {
            "ana": {"inputs": "q", "outputs": "a"},
            "ben": {"inputs": "q", "outputs": "a"},
        }


def test_a_known_case_need_not_be_repeated():
    known = {"t-9": Example(id="t-9", outputs="a").content_hash}
    (row,) = read_feedback([{"id": "t-9", "value": True}], value_type=BOOL, known=known).rows
    assert row.content == {}
    read_feedback([{"id": "t-9", "value": True, "outputs": "a"}], known=known)
    with pytest.raises(InvalidRows, match="knows 't-9' with other content"):
        read_feedback([{"id": "t-9", "value": True, "outputs": "b"}], known=known)


# -- what is wrong, and where --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"outputs": "a", "value": True}, "id is missing"),
        ({"id": " ", "outputs": "a", "value": True}, "id is missing"),
        ({"id": ["x"], "outputs": "a", "value": True}, "id must be text"),
        ({"id": "a\nb", "outputs": "a", "value": True}, "one line"),
        ({"id": "t", "outputs": "a"}, "a value, a rationale or both"),
        ({"id": "t", "value": True}, "no content: one of inputs"),
        (GOOD | {"value": "maybe"}, "value 'maybe' is not allowed; allowed: true or false"),
        (GOOD | {"rationale": 7}, "rationale must be text"),
        (GOOD | {"source": "a\nb"}, "must be one line of text"),
        (GOOD | {"source": {"name": "ana"}}, "source must be text"),
        (GOOD | {"created_at": "yesterday"}, "not an ISO 8601 time"),
        (GOOD | {"created_at": 12}, "not an ISO 8601 time"),
        (GOOD | {"meta": "x"}, "meta must be a JSON object"),
        (GOOD | {"meta": {"group": 1}, "group": 2}, "group is both a column and in meta"),
        ("text", "not text"),
        (None, "not null"),
        ([1], "not an array"),
    ],
)
def test_a_bad_row_is_named_by_line(write, row, reason):
    path = write("f.jsonl", lines(GOOD | {"id": "good"}, row))
    with pytest.raises(InvalidRows) as error:
        read_feedback(path, value_type=BOOL)
    (bad,) = error.value.rows
    assert bad.line == 2
    assert reason in bad.reason
    assert str(path) in str(error.value)
    found = read_feedback(path, value_type=BOOL, skip_invalid=True)
    assert [row.id for row in found.rows] == ["good"]
    assert found.invalid == (bad,)


def test_broken_lines_cost_themselves_only(write):
    path = write(
        "f.jsonl",
        lines(GOOD).encode()
        + b'{"id": "t-2", "outputs":\n'
        + b'{"id": "t-3", "outputs": "caf\xe9"}\n'
        + b"[" * 100_000,
    )
    with pytest.raises(InvalidRows) as error:
        read_feedback(path, value_type=BOOL)
    found = reasons(error)
    assert "broken JSON" in found[2]
    assert found[3] == "not UTF-8: byte 30 is 0xe9; save the file as UTF-8"
    assert "broken JSON" in found[4]
    assert len(read_feedback(path, skip_invalid=True).rows) == 1


def test_broken_csv_lines_are_named_where_they_begin(write):
    text = (
        b"id,outputs,value\n"
        b"t-1,a,true\n"
        b"t-2,b\n"
        b"t-3,c,true,extra\n"
        b"t-4,caf\xe9,true\n"
        b'"t-5"x,e,true\n'
        b"t-6,f,true\n"
        b't-7,"never closed,true\n'
        b"t-8,g,true\n"
    )
    found = read_feedback(write("f.csv", text), value_type=BOOL, skip_invalid=True)
    assert [row.id for row in found.rows] == ["t-1", "t-6"]
    assert found.lines == (2, 7)
    assert [(bad.line, bad.reason) for bad in found.invalid] == [
        (3, "broken CSV: 2 cells, but the header has 3"),
        (4, "broken CSV: 4 cells, but the header has 3"),
        (
            5,
            "not UTF-8: byte 8 is 0xe9, perhaps Windows-1252 as Excel writes a plain CSV; save it as CSV UTF-8, or as .xlsx",
        ),
        (6, "broken CSV: ',' expected after '\"'"),
        (8, "broken CSV: a quote is opened and never closed, so that it takes in all up to line 9"),
    ]


def test_a_repeated_key_is_always_an_error():
    with pytest.raises(InvalidRows, match="t-1@ana is on line 1 already"):
        read_feedback([GOOD, GOOD])
    with pytest.raises(InvalidRows, match="t-1@unknown is on line 1 already"):
        read_feedback([{"id": "t-1", "outputs": "a", "value": True}, {"id": "t-1", "value": False}])


def test_one_id_with_two_contents_names_the_fields():
    other = GOOD | {"source": "ben", "outputs": "something else"}
    with pytest.raises(InvalidRows, match="outputs differ from those of 't-1' on line 1"):
        read_feedback([GOOD, other])
    kept = read_feedback([GOOD, other], skip_invalid=True)
    assert [row.source for row in kept.rows] == ["ana"]


def test_an_impossible_row_is_named():
    with pytest.raises(InvalidRows) as error:
        read_feedback(
            [GOOD, cast("Any", 7), GOOD | {"id": "t-2", "outputs": {1, 2}}, GOOD | {"id": "t-3", "x": b"raw"}]
        )
    found = reasons(error)
    assert found[2] == "a row is a mapping or one of our values, not int"
    assert "outputs is not a JSON value" in found[3]
    assert "meta is not a JSON value" in found[4]


@pytest.mark.parametrize("name", ["f.jsonl", "f.csv", "f.json"])
@pytest.mark.parametrize("text", ["", "\n\n", "\ufeff"])
def test_an_empty_file_says_so(write, name, text):
    with pytest.raises(InputError, match="empty"):
        read_feedback(write(name, text))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("f.csv", "id,outputs,value\n", "empty"),
        (
            "f.csv",
            "name,answer\na,b\n",
            "no column for inputs, outputs, value; its columns: name, answer; say which they are: --map inputs=COLUMN,",
        ),
        ("f.csv", "id,value,value\na,b,c\n", "value twice"),
        ("f.csv", b"id,caf\xe9\na,b\n", "not UTF-8"),
        ("f.csv", 'id,"outputs\na,b\n', "broken header, line 1: a quote"),
        ("f.json", "[]", "empty"),
        ("f.json", '{"id": "t-1"}', "holds one array"),
        ("f.json", '{"id": "t-1"}\n{"id": "t-2"}\n', "called .jsonl"),
        ("f.json", b'[{"id": "caf\xe9"}]', "line 1: not UTF-8"),
        ("f.jsonl", lines(GOOD).encode("utf-16"), "UTF-16"),
        ("f.xlsx", "PK", "no readable XLSX file"),
        ("f.ods", "PK", "unknown kind of file '.ods'; use .jsonl"),
        ("feedback", "{}", "there is no such folder, and a file's name ends in its kind: .jsonl"),
    ],
)
def test_an_unreadable_file_says_why(write, name, text, message):
    with pytest.raises(InputError, match=message.replace("[", r"\[")):
        read_feedback(write(name, text), skip_invalid=True)


def test_a_wrong_path_says_what_to_do(tmp_path, write):
    with pytest.raises(InputError, match="no such file"):
        read_feedback(tmp_path / "none.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.raises(InputError, match="is a folder without Parquet or JSONL files"):
        read_feedback(tmp_path / "folder.jsonl")
    with pytest.raises(InputError, match="no readable Parquet file"):
        read_feedback(write("f.parquet", "PAR1"))


texts = st.text(st.characters(blacklist_categories=["Cs"]), max_size=20)
json_values = st.recursive(
    st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(json_values, min_size=1, max_size=5))
def test_what_is_written_as_jsonl_is_read_back(tmp_path_factory, outputs):
    path = tmp_path_factory.mktemp("rows") / "f.jsonl"
    rows = [Feedback(id=f"t-{i}", outputs=value, value=True, source="ana") for i, value in enumerate(outputs)]
    path.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
    assert read_feedback(path, value_type=BOOL).rows == tuple(rows)


# What pandas writes for a missing cell is none in a column of labels or comments.
@given(
    st.lists(
        texts.filter(lambda text: "\x00" not in text and text.strip() not in ("nan", "NaN", "NaT", "<NA>")),
        min_size=1,
        max_size=4,
    )
)
def test_text_written_as_csv_is_read_back(tmp_path_factory, rationales):
    path = tmp_path_factory.mktemp("rows") / "f.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "outputs", "value", "rationale"])
        writer.writerows([f"t-{i}", "a", "true", text] for i, text in enumerate(rationales))
    assert [row.rationale or "" for row in read_feedback(path, value_type=BOOL).rows] == [
        text if text.strip() else "" for text in rationales
    ]


# -- examples ------------------------------------------------------------------------------------------------------------


def test_a_feedback_file_gives_examples_without_labels(write):
    second = GOOD | {"source": "ben", "value": "not even a label"}
    third = {"id": "t-1", "source": "eva", "rationale": "cold"}
    path = write("f.jsonl", lines(third, GOOD | {"group": "g"}, second, {"id": "t-2", "outputs": "b"}))
    first, other = read_examples(path)
    assert first == Example(id="t-1", inputs="q", outputs="a", meta={"group": "g"})
    assert other == Example(id="t-2", outputs="b")


def test_a_repeated_id_needs_two_people():
    plain = {"id": "t-1", "outputs": "a"}
    with pytest.raises(InvalidRows, match="on line 1 already"):
        read_examples([plain, plain])
    with pytest.raises(InvalidRows, match="on line 1 already"):
        read_examples([GOOD, GOOD])
    with pytest.raises(InvalidRows, match="its content differs from that of 't-1' on line 1"):
        read_examples([GOOD, GOOD | {"source": "ben", "outputs": "b"}])


def test_examples_without_id_or_content_are_named():
    with pytest.raises(InvalidRows) as error:
        read_examples([{"outputs": "a"}, {"id": "t-2"}, {"id": "t-3", "value": True}, Example(id="t-4", trace="x")])
    assert [(bad.line, bad.reason[:10]) for bad in error.value.rows] == [
        (1, "id is miss"),
        (2, "no content"),
        (3, "no content"),
    ]


# -- judgments -----------------------------------------------------------------------------------------------------------

EXAMPLES = [Example(id=f"t-{i}", outputs=f"reply {i}") for i in range(4)]


def judged(value=True, **more):
    return Judgment(value=value, rationale="because", model="m", memory_hash="h", usage=Usage(calls=1), **more)


def ids(path):
    return [json.loads(line)["id"] for line in path.read_text().splitlines()]


def test_judgments_come_back_as_they_were_written(tmp_path):
    path = tmp_path / "out.jsonl"
    given = {
        "t-0": judged(True, confidence=0.5, guideline_ids=("G1",), notes=("truncated",)),
        "t-1": judged(4.0),
        "t-2": judged(4),
        "t-3": Judgment(error="timed out", usage=Usage(cost=None)),
    }
    with JudgmentWriter(path, judge="j@1", examples=EXAMPLES) as writer:
        for example_id, judgment in given.items():
            writer.write(example_id, judgment)
            assert ids(path)[-1] == example_id  # flushed: a crash now costs nothing
    found = read_judgments(path)
    named = {name: msgspec.structs.replace(judgment, id=name) for name, judgment in given.items()}
    assert (found.judge, found.judgments) == ("j@1", named)
    first = json.loads(path.read_text().splitlines()[0])
    assert next(iter(first)) == "id"
    assert first["value"] is True


def test_a_resumed_run_judges_failures_again(tmp_path):
    path = tmp_path / "out.jsonl"
    with JudgmentWriter(path, judge="j", examples=EXAMPLES) as writer:
        writer.write("t-0", Judgment(error="timed out"))
        writer.write("t-1", judged())
    with path.open("ab") as file:
        file.write(b'{"id":"t-2","judge":"j","val')  # the crash
    with JudgmentWriter(path, judge="j", examples=EXAMPLES) as writer:
        assert [example.id for example in EXAMPLES if example.id in writer] == ["t-1"]
        assert read_judgments(path).judgments == {"t-1": judged(id="t-1")}
        for example_id in ("t-0", "t-2", "t-3"):
            writer.write(example_id, judged(False))
        with pytest.raises(InputError, match="already"):
            writer.write("t-1", judged())
    assert ids(path) == ["t-0", "t-1", "t-2", "t-3"]
    assert read_judgments(path).judgments["t-0"] == judged(False, id="t-0")


def test_two_runs_do_not_write_one_file(tmp_path):
    path = tmp_path / "out.jsonl"
    with JudgmentWriter(path, judge="j", examples=EXAMPLES) as writer:
        writer.write("t-1", judged())
        with pytest.raises(InputError, match="is being written by another run"):
            JudgmentWriter(path, judge="j", examples=EXAMPLES)
        writer.write("t-0", judged())
    assert list(read_judgments(path).judgments) == ["t-0", "t-1"]
    assert list(tmp_path.iterdir()) == [path]
    JudgmentWriter(path, judge="j", examples=EXAMPLES).close()


@pytest.mark.parametrize("name", [".", "missing/out.jsonl"])
def test_a_file_that_cannot_be_written_says_so(tmp_path, name):
    with pytest.raises(InputError, match="cannot be"):
        JudgmentWriter(name, judge="j", examples=EXAMPLES)
    assert not list(tmp_path.iterdir())


def test_an_example_that_changed_since_is_judged_again(tmp_path):
    path = tmp_path / "out.jsonl"
    with JudgmentWriter(path, judge="j", examples=EXAMPLES) as writer:
        for example in EXAMPLES:
            writer.write(example.id, judged())
    changed = [Example(id="t-1", outputs="another reply"), EXAMPLES[2]]
    with JudgmentWriter(path, judge="j", examples=changed) as writer:
        assert "t-1" not in writer
        assert "t-2" in writer
        writer.write("t-1", judged(False))
    assert ids(path) == ["t-1", "t-2", "t-0", "t-3"]


def test_without_examples_the_lines_stay_as_they_come(tmp_path):
    path = tmp_path / "out.jsonl"
    with JudgmentWriter(path, judge="j") as writer:
        writer.write("b", judged())
        writer.write("a", judged())
    with JudgmentWriter(path, judge="j", examples=[Example(id="a", outputs="x")]) as writer:
        assert "a" in writer
        assert "b" in writer


def test_a_file_of_another_judge_is_left_alone(tmp_path):
    path = tmp_path / "out.jsonl"
    with JudgmentWriter(path, judge="old@1", examples=EXAMPLES) as writer:
        writer.write("t-0", judged())
    before = path.read_bytes()
    with pytest.raises(InputError, match=r"old@1, this one is new@2; name another output file, or delete"):
        JudgmentWriter(path, judge="new@2", examples=EXAMPLES)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "text", [lines(GOOD), lines(GOOD).strip(), "my notes", '{"id":"t-0","judge":"j"\n', '{"id": 7, "judge": "j"}']
)
def test_a_foreign_file_is_never_touched(write, text):
    path = write("out.jsonl", text)
    with pytest.raises(InputError, match="line 1, is not a judgment"):
        JudgmentWriter(path, judge="j", examples=EXAMPLES)
    assert path.read_text() == text


@pytest.mark.parametrize("cut", range(0, 60, 7))
def test_a_last_line_cut_anywhere_is_judged_again(tmp_path, cut):
    path = tmp_path / "out.jsonl"
    with JudgmentWriter(path, judge="j", examples=EXAMPLES) as writer:
        writer.write("t-0", judged())
        writer.write("t-1", judged())
    whole = path.read_bytes()
    end = whole.index(b"\n") + 1
    path.write_bytes(whole[: end + cut])
    assert list(read_judgments(path).judgments) == ["t-0"]
    with JudgmentWriter(path, judge="j", examples=EXAMPLES) as writer:
        assert [example.id for example in EXAMPLES if example.id in writer] == ["t-0"]
        writer.write("t-1", judged())
    assert path.read_bytes() == whole


def test_a_last_line_without_line_break_is_kept(tmp_path):
    path = tmp_path / "out.jsonl"
    with JudgmentWriter(path, judge="j", examples=EXAMPLES) as writer:
        writer.write("t-0", judged())
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with JudgmentWriter(path, judge="j", examples=EXAMPLES) as writer:
        writer.write("t-1", judged())
    assert ids(path) == ["t-0", "t-1"]


def test_half_a_surrogate_pair_costs_no_verdict(tmp_path):
    path = tmp_path / "out.jsonl"
    with JudgmentWriter(path, judge="j") as writer:
        writer.write("t-0", Judgment(value=True, rationale="nice \ud83d"))
    assert read_judgments(path).judgments["t-0"].rationale == "nice \ufffd"


def test_a_missing_output_folder_is_named(tmp_path):
    with pytest.raises(InputError, match="cannot be written: No such file or directory"):
        JudgmentWriter(tmp_path / "none" / "out.jsonl", judge="j", examples=EXAMPLES)
    with pytest.raises(InputError, match="no such file"):
        read_judgments(tmp_path / "none.jsonl")
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(InputError, match="has no judgment"):
        read_judgments(tmp_path / "empty.jsonl")


def test_a_judges_verdict_needs_a_source_as_feedback(tmp_path):
    out = tmp_path / "own.jsonl"
    with JudgmentWriter(out, judge="f" * 64, examples=[Example(id="t-1", outputs="Hm.")]) as writer:
        writer.write("t-1", Judgment(value=True, rationale="So."))
    line = json.loads(out.read_text("utf-8"))
    for source in ({}, {"source": None}):
        with pytest.raises(InvalidRows, match=r"a judge's own verdict .* write.* their name in source"):
            read_feedback([line | source])
    (row,) = read_feedback([line | {"source": "ana", "outputs": "Hm."}]).rows
    assert (row.source, row.value) == ("ana", True)
