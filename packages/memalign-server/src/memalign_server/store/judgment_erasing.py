"""Judgments of the queue that were made with what is forgotten in view: they go with it."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, and_, delete, select, update

from memalign_server.store.tables import queue, turns

__all__ = ["forget_judgments"]

_EMPTY: dict[str, Any] = {"judgment": None, "verdict": None, "version": None, "rank": 0.5}


def forget_judgments(
    connection: Connection,
    judge: str,
    *,
    guidelines: Collection[str],
    cases: Collection[str],
    versions: Collection[int] | None = None,
) -> int:
    """Drop judgments whose prompt held one of these guidelines or cases. The cases wait to be judged anew.

    A model may have repeated in its reasons what it was shown, in words that no search would find. A judgment names the
    guidelines that applied; its prompt held all of its version.

    Args:
        connection: A transaction.
        judge: The judge's name.
        guidelines: The guidelines that are forgotten.
        cases: The ids of the cases that are.
        versions: The versions that had one of the guidelines; None where that is not known.

    Returns:
        How many judgments went.
    """
    rules, examples = set(guidelines), set(cases)
    gone = 0
    query = select(queue.c.number, queue.c.case_id, queue.c.judgment, queue.c.version)
    for row in connection.execute(query.where(queue.c.judge == judge, queue.c.judgment.is_not(None))).all():
        in_view = bool(rules) and (versions is None or row.version is None or row.version in versions)
        if not _saw(str(row.judgment), rules, examples, in_view=in_view):
            continue
        connection.execute(update(queue).where(queue.c.number == row.number).values(**_EMPTY))
        gone += 1
    for turn in connection.execute(select(turns).where(turns.c.judge == judge)).all():
        if rules & set(json.loads(turn.guidelines)):
            same = and_(turns.c.judge == judge, turns.c.version == turn.version, turns.c.case_id == turn.case_id)
            connection.execute(delete(turns).where(same))
    return gone


def _saw(text: str, guidelines: set[str], examples: set[str], *, in_view: bool) -> bool:
    judgment = json.loads(text)
    named = {finding["guideline"] for finding in judgment["findings"] if finding["guideline"]}
    if guidelines & ({*judgment["guideline_ids"]} | named) or examples & {*judgment["example_ids"]}:
        return True
    return in_view and judgment["decided_by"] != "expert"
