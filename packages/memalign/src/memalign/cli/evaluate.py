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
    give_trial,
    judge_with_columns,
    rows_of,
)
from memalign.cli.output import label_text, say, shorten, table, usage_text
from memalign.cli.progress import say_by_reason, show_progress
from memalign.cli.session import DONE, FAILURES, TOO_FEW, Session
from memalign.errors import InputError

if TYPE_CHECKING:
    from memalign.evaluation import Evaluation, GateResult
    from memalign.io import RowSource
    from memalign.judge import Judge

_criterion = partial(typer.Option, rich_help_panel="Gate options")
_worth = partial(typer.Option, rich_help_panel="What the figures are worth")
_DISAGREEMENTS = 10  # rows of the table
_FORMATS = (".html", ".md", ".json")
_EXIT = {"pass": DONE, "worse": FAILURES, "too few cases": TOO_FEW}
_ZERO_SHOT = "zero-shot"


def evaluate(
    session: Session,
    name: Name,
    labelled: Annotated[
        str,
        typer.Argument(
            metavar="LABELLED",
            help=f"A file of feedback with labels in the field value; {STDIN}",
        ),
    ],
    *,
    version: Version = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="N|zero-shot",
            help="Compare with version N, or with the judge without memory (zero-shot).",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model", metavar="M", help="Judge with this model and the judge's memory."
        ),
    ] = None,
    min_accuracy: Annotated[
        float | None,
        _criterion(metavar="A", help="Require this accuracy, for example 0.8."),
    ] = None,
    min_kappa: Annotated[
        float | None,
        _criterion(
            metavar="K",
            help="Require this Cohen's kappa, for example 0.6. It is weighted for int judges.",
        ),
    ] = None,
    not_worse_than: Annotated[
        float | None,
        _criterion(
            metavar="POINTS",
            help="Allow a loss of at most this many points against the judge that --against names.",
        ),
    ] = None,
    junit: Annotated[
        Path | None,
        _criterion(metavar="FILE", help="Write the gate's result as JUnit XML."),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write a report to FILE, which ends in .html, .md or .json.",
        ),
    ] = None,
    judged: Annotated[
        list[Path] | None,
        typer.Option(metavar="OUT.jsonl", help=f"{JUDGED_HELP} May be repeated."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="OUT.jsonl", help=OUT_HELP)
    ] = None,
    include_taught: Annotated[
        bool,
        typer.Option(
            "--include-taught",
            help="Judge taught cases too, for a figure of their own beside the others.",
        ),
    ] = False,
    on: Annotated[
        Path | None,
        _worth(
            metavar="JUDGED",
            help="Correct the shares of labels in traffic, which `memalign judge -o` judged into "
            "this file, by the judge's errors on LABELLED. LABELLED must be drawn at random from "
            "the same traffic.",
        ),
    ] = None,
    examples: Annotated[
        str | None,
        _worth(
            metavar="FILE",
            help="The rows that were judged into JUDGED: their columns group and system count.",
        ),
    ] = None,
    promise: Annotated[
        float | None,
        _worth(
            metavar="SHARE",
            help="Name the confidence from which on people agree with at least this share of "
            "verdicts, such as 0.95.",
        ),
    ] = None,
    plan: Annotated[
        bool, _worth("--plan", help="Say what more labels would show.")
    ] = False,
    repeat: Annotated[
        int | None,
        _worth(
            metavar="N",
            min=2,
            help="Judge up to 20 of the cases N times, and say how often verdicts turn.",
        ),
    ] = None,
    columns: ColumnMap = None,
    concurrency: Concurrency = None,
    max_cost: MaxCost = None,
    dry_run: DryRun = False,
) -> int:
    """Measure how often a judge agrees with people.

    All figures have 95 % intervals. Cases in the judge's memory count in none of them. With a
    criterion, such as --min-accuracy 0.8, the command is a gate. It exits with 0 if the whole
    interval meets the criterion, with 1 if none of it does, and with 3 if there are too few cases
    to tell. A gate exits with 2 if a case has no verdict.
    """
    from memalign.evaluation import check_criteria, gate
    from memalign.evaluation import evaluate as measure

    number, judge = judge_with_columns(session, name, version, columns)
    other = _other_judge(session, name, judge, against)
    judge = judge if model is None else judge.replace(model=model)
    minimum = _given(accuracy=min_accuracy, kappa=min_kappa)
    is_gate = bool(minimum) or not_worse_than is not None
    demands: dict[str, Any] = {"minimum": minimum, "not_worse_than": not_worse_than}
    if is_gate:
        check_criteria(judge, **demands, against=other is not None)
    _check_files(report, junit, is_gate=is_gate)
    rows = rows_of(labelled, columns, remembered=judge.columns)
    traffic = _traffic(examples, on, judge, columns)
    run = partial(
        measure,
        judge,
        rows,
        against=other,
        include_taught=include_taught,
        on=on,
        on_examples=traffic,
        promise=promise,
        repeat=repeat,
        judged=judged or (),
    )
    if dry_run:
        return give_trial(
            session, name, number, judge, lambda calls: run(max_cost=calls)
        )
    session.after_interrupt = after_interrupt(out)
    with show_progress() as progress:
        evaluation = run(
            out=out, concurrency=concurrency, max_cost=max_cost, progress=progress
        )
    decide = partial(gate, evaluation, **demands)
    failed = _failed(evaluation)
    result = decide() if is_gate and not failed else None
    label = _label(against)
    figures = evaluation.to_dict()
    data: dict[str, Any] = {"judge": name, "version": number, "against": against}
    data |= {"base": figures.pop("base"), "comparison": figures.pop("comparison")}
    data |= {"evaluation": figures, "gate": result}
    compared = f"{name} version {number} (the second judge) against {label} (the first)"
    parts = _parts(evaluation, compared, result)
    if plan:
        data["plan"] = evaluation.plan()
        parts += data["plan"]
    session.give(data, *parts)
    _write_report(report, judge, number, evaluation, label, result)
    _write_junit(junit, result)
    say_by_reason("failed", failed)
    if not is_gate:
        return FAILURES if failed else DONE
    return _EXIT[
        (result or decide()).outcome
    ]  # deciding refuses cases that have no verdict


