"""Answers that the judge has forgotten again: they are nobody's answers any more."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import update

from memalign.types import FeedbackKey
from memalign_server.store.columns import now
from memalign_server.store.judgment_erasing import forget_judgments
from memalign_server.store.store import Store
from memalign_server.store.tables import reviews

__all__ = ["withdrawn"]


def withdrawn(store: Store, judge: str, keys: Collection[FeedbackKey], guidelines: Collection[str]) -> None:
    """Take the answers of these keys back, and judgments that saw them or the guidelines that went with them.

    The next teaching must not teach them again, and no word of them stays.
    """
    empty = dict.fromkeys(("value", "rationale", "blind_value", "judge_value", "judge_version"))
    with store.write() as connection:
        forget_judgments(connection, judge, guidelines=guidelines, cases={key.id for key in keys})
        for key in keys:
            connection.execute(
                update(reviews)
                .where(reviews.c.judge == judge, reviews.c.case_id == key.id, reviews.c.person == key.source)
                .values(state="undone", form="", taught=0, revision=reviews.c.revision + 1, updated_at=now(), **empty)
            )
