"""One task of an engine keeps to its part of the limits; a row that fails has an error."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

import pytest

import memalign as ma
from memalign.errors import ConfigurationError, InputError
from memalign.integrations.engines import EngineTask
from memalign.models.base import ChatReply
from memalign.testing import ScriptedChatModel
from memalign.types import Usage

pa = pytest.importorskip("pyarrow")


def judge_of(model: Any) -> ma.Judge:
    return ma.Judge(
        name="j", instructions="{{ outputs }}", feedback_value_type=bool, model=model
    )


def paid(cost: float | None) -> ScriptedChatModel:
    reply = ChatReply(
        data={"rationale": "", "value": True}, text="", usage=Usage(calls=1, cost=cost)
    )
    return ScriptedChatModel(lambda _: reply)


def rows(count: int) -> Any:
    return pa.table({"id": [f"i-{n}" for n in range(count)], "outputs": ["x"] * count})


def test_limits_are_divided_and_said(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "memalign.integrations"):
        EngineTask(
            judge_of(paid(0.5)), 8, concurrency=4, max_cost=10.0, rows_per_second=50
        )
    assert "max_cost=10 is divided by 8 tasks: each has 1.25" in caplog.text
    assert "rows_per_second=50 is divided by 8 tasks: each has 6.25" in caplog.text


@pytest.mark.parametrize(
    "limits",
    [
        {"rows_per_second": 0},
        {"rows_per_second": "5"},
        {"max_cost": -1.0},
        {"concurrency": 0},
    ],
)
def test_what_is_no_limit_is_refused(limits: Any) -> None:
    with pytest.raises(InputError):
        EngineTask(judge_of(paid(0.5)), 1, **limits)
    for tasks in (0, True):
        with pytest.raises(InputError):
            EngineTask(judge_of(paid(0.5)), tasks)


def test_a_task_spends_its_part_over_all_tables() -> None:
    model = paid(0.5)
    task = EngineTask(judge_of(model), 2, max_cost=3.2)
    tables = [task(rows(3)), task(rows(3))]
    errors = pa.concat_tables(tables)["error"].drop_null().to_pylist()
    assert len(errors) == len(model.requests) == 3
    for error in errors:
        assert "NotJudged" in error
        assert "$1.6" in error


@pytest.mark.parametrize(
    ("rate", "latency", "count"),
    [(20, 0.5, 40), (100, 0.25, 100), (4, 0.75, 6), (200, 0.0, 100)],
)
def test_a_task_keeps_its_rate_however_long_calls_take(
    rate: int, latency: float, count: int
) -> None:
    async def answer(_: Any) -> Any:
        await asyncio.sleep(latency)
        starts.append(time.monotonic())
        return {"rationale": "", "value": True}

    starts: list[float] = []
    task = EngineTask(
        judge_of(ScriptedChatModel(answer)), 4, rows_per_second=4 * rate, concurrency=64
    )
    begun = time.monotonic()
    for start in range(0, count, count // 2):  # two tables: the pace goes on
        verdicts = task(rows(count).slice(start, count // 2))
        assert verdicts["error"].null_count == count // 2
    # A machine that stood still at the first call catches up with the others.
    assert starts[-1] - begun >= (count - 1) / rate * 0.9
    took = starts[-1] - starts[0]
    assert took <= (count - 1) / rate * 1.1 + 0.3 + (
        latency if latency * rate > count // 2 else 0
    )


def test_ids_keep_their_type_and_blanks_and_may_be_equal() -> None:
    model = ScriptedChatModel(lambda _: {"rationale": "", "value": True})
    table = pa.table(
        {
            "id": pa.array([7, 7, None, 9]),
            "outputs": ["a", "b", "c", None],
            "note": ["x", "y", "z", "w"],
        }
    )
    task = EngineTask(judge_of(model), 1, columns=table.column_names, keep=["note"])
    verdicts = task(table)
    assert verdicts["id"].type == pa.int64()
    assert verdicts["id"].to_pylist() == [7, 7, None, 9]
    assert verdicts["error"].is_null().to_pylist() == [True, True, False, False]
    assert verdicts["note"].to_pylist() == ["x", "y", "z", "w"]
    parts = pa.concat_tables([task(table.slice(n, 1)) for n in range(4)])
    assert parts.drop_columns(["cost"]) == verdicts.drop_columns(["cost"])
    blanks = pa.table({"id": [" 6 ", "  "], "outputs": ["a", "b"]})
    blank = EngineTask(judge_of(model), 1)(blanks)
    assert blank["id"].to_pylist() == [" 6 ", "  "]
    assert blank["error"].to_pylist()[0] is None


def test_a_column_that_cannot_be_kept_is_named() -> None:
    judge = judge_of(paid(0.5))
    columns = ["id", "outputs", "cost"]
    for name, why in (
        ("gone", "no column of the rows"),
        ("cost", "a column of the verdicts; rename it"),
    ):
        with pytest.raises(InputError, match=f"'{name}' cannot be kept: it is {why}"):
            EngineTask(judge, 1, columns=columns, keep=[name])


def test_a_limit_without_a_price_is_refused_before_the_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    judge = judge_of("openai:nobody-knows-it")
    reason = "max_cost cannot hold, because the price of openai:nobody-knows-it"
    with pytest.raises(ConfigurationError, match=reason):
        EngineTask(judge, 1, max_cost=1.0)
    assert EngineTask(judge, 1, concurrency=1).judge is judge


def test_workers_use_the_model_that_the_driver_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("MEMALIGN_MODEL", "openai:test")
    assert EngineTask(judge_of(None), 1).judge.model == "openai:test"
