"""Judging: verdicts on examples, and their agreement with people."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
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
    from memalign.records import Example, Judgment
    from memalign.registry import Registry

_SHOWN_NOTES = 20
_SHOWN_DISAGREEMENTS = 10

Out = Annotated[
    Path | None,
    typer.Option("-o", "--out", metavar="OUT.jsonl", help="Write a judgment a line; an existing file is resumed."),
]


def judge(
    name: Name,
    examples: Annotated[
        str, typer.Argument(metavar="EXAMPLES", help="JSONL, CSV or JSON; - reads JSON lines.", show_default=False)
    ],
    *,
    out: Out = None,
    version: Version = None,
    concurrency: Concurrency = None,
    registry: RegistryUrl = DEFAULT_REGISTRY,
    json_output: JsonOutput = False,
) -> int:
    """Judge every example of a file.

    An example that fails is named and does not stop the rest (exit 1). With -o, what was judged stays judged: the same
    command goes on where it stopped.
    """
    from memalign.files import check_examples, read_examples

    number, chosen = loaded(open_registry(registry), name, version)
    given = read_input(examples)
    items = read_examples(given) if isinstance(given, str) else check_examples(given, name="stdin")
    printer = Output(json=json_output)
    earlier = _earlier(out)
    started = time.perf_counter()
    with interruptible(lambda: _judged_so_far(out)), printer.progress() as progress:
        judgments = chosen.judge_many(items, concurrency=concurrency, out=out, progress=progress)
    from memalign.records import Usage

    failed = [(item.id, made.error) for item, made in zip(items, judgments, strict=True) if made.error is not None]
    fresh = [made for item, made in zip(items, judgments, strict=True) if earlier.get(item.id) != made]
    usage = sum((made.usage for made in fresh), Usage())
    data: dict[str, Any] = {
        "judge": name,
        "version": number,
        "n": len(items),
        "resumed": len(items) - len(fresh),
        "errors": [{"id": key, "error": error} for key, error in failed],
        "usage": usage,
    }
    if out is None:
        data["judgments"] = [{"id": item.id, **_fields(made)} for item, made in zip(items, judgments, strict=True)]
    else:
        data["out"] = str(out)
    done = [f"{len(fresh) - len(failed)} judged" + (f" into {out}" if out else "")]
    done += [f"{len(items) - len(fresh)} there already"] if len(fresh) < len(items) else []
    done += [f"{len(failed)} failed"] if failed else []
    line = ", ".join([*done, usage_text(usage, time.perf_counter() - started)])
    printer.give(data, *([] if out else [_judgment_table(items, judgments)]), line)
    _say_failures(printer, failed)
    _say_notes(printer, items, judgments)
    return FAILURES if failed else DONE


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
    from memalign.evaluation.result import value_text

    rows = [
        (each.id, value_text(each.value), value_text(each.label), shorten(each.rationale))
        for each in found.disagreements[:_SHOWN_DISAGREEMENTS]
    ]
    total = len(found.disagreements)
    title = f"Disagreements ({min(total, _SHOWN_DISAGREEMENTS)} of {total}; --json has all)"
    return [table(("id", "judge", "people", "the judge's reason"), rows, title=title)]


def _judgment_table(items: list[Example], judgments: list[Judgment]) -> Any:
    from memalign.evaluation.result import value_text

    rows = [
        (item.id, "error" if made.error else value_text(made.value), shorten(made.error or made.rationale))
        for item, made in zip(items, judgments, strict=True)
    ]
    return table(("id", "value", "rationale"), rows)


def _fields(judgment: Judgment) -> dict[str, Any]:
    return {name: getattr(judgment, name) for name in judgment.__struct_fields__}


def _say_failures(printer: Output, failed: Sequence[tuple[str, str | None]]) -> None:
    """Name what failed, one line a reason: a server that is down gives every item the same one."""
    for reason, count in Counter(error for _, error in failed).most_common():
        ids = [key for key, error in failed if error == reason]
        more = f", … {count - 5} more" if count > 5 else ""
        printer.say(f"failed: {', '.join(ids[:5])}{more}: {reason}")


def _say_notes(printer: Output, items: list[Example], judgments: list[Judgment]) -> None:
    noted = [(item.id, note) for item, made in zip(items, judgments, strict=True) for note in made.notes]
    for key, note in noted[:_SHOWN_NOTES]:
        printer.say(f"note: {key}: {note}")
    if len(noted) > _SHOWN_NOTES:
        printer.say(f"note: … and {len(noted) - _SHOWN_NOTES} more; --json and -o have all")


def _earlier(out: Path | None) -> Mapping[str, Judgment]:
    """The judgments that an earlier run left in OUT; what is wrong with a file that is none of ours is said later."""
    from memalign.files import read_judgments

    try:
        return read_judgments(out).judgments if out is not None else {}
    except InputError:
        return {}


def _judged_so_far(out: Path | None) -> str:
    if out is None:
        return "no judgment was kept (-o OUT.jsonl keeps them as they come)"
    return f"what was judged is in {out}, the same command goes on from there"
