"""Judgments of the queue that were made with what is forgotten in view: they go with it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, select, update

from memalign_server.store.columns import from_json
from memalign_server.store.tables import queue

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
    """Drop judgments whose prompt held one of these guidelines or cases; their cases wait to be judged again.

    A model may have repeated in its reasons what it was shown, in words that no search would find. A judgment names the
    guidelines that applied; its prompt held all of its version.

    Args:
        connection: A transaction.
        judge: The judge's name.
        guidelines: The ids of the guidelines that are forgotten.
        cases: The ids of the cases that are.
        versions: The versions that had one of the guidelines; None where that is not known.

    Returns:
        How many judgments went.
    """
    rules, examples, count = set(guidelines), set(cases), 0
    judged = (queue.c.judge == judge, queue.c.judgment.is_not(None))
    for row in connection.execute(select(queue.c.number, queue.c.judgment, queue.c.version).where(*judged)).all():
        judgment = from_json(row.judgment)
        applied = {*judgment["guideline_ids"], *(finding["guideline"] for finding in judgment["findings"])}
        of_version = bool(rules) and (versions is None or row.version is None or row.version in versions)
        by_model = of_version and judgment["decided_by"] != "expert"
        if by_model or rules & applied or examples & set(judgment["example_ids"]):
            connection.execute(update(queue).where(queue.c.number == row.number).values(_EMPTY))
            count += 1
    return count
