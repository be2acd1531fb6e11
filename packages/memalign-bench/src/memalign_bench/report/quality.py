"""The parts of a report on agreement with people: what was run, quality by task, label shares, learning, flips."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from memalign_bench.config import ZERO_SHOT
from memalign_bench.methods.baselines import BASELINES
from memalign_bench.raw import View, engine_mark
from memalign_bench.report.facts import TaskFacts
from memalign_bench.report.measures import Agreement, agreement, corrected, curve_area, flips, judging
from memalign_bench.report.primary import contrast, headline_stage
from memalign_bench.report.results import VIEWS, Results, method_order
from memalign_bench.report.tables import ABSENT, Section, Table, amount, plain, points, quality, shares

__all__ = [
    "by_category",
    "errors_section",
    "flips_section",
    "label_section",
    "learning_section",
    "missing_section",
    "quality_section",
    "run_section",
]

FEW_GROUPS = 15
GROUPS = 3  # its place in a row of quality


def by_category(tasks: Sequence[TaskFacts]) -> dict[str, list[TaskFacts]]:
    """The tasks with a plain right and wrong, by category in the order of their names."""
    found: dict[str, list[TaskFacts]] = {}
    for task in sorted((task for task in tasks if task.matchable), key=lambda task: (task.category, task.name)):
        found.setdefault(task.category, []).append(task)
    return found


def run_section(results: Results) -> Section:
    """What was run: every model and method with its tasks, seeds, stages and how many judgments."""
    rows: list[tuple[str, ...]] = []
    cells: dict[tuple[str, str], list[tuple[str, int, int, int, int]]] = {}
    for cell, lines in results.cells.items():
        failed = sum(line.value is None for line in lines)
        cells.setdefault((cell.model, cell.method), []).append((cell.task, cell.seed, cell.stage, len(lines), failed))
    for (model, method), found in sorted(cells.items(), key=lambda item: (item[0][0], method_order(item[0][1]))):
        tasks, seeds, stages, judged, failed_ = zip(*found, strict=True)
        listed = (sorted(set(tasks)), sorted(set(seeds)), sorted(set(stages)))
        kind = "baseline" if method in BASELINES else "judge"
        rows.append((
            plain(model), plain(method), kind, *(plain(", ".join(map(str, names)), 200) for names in listed),
            amount(sum(judged)), amount(sum(failed_)),
        ))  # fmt: skip
    total = sum(map(len, results.cells.values()))
    return Section(
        id="run",
        title="What was run",
        words=(
            (
                f"{total:,} judgments in {len(results.cells)} cells (one method of one task, seed, stage and model). A stage is "
                "the number of labelled cases that taught the method; the cases that test it are the same for all methods and "
                "stages of a seed. Baselines need no language model."
            ),
            *_engines(results),
            *results.facts.remarks,
        ),
        tables=(
            Table(
                title="Methods",
                columns=("model", "method", "kind", "tasks", "seeds", "stages", "judgments", "failed"),
                rows=tuple(rows),
                names=6,
            ),
        ),
    )


def _engines(results: Results) -> list[str]:
    """What computed the models that ran in the process: seconds are those of an engine, and two may differ in a verdict."""
    return [
        f"{plain(model)} was computed by "
        + " and by ".join(plain(engine, 300) + _whose(results, model, engine) for engine in engines)
        + ("; two engines may differ in a verdict, and their seconds do." if len(engines) > 1 else ".")
        for model, engines in sorted(results.facts.engines.items())
    ]


def _whose(results: Results, model: str, engine: str) -> str:
    """How many judgments of each method say that they are the engine's; nothing where none does, as before lines said it."""
    mark = engine_mark(engine)
    counts: Counter[str] = Counter()
    for cell, lines in results.cells.items():
        if cell.model == model and (its := sum(line.engine == mark for line in lines)):
            counts[cell.method] += its
    its_methods = ", ".join(f"{plain(method)} {amount(counts[method])}" for method in sorted(counts, key=method_order))
    return f" (judgments that name it: {its_methods})" if counts else ""


