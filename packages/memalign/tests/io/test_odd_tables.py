"""Tables, frames and data sets as their tools write them: read without guessing, or
named with row and column."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from openpyxl.chart import BarChart

from memalign import Example
from memalign.errors import InputError, InvalidRows, MemalignError
from memalign.io import RowSource, read_examples, read_feedback
from memalign.io.review import write_review
from memalign.values import ValueType
from tests.support.lists import ids, table, values
from tests.support.rows import RawRow
from tests.support.scripted import scripted

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

BOOL = ValueType.of("bool")
SCALE = ValueType.of("float:0..1")


def labels(given: Any, value_type: ValueType = BOOL) -> list[Any]:
    return values(read_feedback(given, value_type=value_type).rows)


# -- CSV -------------------------------------------------------------------------------

LONG = "answer, as sent, to the customer, verbatim, in full"
MARKS = {
    "quoted commas in the header": f'id;inputs;"{LONG}";value\n1;Where?;Soon.;true\n',
    "plain commas in the header": f"id;inputs;{LONG};value\n1;Where?;Soon.;true\n",
    "a line that names the mark": "sep=;\nid;outputs;value\n1;Soon.;true\n",
    "tabs": f"id\t{LONG}\tvalue\n1\tSoon.\ttrue\n",
    "bars": "id|outputs|value\n1|Soon.|true\n",
    "a title": "Feedback, May, 2026\n\nid;outputs;value\n1;Soon.;true\n",
    "an empty last column": "id,outputs,value,\n1,Soon.,true,\n",
    "empty cells behind the last": "id,outputs,value\n1,Soon.,true,,\n",
    "a doubled column that nobody reads": "id,outputs,note,note,value\n1,Soon.,a,b,true\n",
    "carriage returns alone": "id,outputs,value\r1,Soon.,true\r2,No.,false\r",
    "blanks behind the marks": 'id, outputs, value\n1, "Soon.", true\n',
    "backslashes of Spark": (
        'id,outputs,value\n1,"Soon.",true\n2,"He said \\"soon\\", \\\\ then",true\n'
    ),
}


def columns_of(text: str) -> dict[str, str]:
    return {"outputs": LONG} if LONG in text else {}


@pytest.mark.parametrize("name", MARKS)
def test_the_marks_of_a_table_are_found(tmp_path, name):
    path = tmp_path / "f.csv"
    path.write_text(MARKS[name], "utf-8")
    columns = columns_of(MARKS[name])
    row = read_feedback(path, value_type=BOOL, columns=columns).rows[0]
    assert row.id == "1"
    assert row.outputs == "Soon."
    assert row.value is True


@pytest.mark.parametrize("name", MARKS)
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_mark_of_byte_order_tells_the_encoding(tmp_path, name, encoding):
    text = MARKS[name]
    columns = columns_of(text)
    written = text.replace("Soon.", "Bientôt, 😀.") if "\t" in text else text
    marked = tmp_path / "f.tsv"
    plain = tmp_path / "g.csv"
    marked.write_bytes(written.encode(encoding))
    plain.write_text(written, "utf-8", newline="")
    expected = read_feedback(plain, columns=columns)
    assert read_feedback(marked, columns=columns) == expected


@pytest.mark.parametrize("layout", ["[{}, {}]", "{}\n{}\n", "{}\n{},\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_json_of_other_editors_is_read(tmp_path, layout, encoding):
    first = json.dumps({"id": "a", "outputs": "é 😀", "value": True})
    second = json.dumps({"id": "b", "outputs": "é 😀", "value": True})
    text = layout.format(first, second)
    for suffix in ("json", "jsonl"):
        path = tmp_path / f"f.{suffix}"
        path.write_bytes(text.encode(encoding))
        read = read_feedback(path).rows
        assert table(read, "id", "outputs") == [("a", "é 😀"), ("b", "é 😀")]


def test_a_doubled_column_keeps_what_it_says(tmp_path):
    path = tmp_path / "f.csv"
    path.write_text("id,outputs,note,note,note (2),note\n1,Soon.,a,b,c,d\n", "utf-8")
    notes = {"note": "a", "note (3)": "b", "note (2)": "c", "note (4)": "d"}
    assert read_examples(path)[0].meta == notes


def test_sparks_quotes_keep_what_they_say(tmp_path):
    path = tmp_path / "f.csv"
    path.write_text(MARKS["backslashes of Spark"], "utf-8")
    assert read_examples(path)[1].outputs == 'He said "soon", \\\\ then'
    path.write_text('id,outputs\n1,"C:\\new\\"\n', "utf-8")
    (row,) = read_examples(path)
    assert row.outputs == "C:\\new\\", "a backslash that ends a cell is one"


@pytest.mark.parametrize(
    ("value_type", "value", "cells"),
    [
        ("float:0..1", 0.85, ["0,85", "0.85", "85%", "85 %", "0,850"]),
        ("float:0..2000", 1234.5, ["1.234,5", '"1,234.5"', "1234,5"]),
        ("int:0..2000", 1500, ['"1,500"']),
        ("int:1..5", 4, ["4,0"]),
        ("bool", True, ["WAHR", "VRAI", "Verdadero", "VERO", "t", "1.0"]),
        ("bool", False, ["FALSCH", "FAUX", "falso", "ЛОЖЬ", "F", "nein"]),
        ("1|2", "1", ["1.0"]),
    ],
)
def test_labels_are_read_as_people_of_any_country_write_them(
    tmp_path, value_type, value, cells
):
    path = tmp_path / "f.csv"
    rows = [f"{n};Soon.;{cell}\n" for n, cell in enumerate(cells)]
    path.write_text("id;outputs;value\n" + "".join(rows), "utf-8")
    assert labels(path, ValueType.of(value_type)) == [value] * len(cells)


@pytest.mark.parametrize(
    ("cell", "value_type", "reason"),
    [
        ("1,500", "float:0..2000", "may be 1.5 or 1500; write it with a decimal point"),
        ("85%", "float:0..100", "value '85%' is not allowed"),
        ("4,5", "int:1..5", "value '4,5' is not allowed"),
        ("1_0", "int:1..20", "value '1_0' is not allowed"),
        ("vielleicht", "bool", "value 'vielleicht' is not allowed"),
    ],
)
def test_a_label_that_can_be_read_in_two_ways_is_named(
    tmp_path, cell, value_type, reason
):
    (tmp_path / "f.csv").write_text(f"id;outputs;value\n7;Soon.;{cell}\n", "utf-8")
    with pytest.raises(InvalidRows, match=rf"line 2 \(7\): .*{reason}"):
        labels(tmp_path / "f.csv", ValueType.of(value_type))


@pytest.mark.parametrize(
    "word", ["NULL", "\\N", "nan", "NaN", "<NA>", "NaT", "#N/A", "None"]
)
def test_words_for_nothing_are_nobodys_words(tmp_path, word):
    path = tmp_path / "f.csv"
    path.write_text(
        "id,outputs,value,rationale,source,created_at\n"
        f"1,{word},true,{word},{word},{word}\n"
        f"2,a,{word},Cold.,ana,{word}\n",
        "utf-8",
    )
    first, second = read_feedback(path, value_type=BOOL).rows
    assert first.outputs == word
    assert first.rationale is None
    assert first.source == "unknown"
    assert first.created_at is None
    assert second.value is None
    assert second.rationale == "Cold."
    assert second.source == "ana"


COLD = {"id": "1", "outputs": "a", "rationale": "Cold."}


@pytest.mark.parametrize("value_type", ["bool", "int:1..5", "a|b", "str"])
@pytest.mark.parametrize("blank", ["", "  "])
def test_a_blank_label_is_none(value_type, blank):
    assert labels([COLD | {"value": blank}], ValueType.of(value_type)) == [None]


def test_a_number_is_text_where_labels_are():
    free = ValueType.of("str")
    for written, value in {7: "7", 0.5: "0.5", "x": "x"}.items():
        assert labels([COLD | {"value": written}], free) == [value]
    message = r"line 1 \(1\): value \['x'\] is not allowed"
    with pytest.raises(InvalidRows, match=message):
        labels([COLD | {"value": ["x"]}], free)


def test_content_keeps_the_blanks_it_begins_with(tmp_path):
    path = tmp_path / "rows.csv"
    for mark, blanks in ((",", "   "), ("\t", "  ")):
        path.write_text(f"id{mark} outputs\n1{mark}{blanks}def f():\n", "utf-8")
        (row,) = read_examples(path)
        assert row.outputs == f"{blanks}def f():"
    path.write_text('id,outputs\n1, code\n2,"say, ""hi"""\n', "utf-8")
    first, second = read_examples(path)
    assert first.outputs == " code"
    assert second.outputs == 'say, "hi"'


