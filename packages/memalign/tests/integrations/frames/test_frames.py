"""Rows come in as DataFrames and data sets, and results go out as DataFrames."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import narwhals as nw
import pytest

import memalign as ma
from memalign.errors import InputError, InvalidRows, ModelRefused
from memalign.evaluation.feedback_review import review_feedback
from memalign.io import read_examples, read_feedback
from memalign.models.base import ChatReply
from memalign.testing import ScriptedChatModel
from tests.support.learning import states
from tests.support.rows import RawRow
from tests.support.scripted import Teacher, scripted

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")


def said(
    name: str, question: str, reply: str, value: object, words: str | None, by: str
) -> RawRow:
    return {
        "id": name,
        "inputs": {"q": question},
        "outputs": reply,
        "value": value,
        "rationale": words,
        "source": by,
    }


ROWS = [
    said("t-1", "Late?", "In transit.", False, "Cold.", "ana"),
    said("t-2", "Thanks!", "Any time!", True, None, "ana"),
    said("t-3", "Invoice?", "In your account.", None, "Fine.", "ben"),
]
NAMES = ["t-1", "t-2", "t-3"]


def huggingface(rows: list[RawRow]) -> Any:
    return pytest.importorskip("datasets").Dataset.from_list(rows)


KINDS: dict[str, Any] = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "arrow": pa.Table.from_pylist,
    "huggingface": huggingface,
    "streamed": lambda rows: huggingface(rows).to_iterable_dataset(),
    "list": list,
    "indexed": lambda rows: pd.DataFrame(rows).set_index("id"),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Any:
    return KINDS[request.param]


def judge() -> ma.Judge:
    return scripted(Teacher([]), instructions="Warm? {{ inputs }} {{ outputs }}")[0]


def table_of(judgments: Any, *columns: Any) -> Any:
    return nw.from_native(judgments.to_frame(*columns), eager_only=True)


def test_every_kind_of_frame_reads_the_same(kind: Any) -> None:
    given = kind(ROWS)
    assert read_feedback(given).rows == read_feedback(ROWS).rows
    aligned = judge().align(given).judge
    assert list(states(aligned)) == ["t-1@ana", "t-2@ana", "t-3@ben"]
    assert aligned.memory.hash == judge().align(ROWS).judge.memory.hash
    assert [each.id for each in aligned.judge_many(given)] == NAMES
    assert ma.evaluate(judge(), given).n == 2
    assert review_feedback(given, None).rows == 3
    assert ma.next_cases(judge(), given, n=1).ranked == 3


def test_rows_without_ids_take_their_contents_id() -> None:
    frame = pd.DataFrame(ROWS).drop(columns="id")
    feedback = read_feedback(frame)
    ids = [row.id for row in feedback.rows]
    assert ids == [row.id for row in read_feedback(frame).rows]
    assert len(set(ids)) == 3
    for name in ids:
        assert re.fullmatch("c-.{12}", name)
    (note,) = feedback.notes
    assert note == "the rows have no id, so 3 got one made from their content"
    assert "the rows have no id" in str(judge().align(frame).notes)
    assert [judgment.id for judgment in judge().judge_many(frame)] == ids
    with pytest.raises(InvalidRows, match="id is missing"):
        read_examples([{"id": "a", "outputs": "x"}, {"outputs": "y"}])


def test_two_people_on_one_case_without_an_id_are_two_annotations_of_it() -> None:
    one = {"outputs": "Hi.", "inputs": "?"}
    said = [
        one | {"value": True, "source": "ana"},
        one | {"value": False, "source": "ben"},
    ]
    rows = read_feedback(said).rows
    assert rows[0].id == rows[1].id
    first, second = read_examples([one, one])
    assert second.id == f"{first.id}-2"


def test_the_values_of_frames_become_those_of_json() -> None:
    moment = datetime(2026, 3, 1, tzinfo=UTC)
    frame = pd.DataFrame(
        {
            "id": [1, 2],
            "outputs": [["a", "b"], None],
            "inputs": [{"n": 1.5}, "plain"],
            "value": pd.array([True, None], dtype="boolean"),
            "rationale": [float("nan"), "Why not."],
            "created_at": pd.to_datetime([moment, None]),
            "score": [0.5, float("nan")],
        }
    )
    frame["outputs"] = [pd.array([1, 2]).to_numpy(), None]
    first, second = read_feedback(frame, value_type=ma.ValueType.of("bool")).rows
    assert first == ma.Feedback(
        id="1",
        inputs={"n": 1.5},
        outputs=[1, 2],
        value=True,
        created_at="2026-03-01T00:00:00+00:00",
        meta={"score": 0.5},
    )
    assert second == ma.Feedback(id="2", inputs="plain", rationale="Why not.")
    raw = pd.DataFrame({"id": ["a"], "outputs": [b"\x00"]})
    with pytest.raises(InvalidRows, match=r"line 1 \(a\): a: outputs holds bytes"):
        read_examples(raw)


def test_columns_of_other_names_are_told_once() -> None:
    frame = pd.DataFrame(
        {
            "question": ["Late?"],
            "answer": ["No."],
            "label": ["no"],
            "inputs": ["not this"],
        }
    )
    columns = {"inputs": "question", "outputs": "answer", "value": "label"}
    result = judge().align(frame, optimizer=ma.MemAlign(columns=columns))
    assert dict(result.judge.columns) == columns
    (case,) = result.judge.memory.cases
    assert (case.example.inputs, case.example.outputs) == ("Late?", "No.")
    assert result.judge.judge_many(frame)[0].value is False
    assert ma.evaluate(result.judge, frame.assign(answer="Not yet.")).n == 1
    with pytest.raises(InputError, match="no column 'reply' for outputs"):
        judge().align(frame, optimizer=ma.MemAlign(columns={"outputs": "reply"}))
    assert judge().replace(columns=columns).fingerprint == judge().fingerprint


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (pl.LazyFrame(ROWS), "LazyFrame"),
        ({"train": ROWS}, "pass a list of rows"),
        (7, "must be a path, a DataFrame or an iterable of rows, not int"),
        (pd.DataFrame({"id": []}), "has no rows"),
    ],
)
def test_what_is_no_frame_says_what_to_give(rows: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        judge().align(rows)


# -- out ---------------------------------------------------------------------------


def test_judgments_of_a_frame_become_one_of_its_library(
    kind: Any, tmp_path: Path
) -> None:
    rows = kind(ROWS)
    library = type(rows).__module__.partition(".")[0]
    if library not in ("polars", "pyarrow"):
        library = "pandas"
    aligned = judge().align(ROWS).judge
    for judgments in (
        aligned.judge_many(rows),
        aligned.judge_many(rows, out=tmp_path / "judged.jsonl"),
    ):
        assert type(judgments.to_frame()).__module__.startswith(library)
        table = table_of(judgments)
        assert table.columns == ["id", "value", "confidence", "rationale", "error"]
        assert table["id"].to_list() == NAMES
        assert table["value"].to_list() == [False, True, True]
        whole = table_of(judgments, "all")
        assert whole.columns[:3] == ["id", "value", "rationale"]
        more = "calls input_tokens cost seconds findings guideline_ids model"
        assert set(whole.columns).issuperset(more.split())
        assert list(whole["example_ids"][0]) == list(judgments[0].example_ids)
        assert table_of(judgments, ["id", "cost"]).columns == ["id", "cost"]
        reason = "a judgment has no field 'price'; it has id, value, rationale"
        with pytest.raises(InputError, match=reason):
            judgments.to_frame(["price"])


def test_no_judgments_are_a_frame_without_rows() -> None:
    assert judge().judge_many([]).to_frame().shape == (0, 5)


def test_judgments_keep_the_index_that_their_rows_had() -> None:
    rows = pd.DataFrame(ROWS, index=[2, 0, 1])
    judgments = judge().judge_many(rows)
    rows.index = [7, 8, 9]
    assert list(judgments.to_frame().index) == [2, 0, 1]


def test_costs_are_one_column_whatever_number_a_model_gives(kind: Any) -> None:
    answer = ChatReply(data={"value": True}, text="", usage=ma.Usage(calls=1, cost=0.5))
    refusal = ModelRefused("no", usage=ma.Usage(cost=1))
    one = judge().replace(model=ScriptedChatModel([refusal, answer, answer]))
    judgments = one.judge_many(kind(ROWS), concurrency=1)
    assert table_of(judgments, ["cost"])["cost"].to_list() == [1, 0.5, 0.5]


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_what_two_people_say_of_one_case_is_one_judgment(kind: Any) -> None:
    rows = kind([ROWS[0], ROWS[0] | {"source": "ben"}])
    assert list(judge().judge_many(rows).to_frame()["id"]) == ["t-1"]
