"""Judging: verdicts on examples, and their agreement with people."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalign.cli.common import (
    DEFAULT_REGISTRY,
    DONE,
    FAILURES,
    Concurrency,
    JsonOutput,
    Name,
    RegistryUrl,
    Version,
    interruptible,
    loaded,
    open_registry,
    read_input,
)
from memalign.cli.output import Output, shorten, table, usage_text
from memalign.errors import InputError

if TYPE_CHECKING:
    from memalign.evaluation import Evaluation
    from memalign.judge import Judge
    from memalign.registry import Registry
    from memalign.types import Judgment

_WITHOUT_OUT = 1_000  # judgments that a person still reads on a screen, and could bear to lose
_CHECKED = 5_000  # rows after which checking them says that it goes on
_SHOWN_DISAGREEMENTS = 10

Out = Annotated[
    Path | None,
    typer.Option("-o", "--out", metavar="OUT.jsonl", help="Write a judgment a line; an existing file is resumed."),
]


def judge(
    name: Name,
    examples: Annotated[
        str,
        typer.Argument(metavar="EXAMPLES", help="JSONL, CSV, JSON or Parquet; - reads JSON lines.", show_default=False),
    ],
    *,
    out: Out = None,
    version: Version = None,
    concurrency: Concurrency = None,
    max_cost: Annotated[
        float | None,
        typer.Option(
            "--max-cost", metavar="DOLLARS", help="Stop before this run has cost more; what is judged is kept."
        ),
    ] = None,
    registry: RegistryUrl = DEFAULT_REGISTRY,
    json_output: JsonOutput = False,
) -> int:
    """Judge every example of a file.

    An example that fails is named and does not stop the rest (exit 1). With -o, what was judged stays judged: the same
    command goes on where it stopped, and files may be as large as they like.
    """
    from memalign.cli.progress import RunProgress
    from memalign.io import Examples

    number, chosen = loaded(open_registry(registry), name, version)
    source = Examples.of_lines(sys.stdin.buffer, name="stdin") if examples == "-" else Examples.of(examples)
    printer = Output(json=json_output)
    run_progress = RunProgress()
    started = time.perf_counter()
    with interruptible(lambda: _judged_so_far(out)), printer.progress(detail=run_progress.text) as progress:
        for read, _ in enumerate(source.checking()):
            if read % _CHECKED == _CHECKED - 1:
                progress("check", read + 1, 0)
        if out is None and not json_output and len(source) > _WITHOUT_OUT:
            raise InputError(
                f"{source.name} has {len(source):,} examples: name a file for the judgments (-o OUT.jsonl), which keeps "
                "each as it comes and from which the same command goes on, or take --json"
            )
        done = 0

        def show(phase: str, finished: int, total: int) -> None:
            nonlocal done
            done = finished
            progress(phase, finished, total)

        judgments = chosen.judge_many(
            source, concurrency=concurrency, out=out, progress=show, max_cost=max_cost, on_judgment=run_progress.note
        )
    n, resumed = len(source), done - run_progress.judged
    left = _not_judged(judgments) if done < n else []
    data: dict[str, Any] = {
        "judge": name,
        "version": number,
        "n": n,
        "resumed": resumed,
        "failed": run_progress.failed,
        "not_judged": len(left),
        "errors": [{"id": key, "error": error} for key, error in run_progress.failures],
        "usage": run_progress.usage,
    }
    shown: list[Any] = []
    if out is None:
        ids = [example.id for example in source]
        data["judgments"] = [{"id": key, **_fields(made)} for key, made in zip(ids, judgments, strict=True)]
        shown = [_judgment_table(ids, judgments)]
    else:
        data["out"] = str(out)
    counts = [f"{run_progress.judged - run_progress.failed} judged" + (f" into {out}" if out else "")]
    counts += [f"{resumed} there already"] if resumed else []
    counts += [f"{run_progress.failed} failed"] if run_progress.failed else []
    counts += [f"{len(left)} not judged"] if left else []
    line = ", ".join([*counts, usage_text(run_progress.usage, time.perf_counter() - started)])
    printer.give(data, *shown, line)
    for reason in run_progress.reasons():
        printer.say(reason)
    if left:
        printer.say(f"{len(left)} not judged: {left[0]}")
    for key, note in run_progress.notes:
        printer.say(f"note: {key}: {note}")
    if run_progress.noted > len(run_progress.notes):
        printer.say(f"note: … and {run_progress.noted - len(run_progress.notes)} more; --json and -o have all")
    return FAILURES if run_progress.failed or left else DONE


def evaluate(
    name: Name,
    labelled: Annotated[
        str,
        typer.Argument(
            metavar="LABELLED", help="A file of feedback with values; - reads JSON lines.", show_default=False
        ),
    ],
    *,
    version: Version = None,
    against: Annotated[
        str | None,
        typer.Option(metavar="N|bare", help="Compare with another version, or with the same judge without memory."),
    ] = None,
    out: Out = None,
    concurrency: Concurrency = None,
    registry: RegistryUrl = DEFAULT_REGISTRY,
    json_output: JsonOutput = False,
) -> int:
    """Measure how far the judge agrees with people's labels, with 95 % intervals.

    Cases that are in the judge's memory are counted: they say nothing about learning.
    """
    from memalign.evaluation import compare
    from memalign.evaluation import evaluate as measure

    opened = open_registry(registry)
    number, chosen = loaded(opened, name, version)
    other = None if against is None else _other(opened, chosen, against)
    given = read_input(labelled)
    printer = Output(json=json_output)
    with interruptible(lambda: _judged_so_far(out)), printer.progress() as progress:
        found = measure(chosen, given, concurrency=concurrency, out=out, progress=progress)
        base = None if other is None else measure(other, given, concurrency=concurrency, progress=progress)
    data: dict[str, Any] = {"judge": name, "version": number, "seen": found.seen, "evaluation": found.to_dict()}
    parts: list[Any] = [f"{found}\n" if not found.disagreements else str(found), *_disagreements(found)]
    if base is not None:
        comparison = compare(base, found)
        data |= {"against": against, "base": base.to_dict(), "comparison": comparison.to_dict()}
        first = "without memory" if against == "bare" else f"version {against}"
        parts += [f"{name} {first}, and then version {number}:", f"{comparison}\n"]
    usage = found.usage if base is None else found.usage + base.usage
    parts.append(f"{_seen_line(found)}\n{usage_text(usage)}")
    printer.give(data, *parts)
    cases = (*found.cases, *(base.cases if base is not None else ()))
    failed = [(case.id, case.error) for case in cases if case.error is not None]
    _say_failures(printer, failed)
    return FAILURES if failed else DONE


def _other(opened: Registry, chosen: Judge, against: str) -> Judge:
    if against == "bare":
        return chosen.without_memory()
    if not against.isdecimal():
        raise InputError(f"--against {against}: a version's number, or bare (the judge without memory)")
    return opened.load(chosen.name, int(against))


def _seen_line(found: Evaluation) -> str:
    return f"seen: {found.seen} of {found.n} cases are in the judge's memory, {found.n - found.seen} are new to it"


def _disagreements(found: Evaluation) -> list[Any]:
    if not found.disagreements:
        return []
    from memalign.values import value_text

    rows = [
        (each.id, value_text(each.value), value_text(each.label), shorten(each.rationale))
        for each in found.disagreements[:_SHOWN_DISAGREEMENTS]
    ]
    total = len(found.disagreements)
    title = f"Disagreements ({min(total, _SHOWN_DISAGREEMENTS)} of {total}; --json has all)"
    return [table(("id", "judge", "people", "the judge's reason"), rows, title=title)]


def _judgment_table(ids: Sequence[str], judgments: Sequence[Judgment]) -> Any:
    from memalign.values import value_text

    rows = [
        (
            key,
            "error" if made.error else f"{value_text(made.value)}{' (unsure)' if made.abstained else ''}",
            shorten(made.error or made.rationale),
        )
        for key, made in zip(ids, judgments, strict=True)
    ]
    return table(("id", "value", "rationale"), rows)


def _not_judged(judgments: Sequence[Judgment]) -> list[str]:
    """For each item that the run stopped before, why."""
    return [(judgment.error or "").removeprefix("NotJudged: ") for judgment in judgments if judgment.not_judged]


def _fields(judgment: Judgment) -> dict[str, Any]:
    return {name: getattr(judgment, name) for name in judgment.__struct_fields__}


def _say_failures(printer: Output, failed: Sequence[tuple[str, str | None]]) -> None:
    """Name what failed, one line a reason: a server that is down gives every item the same one."""
    for reason, count in Counter(error for _, error in failed).most_common():
        ids = [key for key, error in failed if error == reason]
        more = f", … {count - 5} more" if count > 5 else ""
        printer.say(f"failed: {', '.join(ids[:5])}{more}: {reason}")


def _judged_so_far(out: Path | None) -> str:
    if out is None:
        return "no judgment was kept (-o OUT.jsonl keeps them as they come)"
    return f"what was judged is in {out}, the same command goes on from there"