TEXTS: dict[str, Any] = {
    '{"a": 1}': {"a": 1},
    ' [1, {"b": null}]\n': [1, {"b": None}],
    '{"a": NaN, "b": "x\\ud83d"}': {"a": None, "b": "x\ufffd"},
    "[sic] as {this}": "[sic] as {this}",
    '"quoted"': '"quoted"',
    "17": "17",
    '{"cut off': '{"cut off',
    "[" * 300 + "]" * 300: "[" * 300 + "]" * 300,
}


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text[:20])
def test_a_text_is_the_same_case_through_every_door(tmp_path, text):
    row = {"id": "1", "inputs": text, "outputs": "Soon.", "value": False}
    (tmp_path / "f.jsonl").write_text(json.dumps(row), "utf-8")
    (tmp_path / "f.json").write_text(json.dumps([row]), "utf-8")
    frame = pd.DataFrame([row])
    frame.to_csv(tmp_path / "f.csv", index=False)
    frame.to_parquet(tmp_path / "f.parquet")
    case = Example(id="1", inputs=text, outputs="Soon.")
    write_review([(case, None)], tmp_path / "f.xlsx", value_type=BOOL)
    doors = [
        tmp_path / "f.jsonl",
        tmp_path / "f.json",
        tmp_path / "f.csv",
        tmp_path / "f.parquet",
        [row],
        frame,
        pl.DataFrame([row]),
        pa.Table.from_pylist([row]),
    ]
    judge, _ = scripted()
    for door in (*doors, [case]):
        (found,) = read_examples(door)
        assert found.inputs == TEXTS[text]
        assert found.content_hash == case.content_hash
    sheet = openpyxl.load_workbook(tmp_path / "f.xlsx")
    sheet["review"]["D2"] = "no"
    sheet.save(tmp_path / "f.xlsx")
    for taught in (*doors, tmp_path / "f.xlsx"):
        aligned = judge.align(taught).judge
        for inputs in (text, TEXTS[text]):
            assert aligned(inputs=inputs, outputs="Soon.").decided_by == "expert"
        (value,) = aligned.predict_batch(frame)["value"]
        assert str(value).lower() == "false"


