"""What the figures of a benchmark are, on cases small enough to count by hand."""

from __future__ import annotations

import random
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_support.synthetic import write_folder
from memalign.errors import InputError
from memalign.metrics import Estimate
from memalign_bench.prices import Prices
from memalign_bench.raw import Cell, Fit, Line, RawFolder, View
from memalign_bench.report import TaskFacts, engine_notes, read_facts, write_facts
from memalign_bench.report.measures import (
    agreement,
    corrected,
    curve_area,
    flips,
    judging,
    learning,
    trapezoid_weights,
)
from memalign_bench.report.primary import Contrast, best_baseline, contrast, headline_stage, primary
from memalign_bench.report.results import VIEWS, Results, load_results

HARBOUR = TaskFacts(name="harbour", category="safety", values="bool", n_cases=40)
STARS = TaskFacts(name="stars", category="writing", values="int:1..5", n_cases=40)
TIDES = TaskFacts(name="tides", category="writing", values="float:0..1", n_cases=40)
MODEL = "local:tiny"


def cell(method, stage, *, task="harbour", seed=0, model=MODEL):
    return Cell(model=model, task=task, seed=seed, method=method, stage=stage)


def rights(pattern, *, view="unseen", group=None, label=True, wrong=False):
    """One line a mark: `+` right, `-` wrong, `x` failed."""
    said = {"+": label, "-": wrong, "x": None}
    return [
        Line(id=f"c{n}", group=group or f"g{n}", label=label, value=said[mark], view=view,
             error="timed out" if mark == "x" else None)
        for n, mark in enumerate(pattern)
    ]  # fmt: skip


def results(folder: Path, cells, *, tasks=(HARBOUR, STARS, TIDES), fits=()) -> Results:
    raw = RawFolder(folder)
    for where, lines in cells.items():
        raw.append(where, lines)
    for where, fit in dict(fits).items():
        raw.write_fit(where, fit)
    write_facts(folder, tasks, models=[MODEL])
    return load_results(folder)


def test_a_failed_judgment_is_neither_right_nor_wrong(tmp_path):
    found = results(tmp_path, {cell("zero-shot", 0): rights("++-x"), cell("memalign", 50): rights("++")})

    zero_shot = agreement(found, MODEL, [HARBOUR], "zero-shot", 0)
    memalign = agreement(found, MODEL, [HARBOUR], "memalign", 50)

    assert (zero_shot.n, zero_shot.errors, zero_shot.known, zero_shot.groups) == (3, 1, 4, 3)
    assert zero_shot.exact_match.value == pytest.approx(2 / 3)
    assert (memalign.n, memalign.errors, memalign.known) == (2, 0, 4)


def test_zero_shot_verdicts_hold_for_every_stage(tmp_path):
    found = results(tmp_path, {cell("zero-shot", 0): rights("+-"), cell("memalign", 50): rights("++")})

    assert agreement(found, MODEL, [HARBOUR], "zero-shot", 50).exact_match.value == 0.5
    assert found.stages(MODEL, "memalign") == (0, 50)
    assert agreement(found, MODEL, [HARBOUR], "memalign", 0).exact_match.value == 0.5
    assert agreement(found, MODEL, [HARBOUR], "mlflow", 0).n == 0  # another's unaligned judge is not ours


def test_a_perfect_score_still_has_a_wide_interval(tmp_path):
    found = results(tmp_path, {cell("zero-shot", 0): rights("+++++"), cell("static", 2): rights("+++++")})
    alone = agreement(found, MODEL, [HARBOUR], "zero-shot", 0).exact_match

    other = results(tmp_path / "grouped", {cell("zero-shot", 0): rights("+++++", group="one story")})
    together = agreement(other, MODEL, [HARBOUR], "zero-shot", 0).exact_match

    assert alone.value == together.value == 1.0
    assert together.low is not None
    assert alone.low is not None
    assert together.low < alone.low < 1.0


