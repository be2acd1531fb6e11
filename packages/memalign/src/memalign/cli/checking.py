"""Looking at a file of feedback before a judge learns from it; no model is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalign.cli.common import (
    DEFAULT_REGISTRY,
    DONE,
    FAILURES,
    JsonOutput,
    RegistryUrl,
    open_registry,
    read_input,
)
from memalign.cli.output import Output, table
from memalign.errors import InputError
from memalign.types import UNKNOWN_SOURCE
from memalign.values import Value, ValueType

if TYPE_CHECKING:
    from memalign.evaluation import Checked, Conflicting

_SHOWN = 20

_LEVELS = {"look": "look", "fine": "fine", "unknown": "cannot say"}


def check(
    feedback: Annotated[
        str,
        typer.Argument(metavar="FEEDBACK", help="JSONL, CSV, JSON or Parquet; - reads JSON lines.", show_default=False),
    ],
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The judge that is to learn it.", show_default=False)
    ] = None,
    *,
    value_type: Annotated[
        str | None, typer.Option(metavar="TYPE", help="Check values without a judge: bool, A|B|tie, int:1..5, …")
    ] = None,
    registry: RegistryUrl = DEFAULT_REGISTRY,
    json_output: JsonOutput = False,
) -> int:
    """Look at feedback before aligning: labels, sources, duplicates, conflicts, agreement, bias, bad rows.

    It answers what a reviewer of bias would ask: does one person give most labels, do sources differ in how they
    label, is a label missing or rare, does the label go with the length of what was judged. With a judge's name also
    what is new to it and whether values and fields fit. No model is called. Exit 1 when rows are invalid.
    """
    from memalign.evaluation import examine

    if name is not None and value_type is not None:
        raise InputError("give a judge or --value-type, not both: the judge has its own")
    judge = None if name is None else open_registry(registry).load(name)
    kind = judge.value_type if judge else ValueType.of(value_type) if value_type else None
    found = examine(read_input(feedback), kind, judge)
    Output(json=json_output).give(found.to_dict(), *_shown(found, feedback))
    return FAILURES if found.invalid else DONE


# -- for people -----------------------------------------------------------------------------------------------------


def _shown(found: Checked, name: str) -> list[Any]:
    said = f"{found.labelled} with a value, {found.commented} with a rationale"
    parts: list[Any] = [f"{name}: {found.rows} rows on {found.cases} cases; {said}; {len(found.invalid)} invalid"]
    if found.status is not None:
        known = ", ".join(f"{found.status.get(each, 0)} {each}" for each in ("new", "changed", "unchanged"))
        parts.append(f"to the judge: {known}")
    total = sum(found.labels.values())
    if total:
        rows = list(found.labels.items())
        shown = [(label, count, f"{count / total:.0%}") for label, count in rows[:_SHOWN]]
        parts.append(table(("label", "rows", "share"), shown, title=_title("Labels", len(rows))))
    people = [(_person(source), count, f"{count / found.rows:.0%}") for source, count in found.sources.items()]
    if people:
        parts.append(table(("source", "rows", "share"), people[:_SHOWN], title=_title("Sources", len(people))))
    parts.append(_agreement(found))
    if found.rows:
        order = sorted(found.findings, key=lambda each: list(_LEVELS).index(each.level))
        answers = [(_LEVELS[each.level], each.text) for each in order]
        parts.append(table(("", "what a reviewer of bias would ask"), answers))
    if found.duplicates:
        rows_ = [(", ".join(ids),) for ids in found.duplicates[:_SHOWN]]
        title = _title("The same content under several ids: one case", len(found.duplicates))
        parts.append(table(("ids",), rows_, title=title))
    if found.conflicts:
        parts.append(_conflict_table(found.conflicts))
    if found.invalid:
        bad = [(row.line, row.id, row.reason) for row in found.invalid[:_SHOWN]]
        parts.append(table(("line", "id", "why"), bad, title=_title("Invalid rows", len(found.invalid))))
    return parts


def _conflict_table(conflicts: Sequence[Conflicting]) -> Any:
    from memalign.values import value_text

    def said(annotations: Mapping[str, Value]) -> str:
        return ", ".join(f"{key}: {value_text(value)}" for key, value in annotations.items())

    rows = [(", ".join(each.ids), value_text(each.label), said(each.annotations)) for each in conflicts[:_SHOWN]]
    return table(("ids", "counts", "annotations"), rows, title=_title("Conflicts", len(conflicts)))


def _agreement(found: Checked) -> str:
    cases = f"{found.compared} case{'' if found.compared == 1 else 's'} labelled by two or more people"
    if found.compared < 2:
        return f"agreement between people: not measurable, {cases}"
    if found.alpha is None:
        return f"agreement between people: all labels are the same on {cases}"
    return f"agreement between people: Krippendorff's alpha {found.alpha:.2f} on {cases} (1 is perfect, 0 is chance)"


def _person(source: str) -> str:
    return f"{source} (no source given)" if source == UNKNOWN_SOURCE else source


def _title(what: str, count: int) -> str:
    return f"{what} ({_SHOWN} of {count}; --json has all)" if count > _SHOWN else what
