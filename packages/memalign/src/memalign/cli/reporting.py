"""The evidence on a judge, as a page for everybody."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from memalign.cli.common import DONE, FAILURES, Concurrency, Name, Session, Version, interruptible
from memalign.cli.rows_given import rows_given
from memalign.errors import InputError

_FORMATS = (".html", ".md", ".json")


def report(
    session: Session,
    name: Name,
    labelled: Annotated[
        str, typer.Argument(metavar="LABELLED", help="A file of feedback with values; - reads JSON lines.")
    ],
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
    evidence: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep judgments here, and ask for none that is here.")
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Ask no model: all judgments are in --evidence.")] = False,
    concurrency: Concurrency = None,
) -> int:
    """Write a page on how far the judge agrees with people, on cases that it has not learned from.

    Beside it stand the judge without memory, the commonest label, the nearest taught case, and people's agreement with each other. The page
    shows each disagreement with both reasons, what each guideline did, and how many labels more would settle the
    figure. It is one file, needs no network, and holds the texts of the cases.
    """
    from memalign.evaluation import as_html, as_markdown
    from memalign.evaluation import report as gather
    from memalign.types import as_json

    number, judge = session.judge(name, version)
    if out.suffix.lower() not in _FORMATS:
        raise InputError(f"{out}: name a file that ends in {', '.join(_FORMATS)}")
    if not out.resolve().parent.is_dir():
        raise InputError(f"{out} cannot be written: there is no folder {out.resolve().parent}")
    others = {}
    for each in against or (["zero-shot"] if judge.memory else []):
        if each == "zero-shot":
            others[each] = judge.without_memory()
        elif each.isdecimal():
            others[f"version {each}"] = session.judge(name, int(each))[1]
        else:
            raise InputError(f"--against {each}: give a version's number, or zero-shot (the judge without memory)")
    if offline and evidence is None:
        raise InputError("offline needs a folder of evidence (--evidence DIR)")

    def left() -> str:
        return "nothing was written" if evidence is None else f"what was judged is in {evidence}"

    with interruptible(left), session.progress() as progress:
        found = gather(
            judge,
            rows_given(labelled),
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
    unscored = found.evaluation.unscored
    lines = [f"{name} version {number}, {found.evaluation.n} unseen cases: {out}"]
    session.give(plain, *lines)
    if unscored:
        session.say(f"{unscored} cases have no verdict, the page names them in its first line; run it again")
    return FAILURES if unscored else DONE