def test_an_identical_seed_adds_judgments_and_no_certainty(tmp_path):
    lines = {cell("zero-shot", 0): rights("++-+--+-+x"), cell("memalign", 50): rights("++++--++-+")}
    again = {cell(where.method, where.stage, seed=1): said for where, said in lines.items()}
    once, twice = results(tmp_path / "1", lines), results(tmp_path / "2", lines | again)

    one, two = (agreement(found, MODEL, [HARBOUR], "zero-shot", 0) for found in (once, twice))
    first, second = (contrast(found, MODEL, [HARBOUR], "memalign", "zero-shot", stage=50) for found in (once, twice))

    assert (two.n, two.cases, two.groups) == (2 * one.n, one.cases, one.groups)
    assert two.exact_match == one.exact_match
    assert first is not None
    assert second is not None
    assert (second.n, second.cases, second.difference) == (2 * first.n, first.cases, first.difference)


def test_numbers_have_kappa_and_fractions_no_exact_match(tmp_path):
    stars = [
        Line(id=f"c{n}", group=f"g{n}", label=a, value=b) for n, (a, b) in enumerate([(1, 1), (5, 4), (3, 3), (2, 4)])
    ]
    tides = [Line(id=f"c{n}", group=f"g{n}", label=n / 4, value=n / 5) for n in range(4)]
    found = results(tmp_path, {cell("zero-shot", 0, task="stars"): stars, cell("zero-shot", 0, task="tides"): tides})

    whole = corrected(found, MODEL, STARS, "zero-shot", 0)
    assert whole.balanced_accuracy.value is None
    assert whole.ccc.value == pytest.approx(2 * 1.25 / (2.1875 + 1.5 + 0.25**2))
    assert whole.kappa.value == pytest.approx(whole.ccc.value)  # Fleiss and Cohen 1973
    assert agreement(found, MODEL, [STARS], "zero-shot", 0).people == {
        "1": 0.25,
        "2": 0.25,
        "3": 0.25,
        "4": 0.0,
        "5": 0.25,
    }
    assert agreement(found, MODEL, [TIDES], "zero-shot", 0).exact_match.value is None
    assert corrected(found, MODEL, TIDES, "zero-shot", 0).kappa.value is None


def test_flips_need_verdicts_in_both_successive_stages(tmp_path):
    found = results(
        tmp_path,
        {
            cell("zero-shot", 0): rights("++--"),
            cell("memalign", 5): rights("-++x"),  # one broken, one fixed, of three
            cell("memalign", 50): rights("--++"),  # one broken, of three
        },
    )

    changed = flips(found, MODEL, [HARBOUR], "memalign")

    assert changed is not None
    assert (changed.n, changed.broken, changed.fixed, changed.right_before) == (6, 2, 1, 4)
    assert changed.rate.value == pytest.approx(2 / 6)
    assert flips(found, MODEL, [HARBOUR], "zero-shot") is None


def test_the_trapezoid_rule_weighs_stages_in_the_area(tmp_path):
    assert trapezoid_weights([0, 1, 3]) == pytest.approx([0.25, 0.5, 0.25])
    found = results(
        tmp_path,
        {
            cell("zero-shot", 0): rights("----"),
            cell("memalign", 1): rights("++--"),
            cell("memalign", 3): rights("+++x"),  # the last case has no verdict here: it counts nowhere
        },
    )

    area = curve_area(found, MODEL, [HARBOUR], "memalign")

    assert area is not None
    # Of the three cases 0, 2/3 and 3/3 are right: 0 / 4 + (2 / 3) / 2 + 1 / 4.
    assert area[0].value == pytest.approx(1 / 3 + 1 / 4)
    assert area[1] == 3
    assert curve_area(found, MODEL, [HARBOUR], "mlflow") is None


def test_another_tasks_stage_does_not_count_here(tmp_path):
    found = results(
        tmp_path,
        {
            cell("zero-shot", 0): rights("----"),
            cell("memalign", 1): rights("++--"),
            cell("memalign", 3): rights("+++-"),
            cell("memalign", 2, task="stars"): rights("++--", label=4, wrong=1),
        },
    )

    area = curve_area(found, MODEL, [HARBOUR], "memalign")
    changed = flips(found, MODEL, [HARBOUR], "memalign")

    assert area is not None
    assert area[1] == 4
    assert changed is not None
    assert (changed.n, changed.fixed) == (8, 3)