def missing_section(results: Results) -> Section:
    """Every cell that has fewer cases than others of its task and seed, down to none."""
    rows = [
        (plain(model), plain(method), str(stage), view, plain(task), str(seed), f"{there} of {known}")
        for model, method, stage, view, task, seed, there, known in _missing(results)
    ]
    table = Table(
        title="Cases judged so far, where that is not all",
        columns=("model", "method", "stage", "view", "task", "seed", "judged"),
        rows=tuple(rows),
        names=6,
        notes=("All: the cases of that task, seed and view that any method of the model was asked about.",),
    )
    words = (
        (
            "A method with fewer cases is compared with another on the cases that both judged; its own figures are over its "
            "own cases, with their number beside them."
        ),
    )
    return Section(id="missing", title="What is missing", words=words, tables=(table,) if rows else ())


def _missing(results: Results) -> Iterator[tuple[str, str, int, View, str, int, int, int]]:
    for model in results.models:
        kinds = {
            (cell.method, cell.stage, line.view)
            for cell, lines in results.cells.items()
            if cell.model == model
            for line in lines
        }
        for method, stage, view in sorted(
            kinds, key=lambda kind: (method_order(kind[0]), kind[1], VIEWS.index(kind[2]))
        ):
            for task in results.tasks(model):
                known = Counter(key[:2] for key in results.known(model, [task.name], view=view, stage=stage))
                lines = results.lines(model, [task.name], method, stage, view=view)
                there = Counter((cell.task, cell.seed) for cell, _ in lines)
                for (name, seed), n in sorted(known.items()):
                    if there[name, seed] < n:
                        yield model, method, stage, view, name, seed, there[name, seed], n


def quality_section(results: Results) -> Section:
    """Quality per task and method at the headline stage, baselines first, and how seen cases compare with unseen ones."""
    tables = []
    for model in results.models:
        stage = headline_stage(results, model)
        for task in results.tasks(model):
            rows = [
                _quality_row(results, model, task, method, stage)
                for method in (*BASELINES, *results.methods(model))
                if any(True for _ in results.lines(model, [task.name], method, stage))
            ]
            if not rows:
                continue
            kappa = "kappa, quadratic" if task.value_type.numeric else "kappa"
            columns = ("method", "n", "failed", "groups", "exact match", "balanced accuracy", kappa, "CCC",
                       "against zero-shot, points", "verdict")  # fmt: skip
            used = [place for place in range(len(columns)) if place < 2 or any(row[place] != ABSENT for row in rows)]
            groups = min((n for row in rows if (n := int(row[GROUPS]))), default=0)
            tables.append(
                Table(
                    title=f"{plain(task.name)} ({plain(task.category)}; {plain(task.values)}), {plain(model)}, stage {stage}",
                    columns=tuple(columns[place] for place in used),
                    rows=tuple(tuple(row[place] for place in used) for row in rows),
                    remark=used[-1] == len(columns) - 1,
                    notes=_task_notes(task, groups),
                )
            )
    tables += _views_tables(results)
    return Section(
        id="quality",
        title="Quality by task and method",
        words=(
            (
                "Unseen cases, 95 % intervals in brackets. n are judgments with a verdict, all seeds together; failed ones "
                "are not counted as wrong, and their number is given. “Ahead”, “tied” and “behind” are against the zero-shot "
                "judge on the same cases, and descriptive; they need an interval beside 0 and McNemar's exact p below "
                "0.05; tied means that these cases do not tell the two apart."
            ),
        ),
        tables=tuple(tables),
        figures=("quality",),
    )


