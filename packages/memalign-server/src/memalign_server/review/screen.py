"""What the review shows: the case, and the foot's two sides, as the templates need them."""

from __future__ import annotations

import secrets
from typing import Annotated, Any

from fastapi import Depends
from fastapi.responses import Response

from memalign.values import Value
from memalign_server.pages.content import blocks_of, is_pair
from memalign_server.pages.screens import JudgeScreen
from memalign_server.pages.verdicts import (
    choices_of,
    question_of,
    scale_ends,
    verdict_text,
)
from memalign_server.problems import Problem
from memalign_server.review.disputes import Difference
from memalign_server.review.service import position, same_value
from memalign_server.store import Transaction
from memalign_server.store.answers import answer_of, previous_case
from memalign_server.store.cases import case_of, progress_of
from memalign_server.store.rows import Answer, QueuedCase

__all__ = ["Reviewing", "Screen"]


class Reviewing(JudgeScreen):
    """The review of one judge's cases by the person who asks."""

    def next(self, **query: object) -> Response:
        """Send a browser on to the review."""
        return self.go("review", **query)

    def ask_judge(self, case: str) -> None:
        """Have the judge asked about a case now, unless a job asks about all that wait."""
        working = self.server.jobs.recent(self.judge, active=True)
        if not any(job.kind in ("queue", "pull") for job in working):
            self.start("queue", first=case)

    def case(self, connection: Transaction, case: str, content: str = "") -> QueuedCase:
        """Return a case of the queue.

        Args:
            connection: A transaction.
            case: The case's id.
            content: The hash of what a form showed under it; "" for whatever is there.

        Raises:
            Problem: 410 if it was erased or removed, even if the queue has other content there.
        """
        queued = case_of(connection, self.judge, case)
        if queued is None or content not in ("", queued.content_hash):
            raise Problem(
                410, "this case is not in the queue any more: it was erased or removed"
            )
        return queued

    def page(
        self, connection: Transaction, card: QueuedCase | None, foot: dict[str, Any]
    ) -> dict[str, Any]:
        """Return what the whole page shows of a case, or without one, with a foot."""
        case = None if card is None else card.case_id
        progress = progress_of(connection, self.judge, self.name)
        judge = self.loaded.judge
        return foot | {
            "page": "review",
            "question": question_of(judge),
            "blocks": [] if card is None else blocks_of(card.example, judge),
            "progress": progress,
            "number": position(connection, self.judge, self.name, progress, case),
        }

    def foot_of(
        self, case: str, *, front: bool = False, word: bool = False
    ) -> dict[str, Any]:
        """Return what the foot of a named case shows now; see `foot`."""
        _ = self.working  # read before this transaction is open
        with self.read() as connection:
            return self.foot(
                connection, self.case(connection, case), front=front, word=word
            )

    def foot(
        self, connection: Transaction, card: QueuedCase, *, front: bool, word: bool
    ) -> dict[str, Any]:
        """Return what a case's foot shows: nothing of the judge's verdict before an answer.

        Args:
            connection: A transaction.
            card: The case.
            front: Whether to show an answered case as one that is not.
            word: Whether to show the field for words although both agree.
        """
        own = answer_of(connection, self.judge, self.name, card.case_id)
        if front or own is None or own.state != "answered" or own.value is None:
            side = self._front(own)
        else:
            side = self._turned(card, own, own.value, word=word)
        return self._both_sides(connection, card) | side

    def no_case(self, connection: Transaction) -> dict[str, Any]:
        """Return what the foot shows where no case waits."""
        return self._both_sides(connection, None) | {"foot": None}

    def difference(
        self, connection: Transaction, waiting: Difference
    ) -> dict[str, Any]:
        """Return what the foot shows of people who differ; no key of a verdict works there."""
        keys = [choice.key for choice in choices_of(self.kind, self.language)]
        return self._both_sides(connection, waiting.case) | {
            "foot": "settle.html" if waiting.own is None else "differ.html",
            "waiting": waiting,
            "keep_key": "" if "K" in keys else "K",
        }

    def _both_sides(
        self, connection: Transaction, card: QueuedCase | None
    ) -> dict[str, Any]:
        """Return what every foot shows; `previous` is the case before this one."""
        case = None if card is None else card.case_id
        is_wide = card is not None and is_pair(card.example, self.loaded.judge)
        return {
            "card": card,
            "form": secrets.token_hex(8),
            "verdict": self._verdict,
            "previous": previous_case(connection, self.judge, self.name, case),
            "width": "wide" if is_wide else "page-720",
            "turned": False,
            "problem": None,
            "conflict": None,
        }

    def _front(self, own: Answer | None) -> dict[str, Any]:
        """Return the side on which a case is answered."""
        return {
            "foot": "front.html",
            "own": own,
            "kind": self.kind,
            "choices": choices_of(self.kind, self.language),
            "ends": scale_ends(self.loaded.judge),
            "revision": 0 if own is None else own.revision,
        }

    def _turned(
        self, card: QueuedCase, own: Answer, value: Value, *, word: bool
    ) -> dict[str, Any]:
        """Return the side that shows what both say; a case that measures the judge has no field."""
        judgment = card.judgment
        agree = judgment is not None and same_value(judgment.value, value, self.kind)
        asks_why = judgment is not None and not agree
        return {
            "foot": "turned.html",
            "own": own,
            "judgment": judgment,
            "agree": agree,
            "field": not card.held_out and (word or bool(own.words) or asks_why),
            "words": own.words,
            "stale": own.is_stale,
            "answer": own.revision,
            "revision": own.draft_revision,
            "asked": judgment is None and bool(self.working),
        }

    def _verdict(self, value: Value | None) -> str:
        return verdict_text(self.kind, value, self.language)


Screen = Annotated[Reviewing, Depends()]
"""A parameter of a route: the review of the person who asks."""
