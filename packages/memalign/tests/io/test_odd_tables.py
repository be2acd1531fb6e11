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
from tests.support.rows import RawRow
from tests.support.scripted import scripted

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

BOOL = ValueType.of("bool")
SCALE = ValueType.of("float:0..1")


def labels(path: Path, value_type: ValueType = BOOL, **options: Any) -> list[Any]:
    return [
        row.value for row in read_feedback(path, value_type=value_type, **options).rows
    ]


# -- CSV -------------------------------------------------------------------------------

LONG = "answer, as sent, to the customer, verbatim, in full"
MARKS = {
    "quoted commas in the header": (
        f'id;inputs;"{LONG}";value\n1;Where?;Soon.;true\n',
        {"outputs": LONG},
    ),
    "plain commas in the header": (
        f"id;inputs;{LONG};value\n1;Where?;Soon.;true\n",
        {"outputs": LONG},
    ),
    "a line that names the mark": ("sep=;\nid;outputs;value\n1;Soon.;true\n", {}),
    "tabs": (
        "id\toutputs, please\tvalue\n1\tSoon.\ttrue\n",
        {"outputs": "outputs, please"},
    ),
    "bars": ("id|outputs|value\n1|Soon.|true\n", {}),
    "a title": ("Feedback, May, 2026\n\nid;outputs;value\n1;Soon.;true\n", {}),
    "an empty last column": ("id,outputs,value,\n1,Soon.,true,\n", {}),
    "empty cells behind the last": ("id,outputs,value\n1,Soon.,true,,\n", {}),
    "a doubled column that nobody reads": (
        "id,outputs,note,note,value\n1,Soon.,a,b,true\n",
        {},
    ),
    "carriage returns alone": ("id,outputs,value\r1,Soon.,true\r2,No.,false\r", {}),
    "blanks behind the marks": ('id, outputs, value\n1, "Soon.", true\n', {}),
    "backslashes of Spark": (
        'id,outputs,value\n1,"Soon.",true\n2,"He said \\"soon\\", \\\\ then",true\n',
        {},
    ),
}


@pytest.mark.parametrize("name", MARKS)
def test_the_marks_of_a_table_are_found(tmp_path: Path, name: str) -> None:
    text, columns = MARKS[name]
    (tmp_path / "f.csv").write_text(text, "utf-8")
    rows = read_feedback(tmp_path / "f.csv", value_type=BOOL, columns=columns).rows
    assert (rows[0].id, rows[0].outputs, rows[0].value) == ("1", "Soon.", True)


@pytest.mark.parametrize("name", MARKS)
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_mark_of_byte_order_tells_the_encoding(
    tmp_path: Path, name: str, encoding: str
) -> None:
    text, columns = MARKS[name]
    written = text.replace("Soon.", "Bientôt, 😀.") if "\t" in text else text
    (tmp_path / "f.tsv").write_bytes(written.encode(encoding))
    (tmp_path / "g.csv").write_text(written, "utf-8", newline="")
    assert read_feedback(tmp_path / "f.tsv", columns=columns) == read_feedback(
        tmp_path / "g.csv", columns=columns
    )