@given(st.lists(st.integers(0, 1000), min_size=2, max_size=8, unique=True))
def test_a_constant_rate_is_its_own_area(stages):
    assert sum(trapezoid_weights(sorted(stages))) == pytest.approx(1.0)


def test_seen_unseen_and_left_out_stay_apart(tmp_path):
    lines = [*rights("+-"), *rights("+++", view="seen"), *rights("--+", view="left-out")]
    found = results(tmp_path, {cell("memalign", 50): lines})

    shares = [agreement(found, MODEL, [HARBOUR], "memalign", 50, view=view).exact_match.value for view in VIEWS]

    assert get_args(View) == VIEWS
    assert shares == [0.5, 1.0, pytest.approx(1 / 3)]
    assert found.stages(MODEL, "memalign", view="seen") == (50,)


def test_an_unknown_judging_cost_stays_unknown(tmp_path):
    lines = [
        Line(
            id=f"c{n}",
            group="g",
            label=True,
            value=True,
            tokens_in=100,
            cached=25,
            tokens_out=n,
            seconds=float(n),
            cost=0.002,
        )
        for n in range(1, 21)
    ]
    dear = [*lines[:1], Line(id="c99", group="g", label=True, value=True, cost=None)]
    found = results(tmp_path, {cell("zero-shot", 0): lines, cell("static", 2): dear})

    took = judging(found, MODEL, ["harbour"], "zero-shot", 0)

    assert (took.n, took.seconds_median, took.seconds_p95, took.tokens_in, took.cached_share) == (
        20,
        10.5,
        19.0,
        100,
        0.25,
    )
    assert took.cost_per_1000 == pytest.approx(2.0)
    assert judging(found, MODEL, ["harbour"], "static", 2).cost_per_1000 is None
    assert judging(found, MODEL, ["harbour"], "mlflow", 2).seconds_median is None


def test_learning_is_a_mean_with_its_extremes():
    took = learning(
        [Fit(id="a", seconds=2, calls=4, counts={"guidelines": 3}), Fit(id="b", seconds=6, calls=6, cost=None)]
    )

    assert took is not None
    assert (took.seconds, took.quickest, took.slowest, took.calls, took.cost) == (4, 2, 6, 5, None)
    assert took.counts == {"guidelines": 1.5}
    assert learning([]) is None


def test_only_cases_with_both_verdicts_are_compared(tmp_path):
    found = results(tmp_path, {cell("zero-shot", 0): rights("+-x-+"), cell("memalign", 50): rights("++++")})

    one = contrast(found, MODEL, [HARBOUR], "memalign", "zero-shot", stage=50)

    assert one is not None
    assert (one.n, one.left_out, one.fixed, one.broken) == (3, 2, 2, 0)
    assert one.difference.value == pytest.approx(2 / 3)


def test_each_task_weighs_by_its_cases(tmp_path):
    found = results(
        tmp_path,
        {
            cell("zero-shot", 0): rights("-" * 6), cell("memalign", 50): rights("+" * 6),
            cell("zero-shot", 0, task="stars"): rights("--", label=4, wrong=1),
            cell("memalign", 50, task="stars"): rights("--", label=4, wrong=1),
            cell("zero-shot", 0, task="tides"): rights("-", label=0.5, wrong=0.1),
            cell("memalign", 50, task="tides"): rights("+", label=0.5, wrong=0.1),
        },
    )  # fmt: skip

    (one,) = primary(found, MODEL)

    assert one.tasks == ("harbour", "stars")  # a fraction has no exact match
    assert one.difference.value == pytest.approx(6 / 8)
    assert one.mean_over_tasks.value == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("interval", "changed", "cases", "said"),
    [
        ((0.01, 0.2), (30, 10), 200, ("ahead", "ahead")),
        ((-0.2, -0.01), (10, 30), 200, ("behind", "behind")),
        ((-0.04, 0.2), (20, 15), 200, ("not worse by 5 points", "tied")),
        ((-0.06, 0.2), (20, 15), 200, ("tied", "tied")),
        ((0.01, 0.3), (4, 0), 60, ("not worse by 5 points", "tied")),  # McNemar's p of four cases is 0.125
        ((0.01, 0.3), (4, 0), 12, ("tied", "tied")),  # twelve cases cannot rule out a loss of five points
        ((None, None), (0, 0), 200, ("not worse by 5 points", "tied")),  # not one verdict differs
        ((None, None), (0, 0), 59, ("tied", "tied")),
        ((None, None), (3, 0), 200, ("tied", "tied")),  # one group: nothing to resample
    ],
)
def test_no_more_is_claimed_than_evidence_allows(interval, changed, cases, said):
    one = Contrast(
        method="memalign", against="zero-shot", stage=50, view="unseen", tasks=("t",), n=cases, left_out=0, cases=cases,
        groups=cases, seeds=(0,), first=0.6, second=0.5, fixed=changed[0], broken=changed[1],
        difference=Estimate(value=0.1, low=interval[0], high=interval[1]), mean_over_tasks=Estimate(value=0.1),
    )  # fmt: skip
    assert (one.verdict, one.word) == said


