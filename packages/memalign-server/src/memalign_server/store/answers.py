"""What people said of cases: read, changed, and read together with the cases.

An answer is a row of `reviews`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    case,
    exists,
    func,
    insert,
    or_,
    select,
    true,
    update,
)

from memalign.types import Feedback
from memalign.values import Value
from memalign_server.store.queries import (
    ANSWERED,
    CASE,
    COME_TO,
    HELD_OUT,
    IN_QUEUE,
    NOT_HELD_OUT,
    ON_CASE,
    SAID,
    of_judge,
    of_person,
    parts_of,
    said_by,
    said_of,
    said_of_case,
)
from memalign_server.store.rows import Answer, QueuedCase, read_row
from memalign_server.store.tables import later, queue, reviews

_FEW = 20  # cases whose answers are read at once, where the first that waits is enough
_TODAY = 12 * 3600
"""Seconds of a day's work. Where the reader's midnight is, the server does not know."""
_TRIED = 20  # cases that a wording is tried on
_PAIRS = 1_000  # cases of which people's agreement is computed, the latest first

_VERDICT = and_(ANSWERED, SAID.value.is_not(None))
"""Words alone say nothing that could differ."""
_EXPLAINED = SAID.rationale.is_not(None)
_OVERRULED = SAID.overruled_by.is_not(None)
_UNTAUGHT = and_(ANSWERED, SAID.taught != SAID.revision)
_AGREED = and_(CASE.disputed == 0, CASE.settled.is_(None))
_TEACHES = and_(NOT_HELD_OUT, ~_OVERRULED, or_(_AGREED, CASE.settled == SAID.person))


@dataclass(frozen=True, kw_only=True)
class AnsweredCase:
    """A case with one person's answer on it."""

    case: QueuedCase
    answer: Answer


def _answers(connection: Connection, query: Select[Any]) -> list[Answer]:
    return [read_row(Answer, reviews, row) for row in connection.execute(query)]


def _pairs(judge: str) -> Select[Any]:
    """Select the answers of a judge with their cases."""
    return select(reviews, queue).join(queue, ON_CASE).where(said_of(judge))


def _answered_cases(connection: Connection, query: Select[Any]) -> list[AnsweredCase]:
    pairs = []
    for row in connection.execute(query):
        case = read_row(QueuedCase, queue, row)
        answer = read_row(Answer, reviews, row)
        pairs.append(AnsweredCase(case=case, answer=answer))
    return pairs


# -- one answer ------------------------------------------------------------------------------------


def _of_person_on(judge: str, person: str, case_id: str) -> ColumnElement[bool]:
    return and_(SAID.judge == judge, SAID.person == person, SAID.case_id == case_id)


def answer_of(
    connection: Connection, judge: str, person: str, case_id: str
) -> Answer | None:
    """Return a person's answer on a case, or None."""
    own = and_(said_by(judge, person), SAID.case_id == case_id)
    query = select(reviews).where(own)
    return next(iter(_answers(connection, query)), None)


def add_answer(connection: Connection, answer: Answer) -> None:
    """Add a person's first answer on a case; it is set apart if the case holds something else."""
    replaced = exists().where(
        of_judge(answer.judge),
        CASE.case_id == answer.case_id,
        CASE.content_hash != answer.content_hash,
    )
    row = dict(vars(answer))
    row["apart"] = case((replaced, 1), else_=0)
    connection.execute(insert(reviews).values(row))
    count_answers(connection, answer.judge, [answer.case_id])


def change_answer(connection: Connection, before: Answer, after: Answer) -> None:
    """Put an answer in the place of the one before; what is the same is not written again."""
    old = vars(before)
    changed = {name: new for name, new in vars(after).items() if new != old[name]}
    if not changed:
        return
    own = _of_person_on(before.judge, before.person, before.case_id)
    same = SAID.content_hash == before.content_hash
    connection.execute(update(reviews).where(own, same).values(changed))
    if "state" in changed:
        count_answers(connection, before.judge, [before.case_id])


def count_answers(
    connection: Connection, judge: str, ids: Collection[str] | None = None
) -> None:
    """Note on cases how many people have answered them as they are now.

    Args:
        connection: The transaction, in which answers have come, changed or gone.
        judge: The judge.
        ids: The cases; None for all of the queue.
    """
    given = (
        select(func.count())
        .select_from(reviews)
        .where(said_of_case(judge), ANSWERED)
        .correlate(queue)
        .scalar_subquery()
    )
    changed = update(queue).where(of_judge(judge), CASE.answers != given)
    if ids is not None:
        changed = changed.where(CASE.case_id.in_(ids))
    connection.execute(changed.values(answers=given))


