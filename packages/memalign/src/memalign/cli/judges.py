"""Judges in the registry: create, list, show, edit, delete."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalign.cli.guidelines import (
    guideline_table,
    guideline_values,
    rule_lines,
    settling,
    user_name,
)
from memalign.cli.history import give_changes
from memalign.cli.options import (
    VALUE_TYPES,
    ColumnMap,
    Force,
    Name,
    Version,
    Yes,
    columns_of,
)
from memalign.cli.output import counted, fact_table, listed, table
from memalign.cli.session import DONE, Session, confirmed
from memalign.errors import InputError, JudgeNotFound

if TYPE_CHECKING:
    from rich.table import Table

    from memalign.judge import Judge
    from memalign.memory import LedgerEntry

CREATE_EXAMPLE = (
    "memalign create tone --value-type bool "
    '--instructions "Is it polite? Reply: {{ outputs }}"'
)

_INSTRUCTIONS_HELP = (
    "What the judge is asked, as text or as a file. It names fields of an example: "
    "{{inputs}}, {{outputs}}, {{expectations}}, {{conversation}} or {{trace}}."
)


def create(
    session: Session,
    name: Name,
    *,
    instructions: Annotated[
        str, typer.Option(metavar="TEXT|@FILE", help=_INSTRUCTIONS_HELP)
    ],
    value_type: Annotated[
        str, typer.Option(metavar="TYPE", help=f"What the judge answers: {VALUE_TYPES}")
    ],
) -> int:
    """Create a judge: what it is asked, and what it answers.

    Without --model, the judge gets the model of MEMALIGN_MODEL, or of the first provider whose key
    is set. No model is called.
    """
    from memalign.judge import Judge
    from memalign.models import default_model_name, resolve

    model = session.models.model or default_model_name()
    if model is None:
        model = resolve().name  # which says what is missing
    new = Judge(
        name=name,
        instructions=_text_of(instructions),
        feedback_value_type=value_type,
        model=model,
    )
    new = replace(session.models, model=model).apply(new)
    session.registry(create=True).create(new)
    created = f"created {name} ({new.value_type.spec}) on {new.model_name}, version 1"
    session.give(described(new, version=1), created)
    return DONE


def list_(session: Session) -> int:
    """List the judges in the registry."""
    none = "there are no judges yet; to create one: memalign create --help"
    try:
        judges = session.registry().list()
    except JudgeNotFound as error:
        # An empty list is the answer, and a mistyped path is still seen.
        judges = ()
        none = str(error)
    columns = (
        "name",
        "latest",
        "value_type",
        "model",
        "feedback",
        "guidelines",
        "pending",
    )
    rows = [[getattr(judge, column) for column in columns] for judge in judges]
    session.give({"judges": judges}, table(columns, rows) if rows else none)
    return DONE


def show(
    session: Session,
    name: Name,
    *,
    version: Version = None,
    ledger: Annotated[
        bool,
        typer.Option(
            "--ledger", help="Also list every piece of feedback with its state."
        ),
    ] = False,
) -> int:
    """Show a judge's settings, guidelines and pending feedback.

    With --ledger, it also lists every piece of feedback with its state (learned, merged, pending,
    disputed, rejected, withdrawn or erased) and the reason.
    """
    number, judge = session.judge(name, version)
    memory = judge.memory
    data = described(judge, version=number)
    parts: list[Any] = [fact_table(_settings(data))]
    if memory.semantic:
        parts.append(
            guideline_table(memory.semantic, memory, title="Guidelines in force")
        )
        parts += rule_lines(judge, memory.semantic)
    away = len(memory.guidelines) - len(memory.semantic)
    if away:
        why = f"to see why: memalign guideline {name}"
        parts.append(f"{counted(away, 'more guideline')} not in force; {why}")
    pending = [(entry["key"], entry["reason"]) for entry in data["pending"]]
    if pending:
        parts.append(table(("feedback", "pending because"), pending, title="Pending"))
    conflicts = [(listed(one["feedback"]), one["about"]) for one in data["conflicts"]]
    if conflicts:
        parts.append(table(("feedback", "about"), conflicts, title="Conflicts"))
        parts.append(settling(name))
    if ledger:
        entries = session.registry().ledger(name, number)
        counts = Counter(entry.state for entry in entries)
        data["ledger"] = {"counts": dict(counts), "entries": entries}
        parts.append(_ledger(judge, entries))
        summary = [f"{count} {state}" for state, count in counts.items()]
        parts.append(", ".join(summary) or "no feedback yet")
    session.give(data, *parts)
    return DONE


def _settings(data: Mapping[str, Any]) -> list[tuple[str, object]]:
    """Return the settings that have a value, as people read them."""
    rows: list[tuple[str, object]] = []
    for key, value in data.items():
        if key in ("guidelines", "pending", "conflicts") or value in (None, [], {}):
            continue
        shown = value
        if isinstance(value, dict):
            shown = json.dumps(value)
        elif isinstance(value, list):
            shown = listed(value)
        rows.append((key.replace("_", " "), shown))
    return rows


def _ledger(judge: Judge, entries: Iterable[LedgerEntry]) -> Table:
    """Make the table of every piece of feedback, with its state and the reason."""
    rules = dict(
        line.split(": ", 1) for line in rule_lines(judge, judge.memory.guidelines)
    )
    rows = []
    for entry in entries:
        reasons = [entry.reason]
        reasons += [rules[name] for name in entry.guideline_ids if name in rules]
        reason = "; ".join(filter(None, reasons))
        rows.append((entry.key, entry.state, listed(entry.guideline_ids), reason))
    return table(("feedback", "state", "guidelines", "reason"), rows, title="Feedback")


def edit(
    session: Session,
    name: Name,
    *,
    instructions: Annotated[
        str | None, typer.Option(metavar="TEXT|@FILE", help=_INSTRUCTIONS_HELP)
    ] = None,
    columns: ColumnMap = None,
    authority: Annotated[
        str | None,
        typer.Option(
            metavar="WHO",
            help="Whose label is used where people differ, in order: ana,ben. '' removes all.",
        ),
    ] = None,
    dismiss: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="KEY KEY",
            help="Declare that two comments reported as a conflict do not contradict each other.",
        ),
    ] = None,
    force: Force = False,
) -> int:
    """Change a judge's settings and keep its memory.

    The result is a new version. The command lists what changed, such as feedback that is disputed
    or pending because another --authority changed which labels count.
    """
    from memalign.align import dismiss_conflict, set_policy

    changes: dict[str, Any] = {}
    if instructions is not None:
        changes["instructions"] = _text_of(instructions)
    if columns is not None:
        changes["columns"] = columns_of(columns)

    def changed(judge: Judge) -> Judge:
        edited: Judge = session.models.apply(judge.replace(**changes))
        if dismiss:
            edited = dismiss_conflict(edited, dismiss, by=user_name())
        if authority is None:
            return edited
        names = [person.strip() for person in authority.split(",") if person.strip()]
        return set_policy(edited, authority=names)

    saved = session.registry().update(name, changed, "edit", force=force)
    give_changes(session, saved, described(saved.judge, version=saved.version))
    return DONE


def delete(session: Session, name: Name, *, yes: Yes = False) -> int:
    """Delete a judge with all its versions, after asking."""
    registry = session.registry()
    versions = counted(len(registry.history(name)), "version")
    if not confirmed(f"Delete {name} with {versions}, for good?", yes=yes):
        session.give({"deleted": False, "name": name}, "nothing was deleted")
        return DONE
    registry.delete(name)
    session.give({"deleted": True, "judge": name}, f"deleted {name} with {versions}")
    return DONE


def described(judge: Judge, *, version: int) -> dict[str, Any]:
    """Return a judge as JSON values: settings, counts, guidelines of every status, what is pending.

    Args:
        judge: The judge.
        version: Its version.
    """
    from memalign.judge.spec import name_of
    from memalign.registry.kinds import LESSONS

    memory = judge.memory
    pending = [entry for entry in memory.ledger() if entry.state == "pending"]
    conflicts = memory.open_conflicts
    lessons = {}
    for kind in LESSONS.values():
        lessons[kind.field] = [str(lesson) for lesson in getattr(memory, kind.field)]
    return {
        "name": judge.name,
        "version": version,
        "instructions": judge.instructions,
        "value_type": judge.value_type.spec,
        "model": judge.model_name,
        "embedding_model": name_of(judge.embedding_model),
        "retrieval_k": judge.retrieval_k,
        "parameters": dict(judge.parameters),
        "columns": dict(judge.columns),
        "authority": list(memory.authority),
        "locks": list(memory.locks),
        "memory_hash": memory.hash,
        "cases": len(memory.cases),
        "feedback": len(memory),
        **lessons,
        "guidelines": guideline_values(memory.guidelines, memory),
        "pending": [{"key": entry.key, "reason": entry.reason} for entry in pending],
        "conflicts": [
            {"feedback": one.feedback, "about": one.about} for one in conflicts
        ],
    }


def _text_of(instructions: str) -> str:
    """Return the instructions, or the text of the file that `@` names."""
    if not instructions.startswith("@"):
        return instructions
    try:
        return Path(instructions[1:]).read_text("utf-8").strip()
    except UnicodeDecodeError:
        why = "the file is not UTF-8; save it as UTF-8"
    except OSError as error:
        why = f"{error.strerror}; name a text file after the @"
    raise InputError(f"--instructions {instructions}: {why}")
