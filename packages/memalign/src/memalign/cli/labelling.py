"""What people should label next."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from memalign.cli.common import DONE, FAILURES, Concurrency, MaxCost, Name, Session, Version
from memalign.cli.output import counted, table, usage_text
from memalign.cli.rows_given import ColumnMap, remembering, rows_given


def next_(
    session: Session,
    name: Name,
    cases: Annotated[
        str, typer.Argument(metavar="CASES", help="Unlabelled: JSONL, CSV, JSON or Parquet; - reads JSON lines.")
    ],
    *,
    n: Annotated[int, typer.Option("-n", metavar="N", min=1, help="How many to name.")] = 5,
    judged: Annotated[
        Path | None,
        typer.Option("--judged", metavar="OUT.jsonl", help="Use the judgments of judge -o. No model is called."),
    ] = None,
    columns: ColumnMap = None,
    version: Version = None,
    concurrency: Concurrency = None,
    max_cost: MaxCost = None,
) -> int:
    """Name the cases that experts should label next, and why.

    First come those where no guideline speaks, guidelines pull both ways, the verdict is unsure, or memory has
    nothing like them. Each case is judged once. Cases in memory, and copies of one case, are left out. A case that
    cannot be judged is named and does not stop the rest (exit 1). --json is a list of id, reason and score.
    """
    from memalign.cli.progress import FailureReasons
    from memalign.evaluation import next_cases
    from memalign.io import Examples

    _, judge = remembering(session, name, version, columns)
    source = Examples.of(rows_given(cases, columns, remembered=judge.columns), fields=judge.fields)
    started = time.perf_counter()
    with session.progress() as progress:
        found = next_cases(
            judge, source, n=n, judged=judged, concurrency=concurrency, max_cost=max_cost, progress=progress
        )
    rows = [(each.id, each.score, each.reason) for each in found.cases]
    counts = [f"{counted(found.ranked, 'case')} compared"]
    counts += [f"{found.known} in memory already"] if found.known else []
    counts += [f"{found.copies} the same as another"] if found.copies else []
    counts += [f"{len(found.failed)} not judged"] if found.failed else []
    line = ", ".join([*counts, usage_text(found.usage, time.perf_counter() - started)])
    session.give(found.cases, *([table(("id", "score", "why"), rows)] if rows else []), line)
    reasons = FailureReasons()
    for example_id, error in found.failed:
        reasons.add(example_id, error)
    for reason in reasons.lines():
        session.say(reason)
    return FAILURES if found.failed else DONE
