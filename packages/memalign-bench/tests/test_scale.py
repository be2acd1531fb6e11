"""The scale benchmark at tiny sizes, without latency: both sides learn the same rows from one server, and are counted alike."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks import bench_scale, scale_endpoint, scale_figure

from tests.support.patience import PATIENCE

COMPETITOR = Path(__file__).parents[3] / ".competitors" / "bin" / "python"


def ask_judge(text: str, *names: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {key: {} for key in names}}
    return {
        "model": "m",
        "messages": [{"role": "user", "content": text}],
        "response_format": {"json_schema": {"schema": schema}},
    }


def test_the_same_rows_come_every_time():
    made = bench_scale.rows(200)
    assert made == bench_scale.rows(200)
    assert len({row["inputs"] for row in made}) == 200
    assert 50 < sum(row["value"] for row in made) < 150


def test_one_more_row_costs_a_few_calls():
    found = bench_scale.run(sizes=(12,), runs=1, latency=0.0, embed_latency=0.0, competitor=None, variant_sizes=(12,))
    (ours,) = found["rounds"]
    # Two shards of at most ten, and every case with the rules of the other shard.
    assert ours["align"]["calls"] == 2 + 12
    assert ours["align"]["texts"] == 0
    assert ours["align"]["tokens_in"] > 12 * 100
    assert ours["align"]["cost"] > 0
    assert (ours["align"]["examples"], ours["more"]["examples"]) == (12, 13)
    assert ours["more"]["calls"] == 2, "a shard, and the new case"
    assert [each["calls"] for each in ours["judged"]] == [1] * 6
    others = {each["side"]: each["align"] for each in found["variants"]}
    assert others["memalign, without asking checks"]["calls"] == 2
    # A pre-alignment verdict each, and every case tried with what was learned, with similar cases and without.
    assert others["memalign, --careful"]["calls"] == 12 + 2 + 2 * 12 + 12
    assert others["memalign, the provider's embeddings"]["texts"] == 12
    assert others["memalign, 4 calls in flight"]["in_flight"] <= 4
    assert "without asking checks" in scale_figure.tables(found)


@pytest.mark.parametrize("script", ["bench_scale", "bench_mlflow"])
def test_nothing_is_half_measured_without_the_competitor(script: str, tmp_path: Path) -> None:
    out = tmp_path / "found.json"
    told = subprocess.run(
        [
            sys.executable,
            f"benchmarks/{script}.py",
            *(["-o"] if script == "bench_mlflow" else []),
            str(out),
            "--competitor",
            "absent",
        ],
        cwd=Path(bench_scale.__file__).parents[1],
        env={**os.environ, "PYTHONPATH": os.pathsep.join((".", os.environ.get("PYTHONPATH", "")))},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert told.returncode == 2
    assert "no interpreter at absent: python -m venv .competitors" in told.stderr
    assert "--alone" in told.stderr
    assert not out.exists()


@pytest.mark.slow  # importing MLflow takes longer than all that it does here
@pytest.mark.skipif(
    not COMPETITOR.exists(),
    reason="the competitors' environment is not there (packages/memalign-bench/benchmarks/competitors)",
)
@pytest.mark.skipif(sys.platform == "win32", reason="the competitors' environment is looked for where POSIX has it")
def test_mlflow_learns_the_same_number_of_guidelines(tmp_path: Path):
    found = bench_scale.run(sizes=(6,), runs=1, latency=0.0, embed_latency=0.0, competitor=COMPETITOR, variant_sizes=())
    ours, theirs = found["rounds"]
    assert (ours["side"], theirs["side"]) == ("memalign", "mlflow")
    assert theirs["align"]["examples"] == ours["align"]["examples"] == 6
    assert theirs["align"]["guidelines"] == ours["align"]["guidelines"] == 2
    assert theirs["align"]["texts"] == 6
    assert theirs["more"]["texts"] == 7
    assert [each["texts"] for each in theirs["judged"]] == [1] * 6
    path = tmp_path / "scale.json"
    path.write_text(json.dumps(found))
    assert "MLflow" in scale_figure.tables(found)


@pytest.mark.parametrize(
    ("ending", "says", "timeout"),
    [("time.sleep(1000)", "no answer in 2 s", 2.0), ("sys.exit()", "its process ended", PATIENCE)],
)
def test_a_competitor_that_gives_no_answer_is_ended(tmp_path: Path, ending: str, says: str, timeout: float):
    script = tmp_path / "stuck.py"
    script.write_text(f"import sys, time\nprint('loading', file=sys.stderr, flush=True)\n{ending}\n")
    with pytest.raises(RuntimeError, match=rf"mlflow: traces: {says}; its log ends: "):
        bench_scale.MLflow(
            bench_scale.rows(2), python=Path(sys.executable), base_url="", home=tmp_path, timeout=timeout, script=script
        )


def test_a_shared_beginning_is_cached_in_fixed_steps():
    server = scale_endpoint.Server(latency=0.0, embed_latency=0.0)
    try:
        long, short = "a" * 4 * 1300, "b" * 4 * 1000
        for text in (long, long + "c", short, short):
            server.chat(ask_judge(text, "rationale", "value"))
            counts = server.meter.take(forget=False)
            if text == long + "c":
                assert 1024 <= counts["cached"] <= counts["tokens_in"]
                assert counts["cached"] % 128 == 0
            else:
                assert counts["cached"] == 0
    finally:
        server.server_close()


def test_an_unknown_form_is_refused_by_name():
    with pytest.raises(ValueError, match="colour"):
        scale_endpoint.Answers().to(ask_judge("x", "colour"))