@pytest.mark.parametrize("layout", ["[{}, {}]", "{}\n{}\n", "{},\n{},\n", "{}\n{},\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_json_of_other_editors_is_read(
    tmp_path: Path, layout: str, encoding: str
) -> None:
    rows = [{"id": name, "outputs": "é 😀", "value": True} for name in "ab"]
    text = layout.format(*map(json.dumps, rows))
    for suffix in ("json", "jsonl"):
        path = tmp_path / f"f.{suffix}"
        path.write_bytes(text.encode(encoding))
        assert [row.outputs for row in read_feedback(path).rows] == ["é 😀"] * 2


def test_a_doubled_column_and_sparks_quotes_keep_what_they_say(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text(MARKS["a doubled column that nobody reads"][0], "utf-8")
    assert read_examples(path)[0].meta == {"note": "a", "note (2)": "b"}
    path.write_text("id,outputs,note,note,note (2),note\n1,Soon.,a,b,c,d\n", "utf-8")
    notes = {"note": "a", "note (3)": "b", "note (2)": "c", "note (4)": "d"}
    assert read_examples(path)[0].meta == notes
    path.write_text(MARKS["backslashes of Spark"][0], "utf-8")
    assert read_examples(path)[1].outputs == 'He said "soon", \\\\ then'
    path.write_text('id,outputs\n1,"C:\\new\\"\n', "utf-8")
    assert read_examples(path)[0].outputs == "C:\\new\\", (
        "a backslash that ends a cell is one"
    )


@pytest.mark.parametrize(
    ("cell", "value_type", "value"),
    [
        *(
            (cell, "float:0..1", 0.85)
            for cell in ("0,85", "0.85", "85%", "85 %", "0,850")
        ),
        *(
            (cell, "float:0..2000", 1234.5)
            for cell in ("1.234,5", '"1,234.5"', "1234,5")
        ),
        ('"1,500"', "int:0..2000", 1500),
        ("4,0", "int:1..5", 4),
        *(
            (word, "bool", True)
            for word in ("WAHR", "VRAI", "Verdadero", "VERO", "t", "1.0")
        ),
        *(
            (word, "bool", False)
            for word in ("FALSCH", "FAUX", "falso", "ЛОЖЬ", "F", "nein")
        ),
        ("1.0", "1|2", "1"),
    ],
)
def test_labels_are_read_as_people_of_any_country_write_them(
    tmp_path: Path, cell: str, value_type: str, value: object
) -> None:
    (tmp_path / "f.csv").write_text(f"id;outputs;value\n1;Soon.;{cell}\n", "utf-8")
    assert labels(tmp_path / "f.csv", ValueType.of(value_type)) == [value]


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
    tmp_path: Path, cell: str, value_type: str, reason: str
) -> None:
    (tmp_path / "f.csv").write_text(f"id;outputs;value\n7;Soon.;{cell}\n", "utf-8")
    with pytest.raises(InvalidRows, match=rf"line 2 \(7\): .*{reason}"):
        labels(tmp_path / "f.csv", ValueType.of(value_type))


@pytest.mark.parametrize(
    "word", ["NULL", "\\N", "nan", "NaN", "<NA>", "NaT", "#N/A", "None"]
)
def test_words_for_nothing_are_nobodys_words(tmp_path: Path, word: str) -> None:
    (tmp_path / "f.csv").write_text(
        f"id,outputs,value,rationale,source,created_at\n1,{word},true,{word},{word},{word}\n"
        f"2,a,{word},Cold.,ana,{word}\n",
        "utf-8",
    )
    first, second = read_feedback(tmp_path / "f.csv", value_type=BOOL).rows
    assert (first.outputs, first.rationale, first.source, first.created_at) == (
        word,
        None,
        "unknown",
        None,
    )
    assert (second.value, second.rationale, second.source) == (None, "Cold.", "ana")


def test_a_blank_label_is_none_and_a_number_is_text_where_labels_are() -> None:
    row = {"id": "1", "outputs": "a", "rationale": "Cold."}
    for blank in ("", "  "):
        for value_type in ("bool", "int:1..5", "a|b", "str"):
            feedback = read_feedback(
                [row | {"value": blank}], value_type=ValueType.of(value_type)
            )
            assert feedback.rows[0].value is None
    free = ValueType.of("str")
    for written, value in {7: "7", 0.5: "0.5", "x": "x"}.items():
        feedback = read_feedback([row | {"value": written}], value_type=free)
        assert feedback.rows[0].value == value
    with pytest.raises(
        InvalidRows, match=r"line 1 \(1\): value \['x'\] is not allowed"
    ):
        read_feedback([row | {"value": ["x"]}], value_type=free)


def test_content_keeps_the_blanks_it_begins_with(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    for mark, blanks in ((",", "   "), ("\t", "  ")):
        path.write_text(f"id{mark} outputs\n1{mark}{blanks}def f():\n", "utf-8")
        (row,) = read_examples(path)
        assert row.outputs == f"{blanks}def f():"
    path.write_text('id,outputs\n1, code\n2,"say, ""hi"""\n', "utf-8")
    assert [row.outputs for row in read_examples(path)] == [" code", 'say, "hi"']


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
def test_a_text_is_the_same_case_through_every_door(tmp_path: Path, text: str) -> None:
    row = {"id": "1", "inputs": text, "outputs": "Soon.", "value": False}
    (tmp_path / "f.jsonl").write_text(json.dumps(row), "utf-8")
    (tmp_path / "f.json").write_text(json.dumps([row]), "utf-8")
    frame = pd.DataFrame([row])
    frame.to_csv(tmp_path / "f.csv", index=False)
    frame.to_parquet(tmp_path / "f.parquet")
    case = Example(id="1", inputs=text, outputs="Soon.")
    write_review([(case, None)], tmp_path / "f.xlsx", value_type=BOOL)
    files = [tmp_path / f"f.{suffix}" for suffix in ("jsonl", "json", "csv", "parquet")]
    doors = [
        *files,
        [row],
        frame,
        pl.DataFrame([row]),
        pa.Table.from_pylist([row]),
        [case],
    ]
    judge, _ = scripted()
    for door in doors:
        (found,) = read_examples(door)
        assert (found.inputs, found.content_hash) == (TEXTS[text], case.content_hash)
    sheet = openpyxl.load_workbook(tmp_path / "f.xlsx")
    sheet["review"]["D2"] = "no"
    sheet.save(tmp_path / "f.xlsx")
    for taught in (*doors[:-1], tmp_path / "f.xlsx"):
        aligned = judge.align(taught).judge
        by_keyword = aligned(inputs=text, outputs="Soon.")
        opened = aligned(inputs=TEXTS[text], outputs="Soon.")
        assert [judgment.decided_by for judgment in (by_keyword, opened)] == [
            "expert"
        ] * 2
        assert [
            str(value).lower() for value in aligned.predict_batch(frame)["value"]
        ] == ["false"]


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
def test_a_workbook_is_read_past_what_is_no_table(tmp_path: Path, prepare: Any) -> None:
    assert labels(book(tmp_path / "f.xlsx", prepare)) == [True, False]


def test_an_error_in_a_cell_is_no_reply(tmp_path: Path) -> None:
    path = book(
        tmp_path / "f.xlsx",
        rows=[["id", "outputs", "value"], ["1", "#N/A", True], ["2", "ok", "#REF!"]],
    )
    with pytest.raises(InvalidRows) as error:
        read_feedback(path, value_type=BOOL)
    assert "line 2 (1): no content" in str(error.value)
    assert "line 3 (2): a row needs a value" in str(error.value)


def test_a_sheet_may_have_percents_dates_and_fractions(tmp_path: Path) -> None:
    def formats(workbook: Any, sheet: Any) -> None:
        sheet["C2"] = 0.85
        sheet["C3"] = 1.0
        sheet["C2"].number_format = "0%"

    assert labels(book(tmp_path / "f.xlsx", formats), SCALE) == [0.85, 1]


# -- frames and data sets --------------------------------------------------------------

ROW: RawRow = {"id": "a", "inputs": "q", "outputs": "x", "value": True}


def doubled(rows: list[RawRow]) -> Any:
    frame = pd.DataFrame(rows)
    return pd.concat(
        [frame, pd.DataFrame({"note": ["a"]}), pd.DataFrame({"note": ["b"]})], axis=1
    )


def arrow_doubled(rows: list[RawRow]) -> Any:
    table = pa.Table.from_pylist(rows)
    return table.append_column("note", pa.array(["a"])).append_column(
        "note", pa.array(["b"])
    )


FRAMES: dict[str, Any] = {
    "a column twice": doubled,
    "a column twice in Arrow": arrow_doubled,
    "an index that is a column": lambda rows: pd.DataFrame(rows).set_index(
        "id", drop=False
    ),
    "an index of two levels": lambda rows: (
        pd.DataFrame(rows).assign(run=1).set_index(["run", "id"])
    ),
    "columns that are numbers": lambda rows: (
        pd.DataFrame(rows).assign(**{"0": 1}).rename(columns={"0": 0})
    ),
    "columns of two levels": lambda rows: pd.DataFrame(rows).pipe(
        lambda f: f.set_axis([(name, "") for name in f], axis=1)
    ),
    "categories": lambda rows: pd.DataFrame(rows).astype({"outputs": "category"}),
    "batches of Arrow": lambda rows: pa.Table.from_pylist(rows).to_batches()[0],
    "categories of Polars": lambda rows: pl.DataFrame(rows).with_columns(
        pl.col("outputs").cast(pl.Categorical)
    ),
}


@pytest.mark.parametrize("name", FRAMES)
def test_frames_are_read_whatever_their_index_and_columns(name: str) -> None:
    frame = FRAMES[name]([ROW])
    assert [(example.id, example.outputs) for example in read_examples(frame)] == [
        ("a", "x")
    ]
    judge, _ = scripted()
    assert [judgment.value for judgment in judge.judge_many(frame)] == [True]


def test_what_is_ambiguous_in_a_frame_is_named() -> None:
    frame = pd.DataFrame([ROW]).set_index(pd.Index(["b"], name="id"))
    with pytest.raises(InputError, match="has an index and a column id, which differ"):
        read_examples(frame)
    twice = pd.concat([pd.DataFrame([ROW]), pd.DataFrame({"outputs": ["y"]})], axis=1)
    with pytest.raises(InputError, match="the DataFrame has outputs twice"):
        read_examples(twice)
    with pytest.raises(
        InvalidRows, match=r"line 1: id 1e\+17 is a fraction that has lost digits"
    ):
        read_feedback([ROW | {"id": 1e17}])


def test_fractions_that_are_whole_are_names() -> None:
    frame = pd.read_csv(io.StringIO("id,outputs,value,source\n1,a,1,7\n2,b,0,\n"))
    frame["id"] = frame["id"].astype(float)
    rows = read_feedback(frame, value_type=BOOL).rows
    assert [(row.id, row.source, row.value) for row in rows] == [
        ("1", "7", True),
        ("2", "unknown", False),
    ]


def class_labels(names: list[str]) -> Any:
    datasets = pytest.importorskip("datasets")
    text = datasets.Value("string")
    features = datasets.Features(
        id=text, outputs=text, value=datasets.ClassLabel(names=names)
    )
    rows = [
        {"id": str(n), "outputs": "x", "value": code}
        for n, code in enumerate((0, 0, 1))
    ]
    return datasets.Dataset.from_list(rows, features=features)


def test_codes_of_classes_are_read_by_their_names(tmp_path: Path) -> None:
    data = class_labels(["pass", "fail"])
    data.to_parquet(tmp_path / "f.parquet")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "f.parquet").write_bytes(
        (tmp_path / "f.parquet").read_bytes()
    )
    doors = [
        data,
        data.to_iterable_dataset(),
        tmp_path / "f.parquet",
        tmp_path / "folder",
    ]
    doors += [
        pq.read_table(tmp_path / "f.parquet"),
        *(data.with_format(kind) for kind in ("arrow", "polars", "numpy")),
    ]
    for door in doors:
        assert labels(door) == [True, True, False]
    assert labels(class_labels(["bad", "good"]), ValueType.of("good|bad")) == [
        "bad",
        "bad",
        "good",
    ]


def test_pictures_of_a_data_set_that_nobody_reads_are_not_opened() -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        id=datasets.Value("string"),
        outputs=datasets.Value("string"),
        picture=datasets.Image(),
    )
    rows = [
        {
            "id": "a",
            "outputs": "x",
            "picture": {"bytes": b"no picture at all", "path": None},
        }
    ]
    data = datasets.Dataset.from_list(rows, features=features)
    assert [example.outputs for example in read_examples(data)] == ["x"]


