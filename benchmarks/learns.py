"""Does a judge learn from real feedback? Ways to learn, side by side, on public sets with people's own verdicts.

    python benchmarks/learns.py DATA --methods majority neighbours features words mined           without a model
    OPENAI_API_KEY=any python benchmarks/learns.py DATA --model openai:gpt-4.1-mini --dry-run     calls and dollars
    python benchmarks/learns.py DATA --model openai:gpt-4.1-mini
    python benchmarks/learns.py --settings benchmarks/authors_grid.toml DATA --model openai:gpt-4.1-mini

`python benchmarks/fetch.py DATA` makes DATA: a file of feedback for each task, and `tasks.json` with its criterion and
values. In each run some cases are drawn to be taught and others, of other groups, to be judged, the same for every
method. DATA/judged keeps judges (`judges.db`) and judgments (`TASK/RUN/METHOD.jsonl`), and the same command completes a
run that was stopped. Differences are the library's own paired comparison: 95 % intervals by group of cases.
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

from baselines import BASELINES, AnyLikeness, remembering, ruled
from msgspec.structs import replace
from scale import competitor
from shared import aligned, judge_of, markdown, share

import memalign as ma
from memalign import aio
from memalign.evaluation import LabelledCases
from memalign.evaluation.cases import ScoredCase
from memalign.io import read_feedback, read_judgments
from memalign.io.judgments import JudgmentWriter
from memalign.models.calls import Calls
from memalign.models.dry_run import DryRun
from memalign.models.wordllama import WordLlamaEmbedding
from memalign.values import Value, ValueType

FIELDS = ("inputs", "outputs", "expectations")
MANY_GROUPS = 20  # from so many on, those of the taught cases are not among the judged ones
PARTS = 10  # of what is taught, one group has a tenth at most
BATCH = 32  # items that a competitor judges before they are written down
PUBLIC = "https://api.openai.com/v1"
COMPETITORS = {
    "mlflow": "MLflow's MemAlign",
    "miprov2": "MIPROv2",
    "simba": "SIMBA",
    "gepa": "GEPA",
}


class Draw(NamedTuple):
    """One run of a task: its judge, the feedback that is taught, the cases that are judged, and the labels of both."""

    judge: ma.Judge
    run: int
    taught: Sequence[ma.Feedback]
    unseen: Sequence[ma.Example]
    labels: Mapping[str, Value]

    @classmethod
    def of(
        cls, judge: ma.Judge, rows: Sequence[ma.Feedback], run: int, settings: argparse.Namespace
    ) -> Draw:
        """The draw of a run: whole groups, unless there are few of them."""
        cases = LabelledCases.of(judge, rows)
        groups: dict[str, list[ma.Example]] = {}
        for example in cases.examples:
            groups.setdefault(str(example.meta.get("group", example.id)), []).append(example)
        pools = (
            list(groups.values())
            if len(groups) >= MANY_GROUPS
            else [[example] for example in cases.examples]
        )
        rng, names = random.Random(f"{judge.name} {run}"), set[str]()
        count = min(settings.taught, len(cases.labels) // 2)
        rng.shuffle(pools)
        while len(names) < count:
            pool = pools.pop()
            drawn = rng.sample(pool, min(len(pool), math.ceil(count / PARTS), count - len(names)))
            names |= {example.id for example in drawn}
        unseen = [example for pool in pools for example in pool]
        rng.shuffle(unseen)
        taught = [row for row in cases.rows if row.id in names]
        return cls(judge, run, taught, unseen[: settings.unseen or None], cases.labels)

    def suits(self, method: str) -> bool:
        """Whether the method has anything to learn from."""
        return method != "comments only" or any(row.rationale for row in self.taught)

    def path(self, method: str, settings: argparse.Namespace) -> Path:
        """Where the judgments of a method are."""
        return Path(
            settings.out, self.judge.name, str(self.run), f"{method.replace(' ', '-')}.jsonl"
        )


def taught(draw: Draw, settings: argparse.Namespace, what: str = "all") -> ma.Judge:
    """The judge that has learned the draw's labels, comments or all of it; `judges.db` keeps it."""
    rows = list(CHANGES[what](draw.taught))
    if settings.dry is not None:
        optimizer = ma.MemAlign(max_cost=settings.max_cost)
        return aio.run(optimizer.align(draw.judge, rows, calls=Calls(dry_run=settings.dry))).judge
    judge = draw.judge.replace(name=f"{draw.judge.name} {draw.run} {what}")
    return aligned(judge, rows, settings.out / "judges.db", settings.max_cost)


