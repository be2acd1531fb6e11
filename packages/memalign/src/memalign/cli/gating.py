"""A gate for builds: whether a judge is good enough to release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from memalign.cli.common import DONE, FAILURES, Concurrency, Name, Session, Version, interruptible
from memalign.cli.labelled_cases import Evidence, Labelled, Offline, check_writable, what_is_left
from memalign.cli.output import counted, table, usage_text
from memalign.cli.rows_given import ColumnMap, rows_given
from memalign.errors import InputError

if TYPE_CHECKING:
    from memalign.evaluation import GateResult
    from memalign.judge import Judge

_EXIT = {"pass": DONE, "regression": FAILURES, "inconclusive": 3}


_JUNIT = {None: "skipped", "pass": "pass", "fail": "failure"}


def gate(
    session: Session,
    name: Name,
    labelled: Labelled,
    *,
    min_kappa: Annotated[
        float | None, typer.Option(metavar="K", help="What kappa's interval must reach; of int the weighted kappa's.")
    ] = None,
    minimum: Annotated[
        list[str] | None,
        typer.Option("--min", metavar="METRIC=X", help="The same of exact_match, ccc, …; of mae the most. Repeatable."),
    ] = None,
    not_worse_than: Annotated[
        float | None, typer.Option(metavar="POINTS", help="What the judge may lose against the baseline.")
    ] = None,
    baseline: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="A version. The default is the one before.")
    ] = None,
    version: Version = None,
    evidence: Evidence = None,
    offline: Offline = False,
    columns: ColumnMap = None,
    inconclusive: Annotated[
        Literal["pass", "fail"] | None, typer.Option(help="Exit 0 or 1, and not 3, where the cases do not tell.")
    ] = None,
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Write JUnit XML.")] = None,
    summary: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Append a section of Markdown, for the build's page.")
    ] = None,
    concurrency: Concurrency = None,
) -> int:
    """Stop a release whose judge is not good enough on labelled cases that it has not learned from.

    A demand passes when the whole 95 % interval reaches it, and fails when none of it does. Between the two the cases
    do not tell. Locked cases must keep the experts' label. Cases in memory are left out. Exit 0: all pass. 1: one
    fails. 2: wrong use, or a case without a verdict. 3: inconclusive.
    """
    from memalign.evaluation import gate as decide
    from memalign.evaluation import junit_xml, markdown

    number, judge = session.judge(name, version)
    other, base = _baseline(session, name, number, baseline, not_worse_than)
    demands = _demands(judge, min_kappa, minimum or [])
    for file in (junit, summary):
        check_writable(file)
    with interruptible(lambda: what_is_left(evidence)), session.progress() as progress:
        found = decide(
            judge,
            rows_given(labelled, columns, remembered=judge.columns),
            minimum=demands,
            baseline=base,
            not_worse_than=not_worse_than,
            evidence=evidence,
            offline=offline,
            concurrency=concurrency,
            progress=progress,
        )
    session.give({"version": number, "baseline": other} | found.to_dict(), *_drawn(found, name, number, other))
    try:
        if junit is not None:
            junit.write_bytes(junit_xml(found, inconclusive=_JUNIT[inconclusive]))
        if summary is not None:
            with summary.open("a", encoding="utf-8") as page:
                page.write(markdown(found))
    except OSError as error:
        raise InputError(f"{error.filename} cannot be written: {error.strerror}") from None
    if found.outcome == "inconclusive" and inconclusive is not None:
        return DONE if inconclusive == "pass" else FAILURES
    return _EXIT[found.outcome]


def _baseline(
    session: Session, name: str, number: int, baseline: int | None, points: float | None
) -> tuple[int | None, Judge | None]:
    if points is None:
        if baseline is not None:
            raise InputError("--baseline needs --not-worse-than POINTS: how much the judge may lose against it")
        return None, None
    other = number - 1 if baseline is None else baseline
    if other < 1:
        raise InputError(f"{name} has no version before {number}: name a --baseline, or leave --not-worse-than out")
    return other, session.judge(name, other)[1]


def _demands(judge: Judge, min_kappa: float | None, given: list[str]) -> dict[str, float]:
    demands: dict[str, float] = {}
    if min_kappa is not None:
        demands["weighted_kappa" if judge.value_type.kind == "int" else "kappa"] = min_kappa
    for each in given:
        given_name, _, number = each.partition("=")
        metric = given_name.strip().replace("-", "_")
        if metric in demands:
            raise InputError(f"{metric} is demanded twice: give it once")
        try:
            demands[metric] = float(number)
        except ValueError:
            raise InputError(f"--min {each}: give a metric and a number, such as exact_match=0.8") from None
    return demands


def _drawn(found: GateResult, name: str, number: int, other: int | None) -> list[Any]:
    against = "" if other is None else f" against version {other}"
    taught = f"; {counted(found.taught, 'more case')} in memory left out" if found.taught else ""
    head = f"{name} version {number}{against}, {counted(found.evaluation.n, 'unseen case')}{taught}"
    rows = [(each.outcome, each.demand, each.why) for each in found.criteria]
    parts: list[Any] = [head, table(("outcome", "demand", "found"), rows)]
    if found.comparison is not None and found.comparison.broken:
        parts.append(f"broken: {', '.join(found.comparison.broken)}")
    return [*parts, f"{found.outcome}; {usage_text(found.asked) if found.asked.calls else 'no model was asked'}"]
