"""Several judges over the same examples."""

from __future__ import annotations

import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalign.cli.common import (
    DEFAULT_REGISTRY,
    DONE,
    FAILURES,
    Concurrency,
    JsonOutput,
    RegistryUrl,
    interruptible,
    open_registry,
    read_input,
)
from memalign.cli.output import Output, table, usage_text
from memalign.errors import InputError

if TYPE_CHECKING:
    from memalign.judge import Judge
    from memalign.judge.scorecard import Scorecard, Totals
    from memalign.registry import Registry
    from memalign.types import Judgment

_SHOWN_CASES = 50


def scorecard(
    examples: Annotated[
        str,
        typer.Argument(metavar="EXAMPLES", help="JSONL, CSV, JSON or Parquet; - reads JSON lines.", show_default=False),
    ],
    names: Annotated[
        list[str],
        typer.Argument(metavar="NAME...", help="The judges' names; tone@2 is version 2 of tone.", show_default=False),
    ],
    *,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="FOLDER", help="Write all judgments there; an existing folder is resumed."),
    ] = None,
    concurrency: Concurrency = None,
    max_cost: Annotated[
        float | None,
        typer.Option(
            "--max-cost",
            metavar="DOLLARS",
            help="Stop before all judges together have cost more; what is judged is kept.",
        ),
    ] = None,
    registry: RegistryUrl = DEFAULT_REGISTRY,
    json_output: JsonOutput = False,
) -> int:
    """Judge the same examples by several judges.

    A judge that fails on an example is named and stops neither the others nor the rest (exit 1). With -o, FOLDER has
    each judge's judgments in judges/NAME.jsonl, from which the same command goes on, and a line an example in scorecard.jsonl.
    """
    from memalign.judge.scorecard import score

    opened = open_registry(registry)
    judges = {name: _loaded(opened, name) for name in names}
    if len(judges) < len(names):
        raise InputError("a judge is named twice; tone and tone@2 are two versions of one")
    printer = Output(json=json_output)
    started = time.perf_counter()
    given = read_input(examples)
    with interruptible(lambda: _left(out)), printer.progress() as progress:
        card = score(judges, given, out=out, concurrency=concurrency, progress=progress, max_cost=max_cost)
    data: dict[str, Any] = card.to_dict() | {"usage": card.usage}
    parts: list[Any] = []
    if out is None:
        data["cases"] = [{"id": row.id, "values": row.values, "errors": row.errors} for row in card]
        parts = [_cases(card)] if len(card) <= _SHOWN_CASES else []
    else:
        data["out"] = str(out)
    line = f"{len(card):,} examples, {usage_text(card.usage, time.perf_counter() - started)}"
    printer.give(data, *parts, _judges(card), line if out is None else f"{line}; in {out}")
    return _say_failures(printer, card)


def _loaded(opened: Registry, name: str) -> Judge:
    known = {info.name for info in opened.list()}
    base, at, number = name.rpartition("@")
    if name not in known and at and number.isdecimal():
        return opened.load(base, int(number))
    return opened.load(name)


def _cases(card: Scorecard) -> Any:
    from memalign.values import value_text

    def cell(judgment: Judgment) -> str:
        if judgment.error is not None:
            return "" if judgment.not_judged else "error"
        return value_text(judgment.value)

    rows = [(row.id, *(cell(judgment) for judgment in row.judgments.values())) for row in card]
    return table(("id", *card.judges), rows)


def _judges(card: Scorecard) -> Any:
    left = any(each.not_judged for each in card.totals)
    rows = [
        (
            each.judge,
            each.judged,
            each.failed or "",
            *((each.not_judged or "",) if left else ()),
            _said(each),
            _cost(each),
        )
        for each in card.totals
    ]
    return table(("judge", "judged", "failed", *(("not judged",) if left else ()), "verdicts", "cost"), rows)


def _said(totals: Totals) -> str:
    shares = ", ".join(f"{label} {share:.0%}" for label, share in list(totals.shares.items())[:8])
    mean = "" if totals.mean is None else f"mean {totals.mean:.2f}"
    abstained = f"{totals.abstained} abstained" if totals.abstained else ""
    return "; ".join(filter(None, (mean, shares, abstained)))


def _cost(totals: Totals) -> str:
    return "unknown" if totals.usage.cost is None else f"${totals.usage.cost:.2g}"


def _say_failures(printer: Output, card: Scorecard) -> int:
    """Name what failed, one line a judge and reason: a server that is down gives every example the same one."""
    found: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    left: list[str] = []
    for row in card:
        for name, error in row.errors.items():
            if row.judgments[name].not_judged:
                left.append(error.removeprefix("NotJudged: "))
            else:
                found[name, error.replace(f"{row.id}: ", "")].append(row.id)
    for (name, reason), ids in found.items():
        more = f", … {len(ids) - 5} more" if len(ids) > 5 else ""
        printer.say(f"failed: {name} on {', '.join(ids[:5])}{more}: {reason}")
    if left:
        printer.say(f"{len(left)} not judged: {left[0]}")
    return FAILURES if found or left else DONE


def _left(out: Path | None) -> str:
    if out is None:
        return "no judgment was kept (-o FOLDER keeps them as they come)"
    return f"what was judged is in {out}, the same command goes on from there"
