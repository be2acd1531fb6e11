"""`memalign evaluate`: agreement with people, a comparison, a gate for builds, and a report."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalign.cli.judging import consequence_for_file
from memalign.cli.options import (
    ColumnMap,
    Concurrency,
    DryRun,
    MaxCost,
    Name,
    Out,
    Version,
    give_estimate,
    judge_with_columns,
    rows_of,
)
from memalign.cli.output import label_text, say, shorten, table, usage_text
from memalign.cli.progress import FailureReasons, show_progress
from memalign.cli.session import DONE, FAILURES, TOO_FEW, Session, interruptible
from memalign.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from memalign.evaluation import Evaluation, GateResult
    from memalign.judge import Judge
    from memalign.types import Example, Usage

_DISAGREEMENTS = 10  # rows of the table
_FORMATS = (".html", ".md", ".json")
_EXIT = {"pass": DONE, "worse": FAILURES, "too few cases": TOO_FEW}
_ZERO_SHOT = "zero-shot"


def evaluate(
    session: Session,
    name: Name,
    labelled: Annotated[
        str, typer.Argument(metavar="LABELLED", help="A file of feedback with values; - reads JSON lines.")
    ],
    *,
    version: Version = None,
    against: Annotated[
        str | None,
        typer.Option(metavar="N|zero-shot", help="Compare with another version, or with the judge without memory."),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="M", help="Ask another model than the judge's, with its memory.")
    ] = None,
    min_accuracy: Annotated[
        float | None, typer.Option(metavar="A", help="What the accuracy's interval must reach, such as 0.8.")
    ] = None,
    min_kappa: Annotated[
        float | None, typer.Option(metavar="K", help="What kappa's interval must reach; of int the weighted kappa's.")
    ] = None,
    not_worse_than: Annotated[
        float | None,
        typer.Option(metavar="POINTS", help="What it may lose against --against; the default is the version before."),
    ] = None,
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the criteria as JUnit XML.")] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page that anybody can read: .html, .md or .json.")
    ] = None,
    judged: Annotated[
        list[Path] | None,
        typer.Option(metavar="OUT.jsonl", help="Judgments of judge -o: their judge is not asked. Repeatable."),
    ] = None,
    out: Out = None,
    columns: ColumnMap = None,
    concurrency: Concurrency = None,
    max_cost: MaxCost = None,
    dry_run: DryRun = False,
) -> int:
    """Measure agreement with people, as a gate or a report too.

    All figures have 95 % intervals. With a criterion (--min-accuracy, --min-kappa, --not-worse-than) it is a gate. Cases in memory are left out, and the
    exit code is 0 when the whole interval reaches the criterion, 1 when none of it does, and 3 when there are too few
    cases to tell. A case without a verdict is named: exit 2 in a gate, else 1.
    """
    from memalign.evaluation import LabelledCases, check_criteria, gate
    from memalign.evaluation import evaluate as measure
    from memalign.evaluation import report as gather

    number, judge = judge_with_columns(session, name, version, columns)
    minimum = {
        metric: least for metric, least in (("accuracy", min_accuracy), ("kappa", min_kappa)) if least is not None
    }
    criteria = bool(minimum) or not_worse_than is not None
    if not_worse_than is not None and against is None and model is None:
        against = _version_before(name, number)
    other = None if against is None else _other_judge(session, judge, against)
    if model is not None:
        if not_worse_than is not None and other is None:
            other, against = judge, str(number)
        judge = judge.replace(model=model)
    if criteria:
        check_criteria(judge, minimum=minimum, not_worse_than=not_worse_than, against=other is not None)
    elif junit is not None:
        raise InputError("--junit writes criteria: name one, such as --min-accuracy 0.8")
    _check_writable(junit)
    _check_writable(report, _FORMATS)
    rows = rows_of(labelled, columns, remembered=judge.columns)
    unseen = criteria or report is not None
    if dry_run:
        outside = [each for each in (judge, other) if each is not None] if unseen else []
        examples = LabelledCases.of(judge, rows, outside=outside).examples
        usage = _estimate(judge, examples, [*(judged or []), *([out] if out else [])])
        usage += _estimate(other, examples, judged or [])
        return give_estimate(session, name, number, usage, max_cost)
    with interruptible(lambda: consequence_for_file(out)), show_progress() as progress:
        evaluation = measure(
            judge,
            rows,
            against=other,
            unseen=unseen,
            judged=judged or (),
            out=out,
            concurrency=concurrency,
            max_cost=max_cost,
            progress=progress,
        )
    result = None
    if criteria and not evaluation.unscored and not (evaluation.base and evaluation.base.unscored):
        result = gate(evaluation, minimum=minimum, not_worse_than=not_worse_than)
    session.give(_data(name, number, against, evaluation, result), *_parts(name, number, against, evaluation, result))
    if junit is not None and result is not None:
        _write(junit, _junit(result))
    if report is not None:
        label = _label(against) or "the other judge"
        _write(report, _page(report.suffix.lower(), gather(judge, evaluation, against=label, gate=result), number))
        say(f"the report is in {report}")
    failures = _say_failures(evaluation)
    if criteria:
        return _EXIT[(result or gate(evaluation, minimum=minimum, not_worse_than=not_worse_than)).outcome]
    return FAILURES if failures else DONE


# -- the other judge -------------------------------------------------------------------------------------------------


def _version_before(name: str, number: int) -> str:
    if number < 2:
        raise InputError(f"{name} has no version before {number}: name one (--against), or leave --not-worse-than out")
    return str(number - 1)


def _other_judge(session: Session, judge: Judge, against: str) -> Judge:
    """The judge that `--against` names: a version, or the judge without memory."""
    if against == _ZERO_SHOT:
        from memalign.judge.spec import without_memory

        return without_memory(judge)
    if not against.isdecimal():
        raise InputError(f"--against {against}: give a version's number, or zero-shot (the judge without memory)")
    return session.judge(judge.name, int(against))[1]


def _label(against: str | None) -> str:
    return "" if against is None else "zero-shot" if against == _ZERO_SHOT else f"version {against}"


# -- before anything is paid -----------------------------------------------------------------------------------------


def _check_writable(file: Path | None, suffixes: tuple[str, ...] = ()) -> None:
    """Raise InputError for a file that could not be written."""
    if file is None:
        return
    if suffixes and file.suffix.lower() not in suffixes:
        raise InputError(f"{file}: name a file that ends in {', '.join(suffixes)}")
    folder = file.resolve().parent
    if not folder.is_dir():
        raise InputError(f"{file} cannot be written: there is no folder {folder}")
    if file.is_dir() or not os.access(file if file.exists() else folder, os.W_OK):
        raise InputError(f"{file} cannot be written: {'it is a folder' if file.is_dir() else 'no permission'}")


def _estimate(judge: Judge | None, examples: Sequence[Example], files: Sequence[Path]) -> Usage:
    """About what judging the examples takes, without those whose judgments are in one of the files."""
    from memalign.evaluation.judgment_file import made_by
    from memalign.io import read_judgments
    from memalign.judge.estimate import estimate_judging
    from memalign.types import Usage

    if judge is None:
        return Usage()
    finished = {
        (key, file.contents[key])
        for path in files
        if path.is_file() and made_by(judge, path)
        for file in [read_judgments(path)]
        for key, judgment in file.judgments.items()
        if judgment.error is None
    }
    remaining = [example for example in examples if (example.id, example.content_hash) not in finished]
    return estimate_judging(judge, remaining, rows=len(remaining)).usage if remaining else Usage()


# -- what is given ---------------------------------------------------------------------------------------------------


def _data(
    name: str, number: int, against: str | None, evaluation: Evaluation, result: GateResult | None
) -> Mapping[str, Any]:
    figures = evaluation.to_dict()
    data = {"judge": name, "version": number, "seen": evaluation.seen, "against": against}
    data |= {key: figures.pop(key) for key in ("base", "comparison")}
    return data | {"evaluation": figures, "gate": None if result is None else result.to_dict()}


def _parts(name: str, number: int, against: str | None, evaluation: Evaluation, result: GateResult | None) -> list[Any]:
    parts: list[Any] = [f"{evaluation}\n" if not evaluation.disagreements else str(evaluation)]
    if evaluation.disagreements:
        rows = [
            (case.id, label_text(case.value), label_text(case.label), shorten(case.rationale))
            for case in evaluation.disagreements
        ]
        columns = ("id", "judge", "people", "the judge's reason")
        parts.append(table(columns, rows, title="Disagreements", limit=_DISAGREEMENTS))
    if evaluation.comparison is not None:
        parts.append(f"{name} version {number} (the second judge) against {_label(against)} (the first)")
        parts.append(f"{evaluation.comparison}\n")
    if result is not None:
        criteria = [(each.outcome, each.demand, each.why) for each in result.criteria]
        parts.append(table(("outcome", "criterion", "figure"), criteria, title=f"Gate: {result.outcome}"))
    fresh = evaluation.n - evaluation.seen
    if not evaluation.taught:
        parts.append(
            f"seen: {evaluation.seen} of {evaluation.n} cases are in the judge's memory, {fresh} are new to it"
        )
    usage = evaluation.usage if evaluation.base is None else evaluation.usage + evaluation.base.usage
    return [*parts, usage_text(usage) if usage.calls else "no model was asked"]


def _say_failures(evaluation: Evaluation) -> bool:
    reasons = FailureReasons()
    for case in (*evaluation.cases, *(evaluation.base.cases if evaluation.base is not None else ())):
        if case.error is not None:
            reasons.add(case.id, case.error)
    for line in reasons.lines():
        say(line)
    return bool(reasons.lines())


def _junit(result: GateResult) -> bytes:
    from memalign.evaluation import junit_xml

    return junit_xml(result)


def _page(suffix: str, page: Any, number: int) -> bytes:
    from memalign.evaluation import as_html, as_markdown
    from memalign.types import as_json

    if suffix == ".json":
        plain = {"version": number, **page.to_dict()}
        return f"{json.dumps(as_json(plain), ensure_ascii=False, indent=2)}\n".encode()
    return (as_html if suffix == ".html" else as_markdown)(page).encode()


def _write(file: Path, content: bytes) -> None:
    try:
        file.write_bytes(content)
    except OSError as error:
        raise InputError(f"{file} cannot be written: {error.strerror}") from None
