"""A frame in, a frame of verdicts out: a row a row, whatever the rows are, and nothing
asked twice."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import narwhals as nw
import pytest
from annotated_types import Ge, Le
from hypothesis import given, settings
from hypothesis import strategies as st

import memalign as ma
from memalign.errors import InputError, ModelUnavailable
from memalign.models.base import ChatReply, ChatRequest
from memalign.types import Usage
from tests.support.rows import RawRow
from tests.support.scripted import scripted

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

KINDS: dict[str, Any] = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "arrow": pa.Table.from_pylist,
}
COLUMNS = """
    id value probability findings rationale input_tokens cached_tokens output_tokens
    cost error answered_by judge content_hash
"""


def answers(request: ChatRequest) -> Any:
    if "fails" in request.user:
        return ModelUnavailable("it is down")
    return ChatReply(
        data={"rationale": "Fine.", "value": True},
        text="",
        usage=Usage(calls=1, input_tokens=7, cost=0.5),
    )


def judge(value_type: Any = bool, answer: Any = answers, **given: Any) -> ma.Judge:
    return scripted(answer, feedback_value_type=value_type, **given)[0]


def asked(one: ma.Judge) -> list[str]:
    return [request.user for request in one.model.requests]  # type: ignore[union-attr]


def table_of(frame: Any) -> Any:
    return nw.from_native(frame, eager_only=True).to_arrow()


def listed(frame: Any) -> list[RawRow]:
    rows: list[RawRow] = table_of(frame).to_pylist()
    return rows


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Any:
    return KINDS[request.param]


def test_verdicts_come_back_in_the_same_kind(kind: Any) -> None:
    frame = kind(
        [
            {"id": "b", "outputs": "x"},
            {"id": "a", "outputs": "it fails"},
            {"id": "c", "outputs": None},
        ]
    )
    out = judge().predict_batch(frame)
    assert type(out) is type(frame)
    good, failed, empty = listed(out)
    for row in (good, failed, empty):
        assert list(row) == COLUMNS.split()
        assert row["judge"] == good["judge"]
    assert (good["id"], good["value"], good["error"]) == ("b", True, None)
    assert (good["cost"], good["input_tokens"]) == (0.5, 7)
    assert (good["findings"], good["rationale"]) == ("[]", "Fine.")
    assert (failed["id"], failed["value"]) == ("a", None)
    assert failed["error"] == "ModelUnavailable: it is down"
    assert (empty["id"], empty["value"]) == ("c", None)
    assert empty["error"].startswith("InputError: no content: one of inputs, outputs, ")


@pytest.mark.parametrize(
    ("value_type", "said", "value", "arrow"),
    [
        (bool, False, False, "bool"),
        (Annotated[int, Ge(1), Le(5)], 3, 3, "int64"),
        (Annotated[float, Ge(0), Le(1)], 1, 1, "double"),
        (Literal["A", "B"], "B", "B", "string"),
        (str, "half \ud83d", "half \ufffd", "string"),
    ],
)
def test_the_schema_hangs_on_no_row(
    value_type: Any, said: Any, value: Any, arrow: str
) -> None:
    one = judge(value_type, lambda _: {"rationale": "\ud83d", "value": said})
    texts = pa.schema({"id": pa.string(), "outputs": pa.string()})
    full = one.predict_batch(pa.table({"id": ["a"], "outputs": ["x"]}, texts))
    failed = one.predict_batch(pa.table({"id": ["a"], "outputs": [None]}, texts))
    empty = one.predict_batch(texts.empty_table())
    assert full.schema == failed.schema == empty.schema
    assert str(full.schema.field("value").type) in (arrow, f"large_{arrow}")
    assert full["value"].to_pylist() == [value]
    assert len(empty) == 0


ODD = st.one_of(
    st.none(),
    st.sampled_from(
        [
            "x",
            "y",
            "it fails",
            "",
            math.nan,
            math.inf,
            7,
            b"bytes",
            [1, None],
            {"a": {"b": [math.nan]}},
        ]
    ),
    st.text(max_size=5),
)
IDS = st.one_of(
    st.sampled_from(["a", "b", "c", " a ", "", None, 1, 2.5, True, "two\nlines"]),
    st.text(max_size=3),
)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(IDS, ODD), max_size=12))
def test_as_many_rows_come_out_as_went_in(rows: list[tuple[Any, Any]]) -> None:
    one = judge()
    frame = pd.DataFrame(rows, columns=["id", "outputs"], dtype=object)
    out = listed(one.predict_batch(frame))
    contents: dict[str, set[str]] = {}
    for (name, _), row in zip(rows, out, strict=True):
        assert (row["value"] is None) == (row["error"] is not None)
        if not row["content_hash"]:
            continue
        contents.setdefault(row["id"], set()).add(row["content_hash"])
        if isinstance(name, str) and name.strip():
            utf_16 = name.strip().encode("utf-16", "surrogatepass")
            assert row["id"] == utf_16.decode("utf-16", "replace")
    assert len(asked(one)) <= len(contents)
    for hashes in contents.values():
        assert len(hashes) == 1


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 9), max_size=20), st.sets(st.integers(0, 9)))
def test_a_second_run_asks_for_what_is_missing(
    numbers: list[int], first: set[int]
) -> None:
    one = judge()
    rows = pl.DataFrame({"n": pl.Series(numbers, dtype=pl.Int64)}).select(
        "n",
        id=pl.format("i-{}", "n"),
        outputs=pl.when(pl.col("n") == 3)
        .then(pl.lit("it fails"))
        .otherwise(pl.format("answer {}", "n")),
    )
    earlier = one.predict_batch(rows.filter(pl.col("n").is_in(list(first))))
    before = len(asked(one))
    later = one.predict_batch(rows, done=earlier)
    missing = rows.filter(~pl.col("n").is_in(list(first - {3})))
    assert later["id"].to_list() == missing["id"].to_list()
    assert len(asked(one)) - before == missing["n"].n_unique()
    judged = earlier.filter(pl.col("error").is_null())
    keys = judged.select("id", "content_hash").rows()
    again = one.predict_batch(rows, done=keys)
    assert again["id"].to_list() == later["id"].to_list()


def test_copies_are_asked_once_and_cost_nothing(kind: Any) -> None:
    one = judge()
    name = "a" * 99
    frame = kind([{"id": name, "outputs": outputs} for outputs in "xxyx"])
    verdicts = table_of(one.predict_batch(frame)).to_pydict()
    assert len(asked(one)) == 1
    assert verdicts["cost"] == [0.5, 0.0, 0.0, 0.0]
    assert verdicts["id"] == [name] * 4
    assert verdicts["value"] == [True, True, None, True]
    why = "InputError: its content differs from that of row 1, which has the same id"
    assert verdicts["error"] == [None, None, why, None]


def test_rows_without_ids_have_their_contents() -> None:
    one = judge(columns={"outputs": "answer"})
    frame = pd.DataFrame({"answer": ["x", "y", "x"]}, index=[10, 20, 30])
    out = one.predict_batch(frame)
    assert out["id"].nunique() == 2
    assert list(out.index) == [10, 20, 30]
    assert len(one.predict_batch(frame[:2], done=out[:1])) == 1
    assert list(one.predict_batch(frame, done=out[1:2]).index) == [10, 30]
    named = frame.assign(id=["p", "q", "r"]).set_index("id")
    assert one.predict_batch(named)["id"].to_list() == ["p", "q", "r"]
    levels = pd.MultiIndex.from_tuples(
        [("a", 1), ("b", 2), ("c", 3)], names=["day", "row"]
    )
    assert list(one.predict_batch(frame.set_index(levels)).index) == list(levels)


FRAME = pl.DataFrame({"id": ["a"], "outputs": ["x"]})
NO_FRAME = "predict_batch takes a DataFrame|is no DataFrame"


@pytest.mark.parametrize(
    ("frame", "done", "why"),
    [
        ([{"id": "a", "outputs": "x"}], (), NO_FRAME),
        ("rows.jsonl", (), NO_FRAME),
        (FRAME.lazy(), (), NO_FRAME),
        (None, (), NO_FRAME),
        (
            pl.DataFrame({"id": ["a"], "answer": ["x"]}),
            (),
            r"no column for inputs, outputs\. .* id, answer\. .*columns=",
        ),
        (pd.DataFrame([["a", "b"]]), (), "Its columns are 0, 1"),
        (FRAME, pl.DataFrame({"id": ["a"]}), "done has no column content_hash"),
        (FRAME, ["a"], "pairs of an id and a content hash"),
    ],
)
def test_what_cannot_be_judged_is_refused_at_once(
    frame: Any, done: Any, why: str
) -> None:
    with pytest.raises(InputError, match=why):
        judge().predict_batch(frame, done=done)