def _task_notes(task: TaskFacts, groups: int) -> tuple[str, ...]:
    """What must be known of the task, of whose methods the one with the fewest has `groups`."""
    notes = []
    if task.by_row:
        notes.append(
            "Split by row: this task has few groups, so that cases which teach share groups with cases that test."
        )
    if 0 < groups < FEW_GROUPS:
        notes.append(f"As few as {groups} groups are resampled: such intervals tend to be too narrow.")
    if not task.matchable:
        notes.append("Values may be any fraction, so that there is no exact match, and no part in pooled comparisons.")
    return tuple(notes)


def _quality_row(results: Results, model: str, task: TaskFacts, method: str, stage: int) -> tuple[str, ...]:
    found = agreement(results, model, [task], method, stage)
    against = None if method == ZERO_SHOT else contrast(results, model, [task], method, ZERO_SHOT, stage=stage)
    beyond = corrected(results, model, task, method, stage)
    estimates = (found.exact_match, beyond.balanced_accuracy, beyond.kappa, beyond.ccc)
    return (
        plain(method),
        _count(found),
        str(found.errors) if found.errors else ABSENT,
        str(found.groups),
        *map(quality, estimates),
        ABSENT if against is None else points(against.difference),
        ABSENT if against is None else against.word,
    )


def _count(found: Agreement) -> str:
    asked = found.n + found.errors
    return str(found.n) if asked >= found.known else f"{found.n} ({asked} of {found.known} judged)"


def _views_tables(results: Results) -> Iterator[Table]:
    for model in results.models:
        stage = headline_stage(results, model)
        rows = []
        for method in (*BASELINES, *results.methods(model)):
            for task in results.tasks(model):
                found = [agreement(results, model, [task], method, stage, view=view) for view in VIEWS]
                if task.matchable and any(one.n for one in found[1:]):
                    rows.append((
                        plain(method), plain(task.name),
                        *(f"{quality(one.exact_match)} n={one.n}" if one.n else ABSENT for one in found),
                    ))  # fmt: skip
        if rows:
            yield Table(
                title=f"Exact match on cases that taught, {plain(model)}, stage {stage}",
                columns=("method", "task", "unseen", "seen, own example in memory", "seen, left out"),
                rows=tuple(rows),
                names=2,
                notes=(
                    (
                        "Left out: the case's own example is hidden, and every guideline that was written with it in view. "
                        "Only this one says anything about learning; the other shows that what was corrected stays so."
                    ),
                ),
            )


def label_section(results: Results) -> Section:
    """The share of each label among people and among each method's verdicts: a judge with one answer for all is seen here."""
    tables = []
    for model in results.models:
        stage = headline_stage(results, model)
        rows = []
        for task in results.tasks(model):
            found = {
                method: agreement(results, model, [task], method, stage)
                for method in (*BASELINES, *results.methods(model))
            }
            there = {method: one for method, one in found.items() if one.n and one.judge}
            if there:
                widest = max(there.values(), key=lambda one: one.n)
                rows.append((plain(task.name), "people", str(widest.n), shares(widest.people)))
                rows += [
                    (plain(task.name), plain(method), str(one.n), shares(one.judge)) for method, one in there.items()
                ]
        if rows:
            tables.append(
                Table(
                    title=f"Shares of labels, {plain(model)}, stage {stage}, unseen",
                    columns=("task", "who", "n", "shares"),
                    rows=tuple(rows),
                    names=2,
                    remark=True,
                )
            )
    words = ("A judge that gives one label to nearly all cases may match people often where that label is frequent.",)
    return Section(id="labels", title="Which labels are given", words=words, tables=tuple(tables))