NAMES = [
    "ID,Outputs,VALUE,Created At",
    "Id , outputs\u00a0, value:,createdAt",
    "id\u200b,\ufeffoutputs,Value?,created-at",
]


@pytest.mark.parametrize("header", NAMES)
def test_a_field_is_known_in_other_letters_and_signs(tmp_path: Path, header: str):
    path = tmp_path / "f.csv"
    path.write_text(f"Export of May\n{header}\n7,Soon.,true,2026-05-01\n", "utf-8")
    frame = pd.DataFrame([["7", "Soon.", True, "2026-05-01"]])
    frame.columns = header.split(",")
    for rows in (path, frame, frame.to_dict("records")):
        (row,) = read_feedback(rows, value_type=BOOL).rows
        assert (row.id, row.outputs, row.value) == ("7", "Soon.", True)
        assert row.created_at is not None
    judge, _ = scripted(instructions="Good? {{ outputs }}")
    assert list(judge.predict_batch(frame)["id"]) == ["7"]


def test_a_column_of_the_fields_own_name_counts_before_all_others():
    row = {"ID": "x", "id": "7", "outputs": "Soon.", "Value": 3, "label": True}
    (read,) = read_feedback([row], value_type=BOOL, columns={"value": "label"}).rows
    assert (read.id, read.value) == ("7", True)
    assert read.meta == {"ID": "x", "value (column)": 3}


# -- sheets ----------------------------------------------------------------------------

TABLE: list[list[Any]] = [
    ["id", "outputs", "value", "rationale"],
    [1, "Soon.", True, "Says when."],
    [2, "No.", False, None],
]


def book(path: Path, prepare: Any = None, rows: list[list[Any]] = TABLE) -> Path:
    workbook = openpyxl.Workbook()
    sheet = workbook.worksheets[0]
    for row in rows:
        sheet.append(row)
    if prepare is not None:
        prepare(workbook, sheet)
    workbook.save(path)
    return path


def chart_first(workbook: Any, sheet: Any) -> None:
    charts = workbook.create_chartsheet("Chart", 0)
    charts.add_chart(BarChart())


def hidden_first(workbook: Any, sheet: Any) -> None:
    workbook.create_sheet("lists", 0).sheet_state = "hidden"
    workbook["lists"]["A1"] = "id"


def empty_first(workbook: Any, sheet: Any) -> None:
    workbook.create_sheet("empty", 0)


def titled(workbook: Any, sheet: Any) -> None:
    sheet.insert_rows(1, 3)
    sheet["A1"] = "Feedback, second quarter"
    sheet.merge_cells("A1:D1")