def mark_taught(
    connection: Connection, judge: str, feedback: Feedback, revision: int
) -> None:
    """Note that the judge has learned a revision of an answer, unless it has changed since."""
    own = _of_person_on(judge, feedback.source, feedback.id)
    same = SAID.content_hash == feedback.content_hash
    this = (
        update(reviews)
        .where(own, same, SAID.revision == revision)
        .values(taught=revision)
    )
    connection.execute(this)


# -- several ---------------------------------------------------------------------------------------


def people_who_answered(connection: Connection, judge: str | None = None) -> list[str]:
    """Return the names under which something was said of a judge's cases, or of any."""
    query = select(SAID.person).distinct()
    if judge is not None:
        query = query.where(SAID.judge == judge)
    return list(connection.scalars(query))


def all_answers(connection: Connection, judge: str) -> list[Answer]:
    """Return everything that was ever said of a judge's cases, in whatever state."""
    return _answers(connection, select(reviews).where(SAID.judge == judge))


def answers_on(
    connection: Connection, judge: str, case_id: str, content_hash: str
) -> list[Answer]:
    """Return what everybody said of this content under an id, whether it is queued or not."""
    query = select(reviews).where(
        SAID.judge == judge, SAID.case_id == case_id, SAID.content_hash == content_hash
    )
    return _answers(connection, query)


def verdicts_on(
    connection: Connection, judge: str, case_ids: Iterable[str]
) -> Iterator[tuple[str, list[Answer]]]:
    """Yield each case with everybody's verdicts on it, the earliest first.

    A few cases are read at a time.
    """
    for part in parts_of(case_ids, _FEW):
        of_cases = SAID.case_id.in_(part)
        query = select(reviews).where(said_of(judge), of_cases, _VERDICT)
        # Not sorted by an index of all answers.
        verdicts = sorted(_answers(connection, query), key=attrgetter("created_at"))
        for case_id in part:
            on_case = [answer for answer in verdicts if answer.case_id == case_id]
            yield case_id, on_case


def drafts_of(connection: Connection, judge: str, person: str) -> list[Answer]:
    """Return a person's answers with something typed beside them that is not said yet.

    Their cases are in the queue.
    """
    query = select(reviews).where(
        said_by(judge, person), ANSWERED, IN_QUEUE, SAID.draft.is_not(None)
    )
    return _answers(connection, query)


def is_answered(connection: Connection, judge: str) -> bool:
    """Return whether anybody has answered a case, be it queued or not."""
    query = select(SAID.case_id).where(SAID.judge == judge, ANSWERED)
    return connection.execute(query.limit(1)).first() is not None


def activity_of(connection: Connection, judge: str) -> dict[str, tuple[int, str]]:
    """Return how many cases each person answered, and when they did so last."""
    query = (
        select(SAID.person, func.count(), func.max(SAID.updated_at))
        .where(said_of(judge), ANSWERED)
        .group_by(SAID.person)
    )
    return {person: (n, at) for person, n, at in connection.execute(query)}


def today_of(connection: Connection, judge: str, person: str) -> tuple[int, int]:
    """Return how many answers a person gave today, and how many of them have words."""
    is_recent = SAID.updated_at > later(-_TODAY)
    query = select(func.count(), func.count(SAID.rationale)).where(
        said_by(judge, person), ANSWERED, is_recent
    )
    given, with_words = connection.execute(query).one()
    return int(given), int(with_words)


# -- the way through the cases ---------------------------------------------------------------------


def previous_case(
    connection: Connection, judge: str, person: str, case_id: str | None = None
) -> str | None:
    """Return the case that a person came to before this one; without one, the latest.

    They answered it, skipped it, or were not sure.
    """
    own = and_(of_person(judge, person), COME_TO)
    query = (
        select(CASE.case_id)
        .join(reviews, own)
        .where(of_judge(judge))
        .order_by(SAID.created_at.desc())
        .limit(1)
    )
    if case_id is not None:
        earlier = SAID.created_at < _came_at(judge, person, case_id)
        # All are earlier than one that waits.
        query = query.where(func.coalesce(earlier, true()))
    return connection.scalar(query)


