"""`memalign bench draws`: a kept study, fitted again on many small sets of labels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from memalign.cli.common import DEFAULT_REGISTRY, DONE, JsonOutput, UnusedRegistryUrl
from memalign.cli.output import Output
from memalign.errors import InputError


def draws(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="The study: a folder for each task.", show_default=False)
    ],
    *,
    part: Annotated[
        str,
        typer.Option("--part", metavar="P|S", help="Unseen items: the rest of the pool, or those kept for the end."),
    ] = "P",
    count: Annotated[int, typer.Option("--draws", metavar="N", min=2, help="Sets of labels a task.")] = 20,
    labels: Annotated[int, typer.Option("--labels", metavar="N", min=10, max=50, help="Labels of a set.")] = 50,
    registry: UnusedRegistryUrl = DEFAULT_REGISTRY,  # noqa: ARG001  # every command takes it
    json_output: JsonOutput = False,
) -> int:
    """Draw many small sets of labels from a kept study, and fit every method on each; no model is asked.

    The report is written into FOLDER: draws-P.md with its tables, draws-P.svg with what each part is worth.
    """
    from threadpoolctl import threadpool_limits

    from memalign_bench.draws.draw_report import run_study
    from memalign_bench.draws.study import read_studies
    from memalign_bench.raw import writing

    shown = Output(json=json_output)
    if part not in ("P", "S"):
        raise InputError(f"no part {part!r}: P is for development, S for the end")
    studies = read_studies(folder, "S" if part == "S" else "P")
    # Thousands of small fits: threads of linear algebra wait for each other, ten times as long beside other work.
    with shown.progress() as progress, threadpool_limits(1):
        found = run_study(studies, part="S" if part == "S" else "P", draws=count, labels=labels, progress=progress)
    page = folder / f"draws-{part}.md"
    with writing(page):
        page.write_text(found.text(), "utf-8")
        page.with_suffix(".svg").write_text(found.svg(), "utf-8")
    shown.give({"report": str(page), **found.data()}, found.text(), str(page))
    return DONE