def legend_first(workbook: Any, sheet: Any) -> None:
    workbook.create_sheet("Read me", 0).append(["What the columns mean:", "value"])


def legend_beside_hidden(workbook: Any, sheet: Any) -> None:
    sheet.sheet_state = "hidden"
    workbook.create_sheet("Read me").append(["Filled in by Ana"])


def words(workbook: Any, sheet: Any) -> None:
    sheet["C2"] = "WAHR"
    sheet["C3"] = "FALSCH"


@pytest.mark.parametrize(
    "prepare",
    [
        None,
        chart_first,
        hidden_first,
        empty_first,
        legend_first,
        legend_beside_hidden,
        titled,
        words,
    ],
)
def test_a_workbook_is_read_past_what_is_no_table(tmp_path, prepare):
    assert labels(book(tmp_path / "f.xlsx", prepare)) == [True, False]


def test_an_error_in_a_cell_is_no_reply(tmp_path):
    header = ["id", "outputs", "value"]
    rows: list[list[Any]] = [header, ["1", "#N/A", True], ["2", "ok", "#REF!"]]
    path = book(tmp_path / "f.xlsx", rows=rows)
    with pytest.raises(InvalidRows) as error:
        read_feedback(path, value_type=BOOL)
    assert "line 2 (1): no content" in str(error.value)
    assert "line 3 (2): a row needs a value" in str(error.value)


def test_a_sheet_may_have_percents_and_fractions(tmp_path):
    def formats(workbook: Any, sheet: Any) -> None:
        sheet["C2"] = 0.85
        sheet["C3"] = 1.0
        sheet["C2"].number_format = "0%"

    assert labels(book(tmp_path / "f.xlsx", formats), SCALE) == [0.85, 1]


IDS = [
    *("a\x0bb", "\u202eabc", "a\x1b[31m", "'a", "''a", " a ", "\u00a0a", "\ufffe"),
    *("#N/A", "NULL", "=1+1", "007", "1e5", "TRUE", "_x0041_", "a\tb", "e\u0301"),
]


def test_a_sheet_for_review_brings_every_case_back_whatever_its_id(tmp_path: Path):
    cases = [Example(id=name, outputs=f"{name} {n}") for n, name in enumerate(IDS)]
    path = tmp_path / "f.xlsx"
    write_review([(case, None) for case in cases], path, value_type=BOOL)
    workbook = openpyxl.load_workbook(path)
    sheet = workbook["review"]
    for number in range(2, len(IDS) + 2):
        sheet.cell(number, 3).value = "yes"
    workbook.save(path)
    rows = read_feedback(path, value_type=BOOL).rows
    assert [(row.id, row.outputs) for row in rows] == [
        (case.id, case.outputs) for case in cases
    ]
    sheet.cell(2, 1).value = "another id"
    workbook.save(path)
    with pytest.raises(InvalidRows, match=r"line 2 .*its id was changed"):
        read_feedback(path, value_type=BOOL)


# -- frames and data sets --------------------------------------------------------------

ROW: RawRow = {"id": "a", "inputs": "q", "outputs": "x", "value": True}


FRAME = pd.DataFrame([ROW])
ARROW = pa.Table.from_pylist([ROW])
FIRST = pa.array(["a"])
SECOND = pa.array(["b"])
CATEGORY = pl.col("outputs").cast(pl.Categorical)


def beside(*others: Any) -> Any:
    """The frame, with the columns of others beside its own."""
    return pd.concat([FRAME, *map(pd.DataFrame, others)], axis=1)


FRAMES: dict[str, Any] = {
    "a column twice": beside({"note": ["a"]}, {"note": ["b"]}),
    "a column twice in Arrow": ARROW.append_column("note", FIRST).append_column(
        "note", SECOND
    ),
    "an index that is a column": FRAME.set_index("id", drop=False),
    "an index of two levels": FRAME.assign(run=1).set_index(["run", "id"]),
    "columns that are numbers": FRAME.assign(**{"0": 1}).rename(columns={"0": 0}),
    "columns of two levels": FRAME.set_axis([(name, "") for name in FRAME], axis=1),
    "categories": FRAME.astype({"outputs": "category"}),
    "batches of Arrow": ARROW.to_batches()[0],
    "categories of Polars": pl.DataFrame([ROW]).with_columns(CATEGORY),
}


