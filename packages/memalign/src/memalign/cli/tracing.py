"""Feedback out of tracing and labelling tools, and verdicts back into them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalign.cli.align_report import run_and_report
from memalign.cli.common import DONE, FAILURES, MaxCost, Name, Session, Version
from memalign.cli.output import counted, listed
from memalign.cli.rows_given import ColumnMap, columns_of
from memalign.errors import InputError, InvalidRows, RowError

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterable

    from memalign.integrations.tracing import Gathered
    from memalign.io import FeedbackFile
    from memalign.judge import Judge

_HINT = "--value LABEL=VALUE renames a label, --map FIELD=COLUMN names a column, --skip-invalid takes the good rows"

_WRITTEN_AT_ONCE = 500  # verdicts
_NAMED = 20  # rows that are left out

ToolName = Annotated[
    str,
    typer.Argument(
        metavar="TOOL",
        help="argilla, braintrust, label-studio, langfuse, langsmith, otlp or phoenix.",
        show_default=False,
    ),
]
From = Annotated[
    str | None,
    typer.Argument(
        metavar="FROM", help="A project, by name or id, or an exported file. Langfuse's keys name the project."
    ),
]
Renamed = Annotated[
    list[str] | None,
    typer.Option(
        "--value", metavar="LABEL=VALUE", help="What the tool's label is for the judge: good=true. Repeat it."
    ),
]
Score = Annotated[
    str | None,
    typer.Option(
        "--score", metavar="NAME", help="Which annotation, score or question is the label; needed if several."
    ),
]


def import_feedback(
    session: Session,
    tool: ToolName,
    place: From = None,
    *,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE.jsonl", help="Write the feedback, for align.")
    ] = None,
    examples: Annotated[
        Path | None, typer.Option("--examples", metavar="FILE.jsonl", help="Write every case, for judge.")
    ] = None,
    into: Annotated[str | None, typer.Option("--into", metavar="NAME", help="Align this judge with it.")] = None,
    score: Score = None,
    words: Annotated[
        str | None, typer.Option("--words", metavar="NAME", help="Which annotation or question has a person's words.")
    ] = None,
    value: Renamed = None,
    columns: ColumnMap = None,
    trace: Annotated[
        bool, typer.Option("--trace", help="Take the spans too. A judge of traces gets them anyway.")
    ] = False,
    since: Annotated[str | None, typer.Option("--since", metavar="TIME", help="None before it: 2026-11-01.")] = None,
    max_cost: MaxCost = None,
    skip_invalid: Annotated[bool, typer.Option("--skip-invalid", help="Take the good rows.")] = False,
    allow_erased: Annotated[bool, typer.Option("--allow-erased", help="Also learn what was erased here.")] = False,
) -> int:
    """Take people's feedback, and traces, from the tool in which they are.

    Scores and annotations of programs are counted, and are never feedback. Who said it becomes the source. Keys come from
    the environment, under the tool's own names.
    """
    from memalign.integrations.tracing import Wanted, gathered, open_tool
    from memalign.io import check_feedback

    if out is None and examples is None and into is None:
        raise InputError("what should become of it? -o FILE.jsonl, --examples FILE.jsonl or --into NAME")
    judge = None if into is None else session.judge(into)[1]
    source = open_tool(tool, place)
    wanted = Wanted(every=examples is not None, trace=trace or _reads_traces(judge), since=_moment(since))
    kind = judge.value_type if judge is not None else None
    with session.progress() as progress, _kept(examples, tool, progress, skip_invalid=skip_invalid) as (each, bad):
        found = gathered(
            source.records(wanted),
            name=score,
            words=words,
            values=_pairs(value),
            columns=columns_of(columns),
            each=each,
        )
        try:
            checked = check_feedback(found.rows, name=tool, value_type=kind, skip_invalid=skip_invalid)
        except InvalidRows as error:
            raise InvalidRows(tool, error.rows, hint=_HINT) from None
    told = {"tool": tool, "score": found.name, "cases": found.cases, "feedback": len(checked.rows)}
    counts = {"people": found.people, "programs": found.programs, "others": found.others, "replaced": found.replaced}
    known = {row.id for row in checked.invalid}
    left_out = [str(row) for row in (*checked.invalid, *(row for row in bad if row.id not in known))]
    written = {"out": out and str(out), "examples": examples and str(examples)}
    lines = [*_lines(found, checked, out if checked.rows else None, examples), *_left_out(left_out)]
    if out is not None and checked.rows:
        _write(out, checked)
    if into is None or not checked.rows:
        session.give({**told, **counts, **written, "invalid": left_out}, *lines)
        wanting = (out is not None or into is not None) and not checked.rows
        return FAILURES if wanting or left_out else DONE
    for line in lines:
        session.say(line)
    return _aligned(session, into, checked, max_cost, skip_invalid=skip_invalid, allow_erased=allow_erased)


def export_verdicts(
    session: Session,
    tool: ToolName,
    name: Name,
    judged: Annotated[Path, typer.Argument(metavar="JUDGED", help="What `memalign judge -o` wrote.")],
    place: From = None,
    *,
    version: Version = None,
    score: Annotated[
        str | None, typer.Option("--score", metavar="NAME", help="Label Studio: the control that takes the verdict.")
    ] = None,
    value: Renamed = None,
) -> int:
    """Write verdicts back to the tool that the cases came from, under the judge's name, with its version.

    They are marked as a program's. A second export of the same version replaces the first. The version is the one that
    judged, by its fingerprint.
    """
    from memalign.integrations.tracing import open_tool, verdicts_of
    from memalign.io import read_judgments
    from memalign.registry import judged_by

    if score is not None and tool != "label-studio":
        raise InputError("--score names a control of Label Studio: other tools take verdicts under the judge's name")
    found = read_judgments(judged)
    number, judge = judged_by(session.registry(), name, found.judge, version, written=str(judged))
    labels = {ours: theirs for theirs, ours in _pairs(value).items()}
    verdicts = list(verdicts_of(found.judgments.values(), judge, number, labels=labels))
    target = open_tool(tool, place, **({"score": score} if score is not None else {}))
    written = 0
    with session.progress() as progress:
        for first in range(0, len(verdicts), _WRITTEN_AT_ONCE):
            written += target.write(verdicts[first : first + _WRITTEN_AT_ONCE])
            progress("writing", written, len(verdicts))
    left = len(found.judgments) - len(verdicts)
    data = {"tool": tool, "judge": name, "version": number, "written": written, "without_verdict": left}
    lines = [f"{counted(written, 'verdict')} of version {number} of {name} written to {tool}"]
    if left:
        lines.append(f"left out: {counted(left, 'case')} without a verdict")
    session.give(data, *lines)
    return FAILURES if left else DONE


def _aligned(session: Session, name: str, checked: FeedbackFile, max_cost: float | None, **options: bool) -> int:
    from memalign.align import MemAlign

    optimizer = MemAlign(max_cost=max_cost)
    return run_and_report(
        session,
        name,
        lambda registry, progress: registry.align(
            name, checked.rows, optimizer=optimizer, progress=progress, **options
        ),
    )


def _reads_traces(judge: Judge | None) -> bool:
    return judge is not None and "trace" in judge.fields


@contextmanager
def _kept(
    path: Path | None, tool: str, progress: Callable[[str, int, int], None], *, skip_invalid: bool
) -> Iterator[tuple[Callable[[dict[str, Any]], None], list[RowError]]]:
    """What takes each case and writes it to `path`, where there is one; and the bad ones. Raises InvalidRows at the end."""
    from memalign.io.atomic import atomic_write
    from memalign.io.fields import shown_id, split
    from memalign.types import Example, json_line

    bad: list[RowError] = []
    read = 0

    def take(fields: dict[str, Any]) -> None:
        nonlocal read
        read += 1
        progress("reading", read, 0)
        if path is None:
            return
        try:
            example = Example(**split(fields))
        except InputError as error:
            bad.append(RowError(line=read, reason=str(error), id=shown_id(fields)))
        else:
            file.write(
                json_line({"id": example.id, **example.content} | ({"meta": example.meta} if example.meta else {}))
            )

    if path is None:
        yield take, bad
        return
    try:
        with atomic_write(path) as file:
            yield take, bad
            if bad and not skip_invalid:
                raise InvalidRows(tool, bad, hint=_HINT)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from None


def _write(path: Path, checked: FeedbackFile) -> None:
    import msgspec

    from memalign.io.atomic import atomic_write
    from memalign.types import json_line

    try:
        with atomic_write(path) as file:
            for row in checked.rows:
                fields = msgspec.structs.asdict(row)
                meta = fields.pop("meta")
                if (number := meta.pop("score", None)) is not None:
                    fields["score"] = number  # beside the label, so that `align --map value=score` finds it
                said = {name: each for name, each in fields.items() if each is not None}
                file.write(json_line(said | ({"meta": meta} if meta else {})))
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from None


def _lines(found: Gathered, checked: FeedbackFile, out: Path | None, examples: Path | None) -> Iterable[str]:
    lines = [f"{counted(found.cases, 'case')} → {examples}"] if examples is not None else []
    if checked.rows or examples is None:
        by = f" by {counted(len(found.people), 'source')} ({_counts(found.people)})" if found.people else ""
        where = f" → {out}" if out is not None else ""
        lines.append(
            f"{counted(len(checked.rows), 'piece')} of feedback{by}, from {counted(found.cases, 'case')}{where}"
        )
    if found.programs:
        lines.append(f"left out, given by programs: {_counts(found.programs)}")
    if found.others:
        lines.append(f"left out, other annotations of people: {_counts(found.others)}")
    if found.replaced:
        lines.append(f"left out, said again later by the same person: {found.replaced}")
    return [*lines, *checked.notes]


def _left_out(rows: list[str]) -> list[str]:
    more = [f"left out: {counted(len(rows) - _NAMED, 'more row')}; --json has all"] if len(rows) > _NAMED else []
    return [f"left out: {row}" for row in rows[:_NAMED]] + more


def _counts(counted_names: Counter[str]) -> str:
    return listed([f"{name or 'comments'} {count}" for name, count in counted_names.most_common()], limit=10)


def _pairs(given: list[str] | None) -> Mapping[str, str]:
    pairs = [text.rpartition("=") for text in given or ()]
    if odd := next((text for text, pair in zip(given or (), pairs, strict=True) if not (pair[0] and pair[2])), None):
        raise InputError(f"--value {odd}: write it as LABEL=VALUE, such as good=true")
    return {label.strip(): value.strip() for label, _, value in pairs}


def _moment(since: str | None) -> str | None:
    if since is None:
        return None
    try:
        moment = datetime.fromisoformat(since)
    except ValueError:
        raise InputError(f"--since {since}: no ISO 8601 time, such as 2026-11-01 or 2026-11-01T08:00:00Z") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC).isoformat()
