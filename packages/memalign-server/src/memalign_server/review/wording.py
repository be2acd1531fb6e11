"""A guideline in a person's own words: confirmed, reworded, tried on cases that they answered, taken back."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import Connection, and_, select

from memalign.align import edit_guideline
from memalign.align.forget import forget
from memalign.judge import Judge
from memalign.memory import Memory
from memalign.types import FeedbackKey
from memalign.values import Value
from memalign_server.review.cases import QueuedCase, queued
from memalign_server.store.columns import from_json
from memalign_server.store.tables import queue, reviews

__all__ = ["TRIED", "Withdrawal", "cases_for_trial", "confirmed", "rephrased", "withdrawal_of"]

TRIED = 20
"""Cases that a wording is tried on."""


def confirmed(judge: Judge, guideline: str, *, by: str) -> Judge:
    """A judge with a guideline whose wording a person confirms; what another confirmed before stays theirs too."""
    rule = judge.memory.guideline(guideline)
    if rule.pinned_by not in (None, by) and rule.origin == "distilled":
        return edit_guideline(judge, guideline, text=rule.text, by=by)
    return edit_guideline(judge, guideline, pinned=True, by=by)


def rephrased(judge: Judge, guideline: str, text: str, *, checks: Collection[str], by: str) -> Judge:
    """A judge with a guideline in a person's words; of what it asks about each case, the questions `checks` stay."""
    staying = [check for check in judge.memory.guideline(guideline).checks if check.question in checks]
    return edit_guideline(judge, guideline, text=text, checks=staying, by=by)


def cases_for_trial(
    connection: Connection, judge: Judge, person: str, guideline: str
) -> list[tuple[QueuedCase, Value]]:
    """Up to twenty cases with what the person says of them: those behind the guideline first, then the latest ones.

    Cases that are held out stay so: what measures the judge must not choose its words.
    """
    behind = [key.id for key in judge.memory.sources_of(judge.memory.guideline(guideline))]
    own = and_(reviews.c.judge == queue.c.judge, reviews.c.case_id == queue.c.case_id, reviews.c.person == person)
    query = select(queue, reviews.c.value).join(reviews, own).where(queue.c.judge == judge.name, queue.c.held_out == 0)
    query = query.where(reviews.c.state == "answered", reviews.c.value.is_not(None))
    query = query.order_by(queue.c.case_id.in_(behind).desc(), reviews.c.updated_at.desc()).limit(TRIED)
    return [(queued(row), from_json(row.value)) for row in connection.execute(query)]


@dataclass(frozen=True, kw_only=True)
class Withdrawal:
    """What it would change if a person took words back.

    Attributes:
        changes: How many of the guidelines in force would go, or be learned again from what remains.
        stays: Guidelines whose wording is this person's and that stay, because other words are behind them too.
        in_question: Guidelines whose wording is this person's and that no other words are behind.
    """

    changes: int
    stays: tuple[str, ...]
    in_question: tuple[str, ...]


def withdrawal_of(memory: Memory, keys: Collection[FeedbackKey], person: str) -> Withdrawal:
    """What it would change if a person took back these pieces of feedback."""
    words = frozenset(keys)
    own = [rule for rule in memory.semantic if person in rule.people and not words.isdisjoint(rule.exposed_to)]
    in_question = tuple(rule.id for rule in own if words.issuperset(memory.sources_of(rule)))
    stays = tuple(rule.id for rule in own if rule.id not in in_question)
    remaining = {rule.id for rule in forget(memory, words, keep=stays).semantic}
    changes = sum(rule.id not in remaining for rule in memory.semantic)
    return Withdrawal(changes=changes, stays=stays, in_question=in_question)