@pytest.mark.parametrize("name", FRAMES)
def test_frames_are_read_whatever_their_index_and_columns(name):
    assert table(read_examples(FRAMES[name]), "id", "outputs") == [("a", "x")]
    judge, _ = scripted()
    assert values(judge.judge_many(FRAMES[name])) == [True]


def test_what_is_ambiguous_in_a_frame_is_named():
    frame = FRAME.set_index(pd.Index(["b"], name="id"))
    with pytest.raises(InputError, match="has an index and a column id, which differ"):
        read_examples(frame)
    with pytest.raises(InputError, match="the DataFrame has outputs twice"):
        read_examples(beside({"outputs": ["y"]}))
    message = r"line 1: id 1e\+17 is a fraction that has lost digits"
    with pytest.raises(InvalidRows, match=message):
        read_feedback([ROW | {"id": 1e17}])


def test_fractions_that_are_whole_are_names():
    frame = pd.read_csv(io.StringIO("id,outputs,value,source\n1,a,1,7\n2,b,0,\n"))
    frame["id"] = frame["id"].astype(float)
    rows = read_feedback(frame, value_type=BOOL).rows
    assert table(rows, "id", "source", "value") == [
        ("1", "7", True),
        ("2", "unknown", False),
    ]


def class_labels(names: list[str]) -> Any:
    datasets = pytest.importorskip("datasets")
    text = datasets.Value("string")
    features = datasets.Features(
        id=text, outputs=text, value=datasets.ClassLabel(names=names)
    )
    columns = {"id": ["0", "1", "2"], "outputs": ["x"] * 3, "value": [0, 0, 1]}
    return datasets.Dataset.from_dict(columns, features=features)


def test_codes_of_classes_are_read_by_their_names(tmp_path):
    data = class_labels(["pass", "fail"])
    path = tmp_path / "folder" / "f.parquet"
    path.parent.mkdir()
    data.to_parquet(path)
    for door in (
        data,
        data.to_iterable_dataset(),
        data.with_format("arrow"),
        data.with_format("polars"),
        data.with_format("numpy"),
        path,
        path.parent,
        pq.read_table(path),
    ):
        assert labels(door) == [True, True, False]
    named = class_labels(["bad", "good"])
    assert labels(named, ValueType.of("good|bad")) == ["bad", "bad", "good"]


def test_pictures_of_a_data_set_that_nobody_reads_are_not_opened():
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        id=datasets.Value("string"),
        outputs=datasets.Value("string"),
        picture=datasets.Image(),
    )
    picture = {"bytes": b"no picture at all", "path": None}
    row = {"id": "a", "outputs": "x", "picture": picture}
    data = datasets.Dataset.from_list([row], features=features)
    assert table(read_examples(data), "outputs") == [("x",)]


# -- folders, and what is broken -------------------------------------------------------


def test_a_folder_of_json_lines_is_read_file_by_file(tmp_path):
    (tmp_path / "b").mkdir()
    files = {
        "a.jsonl": ROW,
        "b/c.ndjson": ROW | {"id": "b"},
        "b/d.jsonl": ROW | {"id": "c", "value": "odd"},
    }
    for name, row in files.items():
        (tmp_path / name).write_text(f"\n{json.dumps(row)}\n", "utf-8")
    (tmp_path / "readme.txt").write_text("not a table", "utf-8")
    (tmp_path / ".hidden.jsonl").write_text("half of a li", "utf-8")
    assert ids(read_examples(tmp_path)) == ["a", "b", "c"]
    judge, _ = scripted()
    assert ids(judge.judge_many(tmp_path)) == ["a", "b", "c"]
    file = read_feedback(tmp_path, value_type=BOOL, skip_invalid=True)
    assert ids(file.rows) == ["a", "b"]
    (bad,) = map(str, file.invalid)
    assert bad.startswith("line 2 of b/d.jsonl (c): value 'odd' is not allowed")


@pytest.mark.parametrize(
    "suffix", [".xlsx", ".parquet", ".jsonl", ".json", ".csv", ".tsv"]
)
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK\x03\x04",
        b"\x00" * 400,
        b"PAR1" * 8,
        b"\xff\xfe\x00",
        b'{"id"',
        b'"',
        b"[" * 3000,
        b"id\n" + b'"' * 999,
    ],
    ids=repr,
)
def test_a_broken_file_of_any_kind_is_named(tmp_path, suffix, content):
    path = tmp_path / f"f{suffix}"
    path.write_bytes(content)
    with pytest.raises(MemalignError, match="f"):
        read_feedback(RowSource.of(path), value_type=BOOL)