def seen_until(connection: Connection, judge: str, person: str, case_id: str) -> int:
    """Return how many cases a person had come to when they came to this one.

    It is 0 if this one waits for them.
    """
    until = SAID.created_at <= _came_at(judge, person, case_id)
    query = (
        select(func.count())
        .select_from(reviews)
        .where(said_by(judge, person), COME_TO, until)
    )
    return int(connection.execute(query).scalar_one())


def _came_at(judge: str, person: str, case_id: str) -> Any:
    """Return when a person came to a case, for a condition; NULL if it waits for them."""
    other = reviews.alias()
    query = select(other.c.created_at).where(
        said_of(judge, other.c),
        other.c.person == person,
        other.c.case_id == case_id,
        other.c.state != "undone",
    )
    return query.scalar_subquery()


# -- people who differ -----------------------------------------------------------------------------


def _disputed(judge: str) -> Select[Any]:
    """Select the cases on which people differ."""
    of_any_kind = CASE.held_out.in_((False, True))  # the index begins with it
    query = select(CASE.case_id)
    return query.where(of_judge(judge), of_any_kind, CASE.disputed == 1)


def disputed_for(connection: Connection, judge: str, person: str) -> list[str]:
    """Return the disputed cases on which a person has not kept their answer.

    Their earliest answer comes first.
    """
    unchosen = and_(_VERDICT, SAID.kept_revision != SAID.revision)
    query = (
        _disputed(judge)
        .join(reviews, of_person(judge, person))
        .where(unchosen)
        .order_by(SAID.updated_at)
    )
    return list(connection.scalars(query))


def disputed_for_owner(
    connection: Connection, judge: str, team: Collection[str]
) -> list[str]:
    """Return the disputed cases that wait for an owner.

    Several people have kept their answers there, or have left the team.
    """
    has_left = SAID.person.not_in(team)
    chosen = or_(SAID.kept_revision == SAID.revision, has_left)
    choosers = (
        select(func.count())
        .where(said_of_case(judge), _VERDICT, chosen)
        .correlate(queue)
        .scalar_subquery()
    )
    # Most cases wait for somebody and are not read.
    waiting = _disputed(judge).where(choosers > 1).order_by(CASE.number)
    return list(connection.scalars(waiting))


def settlements(
    connection: Connection, judge: str
) -> dict[tuple[str, str], tuple[str | None, str | None]]:
    """Return whose answer holds on a case, and who chose that, by its id and content.

    These are the cases that several people answered, and those that were settled.
    """
    several = (
        select(SAID.case_id)
        .where(said_of(judge), _VERDICT)
        .group_by(SAID.case_id)
        .having(func.count() > 1)
    )
    is_settled = CASE.settled.is_not(None)
    in_question = or_(CASE.disputed == 1, is_settled, CASE.case_id.in_(several))
    query = select(
        CASE.case_id, CASE.content_hash, CASE.settled, CASE.settled_by
    ).where(of_judge(judge), in_question)
    settled = {}
    for case_id, content, holder, by in connection.execute(query):
        settled[case_id, content] = (holder, by)
    return settled


# -- answers with their cases ----------------------------------------------------------------------


def lessons(connection: Connection, judge: str) -> list[AnsweredCase]:
    """Return everybody's answers that count and that the judge has not learned.

    The earliest comes first.
    """
    query = _pairs(judge).where(_UNTAUGHT, _TEACHES).order_by(SAID.updated_at)
    return _answered_cases(connection, query)


def untaught_words(
    connection: Connection, judge: str, person: str
) -> list[AnsweredCase]:
    """Return what a person explained and the judge has not learned or does not follow.

    The earliest comes first.
    """
    query = (
        _pairs(judge)
        .where(SAID.person == person, _EXPLAINED, _UNTAUGHT, ~_OVERRULED)
        .order_by(SAID.updated_at)
    )
    return _answered_cases(connection, query)


def overruled_words(connection: Connection, judge: str, person: str) -> list[Answer]:
    """Return a person's words that somebody's choice put out of force, the earliest first.

    They are shown whether the queue has the content that they are about or not.
    """
    own = and_(SAID.judge == judge, SAID.person == person)
    query = (
        select(reviews)
        .where(own, ANSWERED, _EXPLAINED, _OVERRULED)
        .order_by(SAID.updated_at)
    )
    return _answers(connection, query)