def test_the_largest_common_stage_replaces_fifty_rows(tmp_path):
    found = results(
        tmp_path,
        {
            cell("zero-shot", 0): rights("+-"),
            cell("memalign", 5): rights("++"),
            cell("memalign", 20): rights("++"),
            cell("mlflow", 5): rights("+-"),
        },
    )

    assert headline_stage(found, MODEL) == 20
    assert [(one.against, one.stage) for one in primary(found, MODEL)] == [("zero-shot", 20), ("mlflow", 5)]


def test_a_judge_faces_its_tasks_best_baseline(tmp_path):
    found = results(
        tmp_path,
        {
            cell("majority", 50, model="local:other"): rights("+---"),
            cell("regression-features", 50, model="local:other"): rights("++++"),
            cell("memalign", 50): rights("+-+-"),
        },
    )

    baseline = best_baseline(found, MODEL, HARBOUR, 50)

    assert found.models == (MODEL,)
    assert baseline is not None
    assert baseline[0] == "regression-features"
    one = contrast(found, MODEL, [HARBOUR], "memalign", baseline[0], stage=50)
    assert one is not None
    assert one.difference.value == -0.5


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10_000))
def test_who_was_judged_first_changes_no_figure(order):
    with TemporaryDirectory() as name:
        folder = write_folder(
            Path(name), cases=12, stages=(0, 50), methods=("majority", "zero-shot", "memalign"), seeds=(0, 1)
        )
        before, raw = load_results(folder), RawFolder(folder)
        for where in before.cells:
            lines = raw.lines(where)
            random.Random(order).shuffle(lines)
            raw.replace(where, lines)
        after = load_results(folder)

    (model,) = before.models
    assert primary(after, model) == primary(before, model)
    for task in before.tasks(model):
        for view in VIEWS:
            now, then = (agreement(one, model, [task], "memalign", 50, view=view) for one in (after, before))
            assert now == then


def test_a_second_runs_facts_join_the_first(tmp_path):
    write_facts(tmp_path, [HARBOUR], models=["a"], commands=["first"])
    write_facts(tmp_path, [STARS], models=["a", "b"], commands=["second"], remarks=["two cores"])

    facts = read_facts(tmp_path)

    assert set(facts.tasks) == {"harbour", "stars"}
    assert (facts.models, facts.commands, facts.remarks) == (("a", "b"), ("first", "second"), ("two cores",))


def test_an_engine_that_replaces_another_is_named(tmp_path):
    assert engine_notes(tmp_path, {"local:a": "llama 1"}) == []
    write_facts(tmp_path, [HARBOUR], engines={"local:a": "llama 1", "local:b": "llama 1"})
    assert engine_notes(tmp_path, {"local:a": "llama 1", "local:new": "llama 2"}) == []

    (note,) = engine_notes(tmp_path, {"local:a": "llama 2", "local:b": "llama 1"})
    assert "local:a: judged by llama 1 so far, by llama 2 from here on" in note

    write_facts(tmp_path, [HARBOUR], engines={"local:a": "llama 2"})
    assert read_facts(tmp_path).engines == {"local:a": ("llama 1", "llama 2"), "local:b": ("llama 1",)}


