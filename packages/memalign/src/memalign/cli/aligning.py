"""Learning from feedback, and changing guidelines and locks by hand."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from memalign.cli.align_report import run_and_report
from memalign.cli.common import (
    DONE,
    Concurrency,
    EmbeddingModel,
    Name,
    RetrievalK,
    Session,
    latest_of,
    version_line,
)
from memalign.cli.estimating import DryRun, give_estimate
from memalign.cli.guideline_words import (
    check_table,
    check_words,
    consequences,
    guideline_table,
    guideline_values,
    legend,
    precedence_words,
)
from memalign.cli.output import counted, facts, label_text, listed, table
from memalign.cli.rows_given import ColumnMap, FeedbackSource, columns_of, rows_given
from memalign.errors import InputError

if TYPE_CHECKING:
    from memalign.judge import Judge
    from memalign.types import Check, Guideline

ReflectionModel = Annotated[
    str | None,
    typer.Option("--reflection-model", metavar="M", help="Writes the guidelines; the default is the judge's model."),
]
ShardSize = Annotated[
    int | None,
    typer.Option("--shard-size", metavar="N", min=1, help="Feedback per model call; the default follows the model."),
]
Checks = Annotated[
    list[str] | None,
    typer.Option("--check", metavar="Q", help="A yes/no question about an item; repeat it for several. Replaces all."),
]
Answers = Annotated[
    list[str] | None,
    typer.Option("--answer", metavar="yes|no", help="What speaks for the label: once, or once a check. Default: yes."),
]
Labels = Annotated[
    list[str] | None,
    typer.Option("--label", metavar="L", help="What that answer speaks for: once, or once a check."),
]
MostSpent = Annotated[
    float | None,
    typer.Option("--max-cost", metavar="DOLLARS", help="Stop before it costs more. What waits stays pending."),
]
SkipInvalid = Annotated[bool, typer.Option("--skip-invalid", help="Learn the good rows of a file that has bad ones.")]


def align(
    session: Session,
    name: Name,
    feedback: Annotated[
        str | None,
        typer.Argument(
            metavar="FEEDBACK", help="JSONL, CSV, XLSX, Parquet, …; - reads JSON lines; none: only what is pending."
        ),
    ] = None,
    *,
    reflection_model: ReflectionModel = None,
    embedding_model: EmbeddingModel = None,
    retrieval_k: RetrievalK = None,
    shard_size: ShardSize = None,
    columns: ColumnMap = None,
    source: FeedbackSource = None,
    concurrency: Concurrency = None,
    max_cost: MostSpent = None,
    impact: Annotated[
        int | None,
        typer.Option(
            "--impact", metavar="N", min=1, help="Judge N taught cases again: which verdicts changed, and why."
        ),
    ] = None,
    judged: Annotated[
        Path | None,
        typer.Option("--judged", metavar="OUT.jsonl", help="Show the verdicts of judge -o beside the experts'."),
    ] = None,
    dry_run: DryRun = False,
    skip_invalid: SkipInvalid = False,
    allow_erased: Annotated[bool, typer.Option("--allow-erased", help="Also learn what was erased here.")] = False,
) -> int:
    """Learn from experts' feedback: a new version of the judge.

    A row needs the fields that were judged, and a value, a rationale or both. Its id names the case (without any, ids are
    made of the content), and its source says who gave it, such as an e-mail address. A row of a known id and source replaces the earlier one, and what that had taught is
    forgotten first. Without a file, pending feedback is tried again.
    """
    from memalign.align import MemAlign
    from memalign.io import read_judgments

    optimizer = MemAlign(
        columns=columns_of(columns),
        reflection_model=reflection_model,
        embedding_model=embedding_model,
        retrieval_k=retrieval_k,
        shard_size=shard_size,
        concurrency=concurrency,
        max_cost=max_cost,
        impact=impact,
    )
    rows = () if feedback is None else rows_given(feedback, source=source)
    options: dict[str, Any] = {"skip_invalid": skip_invalid, "allow_erased": allow_erased, "optimizer": optimizer}
    options["own_verdicts"] = None if judged is None else read_judgments(judged)
    if dry_run:
        registry = session.registry()
        return give_estimate(
            session, name, latest_of(registry, name), registry.estimate(name, rows, **options), max_cost
        )
    return run_and_report(
        session, name, lambda registry, progress: registry.align(name, rows, progress=progress, **options)
    )


def guideline(
    session: Session,
    name: Name,
    guideline_id: Annotated[str | None, typer.Argument(metavar="GID", help="Such as G2; none: all guidelines.")] = None,
    *,
    text: Annotated[str | None, typer.Option(metavar="T", help="Replace its text.")] = None,
    add: Annotated[str | None, typer.Option(metavar="T", help="Write a new guideline.")] = None,
    pin: Annotated[bool | None, typer.Option("--pin/--unpin", help="Never leave it out, whatever its age.")] = None,
    retire: Annotated[bool | None, typer.Option("--retire/--restore", help="Take it out of force, or back.")] = None,
    check: Checks = None,
    answer: Answers = None,
    label: Labels = None,
    no_checks: Annotated[bool, typer.Option("--no-checks", help="Take its checks away.")] = False,
    by: Annotated[
        str | None, typer.Option(metavar="WHO", help="Who changes it; the default is your user name.")
    ] = None,
) -> int:
    """Show guidelines, or change one by hand.

    Each is shown with its checks and the feedback it comes from.
    Checks are the questions by which a guideline is weighed. Another text drops them: they asked about the old one.
    """
    from memalign.align import edit_guideline, write_guideline

    checks = _checks(check, answer, label, none=no_checks)
    if add is None and text is None and pin is None and retire is None and checks is None:
        number, judge = session.judge(name)
        one = None if guideline_id is None else judge.memory.guideline(guideline_id)
        chosen = judge.memory.guidelines if one is None else (one,)
        data = {"judge": name, "version": number, "guidelines": guideline_values(chosen, judge.memory)}
        session.give(data, *(_all(judge) if one is None else _card(judge, one)))
        return DONE
    if add is not None and (guideline_id is not None or text is not None or retire is not None):
        raise InputError("--add writes a new guideline: give no GID, --text or --retire with it")
    if add is None and guideline_id is None:
        raise InputError("which guideline? memalign guideline NAME lists them")
    who = by or _user()

    def change(judge: Judge) -> Judge:
        if guideline_id is None:
            return write_guideline(judge, add or "", by=who, pinned=bool(pin), checks=checks or ())
        return edit_guideline(judge, guideline_id, by=who, text=text, pinned=pin, retired=retire, checks=checks)

    saved = session.registry().update(name, change, "edit")
    memory = saved.judge.memory
    new = guideline_id is None
    changed = memory.guidelines[-1] if new else memory.guideline(guideline_id or "")
    others, lines = consequences(saved, but=changed.id)
    if not new and checks is None:
        dropped = len(saved.before.memory.guideline(changed.id).checks) - len(changed.checks)
        if dropped:
            lines.insert(0, f"{counted(dropped, 'check')} went with the old text: --check writes new ones")
    data = {
        "judge": name,
        "version": saved.version,
        "guidelines": guideline_values([changed], memory),
        "consequences": others,
    }
    session.give(data, *_card(saved.judge, changed), *lines, version_line(name, saved))
    return DONE


def lock(
    session: Session,
    name: Name,
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID", help="Cases; none: list the locked cases.")] = None,
    *,
    unlock: Annotated[bool, typer.Option("--unlock", help="Let later aligns change them again.")] = False,
) -> int:
    """Lock cases that no later align may break.

    Each align judges them again, and they must keep the experts' label. It leaves out new guidelines that make the judge wrong there, and names them. A locked
    case that is wrong all the same makes the exit code 1.
    """
    lines: list[str] = []
    others: dict[str, Any] = {}
    if not ids and not unlock:
        number, judge = session.judge(name)
    else:
        saved = session.registry().lock(name, *(ids or ()), unlock=unlock)
        number, judge = saved.version, saved.judge
        others, lines = consequences(saved)
        lines.append(version_line(name, saved))
    rows = [(case.id, judge.memory.label(case)) for key in judge.memory.locks if (case := judge.memory.case(key))]
    locked = table(("locked case", "experts' label"), [(case, label_text(label)) for case, label in rows])
    data = {
        "judge": name,
        "version": number,
        "locks": [{"id": case, "label": label} for case, label in rows],
        "consequences": others,
    }
    session.give(data, locked if rows else f"no case is locked: memalign lock {name} ID", *lines)
    return DONE


def _all(judge: Judge) -> list[Any]:
    memory = judge.memory
    if not memory.guidelines:
        return ["no guidelines yet: memalign align learns them from feedback"]
    checks = check_table(memory.guidelines, judge)
    return [guideline_table(memory.guidelines, memory), *checks, *legend(judge.name, memory.guidelines, memory)]


def _card(judge: Judge, chosen: Guideline) -> list[Any]:
    memory = judge.memory
    in_force = "in force" if memory.status(chosen) == "active" else ""
    card = [
        ("id", chosen.id),
        ("text", chosen.text),
        ("status", ", ".join(filter(None, (in_force, precedence_words(chosen, memory))))),
        ("origin", chosen.origin),
        ("from", listed(memory.sources_of(chosen)) or "no feedback"),
        ("exposed to", listed(chosen.exposed_to) or "no feedback"),
        *(
            ("check", f"{check.question}{'.' * bool(check.test)} A yes speaks {check_words(check, judge)}.")
            for check in chosen.checks
        ),
    ]
    return [facts(card), *legend(judge.name, [chosen], memory)]


def _checks(
    questions: list[str] | None, answers: list[str] | None, labels: list[str] | None, *, none: bool
) -> list[Check] | None:
    """The checks that the options give; None where they give no word on them. Raises InputError."""
    from memalign.types import Check

    if not questions:
        if answers or labels:
            raise InputError("--answer and --label say what a --check speaks for: give it too")
        return [] if none else None
    if none:
        raise InputError("--no-checks takes all checks away: give no --check with it")
    says: dict[str, Literal["yes", "no"]] = {"yes": "yes", "no": "no"}
    if odd := [answer for answer in answers or () if answer.lower() not in says]:
        raise InputError(f"--answer {odd[0]}: yes or no")
    told = _each(answers or ["yes"], len(questions), "--answer")
    spoken_for = _each(labels or [None], len(questions), "--label")
    return [
        Check(question=question, answer=says[answer.lower()], value=label)
        for question, answer, label in zip(questions, told, spoken_for, strict=True)
    ]


def _each(given: list[Any], count: int, option: str) -> list[Any]:
    """One for each of `count` checks. Raises InputError."""
    if len(given) not in (1, count):
        raise InputError(
            f"{counted(count, 'check')} and {len(given)} times {option}: give one for all, or one for each"
        )
    return given * count if len(given) == 1 else given


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # no user name in the environment, and none in the system
        return "unknown"
