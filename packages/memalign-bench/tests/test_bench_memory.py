"""The benchmark of large memories at a tiny size: every step runs, and what must not grow does not."""

from __future__ import annotations

import json
import sys

import pytest
from benchmarks import bench_memory

from memalign import Judge


def test_the_same_rows_come_every_time():
    made = bench_memory.rows(100)
    assert made == bench_memory.rows(100)
    assert made[60:] == bench_memory.rows(50, start=50)  # ten of the first fifty cases have a second annotation
    assert len({row["outputs"] for row in made}) == 100
    words = [len(" ".join(str(row[name]) for name in ("inputs", "outputs", "rationale")).split()) for row in made]
    assert min(words) >= 140
    assert max(words) <= 160


@pytest.mark.skipif(sys.platform == "win32", reason="peak memory is asked of the operating system's resource module")
def test_one_more_row_embeds_one_case():
    found = bench_memory.measure(30, runs=1)
    assert (found["cases"], found["feedback"]) == (30, 36)
    for change in found["one more row"]:
        # Its own text, those of the guidelines, which are compared anew each time, and two of each case for the head.
        guidelines, rows = sum(found["guidelines"].values()), len(found["one more row"])
        assert 1 <= change["embedded"] <= 1 + 2 * guidelines + rows + 2 * (found["cases"] + rows)
        assert 0 < change["rows"] < 20
    assert [receipt["versions"] for receipt in found["erase one"]] == [12]
    p50, p95 = found["judgment"]["wall"]
    assert p50 <= p95
    assert {"import", "open", "load", "prompt", "total"} <= found["start"][0].keys()
    shown = bench_memory.tables([json.loads(json.dumps(found))])
    assert "| one more row: bytes the file grew by |" in shown
    assert "30 cases" in shown


def test_a_memory_put_together_looks_aligned():
    base = Judge(
        name="helpfulness",
        instructions=bench_memory.INSTRUCTIONS,
        feedback_value_type=bool,
        model=bench_memory.Model(),
    )
    feedback = bench_memory.rows(30)
    made, learned = bench_memory.made(base, feedback).memory, base.align(feedback).judge.memory
    assert len(made) == len(learned) == 36
    assert [case.example for case in made.cases] == [case.example for case in learned.cases]
    assert [case.vector for case in made.cases] == [case.vector for case in learned.cases]
    assert len(made.semantic) == len(learned.semantic) == 4
    assert sorted(key for shard in made.shards for key in shard.keys) == sorted(
        annotation.key for annotation in learned.annotations()
    )
    assert {annotation.state for annotation in made.annotations()} == {"learned"}
    assert made.settled() == made
