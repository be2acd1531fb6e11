"""Files as spreadsheets of any country write them, and cases as people read them."""

from __future__ import annotations

from pathlib import Path

import pytest

from memalign.content import as_read
from memalign.errors import InputError, InvalidRows
from memalign.io import check_feedback, parse_columns, read_feedback
from memalign.values import ValueType

FLOAT = ValueType.of("float:0..1")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("f.csv", "id;outputs;value\nt-1;a,b;0,5\n"),
        ("f.csv", "sep=;\nid;outputs;value\nt-1;a,b;0,5\n"),
        ("f.csv", "\ufeffid\toutputs\tvalue\nt-1\ta,b\t0.5\n"),
        ("f.csv", '"id"|"outputs"|"value"\r\n"t-1"|"a,b"|"0.5"\r\n'),
        ("f.csv", '\n\nid,outputs,value\nt-1,"a,b",0.5\n'),
        ("f.tsv", "id\toutputs\tvalue\nt-1\ta,b\t0.5\n"),
        ("f.tsv", "id;outputs;value\nt-1;a,b;0,5\n"),
    ],
)
def test_the_header_tells_the_mark_between_cells(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, "utf-8", newline="")
    (row,) = read_feedback(tmp_path / name, value_type=FLOAT).rows
    assert (row.id, row.outputs, row.value) == ("t-1", "a,b", 0.5)


def test_line_numbers_count_the_line_naming_the_mark(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("sep=;\nid;outputs;value\nt-1;a;0,5\nt-2;b;9\n", "utf-8")
    with pytest.raises(InvalidRows, match=r"line 4 \(t-2\): value '9' is not allowed"):
        read_feedback(tmp_path / "f.csv", value_type=FLOAT)


def test_a_file_without_ids_names_columns_and_remedy(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("ticket;outputs\nt-1;a\n", "utf-8")
    with pytest.raises(InputError, match="no column id; its columns: ticket, outputs; --map id=COLUMN names the one"):
        read_feedback(tmp_path / "f.csv")


def test_a_plain_csv_from_excel_is_named(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_bytes(b"id;outputs;value\nt-1;caf\xe9;0,5\n")
    with pytest.raises(
        InvalidRows, match=r"line 2: not UTF-8.*Windows-1252 as Excel.*save it as CSV UTF-8, or as .xlsx"
    ):
        read_feedback(tmp_path / "f.csv")


def test_columns_may_change_places_and_hold_commas() -> None:
    columns = parse_columns(["inputs=outputs,outputs=inputs", "value=label, please,rationale=why"])
    assert columns == {"inputs": "outputs", "outputs": "inputs", "value": "label, please", "rationale": "why"}
    row = {"id": "t", "inputs": "answer", "outputs": "question", "label, please": 1, "why": "So."}
    (found,) = check_feedback([row], value_type=FLOAT, columns=columns).rows
    assert (found.inputs, found.outputs, found.value, found.rationale) == ("question", "answer", 1, "So.")


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        ("inputs", "As it is: {x}\n", "As it is: {x}\n"),
        (
            "inputs",
            {"question": "Why?", "context": ["a\nb", {"n": 1}], "none": None},
            "question: Why?\ncontext:\n  -\n    a\n    b\n  -\n    n: 1\nnone: null",
        ),
        ("outputs", [True, 2.5], "- true\n- 2.5"),
        ("inputs", {}, ""),
        (
            "conversation",
            [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Two\nlines."}],
            "user: Hi.\nassistant:\n  Two\n  lines.",
        ),
        (
            "conversation",
            [{"role": "assistant", "tool_calls": [{"function": {"name": "find", "arguments": '{"q": "x"}'}}]}],
            "assistant:\ncalls:\n  -\n    name: find\n    arguments:\n      q: x",
        ),
        (
            "trace",
            [
                {"span_id": "a", "parent_id": None, "name": "agent", "inputs": "Where?", "outputs": "Here."},
                {"span_id": "b", "parent_id": "a", "name": "search", "inputs": {"q": "x"}},
            ],
            "agent\n  inputs: Where?\n  outputs: Here.\n  search\n    inputs:\n      q: x",
        ),
    ],
)
def test_a_case_reads_as_a_person_would(name: str, value: object, read: str) -> None:
    assert as_read(name, value) == read
