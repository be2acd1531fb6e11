"""Does a judge learn from real feedback? Ways to learn, side by side, on public sets with people's own verdicts.

    python benchmarks/fetch.py DATA                                                the sets, from their public sources
    python benchmarks/learns.py DATA --methods majority neighbours features words mined           without a model
    python benchmarks/learns.py DATA --model openai:gpt-4.1-mini --dry-run         how many calls, and dollars
    python benchmarks/learns.py DATA --model openai:gpt-4.1-mini
    python benchmarks/learns.py --settings benchmarks/authors_grid.toml DATA --model openai:gpt-4.1-mini

DATA has a file of feedback for each task, and `tasks.json`, which says its criterion and values. In each run some cases
are drawn to be taught and others, of other groups, to be judged, the same for every method. DATA/judged keeps the
judges (`judges.db`) and the judgments (`TASK/RUN/METHOD.jsonl`), and the same command goes on where it was stopped. The
table has accuracy, and the differences of the library's own paired comparison: 95 % intervals by group of cases.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from baselines import BASELINES, AnyLikeness, episodic, ruled, share
from scale import Competitor

import memalign as ma
from memalign import aio
from memalign.evaluation.agreement import LabelledCases
from memalign.evaluation.cases import ScoredCase
from memalign.io import read_feedback, read_judgments
from memalign.io.judgments import JudgmentWriter
from memalign.metrics import Estimate
from memalign.models.calls import Calls
from memalign.models.dry_run import DryRun
from memalign.models.wordllama import WordLlamaEmbedding
from memalign.values import Value, ValueType

FIELDS = ("inputs", "outputs", "expectations")
MANY_GROUPS = 20  # from so many on, those of the taught cases are not among the judged ones
PARTS = 10  # of what is taught, one group has a tenth at most
SAMPLE = 5  # items that a dry run judges of each method and task
BATCH = 32  # items that a competitor judges before they are written down
PUBLIC = "https://api.openai.com/v1"
COMPETITORS = {"mlflow": "MLflow's MemAlign", "miprov2": "MIPROv2", "simba": "SIMBA", "gepa": "GEPA"}


# -- what is taught, and what is judged ------------------------------------------------------------------------------


class Task(NamedTuple):
    """A file of feedback, and what its judge is asked."""

    name: str
    criterion: str
    value_type: ValueType
    rows: Sequence[ma.Feedback]

    def judge(self, settings: argparse.Namespace) -> ma.Judge:
        """The judge that has learned nothing."""
        fields = [name for name in FIELDS if any(row.content.get(name) is not None for row in self.rows)]
        return ma.Judge(
            name=self.name,
            instructions="\n".join([f"{self.criterion}\n", *(f"{{{{ {name} }}}}" for name in fields)]),
            feedback_value_type=self.value_type.annotation,
            model=settings.model,
            check_model=settings.check_model,
            retrieval_k=settings.k,
            parameters={"reflection_model": settings.reflection_model} if settings.reflection_model else {},
        )


class Draw(NamedTuple):
    """One run of a task: the feedback that is taught, the cases that are judged, and the labels of both."""

    task: Task
    run: int
    taught: Sequence[ma.Feedback]
    unseen: Sequence[ma.Example]
    labels: Mapping[str, Value]

    @classmethod
    def of(cls, task: Task, run: int, settings: argparse.Namespace) -> Draw:
        """The draw of a run: whole groups, unless there are few of them."""
        cases = LabelledCases.of(task.judge(settings), task.rows)
        groups: dict[str, list[ma.Example]] = {}
        for example in cases.examples:
            groups.setdefault(str(example.meta.get("group", example.id)), []).append(example)
        pools = list(groups.values()) if len(groups) >= MANY_GROUPS else [[example] for example in cases.examples]
        rng, names, count = (
            random.Random(f"{task.name} {run}"),
            set[str](),
            min(settings.taught, len(cases.labels) // 2),
        )
        rng.shuffle(pools)
        while len(names) < count:
            pool = pools.pop()
            drawn = rng.sample(pool, min(len(pool), math.ceil(count / PARTS), count - len(names)))
            names |= {example.id for example in drawn}
        unseen = [example for pool in pools for example in pool]
        rng.shuffle(unseen)
        taught = [row for row in cases.rows if row.id in names]
        return cls(task, run, taught, unseen[: settings.unseen or None], cases.labels)

    def suits(self, method: str) -> bool:
        """Whether the method has anything to learn from."""
        return method != "comments only" or any(row.rationale for row in self.taught)

    def path(self, method: str, settings: argparse.Namespace) -> Path:
        """Where the judgments of a method are."""
        path: Path = settings.out / self.task.name / str(self.run) / f"{method.replace(' ', '-')}.jsonl"
        return path


# -- ways to learn -----------------------------------------------------------------------------------------------------


def aligned(draw: Draw, settings: argparse.Namespace, what: str = "all") -> ma.Judge:
    """The judge that has learned the draw's labels, comments or all of it; `judges.db` keeps it."""
    rows = list(CHANGES[what](draw.taught))
    judge, optimizer = draw.task.judge(settings), ma.MemAlign(max_cost=settings.max_cost)
    if settings.dry is not None:
        return aio.run(optimizer.align(judge, rows, calls=Calls(dry_run=settings.dry))).judge
    registry, name = ma.Registry(f"sqlite:///{settings.out / 'judges.db'}"), f"{draw.task.name} {draw.run} {what}"
    if name not in {entry.name for entry in registry.list()}:
        registry.create(judge.replace(name=name))
    return registry.align(name, rows, optimizer=optimizer).judge  # what was learned already costs nothing