def _write_junit(file: Path | None, result: GateResult | None) -> None:
    from memalign.evaluation import junit_xml

    if file is not None and result is not None:
        file.write_bytes(junit_xml(result))


def _given(**minimum: float | None) -> dict[str, float]:
    """Return the demands that were made."""
    return {metric: least for metric, least in minimum.items() if least is not None}


def _traffic(
    examples: str | None, on: Path | None, judge: Judge, columns: list[str] | None
) -> RowSource | None:
    """Return the rows that were judged into JUDGED, if they are named."""
    if examples is None:
        return None
    if on is None:
        needed = "so it needs --on JUDGED"
        raise InputError(
            f"--examples names the rows that were judged into JUDGED, {needed}"
        )
    return rows_of(examples, columns, remembered=judge.columns)


def _failed(evaluation: Evaluation) -> list[tuple[str, str]]:
    """Return the errors of the cases that have no verdict, of both judges."""
    cases = [case for side in evaluation.sides for case in side.cases]
    return [(case.id, case.error) for case in cases if case.error]


def _other_judge(
    session: Session, name: str, judge: Judge, against: str | None
) -> Judge | None:
    """Load the judge that `--against` names; None where it names none."""
    from memalign.memory import Memory

    if against is None:
        return None
    if against == _ZERO_SHOT:
        return judge.replace(memory=Memory())
    if against.isdecimal():
        return session.judge(name, int(against))[1]
    raise InputError(
        f"--against {against}: use a version's number, or zero-shot for the judge without memory"
    )


def _label(against: str | None) -> str:
    """Name the other judge in words."""
    if against is None:
        return "the other judge"
    return _ZERO_SHOT if against == _ZERO_SHOT else f"version {against}"


def _check_files(report: Path | None, junit: Path | None, *, is_gate: bool) -> None:
    """Refuse files that cannot be written, before anything is paid for."""
    if junit is not None and not is_gate:
        needed = "so it needs a criterion, for example --min-accuracy 0.8"
        raise InputError(f"--junit writes the result of a gate, {needed}")
    if report is not None and report.suffix.lower() not in _FORMATS:
        raise InputError(
            f"{report}: the name of a report ends in {', '.join(_FORMATS)}"
        )
    for file in (junit, report):
        if file is not None and not file.resolve().parent.is_dir():
            raise InputError(
                f"cannot write {file}: name a file in a folder that exists"
            )


def _parts(
    evaluation: Evaluation, compared: str, result: GateResult | None
) -> list[Any]:
    """Return the result for people: sentences and tables."""
    parts: list[Any] = ["\n".join(evaluation.lines())]
    if evaluation.promise is not None and evaluation.thresholds:
        parts.append(_thresholds(evaluation))
    if evaluation.disagreements:
        parts.append(_disagreements(evaluation))
    if evaluation.comparison is not None:
        parts.append(f"{compared}\n{evaluation.comparison}")
    if result is not None:
        parts.append(f"Gate: {result}")
    usage = evaluation.usage
    if evaluation.base is not None:
        usage += evaluation.base.usage
    parts.append(usage_text(usage) if usage.calls else "no model was called")
    return parts


def _thresholds(evaluation: Evaluation) -> Any:
    from memalign.evaluation.sentences import PASSING, passing_rows
    from memalign.evaluation.wording import percent

    rows = []
    for row in passing_rows(evaluation):
        rows.append([cell if isinstance(cell, str) else percent(cell) for cell in row])
    return table(PASSING, rows, title="What may pass without a person")


def _disagreements(evaluation: Evaluation) -> Any:
    rows = [
        (
            case.id,
            label_text(case.value),
            label_text(case.label),
            shorten(case.rationale),
        )
        for case in evaluation.disagreements
    ]
    columns = ("id", "judge", "people", "the judge's reason")
    return table(columns, rows, title="Disagreements", limit=_DISAGREEMENTS)


def _write_report(
    file: Path | None,
    judge: Judge,
    number: int,
    evaluation: Evaluation,
    label: str,
    result: GateResult | None,
) -> None:
    from memalign.evaluation import as_html, as_markdown
    from memalign.evaluation import report as gather
    from memalign.types import as_json

    if file is None:
        return
    page = gather(judge, evaluation, against=label, gate=result)
    suffix = file.suffix.lower()
    if suffix == ".json":
        text = json.dumps(
            as_json({"version": number, **page.to_dict()}), ensure_ascii=False
        )
    else:
        text = as_html(page) if suffix == ".html" else as_markdown(page)
    file.write_text(text, "utf-8")
    say(f"wrote the report to {file}")
