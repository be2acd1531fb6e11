"""The parts of a report on what it takes: cost and latency of judging, learning, totals, the data and the commands."""

from __future__ import annotations

from itertools import pairwise

from memalign_bench.config import ZERO_SHOT
from memalign_bench.methods.baselines import BASELINES
from memalign_bench.methods.judges import JUDGES
from memalign_bench.report.measures import agreement, judging, learning
from memalign_bench.report.primary import contrast, headline_stage
from memalign_bench.report.results import Results, method_order
from memalign_bench.report.tables import ABSENT, Section, Table, amount, dollars, plain, points, quality, seconds

__all__ = [
    "commands_section",
    "cost_section",
    "data_section",
    "learns_more",
    "limits_section",
    "teaching_section",
    "totals_section",
]


def learns_more(method: str) -> bool:
    """Whether the method, at a stage, learns only what is new since the stage before."""
    return method in JUDGES and method not in (ZERO_SHOT, "static")


def cost_section(results: Results) -> Section:
    """Quality beside what a judgment takes."""
    tables = []
    for model in results.models:
        stage = headline_stage(results, model)
        every = results.tasks(model)
        tasks = [task for task in every if task.matchable] or every  # what fractions take is worth knowing too
        rows = []
        for method in (*BASELINES, *results.methods(model)):
            took = judging(results, model, [task.name for task in tasks], method, stage)
            if not took.n:
                continue
            found = agreement(results, model, tasks, method, stage)
            against = None if method == ZERO_SHOT else contrast(results, model, tasks, method, ZERO_SHOT, stage=stage)
            cached = ABSENT if took.cached_share is None else f"{took.cached_share * 100:.0f} %"
            rows.append((
                plain(method), str(found.n), quality(found.exact_match),
                ABSENT if against is None else f"{points(against.difference)} n={against.n}",
                amount(took.tokens_in), cached, amount(took.tokens_out),
                seconds(took.seconds_median), seconds(took.seconds_p95), dollars(took.cost_per_1000),
            ))  # fmt: skip
        if rows:
            tables.append(
                Table(
                    title=f"Judging, {plain(model)}, stage {stage}, unseen, pooled over {plain(', '.join(t.name for t in tasks), 300)}",
                    columns=("method", "n", "exact match", "against zero-shot, points", "prompt tokens", "of them cached",
                             "answer tokens", "seconds, median", "95th percentile", "cost of 1,000"),
                    rows=tuple(rows),
                )
            )  # fmt: skip
    words = (
        (
            "Seconds are the model's for one case. Tokens and seconds are of a judgment, failed ones included. Methods that "
            "judged other cases are not comparable by their own exact match; the difference to zero-shot, and the figures, are "
            "over common cases."
        ),
    )
    return Section(
        id="cost",
        title="Quality against cost and latency",
        words=words,
        tables=tuple(tables),
        figures=("cost", "tokens", "latency"),
    )


def teaching_section(results: Results) -> Section:
    """What learning took, stage by stage."""
    tables = []
    for model in results.models:
        names = [task.name for task in results.tasks(model)]
        rows = []
        for method in (*BASELINES, *results.methods(model)):
            own = sorted({cell.stage for cell in results.fits if (cell.model, cell.method) == (model, method)})
            for before, stage in pairwise([0, *[stage for stage in own if stage]]):
                took = learning(results.fits_of(model, names, method, stage))
                if took is None:
                    continue
                span = f"{before}→{stage}" if learns_more(method) else f"0→{stage}"
                counts = ", ".join(f"{plain(name)} {amount(round(n, 1))}" for name, n in took.counts.items())
                spread = f"{seconds(took.quickest)} to {seconds(took.slowest)}"
                rows.append((
                    plain(method), span, str(took.n), seconds(took.seconds), spread, amount(took.calls),
                    amount(took.tokens_in), amount(took.tokens_out), dollars(took.cost), counts or ABSENT,
                ))  # fmt: skip
        if rows:
            tables.append(
                Table(
                    title=f"Learning, {plain(model)}: means over tasks and seeds",
                    columns=("method", "cases learned", "runs", "seconds", "quickest and slowest", "calls", "prompt tokens",
                             "answer tokens", "cost", "what came out"),
                    rows=tuple(rows),
                    names=2,
                    remark=True,
                )
            )  # fmt: skip
    words = (
        (
            "Seconds are those of an unaided run: calls that a rerun remembered count with what they once took. Methods that "
            "learn only what is new are shown from the stage before."
        ),
    )
    return Section(id="teaching", title="What learning takes", words=words, tables=tuple(tables))