def words_apart(connection: Connection, judge: str, person: str) -> list[Answer]:
    """Return a person's words, not learned, on content that is not in the queue any more.

    The earliest come first.
    """
    own = and_(SAID.judge == judge, SAID.person == person)
    written = or_(_EXPLAINED, SAID.draft.is_not(None))
    query = (
        select(reviews)
        .where(own, _UNTAUGHT, written, ~_OVERRULED, ~IN_QUEUE)
        .order_by(SAID.updated_at)
    )
    return _answers(connection, query)


def judged_again(
    connection: Connection, judge: str, person: str, *, most: int
) -> list[AnsweredCase]:
    """Return a person's answered cases that a later version was asked about.

    The latest answer comes first. Cases that are held out are not among them: what a person says of
    those teaches nothing.
    """
    is_later = CASE.version > SAID.judge_version
    query = (
        _pairs(judge)
        .where(SAID.person == person, ANSWERED, NOT_HELD_OUT, is_later)
        .order_by(SAID.updated_at.desc())
        .limit(most)
    )
    return _answered_cases(connection, query)


def cases_for_trial(
    connection: Connection,
    judge: str,
    person: str,
    behind: Collection[str],
) -> list[AnsweredCase]:
    """Return up to twenty cases with what the person says of them.

    Those `behind` a guideline come first, then the latest ones. Cases that are held out stay so:
    what measures the judge must not choose its words.
    """
    query = (
        _pairs(judge)
        .where(SAID.person == person, _VERDICT, NOT_HELD_OUT)
        .order_by(CASE.case_id.in_(behind).desc(), SAID.updated_at.desc())
        .limit(_TRIED)
    )
    return _answered_cases(connection, query)


def blind_answers(
    connection: Connection, judge: str, *, most: int
) -> list[AnsweredCase]:
    """Return the blind answers on the latest cases that are held out and judged.

    The earliest answer comes first.
    """
    of_case = and_(of_judge(judge), CASE.case_id == SAID.case_id)
    blind = and_(said_of(judge), ANSWERED, SAID.blind_value.is_not(None))
    unseen = and_(HELD_OUT, CASE.seen == 0, CASE.verdict.is_not(None))
    newest_first = (
        select(SAID.case_id)
        .join(queue, of_case)
        .where(blind, unseen)
        .order_by(SAID.created_at.desc())
    )
    latest = set()
    with connection.execute(newest_first) as ids:
        for case_id in ids.scalars():
            latest.add(case_id)
            if len(latest) == most:
                break
    query = (
        select(reviews, queue)
        .join(queue, of_case)
        .where(blind, SAID.case_id.in_(latest))
    )
    pairs = _answered_cases(connection, query)
    return sorted(pairs, key=attrgetter("answer.created_at"))


def busiest(connection: Connection, judge: str) -> str | None:
    """Return who gave the most verdicts, or None."""
    query = (
        select(SAID.person)
        .where(said_of(judge), _VERDICT)
        .group_by(SAID.person)
        .order_by(func.count().desc(), SAID.person)
        .limit(1)
    )
    return connection.scalar(query)


def agreements_with(
    connection: Connection,
    judge: str,
    person: str,
    agree: Callable[[Value, Value], bool],
) -> Mapping[str, tuple[int, int]]:
    """Compare a person's verdicts with each colleague's.

    Returns:
        By the colleague on how many cases both have a verdict, and on how many they agree.
    """
    # The limit has it read first.
    own = (
        select(SAID.case_id, SAID.value)
        .where(said_by(judge, person), _VERDICT)
        .order_by(SAID.created_at.desc())
        .limit(_PAIRS)
        .subquery()
    )
    query = (
        select(SAID.person, own.c.value, SAID.value, func.count())
        .join(own, own.c.case_id == SAID.case_id)
        .where(said_of(judge), _VERDICT, SAID.person != person)
        .group_by(SAID.person, own.c.value, SAID.value)
    )
    common = Counter[str]()
    agreed = Counter[str]()
    for colleague, one, other, n in connection.execute(query):
        common[colleague] += n
        agreed[colleague] += n * agree(one, other)
    return {name: (n, agreed[name]) for name, n in common.items()}
