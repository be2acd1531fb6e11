"""`memalign align`: learn from experts' feedback."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from memalign.cli.align_report import run_and_report
from memalign.cli.options import (
    ColumnMap,
    Concurrency,
    DryRun,
    FeedbackSource,
    JudgedBefore,
    MaxCost,
    Name,
    columns_of,
    give_estimate,
    rows_of,
)
from memalign.cli.session import Session


def align(
    session: Session,
    name: Name,
    feedback: Annotated[
        str | None,
        typer.Argument(
            metavar="FEEDBACK",
            help="A file: JSONL, CSV, XLSX, JSON or Parquet. - reads JSON lines. Without it, pending feedback is tried "
            "again.",
        ),
    ] = None,
    *,
    columns: ColumnMap = None,
    source: FeedbackSource = None,
    judged: JudgedBefore = None,
    skip_invalid: Annotated[
        bool, typer.Option("--skip-invalid", help="Learn the good rows of a file that has bad ones.")
    ] = False,
    allow_erased: Annotated[
        bool, typer.Option("--allow-erased", help="Learn feedback that was erased here, too.")
    ] = False,
    impact: Annotated[
        int | None,
        typer.Option(
            "--impact", metavar="N", min=1, help="Judge N taught cases again, and show which verdicts changed."
        ),
    ] = None,
    reflection_model: Annotated[
        str | None,
        typer.Option("--reflection-model", metavar="M", help="The model that writes the guidelines, for this run."),
    ] = None,
    shard_size: Annotated[
        int | None,
        typer.Option("--shard-size", metavar="N", min=1, help="Put N pieces of feedback into one model call."),
    ] = None,
    concurrency: Concurrency = None,
    max_cost: MaxCost = None,
    dry_run: DryRun = False,
) -> int:
    """Learn from experts' feedback: a new version of the judge.

    A row needs the fields that were judged, and a value, a rationale or both. Its id names the case; without one, an id
    is made of the content. Its source says who gave it, such as an e-mail address. A row of a known id and source
    replaces the earlier one, and what that had taught is forgotten first.
    """
    from memalign.align import MemAlign
    from memalign.io import read_judgments

    optimizer = MemAlign(
        columns=columns_of(columns),
        reflection_model=reflection_model,
        shard_size=shard_size,
        concurrency=concurrency,
        max_cost=max_cost,
        impact=impact,
    )
    rows = () if feedback is None else rows_of(feedback, source=source)
    options: dict[str, Any] = {"skip_invalid": skip_invalid, "allow_erased": allow_erased, "optimizer": optimizer}
    options["own_verdicts"] = None if judged is None else read_judgments(judged)
    if not dry_run:
        return run_and_report(
            session, name, lambda registry, progress: registry.align(name, rows, progress=progress, **options)
        )
    registry = session.registry()
    number = registry.history(name)[-1].number
    return give_estimate(session, name, number, registry.estimate(name, rows, **options), max_cost)
