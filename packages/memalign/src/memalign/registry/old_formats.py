"""Format 1 of registries and bundles, in which memalign 0.1 wrote them, turned into the format of today."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from memalign.judge.parameters import FIRST_NAMES
from memalign.registry import schema
from memalign.registry.judge_rows import encoded
from memalign.types import FeedbackKey

__all__ = ["bundle_from_1", "migrate_from_1"]

_KINDS = {"voice": "annotation", "probe": "pre_alignment"}
_FIELDS = {"guideline": {"shown_by": "superseded_by", "outvoted_by": "overridden_by"}}
_PARAMETERS = {old: name for name, old in FIRST_NAMES.items()}
_REASONS = {"this voice gave ": "this annotation gave ", "not probed: ": "not asked before learning: "}
"""How a reason may begin; the pipeline gives the same reasons again and compares."""


def migrate_from_1(connection: Connection) -> None:
    """Rewrite a registry's rows from format 1 to 2, inside the caller's transaction. Erased digests and their secret stay as they are."""
    connection.exec_driver_sql(f"ALTER TABLE {schema.judges.name} RENAME COLUMN head TO latest")
    rows = schema.rows
    for kind in (*_KINDS, *_FIELDS, "shard", "tombstone", "judge"):
        old = connection.execute(select(rows).where(rows.c.kind == kind)).mappings().all()
        # Taken out first: a new key may be spelled as another row's old one.
        connection.execute(delete(rows).where(rows.c.kind == kind))
        if old:
            connection.execute(insert(rows), [dict(row) | _row(kind, row["key"], row["body"]) for row in old])


def bundle_from_1(document: Mapping[str, Any]) -> dict[str, Any]:
    """A bundle's document in the form of today."""
    memory, settings = document["memory"], document["judge"]
    cases = [
        {
            "example": case["example"],
            "annotations": [_value("voice", each) for each in case["voices"]],
            "pre_alignment": None if case["probe"] is None else _value("probe", case["probe"]),
            "vector": case["vector"],
        }
        for case in memory["cases"]
    ]
    guidelines = [_value("guideline", each) for each in memory["guidelines"]]
    return {
        **document,
        "judge": settings | {"parameters": _renamed(settings["parameters"], _PARAMETERS)},
        "memory": memory
        | {
            "cases": cases,
            "guidelines": guidelines,
            "shards": [{"keys": _value("shard", keys)} for keys in memory["shards"]],
            "tombstones": [_value("tombstone", each) for each in memory["tombstones"]],
        },
    }


def _row(kind: str, key: str, body: bytes) -> dict[str, Any]:
    value = json.loads(body)
    if kind != "judge":
        value = _value(kind, value)
    elif key == "parameters":
        value = _renamed(value, _PARAMETERS)
    named = str(FeedbackKey.from_old(key)) if kind in ("voice", "tombstone") else key
    return {"kind": _KINDS.get(kind, kind), "key": named, "body": encoded(value)}


def _value(kind: str, value: Any) -> Any:
    match kind:
        case "voice":
            # What was learned with a reason was kept as an example: no guideline carries it.
            example_only = value["state"] == "learned" and value["reason"] != ""
            value = value | {"reason": _reason(value["reason"]), "example_only": example_only}
        case "shard":
            return _keys(value)
        case "tombstone":
            return value | {"key": FeedbackKey.from_old(value["key"])}
        case "guideline":
            value = value | {name: _keys(value[name]) for name in ("supported_by", "exposed_to")}
            by = value.get("status_by") or ""
            if value["status"] == "retired" and (by == "admission" or by.startswith("admission for ")):
                case_id = by.removeprefix("admission for ")
                left_out = {"left_out": "admission"} if case_id == by else {"left_out": "lock", "left_out_for": case_id}
                value = {name: part for name, part in value.items() if name != "status_by"} | left_out
    return _renamed(value, _FIELDS.get(kind, {}))


def _keys(texts: list[str]) -> list[FeedbackKey]:
    return sorted(map(FeedbackKey.from_old, texts))


def _reason(text: str) -> str:
    for old, new in _REASONS.items():
        if text.startswith(old):
            return new + text.removeprefix(old)
    return text


def _renamed(value: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(name, name): part for name, part in value.items()}
