"""A raw folder of invented judgments: several tasks, methods, stages, seeds and views, with errors and gaps."""

from __future__ import annotations

import random
from pathlib import Path
from typing import cast

from memalign_bench.raw import Cell, Fit, Line, RawFolder, View
from memalign_bench.report import TaskFacts, write_facts

TASKS = (
    TaskFacts(name="harbour_claims", category="faithfulness", values="Supported|Refuted|Unclear", n_cases=300, licence="CC BY 4.0"),
    TaskFacts(name="tide_answers", category="answer correctness", values="bool", n_cases=240, licence="MIT"),
    TaskFacts(name="lighthouse_essays", category="writing", values="int:1..5", by_row=True, n_cases=150),
)  # fmt: skip
SKILL = {
    "majority": 0.5, "neighbours-vote": 0.55, "regression-embeddings": 0.66, "regression-features": 0.6,
    "zero-shot": 0.58, "static": 0.58, "nearest": 0.62, "guidelines": 0.66, "memalign": 0.74, "mlflow": 0.64,
    "memalign-labels": 0.68, "memalign-comments": 0.7, "memalign-without-pre-alignment": 0.72,
}  # fmt: skip
BASELINES = {"majority", "neighbours-vote", "regression-embeddings", "regression-features"}


def write_folder(
    folder: Path,
    *,
    models: tuple[str, ...] = ("local:tiny",),
    cases: int = 60,
    stages: tuple[int, ...] = (0, 5, 20, 50),
    seeds: tuple[int, ...] = (0, 1),
    methods: tuple[str, ...] = tuple(SKILL),
) -> Path:
    """The folder, filled: the same bytes every time. mlflow has judged a fifth of the first task, and one model call in 40 failed."""
    raw = RawFolder(folder)
    for model in models:
        for task in TASKS:
            for seed in seeds:
                for method in methods:
                    for stage in stages:
                        if (stage == 0) != (method == "zero-shot"):
                            continue
                        cell = Cell(model=model, task=task.name, seed=seed, method=method, stage=stage)
                        wanted = cases // 5 if (method, task.name) == ("mlflow", "harbour_claims") else cases
                        views = ["unseen", "seen", "left-out"] if method == "memalign" else ["unseen"]
                        for view in views:
                            n = wanted if view == "unseen" else min(stage, 20)
                            raw.append(cell, [_line(cell, task, view, number) for number in range(n)])
                        if method != "zero-shot":
                            raw.write_fit(cell, _fit(method, stage))
    write_facts(folder, TASKS, models=models, commands=["memalign bench run invented.toml --data harbour"])
    return folder


def _fit(method: str, stage: int) -> Fit:
    if method in BASELINES:
        return Fit(id=f"{method}-{stage}", seconds=0.01)
    return Fit(
        id=f"{method}-{stage}", calls=1 + stage // 4, tokens_in=120 * stage, tokens_out=11 * stage, cost=0.0004 * stage,
        seconds=2.5 + 0.7 * stage, counts={"guidelines": stage // 5, "cases": stage},
    )  # fmt: skip


def _line(cell: Cell, task: TaskFacts, view: str, number: int) -> Line:
    kind = "u" if view == "unseen" else "s"
    name = f"{kind}{cell.seed}-{number}" if number % 3 else f"{kind}-{number}"  # a third is drawn by every seed
    labels = task.value_type.labels
    truth = random.Random(f"{task.name} {name}")
    label = truth.choice(labels[:1] * 2 + labels)
    hard = truth.random()  # the same for all methods, so that pairing helps
    skill = SKILL[cell.method] + (0.02 * cell.stage**0.5 if cell.method.startswith("memalign") else 0.0)
    skill += {"unseen": 0.0, "seen": 0.2, "left-out": 0.05}[view]
    rng = random.Random(f"{cell} {cell.model} {view} {name}")
    right = 0.6 * hard + 0.4 * rng.random() < skill
    value = label if right else rng.choice([other for other in labels if other != label])
    failed = cell.method not in BASELINES and rng.random() < 0.025
    baseline = cell.method in BASELINES
    tokens = 0 if baseline else 160 + 12 * cell.stage
    return Line(
        id=name, group=f"g{number // 2}", label=label, value=None if failed else value,
        error="the model timed out after 30 s" if failed else None, view=cast("View", view), calls=0 if baseline else 1,
        tokens_in=tokens, cached=tokens // 2, tokens_out=0 if baseline else 40,
        seconds=0.0 if baseline else round(0.4 + tokens / 900 + rng.random() / 5, 3),
        cost=tokens * 4e-7, fit=f"{cell.method}-{cell.stage}",
    )  # fmt: skip
