"""What a run over many rows would cost, from a sample."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memalign import Example, Judge, Usage
from memalign.io import Given
from memalign.io.rows import Row
from memalign.io.sampling import sample_rows
from memalign.judge.estimate import estimate_judging, hours_at
from memalign.models import ChatReply, ChatRequest, Limits

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


class Priced:
    """A model that costs a dollar for a thousand tokens, a tenth of that for cached ones, and is never asked."""

    name = "test:priced"
    limits = Limits()

    async def complete(self, request: ChatRequest) -> ChatReply:
        raise AssertionError("an estimate asks nobody")

    def price_of(self, usage: Usage) -> float:
        return (usage.input_tokens - 0.9 * usage.cached_tokens + usage.output_tokens) / 1e3


def rows(count: int) -> list[dict[str, Any]]:
    return [{"id": f"n-{n}", "outputs": "word " * (1 + n % 40)} for n in range(count)]


def jsonl(path: Path, given: list[dict[str, Any]]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in given), "utf-8")
    return path


def ids(found: Any) -> list[str]:
    return [row.fields["id"] for row in found.rows if isinstance(row, Row)]


def test_lines_are_sampled_from_all_over(tmp_path: Path) -> None:
    found = sample_rows(Given.of(jsonl(tmp_path / "many.jsonl", rows(20_000))), 100)
    assert not found.counted
    assert found.total == pytest.approx(20_000, rel=0.1)
    places = [int(each.removeprefix("n-")) for each in ids(found)]
    assert places == sorted(places)
    assert len(places) == 100
    assert max(places) > 19_000


@pytest.mark.parametrize("count", [1, 7, 100])
def test_few_lines_are_counted(tmp_path: Path, count: int) -> None:
    found = sample_rows(Given.of(jsonl(tmp_path / "few.jsonl", rows(count))), 1_000)
    assert (found.total, found.counted, len(found.rows)) == (count, True, count)


def test_parquet_says_its_number(tmp_path: Path) -> None:
    for part in range(2):
        (tmp_path / f"day={part}").mkdir()
        some = [row | {"id": f"{part}-{row['id']}"} for row in rows(5_000)]
        pq.write_table(pa.Table.from_pylist(some), tmp_path / f"day={part}/p.parquet", row_group_size=500)
    found = sample_rows(Given.of(str(tmp_path)), 100)
    assert (found.total, found.counted, len(found.rows)) == (10_000, True, 100)
    assert {each[0] for each in ids(found)} == {"0", "1"}


def test_a_query_is_sampled(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    path = jsonl(tmp_path / "many.jsonl", rows(3_000))
    given = Given.of(iter(()), name="the query", columns={"outputs": "said"})
    found = sample_rows(given, 50, query=f"select id, outputs as said from '{path}' where id <> 'n-0';")
    assert (found.total, found.counted, len(found.rows)) == (2_999, True, 50)
    assert all(isinstance(row, Row) and "outputs" in row.fields for row in found.rows)


def test_other_files_are_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "many.csv"
    path.write_text("id,answer\n" + "".join(f"n-{n},Reply {n}.\n" for n in range(500)), "utf-8")
    found = sample_rows(Given.of(path, columns={"outputs": "answer"}), 50)
    assert (found.total, found.counted, len(found.rows)) == (500, True, 50)
    assert all(isinstance(row, Row) and "outputs" in row.fields for row in found.rows)


def test_a_sample_stands_for_all_rows() -> None:
    judge = Judge(name="j", feedback_value_type=bool, model=Priced(), instructions="Is it good? {{ outputs }}")
    every = [Example(**row) for row in rows(400)]
    whole = estimate_judging(judge, every, rows=400)
    part = estimate_judging(judge, every[::7], rows=400)
    assert (whole.usage.calls, whole.margin) == (400, 0.0)
    assert part.usage.calls == 400
    assert abs(part.usage.input_tokens / whole.usage.input_tokens - 1) <= part.margin + 1e-9 < 0.2
    assert whole.usage.cost == pytest.approx((whole.usage.input_tokens + whole.usage.output_tokens) / 1e3)
    assert whole.cached_cost is None, "its prefix is too short for a cache"


def test_a_long_prefix_costs_less() -> None:
    text = "Is it good? {{ outputs }} " + "The reply is kind, short and exact in every case. " * 150
    judge = Judge(name="j", feedback_value_type=bool, model=Priced(), instructions=text)
    found = estimate_judging(judge, [Example(**row) for row in rows(10)], rows=10_000_000)
    assert found.usage.calls == 10_000_000
    assert found.cached_cost is not None
    assert found.usage.cost is not None
    assert found.cached_cost < found.usage.cost / 2


def test_hours_follow_the_tighter_limit() -> None:
    usage = Usage(calls=6_000, input_tokens=5_000_000, output_tokens=1_000_000)
    assert hours_at(usage) is None
    assert hours_at(usage, calls=100) == 1.0
    assert hours_at(usage, calls=100, tokens=20_000) == 5.0