def remembering(draw: Draw, settings: argparse.Namespace, embedding: Any) -> ma.Judge:
    """A judge that is shown taught cases, and has no guidelines."""
    return draw.task.judge(settings).replace(memory=episodic(draw.taught, embedding), embedding_model=embedding)


without = msgspec.structs.replace
CHANGES: dict[str, Callable[[Sequence[ma.Feedback]], Iterator[ma.Feedback]]] = {
    "all": iter,
    "labels": lambda rows: (without(row, rationale=None) for row in rows if row.value is not None),
    "comments": lambda rows: (without(row, value=None) for row in rows if row.rationale),
}
JUDGES: dict[str, Callable[[Draw, argparse.Namespace], ma.Judge]] = {
    "zero-shot": lambda draw, settings: draw.task.judge(settings),
    "memalign": aligned,
    "labels only": lambda draw, settings: aligned(draw, settings, "labels"),
    "comments only": lambda draw, settings: aligned(draw, settings, "comments"),
    "semantic only": lambda draw, settings: aligned(draw, settings).replace(retrieval_k=0),
    "episodic only": lambda draw, settings: remembering(draw, settings, WordLlamaEmbedding()),
    "nearest cases": lambda draw, settings: remembering(draw, settings, AnyLikeness()),
}
METHODS = (*JUDGES, *COMPETITORS, *BASELINES, "mined")


def judge_all(draw: Draw, method: str, settings: argparse.Namespace) -> None:
    """Learn, and judge what the method's file lacks."""
    path = draw.path(method, settings)
    path.parent.mkdir(parents=True, exist_ok=True)
    if method in JUDGES:
        judge = JUDGES[method](draw, settings)
        judge.judge_many(list(draw.unseen), out=path, max_cost=settings.max_cost, concurrency=settings.concurrency)
        return
    with JudgmentWriter(path, judge=method, examples=draw.unseen) as file:
        cases = [case for case in draw.unseen if case.id not in file]
        verdicts = compete if method in COMPETITORS else baseline
        for case, value in zip(cases, verdicts(draw, method, cases, settings), strict=True) if cases else ():
            error = None if value is not None else "no verdict"
            file.write(case.id, ma.Judgment(id=case.id, value=value, error=error))


