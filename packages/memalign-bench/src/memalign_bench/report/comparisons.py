"""The parts of a report that set methods side by side: the primary comparison, baselines, ablations, kinds of feedback, models."""

from __future__ import annotations

from collections.abc import Sequence

from memalign_bench.config import ZERO_SHOT
from memalign_bench.report.facts import TaskFacts
from memalign_bench.report.measures import agreement
from memalign_bench.report.primary import (
    FIXED_WORDS,
    PRIMARY_AGAINST,
    PRIMARY_METHOD,
    PRIMARY_STAGE,
    Contrast,
    best_baseline,
    contrast,
    headline_stage,
    primary,
)
from memalign_bench.report.results import VIEWS, Results
from memalign_bench.report.tables import Section, Table, plain, points, quality

__all__ = [
    "MEMORIES",
    "ablation_methods",
    "ablation_section",
    "baselines_section",
    "feedback_methods",
    "feedback_section",
    "models_section",
    "primary_section",
]

MEMORIES = ("nearest", "guidelines", "examples")
KINDS = ("memalign-labels", "memalign-comments")
_PAIRED = (
    "n",
    "left out",
    "cases",
    "groups",
    "first's exact match",
    "second's",
    "difference, points",
    "fixed",
    "broken",
)


def _paired(one: Contrast) -> tuple[str, ...]:
    return (
        str(one.n), str(one.left_out), str(one.cases), str(one.groups), f"{one.first:.2f}", f"{one.second:.2f}",
        points(one.difference), str(one.fixed), str(one.broken),
    )  # fmt: skip


def primary_section(results: Results) -> Section:
    """The primary comparison for each model, and the same by task."""
    words = [
        f"Fixed beforehand, word for word: “{FIXED_WORDS}” What was called bare is zero-shot today.",
        (
            "Exact match, on numbers too (their CCC is in the tables by task). Cases are paired by task, seed and id; only "
            "those with a verdict in both methods count, and how many are left out is said. The interval is the 95 % percentile "
            "bootstrap of the difference over groups of cases, each task weighing by its cases. Ahead: the interval is above "
            "0. Behind: it is below 0. Not worse by 5 points: its lower bound is above \N{MINUS SIGN}5. Tied: nothing is "
            "shown. Because a bootstrap is too sure of few cases, the first two also need McNemar's exact p below 0.05, and "
            "the third 60 different cases. The intervals are not corrected for being several."
        ),
    ]
    tables: list[Table] = []
    for model in results.models:
        found = {one.against: one for one in primary(results, model)}
        words += [line for against in PRIMARY_AGAINST for line in _caveats(results, model, against, found.get(against))]
        if not found:
            continue
        rows = [
            (
                f"{one.method} against {one.against}",
                str(one.stage),
                *_paired(one),
                points(one.mean_over_tasks),
                one.verdict,
            )
            for one in found.values()
        ]
        columns = ("comparison", "stage", *_PAIRED, "mean over tasks, points", "verdict")
        title = "Primary comparison" if all(one.stage == PRIMARY_STAGE for one in found.values()) else "Comparison"
        tables.append(Table(title=f"{title}, {plain(model)}, unseen", columns=columns, rows=tuple(rows), remark=True))
        by_task = [
            (plain(task.name), f"{one.method} against {one.against}", str(one.stage), *_paired(one), one.word)
            for against in found
            for task in results.tasks(model)
            if (one := contrast(results, model, [task], PRIMARY_METHOD, against, stage=found[against].stage))
            is not None
        ]
        columns = ("task", "comparison", "stage", *_PAIRED, "verdict")
        tables.append(
            Table(
                title=f"The same by task, descriptive, {plain(model)}",
                columns=columns,
                rows=tuple(by_task),
                names=2,
                remark=True,
            )
        )
    return Section(id="primary", title="The primary comparison", words=tuple(words), tables=tuple(tables))


def _caveats(results: Results, model: str, against: str, one: Contrast | None) -> list[str]:
    """What is missing of the comparison, in words."""
    name = f"{plain(model)}, {PRIMARY_METHOD} against {against}"
    if one is None:
        lacking = [method for method in (PRIMARY_METHOD, against) if method not in results.methods(model)]
        why = f"nothing of {' and '.join(lacking)} is judged" if lacking else "no case has a verdict in both"
        if not any(task.matchable for task in results.tasks(model)):
            why = "verdicts that may be any fraction have no exact match"
        return [f"{name}: missing, {why}."]
    said = []
    if one.stage != PRIMARY_STAGE:
        said.append(
            f"{name}: this is not the primary comparison, which is at {PRIMARY_STAGE} rows; both have at most stage "
            f"{one.stage}."
        )
    for method in (PRIMARY_METHOD, against):
        lines = results.lines(model, one.tasks, method, one.stage)
        asked, known = sum(1 for _ in lines), len(results.known(model, one.tasks))
        if asked < known:
            said.append(f"{plain(model)}, {method}: {asked} of {known} cases judged so far, on {', '.join(one.tasks)}.")
    if left := [task.name for task in results.tasks(model) if task.name not in one.tasks]:
        said.append(f"{name}: without {plain(', '.join(left), 300)}, where not both have verdicts that can be matched.")
    return said