CHANGES: dict[str, Callable[[Sequence[ma.Feedback]], Iterator[ma.Feedback]]] = {
    "all": iter,
    "labels": lambda rows: (replace(row, rationale=None) for row in rows if row.value is not None),
    "comments": lambda rows: (replace(row, value=None) for row in rows if row.rationale),
}
JUDGES: dict[str, Callable[[Draw, argparse.Namespace], ma.Judge]] = {
    "zero-shot": lambda draw, _: draw.judge,
    "memalign": taught,
    "labels only": lambda draw, settings: taught(draw, settings, "labels"),
    "comments only": lambda draw, settings: taught(draw, settings, "comments"),
    "semantic only": lambda draw, settings: taught(draw, settings).replace(retrieval_k=0),
    "episodic only": lambda draw, _: remembering(draw.judge, draw.taught, WordLlamaEmbedding()),
    "nearest cases": lambda draw, _: remembering(draw.judge, draw.taught, AnyLikeness()),
}
METHODS = (*JUDGES, *COMPETITORS, *BASELINES, "mined")


def judge_all(draw: Draw, method: str, settings: argparse.Namespace) -> None:
    """Learn, and judge what the method's file lacks."""
    path = draw.path(method, settings)
    path.parent.mkdir(parents=True, exist_ok=True)
    if method in JUDGES:
        judge = JUDGES[method](draw, settings)
        judge.judge_many(
            list(draw.unseen),
            out=path,
            max_cost=settings.max_cost,
            concurrency=settings.concurrency,
        )
        return
    with JudgmentWriter(path, judge=method, examples=draw.unseen) as file:
        cases = [case for case in draw.unseen if case.id not in file]
        verdicts = compete if method in COMPETITORS else baseline
        for case, value in (
            zip(cases, verdicts(draw, method, cases, settings), strict=True) if cases else ()
        ):
            error = None if value is not None else "no verdict"
            file.write(case.id, ma.Judgment(id=case.id, value=value, error=error))


def compete(
    draw: Draw, method: str, cases: Sequence[ma.Example], settings: argparse.Namespace
) -> Iterator[Any]:
    """A competitor's verdicts, from a process of its own environment; None where it gives none."""
    model, _, address = str(settings.model).removeprefix("openai:").partition("@")
    setup = {
        "model": model.strip("/"),
        "instructions": draw.judge.instructions,
        "values": draw.judge.value_type.spec,
    }
    rows = [
        texts(row) | {name: getattr(row, name) for name in ("value", "rationale", "source")}
        for row in draw.taught
    ]
    with competitor(
        Path(settings.competitors), rows, address or PUBLIC, COMPETITORS[method], **setup
    ) as ask:
        ask(align=[0, len(rows)])
        for start in range(0, len(cases), BATCH):
            yield from ask(items=[texts(case) for case in cases[start : start + BATCH]])["values"]


def texts(item: ma.Feedback | ma.Example) -> dict[str, str]:
    """The fields of an item, each as one text."""
    return {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in item.content.items()
    }


def baseline(
    draw: Draw, method: str, cases: Sequence[ma.Example], _: argparse.Namespace
) -> list[Value]:
    """The verdicts of what needs no model; where no mined rule fires, the commonest label."""
    examples = {row.id: row.example for row in draw.taught if row.example is not None}
    taught = [(case, draw.labels[name]) for name, case in examples.items()]
    verdicts: list[Value] = BASELINES["majority" if method == "mined" else method](taught, cases)
    if method == "mined" and (rules := ruled(draw.taught, draw.judge.value_type)) is not None:
        fired = map(rules, cases)
        return [
            commonest if value is None else value
            for value, commonest in zip(fired, verdicts, strict=True)
        ]
    return verdicts


def dry_table(draws: Sequence[Draw], settings: argparse.Namespace) -> str:
    """About what methods would ask for: an upper bound, as if no provider had a cache."""
    rows, total = [], ma.Usage()
    for method in [method for method in settings.methods if method in JUDGES]:
        usage = ma.Usage()
        for draw in [draw for draw in draws if draw.suits(method)]:
            settings.dry, judging = DryRun(), DryRun()
            JUDGES[method](draw, settings).judge_many(draw.unseen, max_cost=Calls(dry_run=judging))
            usage += settings.dry.usage + judging.usage
        rows.append((method, usage))
        total += usage
    lines = []
    for method, usage in [*rows, ("all of these", total)]:
        counts = [f"{count:,}" for count in (usage.calls, usage.input_tokens, usage.output_tokens)]
        lines.append([method, *counts, "unknown" if usage.cost is None else f"{usage.cost:.2f}"])
    others = f"Not known beforehand, since they decide it themselves: {', '.join(COMPETITORS)}"
    return (
        markdown(("method", "calls", "tokens in", "tokens out", "dollars"), lines) + f"\n\n{others}"
    )


def scored(draw: Draw, method: str, settings: argparse.Namespace) -> Iterator[ScoredCase]:
    """The draw's cases with the method's verdicts, as far as it has any."""
    path = draw.path(method, settings)
    judgments = read_judgments(path).judgments if path.exists() and path.stat().st_size else {}
    for case in draw.unseen:
        if (judgment := judgments.get(case.id)) is not None and judgment.value is not None:
            group = f"{draw.judge.name} {case.meta.get('group', case.id)}"
            label, tolerance = draw.labels[case.id], draw.judge.value_type.tolerance
            name = f"{draw.judge.name} {draw.run} {case.id}"
            yield ScoredCase(
                id=name, label=label, value=judgment.value, group=group, tolerance=tolerance
            )


