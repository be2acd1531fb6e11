"""The hash of a memory. Judgment files name memories by it, so it is taken over the names of the first format for ever."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from memalign.cache import kept
from memalign.types import FeedbackKey, Guideline, canonical_json

if TYPE_CHECKING:
    from memalign.memory.model import Case, Memory, Shard

__all__ = ["hashed_case", "memory_hash"]


def memory_hash(memory: Memory, cases: Iterable[str]) -> str:
    """16 hex digits of SHA-256 over the memory; `cases` are its cases as `hashed_case` has them."""
    parts = {
        name: canonical_json(getattr(memory, name))
        for name in ("authority", "embedding_model", "examples", "guideline_tokens", "locks", "policy")
    }
    parts |= {
        "cases": _array(cases),
        "guidelines": _array(kept(each, "hashed", partial(_guideline, each)) for each in memory.guidelines),
        "relations": canonical_json([(*relation.pair, relation.verdict) for relation in memory.relations]),
        "shards": _array(kept(each, "hashed", partial(_shard, each)) for each in memory.shards),
    }
    text = ",".join(f'"{name}":{parts[name]}' for name in sorted(parts))
    return hashlib.sha256(f"{{{text}}}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _array(parts: Iterable[str]) -> str:
    return f"[{','.join(parts)}]"


def hashed_case(case: Case) -> str:
    """A case as the hash has it; of thousands, all but one are the same when that one is hidden."""
    fields: dict[str, Any] = {
        "id": case.id,
        "content": case.example.content_hash,
        "voices": [(v.source, v.value, v.rationale, v.created_at, v.state) for v in case.annotations],
        "probe": msgspec.to_builtins(case.pre_alignment),
    }
    if case.answers is not None:  # what the first format had no word for is left out where there is none of it
        fields["answers"] = msgspec.to_builtins(case.answers)
    return canonical_json(fields)


def _guideline(guideline: Guideline) -> str:
    fields: dict[str, Any] = msgspec.structs.asdict(guideline)
    fields |= {name: _keys(fields[name]) for name in ("supported_by", "exposed_to")}
    left_out, case_id = fields.pop("left_out"), fields.pop("left_out_for")
    if left_out is not None:
        fields["status_by"] = "admission" if left_out == "admission" else f"admission for {case_id}"
    if not fields["checks"]:
        del fields["checks"]
    else:
        fields["checks"] = [msgspec.to_builtins(check) for check in guideline.checks]
    fields |= {"shown_by": fields.pop("superseded_by"), "outvoted_by": fields.pop("overridden_by")}
    return canonical_json(fields)


def _shard(shard: Shard) -> str:
    return canonical_json(_keys(shard.keys))


def _keys(keys: Iterable[FeedbackKey]) -> list[str | FeedbackKey]:
    """Texts in order where the first format could name them, with sources without an `@`; then the others."""
    old = sorted(f"{key.id}@{key.source}" for key in keys if "@" not in key.source)
    return [*old, *sorted(key for key in keys if "@" in key.source)]