def test_a_folder_that_cannot_be_reported_says_why(tmp_path):
    with pytest.raises(InputError, match=r"tasks\.json"):
        load_results(tmp_path)
    (tmp_path / "tasks.json").write_text('{"tasks": {"x": {"name": "x", "category": "c", "values": "colour"}}}')
    with pytest.raises(InputError, match="colour"):
        load_results(tmp_path)
    (tmp_path / "tasks.json").unlink()
    write_facts(tmp_path, [HARBOUR])
    with pytest.raises(InputError, match="holds no judgments"):
        load_results(tmp_path)
    RawFolder(tmp_path).append(cell("zero-shot", 0, task="unheard"), rights("+"))
    with pytest.raises(InputError, match="unheard"):
        load_results(tmp_path)


def test_methods_with_different_labels_are_not_compared(tmp_path):
    with pytest.raises(InputError, match="same data"):
        results(tmp_path, {cell("zero-shot", 0): rights("+"), cell("memalign", 50): rights("+", label=False)})


@pytest.mark.parametrize(
    ("taught", "compared"),
    [(("a", "a"), True), (("a", "b"), False), (("a", ""), True)],
    ids=["same", "other", "not kept"],
)
def test_methods_that_different_cases_taught_are_not_compared(tmp_path, taught, compared):
    there = [cell("memalign", 50), cell("mlflow", 50)]
    lines = {where: rights("+-") for where in there} | {cell("zero-shot", 0): rights("--")}
    fits = {where: Fit(id=where.method, taught=digest) for where, digest in zip(there, taught, strict=True)}
    fits[cell("zero-shot", 0)] = Fit(id="zero-shot", taught="nothing")
    if compared:
        one = contrast(results(tmp_path, lines, fits=fits), MODEL, [HARBOUR], "memalign", "mlflow", stage=50)
        assert one is not None
        assert one.n == 2
    else:
        with pytest.raises(InputError, match=r"mlflow@50\.jsonl was taught by other cases than .*memalign@50\.jsonl"):
            results(tmp_path, lines, fits=fits)


def test_another_verdict_mode_has_no_zero_shot_beginning(tmp_path):
    found = results(
        tmp_path,
        {
            cell("zero-shot", 0): rights("++++"),
            **{cell(method, stage): rights("+--+") for method in ("zero-shot-direct", "memalign") for stage in (2, 8)},
        },
    )
    assert found.stages(MODEL, "memalign") == (0, 2, 8)
    assert found.stages(MODEL, "zero-shot-direct") == (2, 8)
    assert found.cell(MODEL, "harbour", 0, "zero-shot-direct", 0) is None
    learned, another = (flips(found, MODEL, [HARBOUR], method) for method in ("memalign", "zero-shot-direct"))
    assert learned is not None
    assert another is not None
    assert (learned.broken, another.broken) == (2, 0)


def test_the_configuration_prices_all_costs(tmp_path):
    line = Line(id="a", group="a", label=True, value=True, tokens_in=1000, cached=400, tokens_out=10, cost=0.1)
    uncounted = msgspec.structs.replace(line, id="c", tokens_in=0, cached=0, tokens_out=0, cost=None)
    results(
        tmp_path,
        {cell("memalign", 50): [line, msgspec.structs.replace(line, id="b", cost=5.0), uncounted]},
        fits={cell("memalign", 50): Fit(id="f", tokens_in=1000, tokens_out=10, cost=None)},
    )
    found = load_results(tmp_path, prices=Prices(input=1.0, cached=0.5, output=10.0))
    (lines,), (fit,) = found.cells.values(), found.fits.values()
    assert [line.cost for line in lines[:2]] == pytest.approx([(600 + 200 + 100) / 1e6] * 2)
    assert lines[2].cost is None, "what nobody counted has no price"
    assert fit.cost == pytest.approx((1000 + 100) / 1e6)
