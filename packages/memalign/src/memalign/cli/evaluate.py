"""`memalign evaluate`: agreement with people, a comparison, a gate for builds, and a report."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalign.cli.judging import after_interrupt
from memalign.cli.options import (
    JUDGED_HELP,
    OUT_HELP,
    STDIN,
    ColumnMap,
    Concurrency,
    DryRun,
    MaxCost,
    Name,
    Version,
    give_estimate,
    judge_with_columns,
    rows_of,
)
from memalign.cli.output import label_text, say, shorten, table, usage_text
from memalign.cli.progress import say_by_reason, show_progress
from memalign.cli.session import DONE, FAILURES, TOO_FEW, Session
from memalign.errors import InputError

if TYPE_CHECKING:
    from memalign.evaluation import Evaluation, GateResult

_criterion = partial(typer.Option, rich_help_panel="Gate options")
_DISAGREEMENTS = 10  # rows of the table
_FORMATS = (".html", ".md", ".json")
_EXIT = {"pass": DONE, "worse": FAILURES, "too few cases": TOO_FEW}
_ZERO_SHOT = "zero-shot"


def evaluate(
    session: Session,
    name: Name,
    labelled: Annotated[
        str, typer.Argument(metavar="LABELLED", help=f"A file of feedback with labels in the field value; {STDIN}")
    ],
    *,
    version: Version = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="N|zero-shot", help="Compare with version N, or with the judge without memory (zero-shot)."
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="M", help="Judge with this model and the judge's memory.")
    ] = None,
    min_accuracy: Annotated[
        float | None, _criterion(metavar="A", help="Require this accuracy, for example 0.8.")
    ] = None,
    min_kappa: Annotated[
        float | None,
        _criterion(metavar="K", help="Require this Cohen's kappa, for example 0.6. It is weighted for int judges."),
    ] = None,
    not_worse_than: Annotated[
        float | None,
        _criterion(
            metavar="POINTS",
            help="Allow a loss of at most this many points against the judge that --against names.",
        ),
    ] = None,
    junit: Annotated[Path | None, _criterion(metavar="FILE", help="Write the gate's result as JUnit XML.")] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a report to FILE, which ends in .html, .md or .json.")
    ] = None,
    judged: Annotated[
        list[Path] | None, typer.Option(metavar="OUT.jsonl", help=f"{JUDGED_HELP} May be repeated.")
    ] = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", metavar="OUT.jsonl", help=OUT_HELP)] = None,
    columns: ColumnMap = None,
    concurrency: Concurrency = None,
    max_cost: MaxCost = None,
    dry_run: DryRun = False,
) -> int:
    """Measure how often a judge agrees with people.

    All figures have 95 % intervals. With a criterion, such as --min-accuracy 0.8, the command is a gate and leaves out
    cases that are in the judge's memory. It exits with 0 if the whole interval meets the criterion, with 1 if none of
    it does, and with 3 if there are too few cases to tell. A gate exits with 2 if a case has no verdict.
    """
    from memalign.evaluation import as_html, as_markdown, check_criteria, gate, junit_xml
    from memalign.evaluation import evaluate as measure
    from memalign.evaluation import report as gather
    from memalign.memory import Memory
    from memalign.models.calls import Calls
    from memalign.models.dry_run import DryRun
    from memalign.types import as_json

    number, judge = judge_with_columns(session, name, version, columns)
    minimum = {key: least for key, least in (("accuracy", min_accuracy), ("kappa", min_kappa)) if least is not None}
    criteria = bool(minimum) or not_worse_than is not None
    if against is None or against == _ZERO_SHOT:
        other = None if against is None else judge.replace(memory=Memory())
    elif against.isdecimal():
        other = session.judge(name, int(against))[1]
    else:
        raise InputError(f"--against {against}: use a version's number, or zero-shot for the judge without memory")
    judge = judge if model is None else judge.replace(model=model)
    if criteria:
        check_criteria(judge, minimum=minimum, not_worse_than=not_worse_than, against=other is not None)
    elif junit is not None:
        raise InputError("--junit writes the result of a gate, so it needs a criterion, for example --min-accuracy 0.8")
    if report is not None and report.suffix.lower() not in _FORMATS:
        raise InputError(f"{report}: the name of a report ends in {', '.join(_FORMATS)}")
    for file in (junit, report):
        if file is not None and not file.resolve().parent.is_dir():
            raise InputError(f"cannot write {file}: name a file in a folder that exists")
    rows = rows_of(labelled, columns, remembered=judge.columns)
    run = partial(measure, judge, rows, against=other, unseen=criteria or report is not None, judged=judged or ())
    if dry_run:
        estimate = DryRun(dimensions=judge.memory.matrix.shape[1] or 8)
        run(max_cost=Calls(dry_run=estimate))
        return give_estimate(session, name, number, estimate.usage)
    session.after_interrupt = after_interrupt(out)
    with show_progress() as progress:
        evaluation = run(out=out, concurrency=concurrency, max_cost=max_cost, progress=progress)
    sides = [evaluation, *([evaluation.base] if evaluation.base is not None else [])]
    failures = [(case.id, case.error) for side in sides for case in side.cases if case.error is not None]
    decide = partial(gate, evaluation, minimum=minimum, not_worse_than=not_worse_than)
    result = decide() if criteria and not any(side.unscored for side in sides) else None
    label = "zero-shot" if against == _ZERO_SHOT else f"version {against}"
    figures = evaluation.to_dict()
    data = {"judge": name, "version": number, "seen": evaluation.seen, "against": against}
    data |= {key: figures.pop(key) for key in ("base", "comparison")}
    data |= {"evaluation": figures, "gate": result}
    session.give(data, *_parts(f"{name} version {number} (the second judge) against {label}", evaluation, result))
    if junit is not None and result is not None:
        junit.write_bytes(junit_xml(result))
    if report is not None:
        page = gather(judge, evaluation, against="the other judge" if against is None else label, gate=result)
        if report.suffix.lower() == ".json":
            text = json.dumps(as_json({"version": number, **page.to_dict()}), ensure_ascii=False)
        else:
            text = (as_html if report.suffix.lower() == ".html" else as_markdown)(page)
        report.write_text(text, "utf-8")
        say(f"wrote the report to {report}")
    say_by_reason("failed", failures)
    if criteria:
        return _EXIT[(result or decide()).outcome]  # which says that cases have no verdict
    return FAILURES if failures else DONE


def _parts(compared: str, evaluation: Evaluation, result: GateResult | None) -> list[Any]:
    parts: list[Any] = [str(evaluation)]
    if evaluation.disagreements:
        rows = [
            (case.id, label_text(case.value), label_text(case.label), shorten(case.rationale))
            for case in evaluation.disagreements
        ]
        columns = ("id", "judge", "people", "the judge's reason")
        parts.append(table(columns, rows, title="Disagreements", limit=_DISAGREEMENTS))
    if evaluation.comparison is not None:
        parts.append(f"{compared} (the first)\n{evaluation.comparison}")
    parts += [] if result is None else [f"Gate: {result}"]
    if not evaluation.taught:
        new = evaluation.n - evaluation.seen
        parts.append(f"{evaluation.seen} of {evaluation.n} cases are in the judge's memory, and {new} are new to it")
    usage = evaluation.usage if evaluation.base is None else evaluation.usage + evaluation.base.usage
    return [*parts, usage_text(usage) if usage.calls else "no model was called"]
