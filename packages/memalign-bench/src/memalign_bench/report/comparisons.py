"""The parts of a report that set arms side by side: the primary comparison, floors, ablations, kinds of feedback, models."""

from __future__ import annotations

from collections.abc import Sequence

from memalign_bench.config import BARE
from memalign_bench.report.facts import TaskFacts
from memalign_bench.report.measures import agreement
from memalign_bench.report.primary import (
    FIXED_WORDS,
    PRIMARY_AGAINST,
    PRIMARY_ARM,
    PRIMARY_STAGE,
    Contrast,
    best_floor,
    contrast,
    headline_stage,
    primary,
)
from memalign_bench.report.results import VIEWS, Results
from memalign_bench.report.tables import Section, Table, plain, points, quality

__all__ = [
    "MEMORIES",
    "ablation_arms",
    "ablation_section",
    "feedback_arms",
    "feedback_section",
    "floors_section",
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
        f"Fixed beforehand, word for word: “{FIXED_WORDS}”",
        (
            "Exact match, on numbers too (their CCC is in the tables by task). Cases are paired by task, seed and id; only "
            "those with a verdict in both arms count, and how many are left out is said. The interval is the 95 % percentile "
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
                f"{one.arm} against {one.against}",
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
            (plain(task.name), f"{one.arm} against {one.against}", str(one.stage), *_paired(one), one.word)
            for against in found
            for task in results.tasks(model)
            if (one := contrast(results, model, [task], PRIMARY_ARM, against, stage=found[against].stage)) is not None
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
    name = f"{plain(model)}, {PRIMARY_ARM} against {against}"
    if one is None:
        lacking = [arm for arm in (PRIMARY_ARM, against) if arm not in results.arms(model)]
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
    for arm in (PRIMARY_ARM, against):
        lines = results.lines(model, one.tasks, arm, one.stage)
        asked, known = sum(1 for _ in lines), len(results.known(model, one.tasks))
        if asked < known:
            said.append(f"{plain(model)}, {arm}: {asked} of {known} cases judged so far, on {', '.join(one.tasks)}.")
    if left := [task.name for task in results.tasks(model) if task.name not in one.tasks]:
        said.append(f"{name}: without {plain(', '.join(left), 300)}, where not both have verdicts that can be matched.")
    return said


def floors_section(results: Results) -> Section:
    """Each judge arm against the best floor of its task: below it, a judge is not yet worth its cost there."""
    tables = []
    for model in results.models:
        stage = headline_stage(results, model)
        rows = []
        for task in results.tasks(model):
            floor = best_floor(results, model, task, stage)
            if floor is None:
                continue
            for arm in results.arms(model):
                one = contrast(results, model, [task], arm, floor[0], stage=stage)
                if one is not None:
                    rows.append((plain(task.name), floor[0], plain(arm), *_paired(one), _precedence(one)))
        if rows:
            tables.append(
                Table(
                    title=f"Judges against the best floor of the task, {plain(model)}, stage {stage}, unseen",
                    columns=("task", "best floor", "arm", *_PAIRED, "the judge is"),
                    rows=tuple(rows),
                    names=3,
                    remark=True,
                )
            )
    words = (
        (
            "Floors need no language model: the majority label, the vote of the nearest cases, and logistic regressions on "
            "embeddings and on two plain features, all taught with the same cases. A judge below the best of them is not yet "
            "worth its cost there. The best floor is chosen on the very cases of the comparison, which favours it a little."
        ),
    )
    return Section(id="floors", title="Against floors without a language model", words=words, tables=tuple(tables))


def _precedence(one: Contrast) -> str:
    if one.word == "ahead":
        return "above"
    return "below: not yet worth its cost there" if one.word == "behind" else "not told apart"


def ablation_arms(results: Results, model: str) -> tuple[str, ...]:
    """The arms that are memalign with something taken away."""
    return tuple(arm for arm in results.arms(model) if arm in MEMORIES or arm.startswith("memalign-without-"))


def ablation_section(results: Results) -> Section:
    """What each memory and each stage of the pipeline is worth."""
    words = (
        (
            "Each arm against memalign on the same cases, pooled over the tasks that both judged; below 0 means that what "
            "was taken away helps. “guidelines” shows no examples, “examples” has no guidelines, “nearest” shows the "
            "nearest cases without having looked where the judge stumbles."
        ),
    )
    tables = _against_memalign(results, {model: ablation_arms(results, model) for model in results.models})
    return Section(id="ablation", title="Ablations", words=words, tables=tables, figures=("ablation",))


def feedback_arms(results: Results, model: str) -> tuple[str, ...]:
    """The arms that one kind of feedback taught, in the order of a report."""
    return tuple(arm for arm in KINDS if arm in results.arms(model))


def feedback_section(results: Results) -> Section:
    """Labels alone, comments alone, both."""
    arms = {model: feedback_arms(results, model) for model in results.models}
    words = ("The same pipeline taught with people's labels only, or with their comments only, against both.",)
    return Section(
        id="feedback",
        title="Labels, comments, both",
        words=words,
        tables=_against_memalign(results, arms),
        figures=("feedback",),
    )


def _against_memalign(results: Results, arms: dict[str, tuple[str, ...]]) -> tuple[Table, ...]:
    tables = []
    for model, names in arms.items():
        stage = headline_stage(results, model)
        rows = [
            (plain(arm), view, plain(", ".join(one.tasks), 200), *_paired(one), one.word)
            for view in VIEWS
            for arm in names
            if (one := contrast(results, model, results.tasks(model), arm, PRIMARY_ARM, stage=stage, view=view))
        ]
        if rows:
            columns = ("arm", "view", "tasks", *_PAIRED, "verdict")
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
        for arm in results.arms(model):
            found = agreement(results, model, tasks, arm, stage)
            if found.n:
                against = None if arm == BARE else contrast(results, model, tasks, arm, BARE, stage=stage)
                gain = (points(against.difference), against.word) if against is not None else ("", "")
                rows.append((plain(arm), plain(model), str(stage), str(found.n), quality(found.exact_match), *gain))
    if len(models) < 2 or not tasks:
        rows = []
    order = {arm: place for place, arm in enumerate(dict.fromkeys(row[0] for row in rows))}
    table = Table(
        title=f"Exact match, unseen, pooled over {plain(', '.join(task.name for task in tasks), 300)}",
        columns=("arm", "model", "stage", "n", "exact match", "against its bare judge, points", "verdict"),
        rows=tuple(sorted(rows, key=lambda row: order[row[0]])),
        names=3,
        remark=True,
    )
    words = (
        "Models are not compared with each other here: each arm is compared with the bare judge of its own model.",
    )
    return Section(id="models", title="Several judge models", words=words, tables=(table,) if rows else ())