def totals_section(results: Results) -> Section:
    """What everything in the folder took together, by model and method."""
    rows = []
    pairs = sorted(
        {(cell.model, cell.method) for cell in results.cells}, key=lambda pair: (pair[0], method_order(pair[1]))
    )
    for model, method in pairs:
        mine = [cell for cell in results.cells if (cell.model, cell.method) == (model, method)]
        spent = [line for cell in mine for line in results.cells[cell]]
        fits = [results.fits[cell] for cell in mine if cell in results.fits]
        rows.append((
            plain(model), plain(method), amount(len(spent)), amount(sum(line.calls for line in spent)),
            amount(sum(line.tokens_in for line in spent)), amount(sum(line.tokens_out for line in spent)),
            _hours(sum(line.seconds for line in spent)), _sum([line.cost for line in spent]),
            amount(sum(fit.calls for fit in fits)), _hours(sum(fit.seconds for fit in fits)),
            _sum([fit.cost for fit in fits]),
        ))  # fmt: skip
    table = Table(
        title="Everything in this folder",
        columns=("model", "method", "judgments", "calls", "prompt tokens", "answer tokens", "model time", "cost",
                 "calls to learn", "time to learn", "cost to learn"),
        rows=tuple(rows),
        names=2,
    )  # fmt: skip
    words = (
        (
            "Calls that several methods ask alike, such as those of memalign and its guidelines to learn, are made once and "
            "count for each of them: the run itself took less."
        ),
    )
    return Section(id="totals", title="What the run cost", words=words, tables=(table,))


def _hours(value: float) -> str:
    return f"{value / 3600:.1f} h" if value >= 3600 else f"{value / 60:.1f} min" if value >= 60 else seconds(value)


def _sum(costs: list[float | None]) -> str:
    known = [cost for cost in costs if cost is not None]
    return dollars(sum(known) if len(known) == len(costs) else None)


def data_section(results: Results) -> Section:
    """The tasks, how they are split, and the licences of their data."""
    judged = {cell.task for cell in results.cells}
    rows = []
    for task in results.facts.tasks.values():
        if task.name in judged:
            lines = [line for cell, found in results.cells.items() if cell.task == task.name for line in found]
            rows.append((
                plain(task.name), plain(task.category), plain(task.values), "by row" if task.by_row else "by group",
                plain(task.licence, 200) or "not stated", str(task.n_cases), str(len({line.id for line in lines})),
                str(len({line.group for line in lines})),
            ))  # fmt: skip
    table = Table(
        title="Tasks",
        columns=("task", "category", "values", "split", "licence", "cases", "of them judged", "in groups"),
        rows=tuple(rows),
        names=5,
    )
    words = (
        (
            "The raw judgments hold ids, groups, labels and verdicts, and none of the texts. Licences are as the data's "
            "authors state them."
        ),
    )
    return Section(id="data", title="Data and licences", words=words, tables=(table,))


def limits_section(results: Results) -> Section:
    """What the figures do not say."""
    del results
    rows = (
        "The intervals are about other cases of these tasks, not about other tasks, models or prompts.",
        "Each interval is at 95 % by itself: of twenty differences that are nothing, about one looks like something.",
        "With fewer than 15 groups, bootstrap intervals tend to be too narrow; the number of groups is given.",
        "People's labels are taken as right. Where people disagree with each other, no judge can reach 1.",
        "Seconds are those of the machine and the load that the run had.",
        "Public data may have been in a model's training; methods of one model share that advantage, models do not.",
    )
    return Section(
        id="limits",
        title="What this does not show",
        tables=(Table(title="Mind", columns=("",), rows=tuple((row,) for row in rows)),),
    )


def commands_section(results: Results) -> Section:
    """How to do it again."""
    commands = results.facts.commands or ("memalign bench run CONFIG",)
    words = ("The run goes on where it stopped; what it finds judged, it does not judge again.",)
    return Section(id="commands", title="How to repeat it", words=words, commands=(*commands,))
