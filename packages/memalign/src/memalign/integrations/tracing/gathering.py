"""Rows of feedback out of what people said in a tool; what programs said is counted, and never feedback."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from memalign.errors import InputError, RowError
from memalign.integrations.tracing.records import Record, Said
from memalign.io.column_map import Columns
from memalign.types import CONTENT_FIELDS
from memalign.values import value_text

__all__ = ["Gathered", "gathered"]


class Gathered(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of feedback, one a case and person, in the order of the cases; a RowError where a case cannot be read.

    `cases` is how many were read. `people` counts annotations by who gave them; `programs` those of programs by their name,
    `others` those of people under another name than `name`. Of what a person said `replaced` times again the latest counts.
    """

    rows: list[dict[str, Any] | RowError]
    name: str | None
    cases: int
    people: Counter[str]
    programs: Counter[str]
    others: Counter[str]
    replaced: int


def gathered(
    records: Iterable[Record | RowError],
    *,
    name: str | None = None,
    words: str | None = None,
    values: Mapping[str, str] | None = None,
    columns: Mapping[str, str] | None = None,
    each: Callable[[dict[str, Any]], None] | None = None,
) -> Gathered:
    """Read `records` to their end. `each` is given the fields of every case as it comes, without what was said of it.

    `name` is the annotation that counts; None takes the only one that people gave. The annotation `words` holds a person's
    words. `values` renames labels. `columns` says which column a field is read from. Raises InputError where people gave
    several and none is named, or none of that name, and for a column that no case has.
    """
    kept: list[tuple[dict[str, Any], list[Said]] | RowError] = []
    named = Columns(columns, asked=True) if columns else None
    seen: dict[str, None] = {}
    cases = 0
    by_people, programs = Counter[str](), Counter[str]()
    for number, record in enumerate(records, 1):
        if isinstance(record, RowError):
            kept.append(RowError(line=record.line or number, reason=record.reason, id=record.id))
            continue
        cases += 1
        if named is not None:
            seen |= dict.fromkeys(record.columns)
        fields = _fields(record, named)
        if each is not None:
            each(fields)
        people = [said for said in record.said if said.person]
        programs.update(said.name for said in record.said if not said.person)
        by_people.update(said.name for said in people)
        if people:
            kept.append((fields, people))
    if named is not None and cases and (fault := named.missing("the tool", seen)) is not None:
        raise fault
    chosen = _chosen(by_people, name, words, programs)
    rows: list[dict[str, Any] | RowError] = []
    told, replaced = Counter[str](), 0
    for found in kept:
        if isinstance(found, RowError):
            rows.append(found)
            continue
        fields, people = found
        for source in dict.fromkeys(said.source for said in people):
            own = sorted((said for said in people if said.source == source), key=lambda said: said.created_at or "")
            labels = [said for said in own if said.name == chosen]
            texts = [said for said in own if said.name in ("", words)]
            if labels or texts:
                row = _row(source, labels, texts, values or {})
                rows.append({name: each for name, each in row.items() if name not in fields.get("meta", {})} | fields)
                told[source] += 1
                replaced += max(len(labels) - 1, 0)
    others = Counter({said: count for said, count in by_people.items() if said not in (chosen, words, "")})
    return Gathered(
        rows=rows, name=chosen, cases=cases, people=told, programs=programs, others=others, replaced=replaced
    )


def _fields(record: Record, columns: Columns | None) -> dict[str, Any]:
    """The fields of the case; a column `id` of its own is not its id, unless `columns` say so."""
    others = {("id (column)" if name == "id" else name): value for name, value in record.columns.items()}
    fields: dict[str, Any] = {**others, "id": record.id}
    if columns is not None:
        fields = dict(columns.applied(fields))
    known = ("id", "group", *CONTENT_FIELDS)
    meta = {name: value for name, value in fields.items() if name not in known} | dict(record.meta)
    return {name: fields[name] for name in known if name in fields} | ({"meta": meta} if meta else {})


def _chosen(by_people: Counter[str], name: str | None, words: str | None, programs: Counter[str]) -> str | None:
    names = [each for each in by_people if each not in ("", words)]
    listed = ", ".join(f"{each} ({by_people[each]})" for each in names)
    if name is not None:
        if by_people and name not in by_people:
            told = f"they gave {listed}" if names else "they gave words only"
            raise InputError(f"no person gave an annotation {name!r}; {told}")
        if not by_people and name in programs:
            raise InputError(f"{name!r} was given by programs only ({programs[name]} times), which are never feedback")
        return name
    if len(names) > 1:
        raise InputError(f"people gave several annotations: {listed}; --score NAME says which one is the label")
    return names[0] if names else None


def _row(source: str, labels: list[Said], texts: list[Said], values: Mapping[str, str]) -> dict[str, Any]:
    latest = labels[-1] if labels else None
    value = latest.value if latest is not None else None
    score = latest.score if latest is not None else None
    label = score if value in (None, "") else value
    if isinstance(label, float) and label.is_integer():
        label = int(label)
    said = [latest.words if latest is not None else None, *(text.words or text.value for text in texts)]
    rationale = "\n".join(dict.fromkeys(str(each) for each in said if each not in (None, "")))
    row: dict[str, Any] = {
        "value": None if label is None else values.get(value_text(label), label),
        "rationale": rationale or None,
        "source": source,
        "created_at": max(filter(None, (said.created_at for said in (*labels, *texts))), default=None),
        "score": score
        if value not in (None, "")
        else None,  # a number that stands beside the label: `--map value=score`
    }
    return {name: each for name, each in row.items() if each is not None}
