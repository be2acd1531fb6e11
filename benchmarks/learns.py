"""Does a judge learn from real feedback? On public sets with people's own verdicts.

    python benchmarks/learns.py DATA --methods majority neighbours features words mined
    OPENAI_API_KEY=any python benchmarks/learns.py DATA --model openai:gpt-4.1-mini --dry-run
    python benchmarks/learns.py DATA --model openai:gpt-4.1-mini

The first needs no model, and the second says calls and dollars. `python benchmarks/fetch.py DATA`
makes DATA: a file of feedback for each task, and `tasks.json` with its criterion and values. In
each run some cases are drawn to be taught and others, of other groups, to be judged, the same for
every method. DATA/judged keeps judges (`judges.db`) and judgments (`TASK/RUN/METHOD.jsonl`), and
the same command completes a run that was stopped. Differences are the library's own paired
comparison: 95 % intervals by group of cases.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from baselines import BASELINES, majority, ruled
from shared import (
    Line,
    aligned,
    judge_of,
    judged_values,
    markdown,
    parser_of,
)

import memalign as ma
from memalign import aio
from memalign.evaluation import LabelledCases
from memalign.evaluation.cases import ScoredCase, accuracy
from memalign.io import read_feedback
from memalign.models.calls import Calls
from memalign.models.dry_run import DryRun
from memalign.values import Value, ValueType

FIELDS = ("inputs", "outputs", "expectations")
MANY_GROUPS = (
    20  # from so many on, those of the taught cases are not among the judged ones
)
PARTS = 10  # one group has at most a tenth of what is taught
JUDGES = ("zero-shot", "memalign")
METHODS = (*JUDGES, *BASELINES, "mined")
AGAINST = ("zero-shot", "majority")


class Draw(NamedTuple):
    """One run of a task.

    Attributes:
        judge: A judge that has learned nothing.
        run: The number of the run.
        taught: The feedback that is taught.
        unseen: The cases that are judged.
        labels: The labels of all cases, by id.
    """

    judge: ma.Judge
    run: int
    taught: Sequence[ma.Feedback]
    unseen: Sequence[ma.Example]
    labels: Mapping[str, Value]


def drawn(
    judge: ma.Judge, rows: Sequence[ma.Feedback], run: int, settings: argparse.Namespace
) -> Draw:
    """Draw what a run teaches and judges; whole groups, unless there are few of them."""
    cases = LabelledCases.of(judge, rows)
    rng = random.Random(f"{judge.name} {run}")
    pools = pools_of(cases.examples)
    rng.shuffle(pools)
    count = min(settings.taught, len(cases.labels) // 2)
    most = math.ceil(count / PARTS)
    names: set[str] = set()
    while len(names) < count:
        pool = pools.pop()
        wanted = count - len(names)
        size = min(len(pool), most, wanted)
        for example in rng.sample(pool, size):
            names.add(example.id)
    unseen = []
    for pool in pools:
        unseen += pool
    rng.shuffle(unseen)
    return Draw(
        judge=judge,
        run=run,
        taught=[row for row in cases.rows if row.id in names],
        unseen=unseen[: settings.unseen],
        labels=cases.labels,
    )


def pools_of(examples: Sequence[ma.Example]) -> list[list[ma.Example]]:
    """Return the groups of cases, or each case alone if there are few groups."""
    groups: dict[str, list[ma.Example]] = {}
    for example in examples:
        name = group_of(example)
        groups.setdefault(name, []).append(example)
    if len(groups) < MANY_GROUPS:
        return [[example] for example in examples]
    return list(groups.values())


def group_of(case: ma.Example) -> str:
    """Return the name of a case's group; its own id if it has none."""
    return str(case.meta.get("group", case.id))


def path_of(draw: Draw, method: str, settings: argparse.Namespace) -> Path:
    """Return where the judgments of a method are."""
    return Path(settings.out, draw.judge.name, str(draw.run), f"{method}.jsonl")


