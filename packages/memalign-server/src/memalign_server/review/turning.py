"""Verdicts that turned: what the judge said before and after an align."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

import msgspec
from sqlalchemy import Connection, delete, insert, select

from memalign.types import Judgment
from memalign.values import Value, ValueType
from memalign_server.store.columns import from_json, to_json
from memalign_server.store.tables import turns

__all__ = [
    "Turn",
    "keep_turns",
    "readable_first",
    "turn_of",
    "turns_of_version",
    "versions_with_turns",
]

Effect = Literal["fixed", "broken", "moved", "turned"]


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """A case of which the judge says something else than before.

    `effect` is fixed (right now), broken (was right), moved (wrong before and after), or turned (nobody has labelled it).
    `guidelines` are the new ones whose checks spoke.
    """

    case_id: str
    before: Value
    after: Value
    label: Value | None
    effect: Effect
    guidelines: tuple[str, ...] = ()


def turn_of(
    before: Judgment, after: Judgment, label: Value | None, kind: ValueType, new: Collection[str]
) -> Turn | None:
    """The turn from one judgment to another, None where both say the same or one says nothing."""
    if before.value is None or after.value is None or kind.agree(before.value, after.value):
        return None
    effect: Effect = "turned"
    if label is not None:
        was, now_right = kind.agree(before.value, label), kind.agree(after.value, label)
        effect = "fixed" if now_right else "broken" if was else "moved"
    spoke = {each.guideline for each in after.findings if each.guideline in new and each.answer != "n/a"}
    return Turn(
        case_id=after.id,
        before=before.value,
        after=after.value,
        label=label,
        effect=effect,
        guidelines=tuple(name for name in new if name in spoke or len(new) == 1),
    )


def keep_turns(connection: Connection, judge: str, version: int, found: Sequence[Turn]) -> None:
    """Keep the turns of a version; a job that runs a second time replaces its own."""
    connection.execute(delete(turns).where(turns.c.judge == judge, turns.c.version == version))
    rows = [
        {
            "judge": judge,
            "version": version,
            "case_id": each.case_id,
            "before": to_json(each.before),
            "after": to_json(each.after),
            "label": None if each.label is None else to_json(each.label),
            "effect": each.effect,
            "guidelines": to_json(list(each.guidelines)),
        }
        for each in found
    ]
    if rows:
        connection.execute(insert(turns), rows)


def turns_of_version(connection: Connection, judge: str, version: int, *, limit: int = 200) -> list[Turn]:
    """The turns of a version, broken ones first."""
    query = select(turns).where(turns.c.judge == judge, turns.c.version == version)
    found = [
        Turn(
            case_id=row.case_id,
            before=from_json(row.before),
            after=from_json(row.after),
            label=from_json(row.label),
            effect=row.effect,
            guidelines=tuple(from_json(row.guidelines)),
        )
        for row in connection.execute(query.order_by(turns.c.case_id).limit(limit))
    ]
    return sorted(found, key=lambda each: ("broken", "turned", "moved", "fixed").index(each.effect))


def readable_first(found: Sequence[Turn], hidden: Collection[str]) -> list[Turn]:
    """The turns with the hidden cases last, by their ids: their place must not tell their effect."""
    return sorted(found, key=lambda each: (each.case_id in hidden, each.case_id if each.case_id in hidden else ""))


def versions_with_turns(connection: Connection, judge: str) -> list[int]:
    """The versions that turned verdicts, the newest first."""
    query = select(turns.c.version).where(turns.c.judge == judge).distinct().order_by(turns.c.version.desc())
    return list(connection.execute(query).scalars())