# -- folders, and what is broken -------------------------------------------------------


def test_a_folder_of_json_lines_is_read_file_by_file(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for name, row in {
        "a.jsonl": ROW,
        "b/c.ndjson": ROW | {"id": "b"},
        "b/d.jsonl": ROW | {"id": "c", "value": "odd"},
    }.items():
        (tmp_path / name).write_text(f"\n{json.dumps(row)}\n", "utf-8")
    (tmp_path / "readme.txt").write_text("not a table", "utf-8")
    (tmp_path / ".hidden.jsonl").write_text("half of a li", "utf-8")
    assert [example.id for example in read_examples(tmp_path)] == ["a", "b", "c"]
    file = read_feedback(tmp_path, value_type=BOOL, skip_invalid=True)
    assert [row.id for row in file.rows] == ["a", "b"]
    assert str(file.invalid[0]).startswith(
        "line 2 of b/d.jsonl (c): value 'odd' is not allowed"
    )
    judge, _ = scripted()
    assert [judgment.id for judgment in judge.judge_many(tmp_path)] == ["a", "b", "c"]


def test_a_folder_of_other_files_says_what_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,outputs\n1,a\n", "utf-8")
    with pytest.raises(
        InputError, match="is a folder without JSON lines or Parquet files; name a file"
    ):
        read_examples(tmp_path)


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
def test_a_broken_file_of_any_kind_is_named(
    tmp_path: Path, suffix: str, content: bytes
) -> None:
    path = tmp_path / f"f{suffix}"
    path.write_bytes(content)
    with pytest.raises(MemalignError, match="f"):
        read_feedback(RowSource.of(path), value_type=BOOL)