def table(title: str, draws: Sequence[Draw], settings: argparse.Namespace) -> str:
    """The methods on these draws, each beside those that it is compared with."""
    verdicts = {
        method: [case for draw in draws for case in scored(draw, method, settings)]
        for method in METHODS
    }
    verdicts = {
        method: cases for method, cases in verdicts.items() if cases and method in settings.methods
    }
    beside = [method for method in settings.against if method in verdicts]
    rows = []
    for method, cases in verdicts.items():
        accuracy = share(
            [bool(case.correct) for case in cases], [str(case.group) for case in cases]
        )
        others = ["" if name == method else difference(verdicts[name], cases) for name in beside]
        rows.append([method, f"{len(cases):,}", f"{accuracy:.2f}", *others])
    titles = [f"against {name}, points; fixed, broken" for name in beside]
    return markdown([title, "n", "accuracy", *titles], rows)


def difference(first: Sequence[ScoredCase], second: Sequence[ScoredCase]) -> str:
    """The library's paired comparison in points; then fixed and broken."""
    comparison = ma.compare(first, second)
    points = f"{comparison.difference:+.0%}".replace("%", "")
    return f"{points}; {len(comparison.fixed)}, {len(comparison.broken)}"


def main() -> None:
    """Judge what is missing, and print the table."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("data", type=Path, help="a folder of tasks, as fetch.py makes it")
    options.add_argument("--settings", type=Path, help="a TOML file with any of these options")
    options.add_argument("--out", type=Path, help="judges and judgments; DATA/judged without it")
    options.add_argument("--tasks", nargs="+", help="all in the folder without it")
    options.add_argument(
        "--methods", nargs="+", choices=METHODS, default=[*JUDGES, *BASELINES, "mined"]
    )
    options.add_argument("--against", nargs="+", default=["zero-shot", "mlflow", "majority"])
    options.add_argument("--taught", type=int, default=50)
    options.add_argument(
        "--unseen", type=int, default=100, help="cases to judge in a run; 0: all the rest"
    )
    options.add_argument("--runs", type=int, default=1)
    options.add_argument("--k", type=int, help="similar cases that a judgment sees")
    options.add_argument("--model")
    options.add_argument("--reflection-model")
    options.add_argument(
        "--competitors",
        default=".competitors/bin/python",
        help="competitors.py says how to make it",
    )
    options.add_argument(
        "--max-cost", type=float, help="dollars for each method in each run of a task"
    )
    options.add_argument("--concurrency", type=int)
    options.add_argument(
        "--dry-run", action="store_true", help="ask nothing, say how many calls and dollars"
    )
    options.add_argument("--table", action="store_true", help="judge nothing, print what is there")
    options.set_defaults(dry=None)
    if (settings_file := options.parse_known_args()[0].settings) is not None:
        options.set_defaults(**tomllib.loads(settings_file.read_text("utf-8")))
    settings = options.parse_args()
    settings.out = Path(settings.out or settings.data / "judged")
    facts = json.loads((settings.data / "tasks.json").read_bytes())
    asks = not (settings.dry_run or settings.table)
    if (
        asks
        and COMPETITORS.keys() & {*settings.methods}
        and not Path(settings.competitors).exists()
    ):
        options.error(
            f"no {settings.competitors}: competitors.py says how to make it; or leave competitors out"
        )
    if missing := {*(settings.tasks or ())} - facts.keys():
        options.error(
            f"{settings.data} lacks {', '.join(sorted(missing))}; fetch.py makes them, --tasks names others"
        )
    groups: dict[str, list[Draw]] = {}
    for name in settings.tasks or facts:
        values = ValueType.of(facts[name]["values"])
        rows = read_feedback(settings.data / f"{name}.jsonl", value_type=values).rows
        fields = [
            field for field in FIELDS if any(row.content.get(field) is not None for row in rows)
        ]
        instructions = "\n".join(
            [f"{facts[name]['criterion']}\n", *(f"{{{{ {field} }}}}" for field in fields)]
        )
        more = {"feedback_value_type": values.annotation, "retrieval_k": settings.k}
        judge = judge_of(name, instructions, settings.model, settings.reflection_model, **more)
        groups[name] = [Draw.of(judge, rows, run, settings) for run in range(settings.runs)]
    draws = [draw for runs in zip(*groups.values(), strict=True) for draw in runs]
    if settings.dry_run:
        print(dry_table(draws, settings))
        return
    for draw in draws if asks else ():
        for method in filter(draw.suits, settings.methods):
            print(f"{draw.judge.name} {draw.run}: {method}", file=sys.stderr)
            judge_all(draw, method, settings)
    for title, group in ({"all tasks": draws} | groups if len(groups) > 1 else groups).items():
        print(table(title, group, settings), end="\n\n")


if __name__ == "__main__":
    main()