def compete(draw: Draw, method: str, cases: Sequence[ma.Example], settings: argparse.Namespace) -> Iterator[Any]:
    """A competitor's verdicts, from a process of its own environment; None where it gives none."""
    model, _, address = str(settings.model).removeprefix("openai:").partition("@")
    setup = {"model": model.strip("/"), "instructions": draw.task.judge(settings).instructions}
    setup["values"] = draw.task.value_type.spec
    rows = [texts(row) | {name: getattr(row, name) for name in ("value", "rationale", "source")} for row in draw.taught]
    with Competitor(Path(settings.competitors), rows, address or PUBLIC, COMPETITORS[method], **setup) as competitor:
        competitor.align(0, len(rows))
        for start in range(0, len(cases), BATCH):
            yield from competitor.verdicts([texts(case) for case in cases[start : start + BATCH]])["values"]


def texts(item: ma.Feedback | ma.Example) -> dict[str, str]:
    """The fields of an item, each as one text."""
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in item.content.items()}


def baseline(draw: Draw, method: str, cases: Sequence[ma.Example], _: argparse.Namespace) -> list[Value]:
    """The verdicts of what needs no model; where no mined rule fires, the commonest label."""
    examples = {row.id: row.example for row in draw.taught if row.example is not None}
    taught = [(case, draw.labels[name]) for name, case in examples.items()]
    verdicts: list[Value] = BASELINES["majority" if method == "mined" else method](taught, cases)
    if method == "mined" and (rules := ruled(draw.taught, draw.task.value_type)) is not None:
        fired = map(rules, cases)
        return [commonest if value is None else value for value, commonest in zip(fired, verdicts, strict=True)]
    return verdicts


def estimated(draw: Draw, method: str, settings: argparse.Namespace) -> ma.Usage:
    """About what a method would ask for: the align in whole, and judging by a sample."""
    settings.dry, judging, sample = DryRun(), DryRun(), draw.unseen[:SAMPLE]
    JUDGES[method](draw, settings).judge_many(list(sample), max_cost=Calls(dry_run=judging))
    learning: ma.Usage = settings.dry.usage
    return learning + judging.scaled(len(draw.unseen) / len(sample))[0]


def dry_table(draws: Sequence[Draw], settings: argparse.Namespace) -> str:
    """Calls, tokens and dollars by method, as an upper bound: nothing is taken to come from a provider's cache."""
    usages: dict[str, ma.Usage] = {}
    for method in [method for method in settings.methods if method in JUDGES]:
        usages[method] = sum((estimated(draw, method, settings) for draw in draws if draw.suits(method)), ma.Usage())
    usages["all of these"] = sum(usages.values(), ma.Usage())
    lines = ["| method | calls | tokens in | tokens out | dollars |", "|---|---|---|---|---|"]
    for method, usage in usages.items():
        dollars = "unknown" if usage.cost is None else f"{usage.cost:.2f}"
        lines.append(f"| {method} | {usage.calls:,} | {usage.input_tokens:,} | {usage.output_tokens:,} | {dollars} |")
    return "\n".join([*lines, f"Not known beforehand, since they decide it themselves: {', '.join(COMPETITORS)}"])


# -- the table ---------------------------------------------------------------------------------------------------------


def scored(draw: Draw, method: str, settings: argparse.Namespace) -> Iterator[ScoredCase]:
    """The draw's cases with the method's verdicts, as far as it has any."""
    path = draw.path(method, settings)
    judgments = read_judgments(path).judgments if path.exists() and path.stat().st_size else {}
    for case in draw.unseen:
        if (judgment := judgments.get(case.id)) is not None and judgment.value is not None:
            group = f"{draw.task.name} {case.meta.get('group', case.id)}"
            label, tolerance = draw.labels[case.id], draw.task.value_type.tolerance
            name = f"{draw.task.name} {draw.run} {case.id}"
            yield ScoredCase(id=name, label=label, value=judgment.value, group=group, tolerance=tolerance)


