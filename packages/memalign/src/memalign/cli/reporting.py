"""The evidence on a judge, as a page for everybody."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from memalign.cli.common import DONE, FAILURES, Concurrency, Name, Session, Version, interruptible
from memalign.cli.labelled_cases import (
    ZERO_SHOT,
    Evidence,
    Labelled,
    Offline,
    check_writable,
    other_judge,
    what_is_left,
)
from memalign.cli.rows_given import ColumnMap, rows_given
from memalign.errors import InputError

_FORMATS = (".html", ".md", ".json")


def report(
    session: Session,
    name: Name,
    labelled: Labelled,
    *,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The page: .html, .md or .json.")],
    against: Annotated[
        list[str] | None,
        typer.Option(metavar="N|zero-shot", help="Set beside it. Repeatable; the default is zero-shot."),
    ] = None,
    version: Version = None,
    population: Annotated[
        Path | None,
        typer.Option(metavar="JUDGED", help="Judgments (judge -o) on all cases; the labelled ones are a random part."),
    ] = None,
    evidence: Evidence = None,
    offline: Offline = False,
    columns: ColumnMap = None,
    concurrency: Concurrency = None,
) -> int:
    """Write a page on how far the judge agrees with people, on cases that it has not learned from.

    Beside it stand the judge without memory, the commonest label, what the taught cases tell without a model, and
    people's agreement with each other. The page shows each disagreement with both reasons, what each guideline did, what
    fewer labels would have come to, and how many more would settle the figure. It is one file, needs no network, and holds the texts of the cases.
    """
    from memalign.cli.progress import FailureReasons
    from memalign.evaluation import as_html, as_markdown
    from memalign.evaluation import report as gather
    from memalign.types import as_json

    number, judge = session.judge(name, version)
    if out.suffix.lower() not in _FORMATS:
        raise InputError(f"{out}: name a file that ends in {', '.join(_FORMATS)}")
    check_writable(out)
    others = {}
    for each in against or (["zero-shot"] if judge.memory else []):
        label = "zero-shot" if each in ZERO_SHOT else f"version {each}"
        others[label] = other_judge(session, judge, each)
    if offline and evidence is None:
        raise InputError("offline needs a folder of evidence (--evidence DIR)")
    with interruptible(lambda: what_is_left(evidence)), session.progress() as progress:
        found = gather(
            judge,
            rows_given(labelled, columns, remembered=judge.columns),
            against=others,
            population=population,
            evidence=evidence,
            offline=offline,
            concurrency=concurrency,
            progress=progress,
        )
    plain = {"version": number, **found.to_dict()}
    write = {".html": as_html, ".md": as_markdown}.get(out.suffix.lower())
    text = write(found) if write else json.dumps(as_json(plain), ensure_ascii=False, indent=2) + "\n"
    try:
        out.write_text(text, "utf-8")
    except OSError as error:
        raise InputError(f"{out} cannot be written: {error.strerror}") from None
    lines = [f"{name} version {number}, {found.evaluation.n} unseen cases: {out}"]
    session.give(plain, *lines)
    reasons = FailureReasons()
    for case in found.evaluation.cases:
        if case.error is not None:
            reasons.add(case.id, case.error)
    for line in reasons.lines():
        session.say(line)
    return FAILURES if reasons.lines() else DONE
