"""What was learned of a person's words: which cases turned, and the person's say over the wording."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, and_, exists, func, select

from memalign.align import edit_guideline
from memalign.judge import Judge
from memalign.keys import same_person
from memalign.memory import Memory
from memalign.memory.forget import forget
from memalign.types import FeedbackKey, Guideline
from memalign.values import Value, value_text
from memalign_server.review.cases import VERDICT_LENGTH
from memalign_server.store.tables import later, queue, reviews

MOST = 200
"""Of a person's answers the latest so many are looked at."""
TODAY = 12 * 3600
"""Seconds of a day's work. Where the reader's midnight is, the server does not know."""
TRIED = 20
"""Cases that a wording is tried on."""

_OF_CASE = and_(reviews.c.judge == queue.c.judge, reviews.c.case_id == queue.c.case_id)


@dataclass(frozen=True, kw_only=True)
class Turn:
    """A case that the judge was asked about again after a person had answered it, with the case hidden from the judge.

    Attributes:
        case: The case, with the judgment of now, the person's `value`, and the `judge_value` of then.
        guidelines: The ids of those that bore on the judgment of now.
        was_right: Whether the judge agreed with the person then.
        right: Whether it agrees now.
        turned: Whether it says something else than then.
    """

    case: Row[Any]
    guidelines: frozenset[str]
    was_right: bool
    right: bool
    turned: bool


def turns_of(connection: Connection, judge: Judge, person: str) -> list[Turn]:
    """A person's answered cases that the judge was asked about again, the latest answer first.

    Cases that are held out are not among them: what a person says of those teaches nothing.
    """
    query = select(queue, reviews.c.value, reviews.c.judge_value).join(reviews, _OF_CASE)
    query = query.where(
        reviews.c.judge == judge.name, reviews.c.person == person, reviews.c.state == "answered"
    )
    query = query.where(queue.c.held_out == 0, queue.c.version > reviews.c.judge_version)
    agree, turns = judge.value_type.agree, []
    for case in connection.execute(query.order_by(reviews.c.updated_at.desc()).limit(MOST)):
        judgment, before, own = case.judgment, case.judge_value, case.value
        if judgment is None or judgment.value is None or before is None or own is None:
            continue
        named = (finding.guideline for finding in judgment.findings)
        turns.append(
            Turn(
                case=case,
                guidelines=frozenset((*judgment.guideline_ids, *named)),
                was_right=agree(before, own),
                right=agree(judgment.value, own),
                turned=not agree(before, judgment.value),
            )
        )
    return turns


def turned_unanswered(connection: Connection, judge: str, person: str) -> list[str]:
    """Cases that a person has not answered and of which the judge says something else than before it was taught.

    Cases that are held out come by chance alone: chosen by how their verdict changed, they would measure nothing.
    """
    answered = exists().where(_OF_CASE, reviews.c.person == person, reviews.c.state == "answered")
    query = select(queue.c.case_id, queue.c.first_value, queue.c.verdict).where(
        queue.c.judge == judge, ~answered
    )
    query = query.where(queue.c.held_out == 0, queue.c.version != queue.c.first_version)
    rows = connection.execute(query.order_by(queue.c.number).limit(MOST))
    return [
        row.case_id for row in rows if value_text(row.first_value)[:VERDICT_LENGTH] != row.verdict
    ]


def today_of(connection: Connection, judge: str, person: str) -> tuple[int, int]:
    """How many answers a person gave today, and how many of them have words."""
    own = (reviews.c.judge == judge, reviews.c.person == person, reviews.c.state == "answered")
    query = select(func.count(), func.count(reviews.c.rationale)).where(
        *own, reviews.c.updated_at > later(-TODAY)
    )
    answers, with_words = connection.execute(query).one()
    return int(answers), int(with_words)


def confirmed(judge: Judge, guideline: str, *, by: str) -> Judge:
    """A judge with a guideline whose wording a person confirms; what another confirmed before stays theirs too."""
    rule = judge.memory.guideline(guideline)
    if rule.pinned_by not in (None, by) and rule.origin == "distilled":
        return edit_guideline(judge, guideline, text=rule.text, by=by)
    return edit_guideline(judge, guideline, pinned=True, rule=True if rule.tests else None, by=by)


def rephrased(judge: Judge, guideline: str, text: str, *, by: str) -> Judge:
    """Return a judge with a guideline in a person's words."""
    return edit_guideline(judge, guideline, text=text, by=by)


def cases_for_trial(
    connection: Connection, judge: Judge, person: str, guideline: str
) -> list[tuple[Row[Any], Value]]:
    """Up to twenty cases with what the person says of them: those behind the guideline first, then the latest ones.

    Cases that are held out stay so: what measures the judge must not choose its words.
    """
    behind = [key.id for key in judge.memory.sources_of(judge.memory.guideline(guideline))]
    query = select(queue, reviews.c.value).join(reviews, _OF_CASE)
    query = query.where(
        queue.c.judge == judge.name, queue.c.held_out == 0, reviews.c.person == person
    )
    query = query.where(reviews.c.state == "answered", reviews.c.value.is_not(None))
    query = query.order_by(queue.c.case_id.in_(behind).desc(), reviews.c.updated_at.desc()).limit(
        TRIED
    )
    return [(row, row.value) for row in connection.execute(query)]


@dataclass(frozen=True, kw_only=True)
class Withdrawal:
    """What it would change if a person took words back.

    Attributes:
        texts: The guidelines in force that would go, or be learned again from what remains.
        stays: Guidelines whose wording is this person's and that stay, because other words are behind them too.
        in_question: Guidelines whose wording is this person's and that no other words are behind.
    """

    texts: tuple[str, ...]
    stays: tuple[str, ...]
    in_question: tuple[str, ...]

    @property
    def changes(self) -> int:
        """How many guidelines that are."""
        return len(self.texts)


def withdrawal_of(memory: Memory, keys: Collection[FeedbackKey], person: str) -> Withdrawal:
    """What it would change if a person took back these pieces of feedback."""
    words = frozenset(keys)
    own = list[Guideline]()
    for rule in memory.semantic:
        theirs = any(same_person(person, name) for name in rule.people)
        if theirs and not words.isdisjoint(rule.exposed_to):
            own.append(rule)
    in_question = tuple(rule.id for rule in own if words.issuperset(memory.sources_of(rule)))
    stays = tuple(rule.id for rule in own if rule.id not in in_question)
    remaining = {rule.id for rule in forget(memory, words, keep=stays).semantic}
    texts = tuple(rule.text for rule in memory.semantic if rule.id not in remaining)
    return Withdrawal(texts=texts, stays=stays, in_question=in_question)