def table(title: str, draws: Sequence[Draw], settings: argparse.Namespace) -> str:
    """The methods on these draws, each beside those that it is compared with."""
    verdicts = {method: [case for draw in draws for case in scored(draw, method, settings)] for method in METHODS}
    verdicts = {method: cases for method, cases in verdicts.items() if cases and method in settings.methods}
    beside = [method for method in settings.against if method in verdicts]
    titles = [title, "n", "accuracy", *(f"against {name}, points; fixed, broken" for name in beside)]
    lines = ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
    for method, cases in verdicts.items():
        accuracy = share([bool(case.correct) for case in cases], [str(case.group) for case in cases])
        line = [method, f"{len(cases):,}", f"{accuracy:.2f}"]
        line += ["" if name == method else difference(verdicts[name], cases) for name in beside]
        lines.append("| " + " | ".join(line) + " |")
    return "\n".join(lines)


def difference(first: Sequence[ScoredCase], second: Sequence[ScoredCase]) -> str:
    """The library's paired comparison in points, for numbers that of the concordance too; then fixed and broken."""
    comparison, parts = ma.compare(first, second), []
    for name, estimate in comparison.differences.items():
        bounds = {bound: getattr(estimate, bound) for bound in ("value", "low", "high")}
        points = Estimate(**{bound: part if part is None else 100 * part for bound, part in bounds.items()})
        parts.append(f"{points:+.0f}" + (" of CCC" if name == "ccc" else ""))
    return f"{', '.join(parts)}; {len(comparison.fixed)}, {len(comparison.broken)}"


def main() -> None:
    """Judge what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="a folder of tasks, as fetch.py makes it")
    parser.add_argument("--settings", type=Path, help="a TOML file with any of these options")
    parser.add_argument("--out", type=Path, help="judges and judgments; DATA/judged without it")
    parser.add_argument("--tasks", nargs="+", help="all in the folder without it")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=[*JUDGES, *BASELINES, "mined"])
    parser.add_argument("--against", nargs="+", default=["zero-shot", "mlflow", "majority"])
    parser.add_argument("--taught", type=int, default=50)
    parser.add_argument("--unseen", type=int, default=100, help="cases to judge in a run; 0: all the rest")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--k", type=int, help="similar cases that a judgment sees")
    parser.add_argument("--model")
    parser.add_argument("--check-model")
    parser.add_argument("--reflection-model")
    parser.add_argument("--competitors", default=".competitors/bin/python", help="competitors.py says how to make it")
    parser.add_argument("--max-cost", type=float, help="dollars for each method in each run of a task")
    parser.add_argument("--concurrency", type=int)
    parser.add_argument("--dry-run", action="store_true", help="ask nothing, say how many calls and dollars")
    parser.add_argument("--table", action="store_true", help="judge nothing, print what is there")
    parser.set_defaults(dry=None)
    if (settings_file := parser.parse_known_args()[0].settings) is not None:
        parser.set_defaults(**tomllib.loads(settings_file.read_text("utf-8")))
    settings = parser.parse_args()
    settings.out = Path(settings.out or settings.data / "judged")
    facts = json.loads((settings.data / "tasks.json").read_bytes())
    asks = not (settings.dry_run or settings.table)
    if asks and COMPETITORS.keys() & {*settings.methods} and not Path(settings.competitors).exists():
        parser.error(f"no {settings.competitors}: competitors.py says how to make it, --methods leaves competitors out")
    if missing := {*(settings.tasks or ())} - facts.keys():
        parser.error(f"{settings.data} lacks {', '.join(sorted(missing))}; fetch.py makes them, --tasks names others")
    tasks = []
    for name in settings.tasks or facts:
        value_type = ValueType.of(facts[name]["values"])
        rows = read_feedback(settings.data / f"{name}.jsonl", value_type=value_type).rows
        tasks.append(Task(name, facts[name]["criterion"], value_type, rows))
    draws = [Draw.of(task, run, settings) for run in range(settings.runs) for task in tasks]
    if settings.dry_run:
        print(dry_table(draws, settings))
        return
    for draw in draws if asks else ():
        for method in filter(draw.suits, settings.methods):
            print(f"{draw.task.name} {draw.run}: {method}", file=sys.stderr)
            judge_all(draw, method, settings)
    groups = {task.name: [draw for draw in draws if draw.task is task] for task in tasks}
    for title, group in ({"all tasks": draws} | groups if len(groups) > 1 else groups).items():
        print(table(title, group, settings), end="\n\n")


if __name__ == "__main__":
    main()