def baselines_section(results: Results) -> Section:
    """Each judge method against the best baseline of its task: below it, a judge is not yet worth its cost there."""
    tables = []
    for model in results.models:
        stage = headline_stage(results, model)
        rows = []
        for task in results.tasks(model):
            baseline = best_baseline(results, model, task, stage)
            if baseline is None:
                continue
            for method in results.methods(model):
                one = contrast(results, model, [task], method, baseline[0], stage=stage)
                if one is not None:
                    rows.append((plain(task.name), baseline[0], plain(method), *_paired(one), _precedence(one)))
        if rows:
            tables.append(
                Table(
                    title=f"Judges against the best baseline of the task, {plain(model)}, stage {stage}, unseen",
                    columns=("task", "best baseline", "method", *_PAIRED, "the judge is"),
                    rows=tuple(rows),
                    names=3,
                    remark=True,
                )
            )
    words = (
        (
            "Baselines need no language model: the majority label, the vote of the nearest cases, and logistic regressions on "
            "embeddings and on two plain features, all taught with the same cases. A judge below the best of them is not yet "
            "worth its cost there. The best baseline is chosen on the very cases of the comparison, which favours it a little."
        ),
    )
    return Section(
        id="baselines", title="Against baselines without a language model", words=words, tables=tuple(tables)
    )


def _precedence(one: Contrast) -> str:
    if one.word == "ahead":
        return "above"
    return "below: not yet worth its cost there" if one.word == "behind" else "not told apart"


def ablation_methods(results: Results, model: str) -> tuple[str, ...]:
    """The methods that are memalign with something taken away."""
    return tuple(
        method for method in results.methods(model) if method in MEMORIES or method.startswith("memalign-without-")
    )


def ablation_section(results: Results) -> Section:
    """What each memory and each stage of the pipeline is worth."""
    words = (
        (
            "Each method against memalign on the same cases, pooled over the tasks that both judged; below 0 means that what "
            "was taken away helps. “guidelines” shows no examples, “examples” has no guidelines, “nearest” shows the "
            "nearest cases without having looked where the judge stumbles."
        ),
    )
    tables = _against_memalign(results, {model: ablation_methods(results, model) for model in results.models})
    return Section(id="ablation", title="Ablations", words=words, tables=tables, figures=("ablation",))


def feedback_methods(results: Results, model: str) -> tuple[str, ...]:
    """The methods that one kind of feedback taught, in the order of a report."""
    return tuple(method for method in KINDS if method in results.methods(model))


def feedback_section(results: Results) -> Section:
    """Labels alone, comments alone, both."""
    methods = {model: feedback_methods(results, model) for model in results.models}
    words = ("The same pipeline taught with people's labels only, or with their comments only, against both.",)
    return Section(
        id="feedback",
        title="Labels, comments, both",
        words=words,
        tables=_against_memalign(results, methods),
        figures=("feedback",),
    )


def _against_memalign(results: Results, methods: dict[str, tuple[str, ...]]) -> tuple[Table, ...]:
    tables = []
    for model, names in methods.items():
        stage = headline_stage(results, model)
        rows = [
            (plain(method), view, plain(", ".join(one.tasks), 200), *_paired(one), one.word)
            for view in VIEWS
            for method in names
            if (one := contrast(results, model, results.tasks(model), method, PRIMARY_METHOD, stage=stage, view=view))
        ]
        if rows:
            columns = ("method", "view", "tasks", *_PAIRED, "verdict")
            title = f"Against memalign, {plain(model)}, stage {stage}"
            tables.append(Table(title=title, columns=columns, rows=tuple(rows), names=3, remark=True))
    return tuple(tables)


def models_section(results: Results) -> Section:
    """Several judge models side by side, on the tasks that all of them judged."""
    models = results.models
    common = set.intersection(*({task.name for task in results.tasks(model)} for model in models)) if models else set()
    tasks: Sequence[TaskFacts] = [
        task for task in results.facts.tasks.values() if task.name in common and task.matchable
    ]
    rows = []
    for model in models:
        stage = headline_stage(results, model)
        for method in results.methods(model):
            found = agreement(results, model, tasks, method, stage)
            if found.n:
                against = (
                    None if method == ZERO_SHOT else contrast(results, model, tasks, method, ZERO_SHOT, stage=stage)
                )
                gain = (points(against.difference), against.word) if against is not None else ("", "")
                rows.append((plain(method), plain(model), str(stage), str(found.n), quality(found.exact_match), *gain))
    if len(models) < 2 or not tasks:
        rows = []
    order = {method: place for place, method in enumerate(dict.fromkeys(row[0] for row in rows))}
    table = Table(
        title=f"Exact match, unseen, pooled over {plain(', '.join(task.name for task in tasks), 300)}",
        columns=("method", "model", "stage", "n", "exact match", "against its zero-shot judge, points", "verdict"),
        rows=tuple(sorted(rows, key=lambda row: order[row[0]])),
        names=3,
        remark=True,
    )
    words = (
        "Models are not compared with each other here: each method is compared with the zero-shot judge of its own model.",
    )
    return Section(id="models", title="Several judge models", words=words, tables=(table,) if rows else ())
