"""Does a judge learn from real feedback? On public sets with people's own verdicts.

    python benchmarks/learns.py DATA --methods majority neighbours features words
    OPENAI_API_KEY=any python benchmarks/learns.py DATA --model openai:gpt-4.1-mini --dry-run
    python benchmarks/learns.py DATA --model openai:gpt-4.1-mini

The first needs no model, and the second says calls and dollars. `python benchmarks/fetch.py DATA`
makes DATA: a file of feedback for each task, and `tasks.json` with its criterion and values. In
each run some cases are drawn to be taught and others, of other groups, to be judged, the same for
every method. DATA/judged/TASK/RUN keeps the judge (`judges.db`) and judgments (`METHOD.jsonl`), and
the same command completes a run that was stopped. Differences are the library's own paired
comparison: 95 % intervals by group of cases.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from baselines import BASELINES, Examples
from shared import markdown, parser_of

import memalign as ma
from memalign import aio
from memalign.evaluation import LabelledCases
from memalign.evaluation.cases import ScoredCase, accuracy
from memalign.io import read_feedback
from memalign.models.calls import Calls
from memalign.models.dry_run import DryRun
from memalign.values import Value, ValueType

FIELDS = ("inputs", "outputs", "expectations")
MANY_GROUPS = 20
"""From so many on, the groups of the taught cases are not among the judged ones."""
PARTS = 10  # one group has at most a tenth of what is taught
TAUGHT = 50
"""Cases to teach in a run; half of all if there are fewer than twice as many."""
UNSEEN = 100  # cases to judge in a run
JUDGES = ("zero-shot", "memalign")
METHODS = (*JUDGES, *BASELINES)
AGAINST = ("zero-shot", "majority")

Verdicts = Sequence[Value | None]
Scored = list[ScoredCase]
Results = defaultdict[str, Scored]
"""By method, the cases that it has judged."""


@dataclass(frozen=True, kw_only=True)
class Draw:
    """One run of a task.

    Attributes:
        task: The task's name.
        name: The name of the run among those of all tasks.
        folder: Where its judgments are, a file for each judge.
        judge: A judge that has learned nothing.
        rows: The feedback that is taught.
        taught: The cases of that feedback.
        unseen: The cases that are judged.
        labels: The labels of all cases, by id.
    """

    task: str
    name: str
    folder: Path
    judge: ma.Judge
    rows: Sequence[ma.Feedback]
    taught: Examples
    unseen: Examples
    labels: Mapping[str, Value]


def draws_of(settings: argparse.Namespace) -> Iterator[Draw]:
    """Yield every run of every task.

    It goes run by run, so that a run that is stopped has something of every task.
    """
    listed = settings.data / "tasks.json"
    tasks = json.loads(listed.read_bytes())
    labelled = {}
    for name in settings.tasks or tasks:
        if name not in tasks:
            sys.exit(f"{settings.data} lacks {name}; fetch.py makes it")
        path = settings.data / f"{name}.jsonl"
        facts = tasks[name]
        values = ValueType.of(facts["values"])
        rows = read_feedback(path, value_type=values).rows
        judge = ma.Judge(
            name=name,
            instructions=facts["criterion"] + fields_of(rows),
            feedback_value_type=values,
            model=settings.model,
        )
        labelled[judge] = LabelledCases.of(judge, rows)
    for run in range(settings.runs):
        for judge, cases in labelled.items():
            yield drawn(judge, cases, run, settings.data)


def fields_of(rows: Sequence[ma.Feedback]) -> str:
    """Return the end of instructions, which names the fields that the rows have."""
    used: set[str] = set()
    for row in rows:
        used |= row.content.keys()
    lines = ["\n"]
    for field in FIELDS:
        if field in used:
            lines.append(f"{{{{ {field} }}}}")
    return "\n".join(lines)


def drawn(judge: ma.Judge, cases: LabelledCases, run: int, data: Path) -> Draw:
    """Draw what a run of a task teaches and judges."""
    task = judge.name
    name = f"{task} {run}"
    rng = random.Random(name)
    pools = pools_of(cases.examples)
    rng.shuffle(pools)
    half = len(cases.labels) // 2
    count = min(TAUGHT, half)
    ids = taken(pools, count, rng)
    unseen = list(chain.from_iterable(pools))
    rng.shuffle(unseen)
    return Draw(
        task=task,
        name=name,
        folder=data / "judged" / task / str(run),
        judge=judge,
        rows=[row for row in cases.rows if row.id in ids],
        taught=[case for case in cases.examples if case.id in ids],
        unseen=unseen[:UNSEEN],
        labels=cases.labels,
    )


def taken(pools: list[Examples], wanted: int, rng: random.Random) -> set[str]:
    """Take pools away until there are enough cases, and return the ids of these."""
    largest = math.ceil(wanted / PARTS)
    ids = set()
    while wanted > 0:
        pool = pools.pop()
        size = min(len(pool), largest, wanted)
        wanted -= size
        for case in rng.sample(pool, size):
            ids.add(case.id)
    return ids


def pools_of(cases: Examples) -> list[Examples]:
    """Return the groups of cases, or each case alone if there are few groups."""
    groups = defaultdict(list)
    for case in cases:
        name = group_of(case)
        groups[name].append(case)
    if len(groups) < MANY_GROUPS:
        return [[case] for case in cases]
    return list(groups.values())


def group_of(case: ma.Example) -> str:
    """Return the name of a case's group; its own id if it has none."""
    group = case.meta.get("group")
    if group is None:
        return case.id
    return str(group)


