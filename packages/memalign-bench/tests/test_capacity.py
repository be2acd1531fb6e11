"""Planning many verdicts: arithmetic against recorded runs, and a cascade on recorded verdicts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from memalign.cli.app import app
from memalign.errors import InputError
from memalign.models.list_prices import Prices
from memalign_bench.capacity.arithmetic import Capacity, Limits, Workload, break_even, cached_tokens, estimate
from memalign_bench.capacity.cascade import Case, at_share, measure, read_pairs
from memalign_bench.capacity.simulation import simulate

RESULTS = Path(__file__).parents[1] / "results"
MINI = Prices(input=0.4, cached=0.1, output=1.6)
THROUGHPUT: dict[str, Any] = json.loads((RESULTS / "throughput.json").read_text("utf-8"))
UKP = RESULTS / "core/raw/local-qwen2.5-coder-1.5b/ukp_convincing/seed0/memalign@50.jsonl"


def recorded(run: str) -> tuple[dict[str, Any], Capacity]:
    found = THROUGHPUT["throughput"][run]
    return found, Capacity(in_flight=64, seconds=1.0, processor_ms=found["cpu_ms_a_judgment"])


@pytest.mark.parametrize("run", ["tenth", "all"])
def test_the_simulation_is_near_recorded_runs(run: str) -> None:
    found, capacity = recorded(run)
    made = simulate(found["n"], capacity)
    assert made.seconds == pytest.approx(found["seconds"], rel=0.05)
    assert made.a_second == pytest.approx(found["a_second"], rel=0.05)


def test_the_arithmetic_is_near_the_long_run() -> None:
    found, capacity = recorded("all")
    work = Workload(rows=found["n"], prefix=0, own=1, out=1)
    assert 3_600 * estimate(work, MINI, capacity=capacity).hours["in flight"] == pytest.approx(
        found["seconds"], rel=0.03
    )


def test_a_busy_processor_bounds_a_run() -> None:
    busy = Capacity(in_flight=256, seconds=0.5, processor_ms=9.0)
    assert simulate(20_000, busy).a_second == pytest.approx(1e3 / 9.0, rel=0.02)
    work = Workload(rows=20_000, prefix=0, own=1, out=1)
    assert estimate(work, MINI, capacity=busy).bound == "processor"


def test_a_limit_of_calls_bounds_a_run() -> None:
    assert simulate(2_000, Capacity(seconds=0.2, processor_ms=5.0), calls_a_second=40).a_second == pytest.approx(
        40, rel=0.02
    )
    allowed = THROUGHPUT["limits"]["40 a second"]
    made = estimate(
        Workload(rows=allowed["n"], prefix=0, own=1, out=1),
        MINI,
        limits=Limits(calls=40 * 60, reached=allowed["of_allowed"]),
        capacity=Capacity(seconds=0.2),
    )
    assert made.bound == "calls"
    assert 3_600 * made.longest == pytest.approx(allowed["seconds"], rel=0.01)


def test_recorded_judgments_cost_what_is_said() -> None:
    rounds = json.loads((RESULTS / "scale.json").read_text("utf-8"))["rounds"]
    judged = [each for run in rounds if run["side"] == "memalign" for each in run["judged"]]
    assert len(judged) > 20
    for each in judged:
        work = Workload(rows=each["calls"], prefix=0, own=each["tokens_in"] // each["calls"], out=each["tokens_out"])
        whole = estimate(work, MINI)
        saved = each["cached"] * (0.4 - 0.1) / 1e6
        assert (whole.usage.cost or 0) - saved == pytest.approx(each["cost"], abs=1e-9)
        assert each["cached"] in {0, cached_tokens(each["cached"])}


def test_ten_million_verdicts_by_hand() -> None:
    work = Workload(rows=10_000_000, prefix=1_500, own=400, out=60)
    found = estimate(work, MINI, limits=Limits(calls=10_000, tokens=20_000_000, reached=1.0), cached=0.0)
    assert found.usage.calls == 10_000_000
    assert found.usage.cost == pytest.approx(10 * (1_900 * 0.4 + 60 * 1.6))
    assert found.hours["calls"] == pytest.approx(1_000 / 60)
    assert found.hours["tokens"] == pytest.approx(19.6e9 / 20e6 / 60)
    cached = estimate(work, MINI, limits=Limits(tokens=20_000_000, cached_count=False, reached=1.0))
    assert cached.usage.cached_tokens == 10_000_000 * 1_408
    assert cached.usage.cost == pytest.approx(10 * (492 * 0.4 + 1_408 * 0.1 + 60 * 1.6))
    assert cached.hours["tokens"] < found.hours["tokens"] / 2
    batch = estimate(work, MINI, cached=0.0, batch=True)
    assert batch.usage.cost == pytest.approx((found.usage.cost or 0) / 2)
    assert list(batch.hours) == ["processor"]
    assert (cached_tokens(1_000), break_even(1.0, 4.0)) == (0, 0.75)


def test_a_cascade_is_between_its_judges() -> None:
    cases = [
        Case(group=str(n % 4), label="A", cheap="A" if n < 6 else "B", probability=0.9 - 0.04 * n, strong="A")
        for n in range(10)
    ]
    assert measure(cases, threshold=0.0).agreement == 0.6
    assert measure(cases, threshold=1.0).agreement == 1.0
    half = at_share(cases, 0.4)
    assert (half.asked, half.agreement, half.loss) == (0.4, 1.0, 0.0)


def test_judged_files_and_labels_make_a_cascade(tmp_path: Path) -> None:
    def put(name: str, rows: list[dict[str, Any]]) -> Path:
        path = tmp_path / name
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
        return path

    labelled = put("l.jsonl", [{"id": f"c-{n}", "outputs": "x", "value": n > 1, "group": str(n % 2)} for n in range(4)])
    cheap = put(
        "c.jsonl", [{"id": f"c-{n}", "value": True, "probabilities": {"true": 0.6, "false": 0.4}} for n in range(5)]
    )
    strong = put("s.jsonl", [{"id": f"c-{n}", "value": n > 1, "error": None} for n in range(5)])
    cases = read_pairs(cheap, strong, labelled)
    assert [(case.label, case.cheap, case.strong) for case in cases] == [("false", "true", "false")] * 2 + [
        ("true",) * 3
    ] * 2
    assert (measure(cases, threshold=0.5).agreement, measure(cases, threshold=0.7).agreement) == (0.5, 1.0)
    with pytest.raises(InputError, match=r"c-0: no probabilities; judge with --param verdict=direct"):
        read_pairs(strong, cheap, labelled)
    with pytest.raises(InputError, match="no labelled case in common"):
        read_pairs(cheap, strong)
    with pytest.raises(InputError, match="not of JSON lines"):
        read_pairs(put("empty.jsonl", []).with_name("c.jsonl"), Path(__file__))


def test_labels_that_are_no_text_agree(tmp_path: Path) -> None:
    file = tmp_path / "both.jsonl"
    file.write_text('{"id": "a", "value": true, "label": true, "p": {"true": 0.9}}\n')
    assert measure(read_pairs(file, file), threshold=0.5).agreement == 1.0


@pytest.mark.parametrize("line", ['{"id": ["a"], "value": 1}', '{"id": "a", "value": 1, "label": 1, "p": {"1": null}}'])
def test_odd_lines_of_a_cascade_are_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "odd.jsonl"
    file.write_text(line + "\n")
    with pytest.raises(InputError, match=r"no id that is text|a: no probabilities"):
        read_pairs(file, file)


def test_the_page_has_the_cascade_on_record() -> None:
    cases = read_pairs(RESULTS / "verdict/direct-bare_ukp_convincing.jsonl", UKP)
    page = (RESULTS.parents[2] / "docs/explanation/scale.md").read_text("utf-8")
    assert len(cases) == 100
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        found = at_share(cases, share)
        low, high = (f"{100 * each:+.0f}".replace("-", "\u2212").replace("+0", "0") for each in found.interval)
        loss = f"{100 * found.loss:+.0f}".replace("-", "\u2212").replace("+0", "0")
        assert f"| {found.asked:.0%} | {found.agreement:.2f} | {loss} [{low}, {high}] |" in page


def test_the_commands_say_it(tmp_path: Path) -> None:
    settings = ["--prefix", "1500", "--own", "400", "--answer", "60", "--price", "input=0.4,output=1.6,cached=0.1"]
    ran = CliRunner().invoke(app, ["bench", "plan", "1000000", *settings, "--rpm", "1000", "--json"])
    assert ran.exit_code == 0, ran.output
    found = json.loads(ran.stdout)
    assert found["live"]["bound"] == "calls"
    assert found["live, prefix cached"]["usage"]["cost"] < found["live"]["usage"]["cost"]
    wrong = CliRunner().invoke(app, ["bench", "plan", "1000", *settings[:-1], "cheap"])
    assert wrong.exit_code == 2
    cheap = RESULTS / "verdict/direct-bare_ukp_convincing.jsonl"
    shown = CliRunner().invoke(app, ["bench", "cascade", str(cheap), str(UKP)])
    assert "100 cases in 8 groups" in shown.output
    (tmp_path / "none.jsonl").touch()
    none = CliRunner().invoke(app, ["bench", "cascade", str(tmp_path / "none.jsonl"), str(UKP)])
    assert (none.exit_code, "no labelled case in common" in none.output) == (2, True)
