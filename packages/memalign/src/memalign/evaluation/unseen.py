"""Labelled rows on cases that a judge has not learned from: the only ones that say anything about learning."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from memalign.errors import InputError
from memalign.evaluation.agreement import Labelled
from memalign.io import check_feedback
from memalign.memory.label_policy import policy_label
from memalign.types import Feedback, canonical_json

if TYPE_CHECKING:
    from memalign.judge import Judge

__all__ = ["labels_hash", "unseen_rows"]


def unseen_rows(labelled: Labelled, judge: Judge, *others: Judge) -> tuple[list[Feedback], int]:
    """The rows on cases that no judge here has in memory, by id or content, and how many cases were left out.

    Raises InvalidRows for bad rows, InputError where nothing is left.
    """
    rows = list(check_feedback(labelled, value_type=judge.value_type, columns=judge.columns).rows)
    known: set[str] = set()
    for one in (judge, *others):
        for case in one.memory.cases:
            known |= {f"id {case.id}", f"content {case.example.content_hash}"}

    def taught(row: Feedback) -> bool:
        content = None if row.example is None else f"content {row.example.content_hash}"
        return f"id {row.id}" in known or content in known

    unseen = [row for row in rows if not taught(row)]
    left_out = len({row.id for row in rows}) - len({row.id for row in unseen})
    if not unseen:
        raise InputError(f"all {left_out} cases are in the judge's memory: they say nothing about cases it has not met")
    return unseen, left_out


def labels_hash(judge: Judge, rows: Iterable[Feedback]) -> str:
    """16 hex digits over the contents and the labels that count on them, whatever the order of the rows."""
    said: dict[str, list[Feedback]] = {}
    for row in rows:
        said.setdefault(row.id if row.example is None else row.example.content_hash, []).append(row)
    memory = judge.memory
    labels = [[content, policy_label(every, memory.authority, memory.policy)] for content, every in said.items()]
    return hashlib.sha256(canonical_json(sorted(labels, key=str)).encode()).hexdigest()[:16]
