"""Looking at a file of feedback before a judge learns from it; no model is called."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

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
from memalign.errors import InputError, RowError
from memalign.records import UNKNOWN_SOURCE, Feedback
from memalign.values import Value, ValueType

if TYPE_CHECKING:
    from memalign.judge import Judge

_SHOWN = 20


@dataclass(frozen=True, kw_only=True)
class Conflicting:
    """One content on which voices differ: the ids, every voice's value by key, and the label that would count."""

    ids: tuple[str, ...]
    voices: dict[str, Value]
    label: Value | None


@dataclass(frozen=True, kw_only=True)
class Checked:
    """What a file of feedback holds.

    `labels` and `sources` count rows. `duplicates` are groups of ids with the same content. `alpha` is Krippendorff's,
    over the `compared` cases that two or more people labelled; None when there are fewer than two such cases, or all
    labels are the same. `status` counts new, changed and unchanged rows against a judge, None without one.
    """

    rows: int
    cases: int
    labelled: int
    commented: int
    labels: dict[str, int]
    sources: dict[str, int]
    duplicates: tuple[tuple[str, ...], ...]
    conflicts: tuple[Conflicting, ...]
    alpha: float | None
    compared: int
    status: dict[str, int] | None
    invalid: tuple[RowError, ...]

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        total = sum(self.labels.values())
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        plain["labels"] = [
            {"label": label, "count": count, "share": count / total if total else None}
            for label, count in self.labels.items()
        ]
        return plain


def check(
    feedback: Annotated[
        str, typer.Argument(metavar="FEEDBACK", help="JSONL, CSV or JSON; - reads JSON lines.", show_default=False)
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
    """Look at feedback before aligning: labels, sources, duplicates, conflicts, agreement, bad rows.

    With a judge's name also what is new to it and whether values and fields fit. No model is called. Exit 1 when rows
    are invalid.
    """
    if name is not None and value_type is not None:
        raise InputError("give a judge or --value-type, not both: the judge has its own")
    judge = None if name is None else open_registry(registry).load(name)
    kind = judge.value_type if judge else ValueType.of(value_type) if value_type else None
    found = examine(read_input(feedback), kind, judge)
    Output(json=json_output).give(found.to_dict(), *_shown(found, feedback))
    return FAILURES if found.invalid else DONE


def examine(feedback: str | list[dict[str, Any]], value_type: ValueType | None, judge: Judge | None = None) -> Checked:
    """What a file (or rows) of feedback holds. Raises InputError when it cannot be read or is empty."""
    from memalign.align.voices import sort_rows
    from memalign.files import check_feedback, read_feedback
    from memalign.memory.voices import policy_label

    known = {case.id: case.example.content_hash for case in judge.memory.cases} if judge else {}
    if isinstance(feedback, str):
        file = read_feedback(feedback, value_type=value_type, known=known, skip_invalid=True)
    else:
        file = check_feedback(feedback, value_type=value_type, known=known, skip_invalid=True, name="stdin")
    misfits = _misfits(judge, file.rows, file.lines) if judge else {}
    rows = [row for row, line in zip(file.rows, file.lines, strict=True) if line not in misfits]
    by_content: dict[str, list[Feedback]] = defaultdict(list)
    for row in rows:
        # A row without content speaks of a case that the judge knows.
        by_content[row.content_hash if row.content else known[row.id]].append(row)
    units = [_labels_by_source(voices) for voices in by_content.values()]
    pairable = [list(unit.values()) for unit in units if len(unit) > 1]
    authority = judge.memory.authority if judge else ()
    conflicts = []
    for voices in by_content.values():
        said = {row.key: row.value for row in voices if row.value is not None}
        if len(set(said.values())) > 1:
            ids = tuple(dict.fromkeys(row.id for row in voices))
            conflicts.append(Conflicting(ids=ids, voices=said, label=policy_label(voices, authority)))
    groups = (tuple(dict.fromkeys(row.id for row in voices)) for voices in by_content.values())
    return Checked(
        rows=len(rows),
        cases=len(by_content),
        labelled=sum(row.value is not None for row in rows),
        commented=sum(bool((row.rationale or "").strip()) for row in rows),
        labels=_label_counts(rows, value_type),
        sources=dict(Counter(row.source for row in rows).most_common()),
        duplicates=tuple(ids for ids in groups if len(ids) > 1),
        conflicts=tuple(conflicts),
        alpha=_alpha(pairable, value_type) if len(pairable) > 1 else None,
        compared=len(pairable),
        status=dict(Counter(sort_rows(judge.memory, rows).values())) if judge else None,
        invalid=tuple(sorted((*file.invalid, *misfits.values()), key=lambda row: row.line)),
    )


def _misfits(judge: Judge, rows: Sequence[Feedback], lines: Sequence[int]) -> dict[int, RowError]:
    """Rows that the judge could never be asked about, by line; align refuses them too."""
    found = {}
    for row, line in zip(rows, lines, strict=True):
        case = judge.memory.case(row.id)
        content = row.content or (case.example.content if case else {})
        missing = [field for field in judge.fields if field not in content]
        if missing:
            reason = f"the judge's instructions name {{{{ {missing[0]} }}}}, and the row has none"
            found[line] = RowError(line=line, id=row.id, reason=reason)
    return found


def _labels_by_source(voices: Sequence[Feedback]) -> dict[str, Value]:
    """One label a person, also where they saw the same content under two ids. An unknown source is a person too."""
    return {row.source: row.value for row in voices if row.value is not None}


def _label_counts(rows: Sequence[Feedback], value_type: ValueType | None) -> dict[str, int]:
    from memalign.evaluation.result import value_text

    given = Counter(value_text(row.value) for row in rows if row.value is not None)
    if value_type is not None and value_type.kind in ("bool", "choice"):
        # A label that nobody gave is worth seeing: a judge cannot learn it from here.
        return {value_text(label): given[value_text(label)] for label in value_type.labels}
    return dict(given.most_common())


def _alpha(units: list[list[Value]], value_type: ValueType | None) -> float | None:
    from memalign.metrics import krippendorff_alpha

    values = [value for unit in units for value in unit]
    numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    level: Literal["nominal", "ordinal", "interval"] = "nominal"
    if value_type.kind == "int" if value_type else numeric and all(isinstance(value, int) for value in values):
        level = "ordinal"
    elif value_type.kind == "float" if value_type else numeric:
        level = "interval"
    return krippendorff_alpha(units, level=level)


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
    people = [(_person(source), count) for source, count in found.sources.items()]
    if people:
        parts.append(table(("source", "rows"), people[:_SHOWN], title=_title("Sources", len(people))))
    parts.append(_agreement(found))
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
    from memalign.evaluation.result import value_text

    def said(voices: Mapping[str, Value]) -> str:
        return ", ".join(f"{key}: {value_text(value)}" for key, value in voices.items())

    rows = [(", ".join(each.ids), value_text(each.label), said(each.voices)) for each in conflicts[:_SHOWN]]
    return table(("ids", "counts", "voices"), rows, title=_title("Conflicts", len(conflicts)))


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