def judge_all(draw: Draw, method: str, settings: argparse.Namespace) -> None:
    """Learn, and judge what the method's file lacks."""
    path = path_of(draw, method, settings)
    path.parent.mkdir(parents=True, exist_ok=True)
    most = settings.max_cost
    judge = draw.judge
    if method == "memalign":
        judge = judge.replace(name=f"{judge.name} {draw.run}")
        judge = aligned(judge, draw.taught, settings.out / "judges.db", most)
    judge.judge_many(list(draw.unseen), out=path, max_cost=most)


def judged(draw: Draw, method: str, settings: argparse.Namespace) -> dict[str, Value]:
    """Return a method's verdicts by the id of the case, as far as it has any."""
    if method in JUDGES:
        path = path_of(draw, method, settings)
        return judged_values(path)
    values = {}
    for case, value in zip(draw.unseen, baseline(draw, method), strict=True):
        values[case.id] = value
    return values


def baseline(draw: Draw, method: str) -> list[Value]:
    """Return the verdicts of a method that needs no model."""
    examples = {row.id: row.example for row in draw.taught if row.example is not None}
    taught = []
    for name, example in examples.items():
        taught.append((example, draw.labels[name]))
    if method != "mined":
        return BASELINES[method](taught, draw.unseen)
    verdicts = majority(taught, draw.unseen)
    rules = ruled(draw.taught, draw.judge.value_type)
    if rules is not None:
        for place, case in enumerate(draw.unseen):
            value = rules(case)
            if value is not None:
                verdicts[place] = value
    return verdicts


def estimated(draw: Draw, method: str, max_cost: float | None) -> ma.Usage:
    """Return about what a method would ask for: an upper bound, as if no provider had a cache."""
    learning = DryRun()
    judging = DryRun()
    judge = draw.judge
    if method == "memalign":
        optimizer = ma.MemAlign(max_cost=max_cost)
        calls = Calls(dry_run=learning)
        result = aio.run(optimizer.align(judge, draw.taught, calls=calls))
        judge = result.judge
    calls = Calls(dry_run=judging)
    judge.judge_many(draw.unseen, max_cost=calls)
    return learning.usage + judging.usage


def dry_table(draws: Sequence[Draw], settings: argparse.Namespace) -> str:
    """Return what the methods with a model would ask for, and all of them together."""
    total = "all of these"
    usages = {}
    for method in JUDGES:
        if method in settings.methods:
            usages[method] = ma.Usage()
            for draw in draws:
                usages[method] += estimated(draw, method, settings.max_cost)
    usages[total] = sum(usages.values(), ma.Usage())
    lines = []
    for method, usage in usages.items():
        line = [
            method,
            f"{usage.calls:,}",
            f"{usage.input_tokens:,}",
            f"{usage.output_tokens:,}",
            "unknown" if usage.cost is None else f"{usage.cost:.2f}",
        ]
        lines.append(line)
    return markdown(("method", "calls", "tokens in", "tokens out", "dollars"), lines)


def scored(draw: Draw, method: str, settings: argparse.Namespace) -> list[ScoredCase]:
    """Return the draw's cases that a method has judged, with its verdicts."""
    verdicts = judged(draw, method, settings)
    cases = []
    for case in draw.unseen:
        if case.id in verdicts:
            scored_case = ScoredCase(
                id=f"{draw.judge.name} {draw.run} {case.id}",
                label=draw.labels[case.id],
                value=verdicts[case.id],
                group=f"{draw.judge.name} {group_of(case)}",
                tolerance=draw.judge.value_type.tolerance,
            )
            cases.append(scored_case)
    return cases


def table(title: str, by_method: Mapping[str, Sequence[ScoredCase]]) -> str:
    """Return the methods' accuracy, and how each compares with those that are compared."""
    beside = [name for name in AGAINST if name in by_method]
    titles = [title, "n", "accuracy"]
    for name in beside:
        titles.append(f"against {name}, points; fixed, broken")
    rows = []
    for method, cases in by_method.items():
        row = [method, f"{len(cases):,}", f"{accuracy(cases):.2f}"]
        for name in beside:
            cell = ""
            if name != method:
                cell = difference(by_method[name], cases)
            row.append(cell)
        rows.append(row)
    return markdown(titles, rows)