def learning_section(results: Results) -> Section:
    """Learning curves by category and view, prompt tokens beside them, and the area under each curve."""
    tables = []
    for model in results.models:
        for category, tasks in by_category(results.tasks(model)).items():
            stages = sorted({stage for method in results.methods(model) for stage in results.stages(model, method)})
            rows, tokens = [], []
            for method in results.methods(model):
                for view in VIEWS:
                    own = results.stages(model, method, view=view)
                    if method == ZERO_SHOT or len(own) < 2:
                        continue
                    found = {stage: agreement(results, model, tasks, method, stage, view=view) for stage in own}
                    if not any(one.n for one in found.values()):
                        continue
                    area = curve_area(results, model, tasks, method, view=view)
                    cells = (
                        f"{quality(found[stage].exact_match)} n={found[stage].n}" if stage in found else ABSENT
                        for stage in stages
                    )
                    shown = ABSENT if area is None else f"{quality(area[0])} n={area[1]}"
                    rows.append((plain(method), view, *cells, shown))
                    read = (judging(results, model, [t.name for t in tasks], method, s, view=view) for s in stages)
                    tokens.append((plain(method), view, *(amount(one.tokens_in) if one.n else ABSENT for one in read)))
            if rows:
                names = ", ".join(plain(task.name) for task in tasks)
                head = f"{plain(category)} ({names}), {plain(model)}"
                heads = tuple(f"stage {stage}" for stage in stages)
                tables += [
                    Table(title=f"Exact match by stage: {head}", columns=("method", "view", *heads, "area"), rows=tuple(rows), names=2),
                    Table(title=f"Prompt tokens a judgment: {head}", columns=("method", "view", *heads), rows=tuple(tokens), names=2),
                ]  # fmt: skip
    return Section(
        id="learning",
        title="Learning curves",
        words=(
            (
                "Stage 0 of a judge of ours is the zero-shot judge. The area is that under the curve of exact match, by the "
                "trapezoid rule on an axis of log2(1 + stage) stretched to [0, 1], over the cases that have a verdict at every "
                "stage: a judge that is right at p throughout has p. A method that was not judged at "
                "stage 0 has its area from its first stage on, and is not to be held against one that was."
            ),
        ),
        tables=tuple(tables),
        figures=("learning",),
    )


def flips_section(results: Results) -> Section:
    """How often a verdict that was right became wrong at the next stage."""
    rows = []
    for model in results.models:
        for method in results.methods(model):
            found = flips(results, model, results.tasks(model), method)
            if found is not None:
                stages = "→".join(map(str, results.stages(model, method)))
                rows.append((
                    plain(model), plain(method), stages, str(found.n), str(found.right_before), str(found.broken),
                    str(found.fixed), quality(found.rate),
                ))  # fmt: skip
    table = Table(
        title="Unseen cases from one stage to the next, pooled over tasks, seeds and stages",
        columns=("model", "method", "stages", "n", "right before", "broken", "fixed", "negative flips, share of n"),
        rows=tuple(rows),
        names=3,
    )
    return Section(id="flips", title="Negative flips", tables=(table,) if rows else ())


def errors_section(results: Results) -> Section:
    """Judgments that failed, by method, and the most frequent reason."""
    reasons: dict[tuple[str, str, int], Counter[str]] = {}
    asked: Counter[tuple[str, str, int]] = Counter()
    for cell, lines in results.cells.items():
        key = (cell.model, cell.method, cell.stage)
        asked[key] += len(lines)
        for line in lines:
            if line.value is None:
                reasons.setdefault(key, Counter())[line.error or "no reason was kept"] += 1
    rows = [
        (plain(model), plain(method), str(stage), str(found.total()), str(asked[model, method, stage]), _reason(found))
        for (model, method, stage), found in sorted(
            reasons.items(), key=lambda item: (item[0][0], method_order(item[0][1]))
        )
    ]
    table = Table(
        title="Judgments without a verdict",
        columns=("model", "method", "stage", "failed", "of", "most frequent reason"),
        rows=tuple(rows),
        names=3,
        remark=True,
    )
    words = ("A failed judgment is neither right nor wrong; the next run of the same command tries it again.",)
    return Section(id="errors", title="Errors", words=words, tables=(table,) if rows else ())


def _reason(found: Counter[str]) -> str:
    reason, times = min(found.items(), key=lambda item: (-item[1], item[0]))
    return f"{times} times: {plain(reason, 100)}"