def verdicts_of(draw: Draw, method: str) -> Verdicts:
    """Return a method's verdicts on the unseen cases, in their order."""
    if method in JUDGES:
        return judged(draw, method)
    labels = []
    for case in draw.taught:
        label = draw.labels[case.id]
        labels.append(label)
    classify = BASELINES[method]
    return classify(draw.taught, labels, draw.unseen)


def judged(draw: Draw, method: str) -> Verdicts:
    """Return a judge's verdicts, None where it fails; it is asked for what its file lacks."""
    print(f"{draw.name}: {method}", file=sys.stderr)
    draw.folder.mkdir(parents=True, exist_ok=True)
    judge = draw.judge
    if method == "memalign":
        judge = learned(draw)
    path = draw.folder / f"{method}.jsonl"
    judgments = judge.judge_many(draw.unseen, out=path)
    return [judgment.value for judgment in judgments]


def learned(draw: Draw) -> ma.Judge:
    """Teach the draw's judge in a registry, where rows that it knows cost nothing."""
    judge = draw.judge
    registry = ma.Registry(f"sqlite:///{draw.folder}/judges.db")
    if not registry.list():
        registry.create(judge)
    result = registry.align(judge.name, draw.rows)
    return result.judge


def scored(draw: Draw, method: str) -> Scored:
    """Return the draw's cases that a method has judged, with its verdicts."""
    verdicts = verdicts_of(draw, method)
    cases = []
    for case, value in zip(draw.unseen, verdicts, strict=True):
        if value is None:
            continue
        group = group_of(case)
        scored_case = ScoredCase(
            id=f"{draw.name} {case.id}",
            label=draw.labels[case.id],
            value=value,
            group=f"{draw.task} {group}",
            tolerance=draw.judge.value_type.tolerance,
        )
        cases.append(scored_case)
    return cases


def tables(draws: Iterable[Draw], methods: Sequence[str]) -> str:
    """Return a table for each task, after one for all of them if there are several."""
    every: Results = defaultdict(list)
    tasks: dict[str, Results] = {}
    for draw in draws:
        results = tasks.setdefault(draw.task, defaultdict(list))
        for method in methods:
            cases = scored(draw, method)
            results[method] += cases
            every[method] += cases
    made = []
    if len(tasks) > 1:
        made.append(table("all tasks", every))
    for task, results in tasks.items():
        made.append(table(task, results))
    return "\n\n".join(made)


def table(title: str, results: Results) -> str:
    """Return the methods' accuracy, and how each compares with those that are compared."""
    beside = [name for name in AGAINST if name in results]
    titles = [title, "n", "accuracy"]
    for name in beside:
        titles.append(f"against {name}, points; fixed, broken")
    rows = []
    for method, cases in results.items():
        n = len(cases)
        right = accuracy(cases)
        row = [method, f"{n:,}", f"{right:.2f}"]
        for name in beside:
            cell = ""
            if name != method:
                cell = difference(results[name], cases)
            row.append(cell)
        rows.append(row)
    return markdown(titles, rows)


def difference(first: Scored, second: Scored) -> str:
    """Return the library's paired comparison in points, then fixed and broken."""
    comparison = ma.compare(first, second)
    percent = f"{comparison.difference:+.0%}"
    points = percent.replace("%", "")
    fixed = len(comparison.fixed)
    broken = len(comparison.broken)
    return f"{points}; {fixed}, {broken}"


def estimated(draw: Draw, method: str) -> ma.Usage:
    """Return about what a method would ask for: an upper bound, as if no provider had a cache."""
    estimate = DryRun()
    calls = Calls(dry_run=estimate)
    judge = draw.judge
    if method == "memalign":
        optimizer = ma.MemAlign()
        learning = optimizer.align(judge, draw.rows, calls=calls)
        result = aio.run(learning)
        judge = result.judge
    judge.judge_many(draw.unseen, max_cost=calls)
    return estimate.usage


def dry_table(draws: Iterable[Draw], methods: Sequence[str]) -> str:
    """Return what the methods with a model would ask for, and all of them together."""
    usages: dict[str, ma.Usage] = defaultdict(ma.Usage)
    for draw in draws:
        for method in JUDGES:
            if method in methods:
                usages[method] += estimated(draw, method)
    usages["all of these"] = sum(usages.values(), ma.Usage())
    rows = []
    for method, usage in usages.items():
        dollars = "unknown"
        if usage.cost is not None:
            dollars = f"{usage.cost:.2f}"
        row = [
            method,
            f"{usage.calls:,}",
            f"{usage.input_tokens:,}",
            f"{usage.output_tokens:,}",
            dollars,
        ]
        rows.append(row)
    titles = ("method", "calls", "tokens in", "tokens out", "dollars")
    return markdown(titles, rows)


def main() -> None:
    """Judge what is missing, and print the tables; or say what that would cost."""
    options = parser_of(__doc__)
    options.add_argument("data", type=Path, help="the folder that fetch.py makes")
    options.add_argument("--tasks", nargs="+", help="all in the folder without it")
    options.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    options.add_argument("--runs", type=int, default=1)
    options.add_argument("--model")
    options.add_argument("--dry-run", action="store_true", help="say what it costs")
    settings = options.parse_args()
    draws = draws_of(settings)
    if settings.dry_run:
        print(dry_table(draws, settings.methods))
    else:
        print(tables(draws, settings.methods))


if __name__ == "__main__":
    main()