def difference(first: Sequence[ScoredCase], second: Sequence[ScoredCase]) -> str:
    """Return the library's paired comparison in points, then fixed and broken."""
    comparison = ma.compare(first, second)
    percent = f"{comparison.difference:+.0%}"
    points = percent.replace("%", "")
    fixed = len(comparison.fixed)
    broken = len(comparison.broken)
    return f"{points}; {fixed}, {broken}"


def tables(
    groups: Mapping[str, Sequence[Draw]], settings: argparse.Namespace
) -> list[str]:
    """Return a table for each task, after one for all of them if there are several."""
    every: dict[str, list[ScoredCase]] = {}
    made = []
    for task, draws in groups.items():
        by_method = {}
        for method in settings.methods:
            cases: list[ScoredCase] = []
            for draw in draws:
                cases += scored(draw, method, settings)
            if cases:
                by_method[method] = cases
                together = every.setdefault(method, [])
                together += cases
        made.append(table(task, by_method))
    if len(groups) > 1:
        made.insert(0, table("all tasks", every))
    return made


def draws_of(name: str, facts: Line, settings: argparse.Namespace) -> list[Draw]:
    """Return the runs of a task.

    Args:
        name: The task, whose feedback is in DATA/NAME.jsonl.
        facts: Its criterion and values.
        settings: The options.
    """
    values = ValueType.of(facts["values"])
    path = settings.data / f"{name}.jsonl"
    rows = read_feedback(path, value_type=values).rows
    lines = [facts["criterion"], ""]
    for field in FIELDS:
        if any(row.content.get(field) is not None for row in rows):
            lines.append(f"{{{{ {field} }}}}")
    answers: dict[str, Any] = {"feedback_value_type": values.annotation}
    judge = judge_of(name, "\n".join(lines), settings.model, **answers)
    draws = []
    for run in range(settings.runs):
        draw = drawn(judge, rows, run, settings)
        draws.append(draw)
    return draws


def options_of() -> argparse.Namespace:
    """Read the command line."""
    options = parser_of(__doc__)
    options.add_argument(
        "data", type=Path, help="a folder of tasks, as fetch.py makes it"
    )
    options.add_argument(
        "--out", type=Path, help="judges and judgments; DATA/judged without it"
    )
    options.add_argument("--tasks", nargs="+", help="all in the folder without it")
    options.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    options.add_argument(
        "--taught", type=int, default=50, help="cases to teach in a run"
    )
    options.add_argument(
        "--unseen", type=int, default=100, help="cases to judge in a run"
    )
    options.add_argument("--runs", type=int, default=1)
    options.add_argument("--model")
    options.add_argument(
        "--max-cost", type=float, help="dollars of a method in a run of a task"
    )
    options.add_argument(
        "--dry-run", action="store_true", help="ask nothing, say what it costs"
    )
    return options.parse_args()


def main() -> None:
    """Judge what is missing, and print the tables."""
    settings = options_of()
    settings.out = settings.out or settings.data / "judged"
    listed = settings.data / "tasks.json"
    tasks: dict[str, Line] = json.loads(listed.read_bytes())
    names = settings.tasks or list(tasks)
    missing = sorted(set(names) - tasks.keys())
    if missing:
        sys.exit(f"{settings.data} lacks {', '.join(missing)}; fetch.py makes them")
    groups = {name: draws_of(name, tasks[name], settings) for name in names}
    # Run by run, so that a run that is stopped has something of every task.
    draws: list[Draw] = []
    for run in zip(*groups.values(), strict=True):
        draws += run
    if settings.dry_run:
        print(dry_table(draws, settings))
        return
    for draw in draws:
        for method in JUDGES:
            if method in settings.methods:
                print(f"{draw.judge.name} {draw.run}: {method}", file=sys.stderr)
                judge_all(draw, method, settings)
    print("\n\n".join(tables(groups, settings)))


if __name__ == "__main__":
    main()
