"""What people said of cases: read, changed, and read together with the cases. An answer is a row of `reviews`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Unpack

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    func,
    insert,
    or_,
    select,
    true,
    update,
)

from memalign.types import FeedbackKey
from memalign.values import Value
from memalign_server.store.cases import of_person, parts_of
from memalign_server.store.rows import Answer, AnswerChange, QueuedCase, read_row
from memalign_server.store.tables import later, now, queue, reviews

_FEW = 20  # cases whose answers are read at once, where the first that waits is enough
_PAIRS = 1_000  # cases of which people's agreement is computed, the latest first

_OF_CASE = and_(reviews.c.judge == queue.c.judge, reviews.c.case_id == queue.c.case_id)
_ANSWERED = reviews.c.state == "answered"
_UNTAUGHT = and_(_ANSWERED, reviews.c.taught != reviews.c.revision)
_VERDICT = and_(
    _ANSWERED, reviews.c.value.is_not(None)
)  # words alone say nothing that could differ
_TEACHES = and_(
    queue.c.held_out == 0,
    reviews.c.overruled_by.is_(None),
    or_(
        and_(queue.c.disputed == 0, queue.c.settled.is_(None)),
        queue.c.settled == reviews.c.person,
    ),
)
_NO_WORDS: AnswerChange = {
    "value": None,
    "rationale": None,
    "blind_value": None,
    "judge_value": None,
    "judge_version": None,
    "draft": None,
}


@dataclass(frozen=True, kw_only=True)
class AnsweredCase:
    """A case with one person's answer on it."""

    case: QueuedCase
    answer: Answer


def _answers(connection: Connection, query: Select[Any]) -> list[Answer]:
    return [read_row(Answer, reviews, row) for row in connection.execute(query)]


def _answered_cases(connection: Connection, query: Select[Any]) -> list[AnsweredCase]:
    return [
        AnsweredCase(
            case=read_row(QueuedCase, queue, row), answer=read_row(Answer, reviews, row)
        )
        for row in connection.execute(query)
    ]


def _own(judge: str, person: str) -> ColumnElement[bool]:
    return and_(reviews.c.judge == judge, reviews.c.person == person)


# -- one answer ------------------------------------------------------------------------------------


def answer_of(
    connection: Connection, judge: str, person: str, case_id: str
) -> Answer | None:
    """Return a person's answer on a case, or None."""
    own = select(reviews).where(_own(judge, person), reviews.c.case_id == case_id)
    return next(iter(_answers(connection, own)), None)


def add_answer(
    connection: Connection,
    judge: str,
    person: str,
    case_id: str,
    **values: Unpack[AnswerChange],
) -> None:
    """Add a person's first answer on a case, now unless `values` say otherwise."""
    times: AnswerChange = {"created_at": now(), "updated_at": now()}
    row = {
        "judge": judge,
        "person": person,
        "case_id": case_id,
        "form": "",
        **times,
        **values,
    }
    connection.execute(insert(reviews).values(row))


def change_answer(
    connection: Connection,
    judge: str,
    person: str,
    case_id: str,
    **values: Unpack[AnswerChange],
) -> bool:
    """Change a person's answer on a case; return whether there is one."""
    own = and_(_own(judge, person), reviews.c.case_id == case_id)
    return bool(
        connection.execute(update(reviews).where(own).values(**values)).rowcount
    )


def mark_taught(
    connection: Connection, judge: str, key: FeedbackKey, revision: int
) -> None:
    """Note that the judge has learned a revision of an answer, unless it has changed since; 0 for none of it."""
    own = and_(_own(judge, key.source), reviews.c.case_id == key.id)
    if revision:
        own = and_(own, reviews.c.revision == revision)
    connection.execute(update(reviews).where(own).values(taught=revision))


def withdraw_answers(
    connection: Connection,
    judge: str,
    case_id: str,
    people: Collection[str],
    *,
    words_only: bool,
) -> None:
    """Take people's answers on a case back: no word of them stays, and the next teaching does not teach them again.

    Args:
        connection: The transaction.
        judge: The judge.
        case_id: The case.
        people: Whose answers.
        words_only: Whether verdicts stay answers, and words that were written after those that the judge had learned.
    """
    of_case = and_(
        reviews.c.judge == judge,
        reviews.c.case_id == case_id,
        reviews.c.person.in_(people),
    )
    own = update(reviews).where(of_case)
    change = {"taught": 0, "revision": reviews.c.revision + 1, "updated_at": now()}
    gone = own
    if words_only:
        learned = own.where(reviews.c.taught == reviews.c.revision)
        with_verdict = learned.where(reviews.c.value.is_not(None))
        connection.execute(with_verdict.values(rationale=None, **change))
        gone = learned.where(reviews.c.value.is_(None))
    connection.execute(gone.values(state="undone", form="", **change, **_NO_WORDS))
    connection.execute(own.values(taught=0))


# -- several ---------------------------------------------------------------------------------------


def people_who_answered(connection: Connection, judge: str | None = None) -> list[str]:
    """Return the names under which something was said of a judge's cases, or of any."""
    query = select(reviews.c.person).distinct()
    if judge is not None:
        query = query.where(reviews.c.judge == judge)
    return list(connection.execute(query).scalars())


def all_answers(connection: Connection, judge: str) -> list[Answer]:
    """Return everything that was said of a judge's cases, in whatever state."""
    return _answers(connection, select(reviews).where(reviews.c.judge == judge))


def verdicts_on(
    connection: Connection, judge: str, case_ids: Iterable[str]
) -> Iterator[tuple[str, list[Answer]]]:
    """Yield each case with everybody's verdicts on it, the earliest first; a few cases are read at a time."""
    for part in parts_of(case_ids, _FEW):
        query = select(reviews).where(
            reviews.c.judge == judge, reviews.c.case_id.in_(part)
        )
        # Not sorted by an index of all answers.
        verdicts = sorted(
            _answers(connection, query.where(_VERDICT)),
            key=lambda answer: answer.created_at,
        )
        for case_id in part:
            yield case_id, [answer for answer in verdicts if answer.case_id == case_id]


def drafts_of(connection: Connection, judge: str, person: str) -> list[Answer]:
    """Return a person's answers with something typed beside them that is not said yet."""
    query = select(reviews).where(
        _own(judge, person), _ANSWERED, reviews.c.draft.is_not(None)
    )
    return _answers(connection, query)


def is_answered(connection: Connection, judge: str) -> bool:
    """Return whether anybody has answered a case."""
    query = select(reviews.c.case_id).where(reviews.c.judge == judge, _ANSWERED)
    return connection.execute(query.limit(1)).first() is not None


def activity_of(connection: Connection, judge: str) -> dict[str, tuple[int, str]]:
    """Return how many cases each person answered, and when they did so last."""
    query = select(reviews.c.person, func.count(), func.max(reviews.c.updated_at))
    query = query.where(reviews.c.judge == judge, _ANSWERED).group_by(reviews.c.person)
    return {person: (n, at) for person, n, at in connection.execute(query)}


def today_of(
    connection: Connection, judge: str, person: str, *, seconds: float
) -> tuple[int, int]:
    """Return how many answers a person gave in the last seconds, and how many of them have words."""
    query = select(func.count(), func.count(reviews.c.rationale))
    own = (_own(judge, person), _ANSWERED, reviews.c.updated_at > later(-seconds))
    given, with_words = connection.execute(query.where(*own)).one()
    return int(given), int(with_words)


# -- the way through the cases ---------------------------------------------------------------------


def previous_case(
    connection: Connection, judge: str, person: str, case_id: str | None = None
) -> str | None:
    """Return the case that a person answered, skipped or called unclear before this one; without one, the latest."""
    own = and_(of_person(judge, person), reviews.c.state != "undone")
    query = select(queue.c.case_id).join(reviews, own).where(queue.c.judge == judge)
    if case_id is not None:
        earlier = reviews.c.created_at < _came_at(judge, person, case_id)
        query = query.where(
            func.coalesce(earlier, true())
        )  # all are earlier than one that waits
    return connection.execute(
        query.order_by(reviews.c.created_at.desc()).limit(1)
    ).scalar()


def seen_until(connection: Connection, judge: str, person: str, case_id: str) -> int:
    """Return how many cases a person had come to when they came to this one; 0 if it waits for them."""
    own = (_own(judge, person), reviews.c.state != "undone")
    query = select(func.count()).select_from(reviews).where(*own)
    until = query.where(reviews.c.created_at <= _came_at(judge, person, case_id))
    return int(connection.execute(until).scalar_one())


def _came_at(judge: str, person: str, case_id: str) -> Any:
    """Return when a person came to a case, for a condition; NULL if it waits for them."""
    other = reviews.alias()
    own = (other.c.judge == judge, other.c.person == person, other.c.case_id == case_id)
    return (
        select(other.c.created_at)
        .where(*own, other.c.state != "undone")
        .scalar_subquery()
    )


# -- people who differ -----------------------------------------------------------------------------


def _disputed(judge: str) -> Select[Any]:
    """Select the cases on which people differ; both kinds are named because the index begins with them."""
    disputed = (queue.c.held_out.in_((False, True)), queue.c.disputed == 1)
    return select(queue.c.case_id).where(queue.c.judge == judge, *disputed)


def disputed_for(connection: Connection, judge: str, person: str) -> list[str]:
    """Return the disputed cases on which a person has not kept their answer, their earliest answer first."""
    unchosen = and_(_VERDICT, reviews.c.kept_revision != reviews.c.revision)
    query = _disputed(judge).join(reviews, of_person(judge, person)).where(unchosen)
    return list(connection.execute(query.order_by(reviews.c.updated_at)).scalars())


def disputed_for_owner(
    connection: Connection, judge: str, team: Collection[str]
) -> list[str]:
    """Return the disputed cases on which several people have kept their answers, or have left the team."""
    chosen = or_(
        reviews.c.kept_revision == reviews.c.revision, reviews.c.person.not_in(team)
    )
    of_case = (reviews.c.judge == judge, reviews.c.case_id == queue.c.case_id, _VERDICT)
    several = (
        select(func.count()).where(*of_case, chosen).correlate(queue).scalar_subquery()
        > 1
    )
    # Most cases wait for somebody and are not read.
    query = _disputed(judge).where(several).order_by(queue.c.number)
    return list(connection.execute(query).scalars())


def settlements(
    connection: Connection, judge: str
) -> dict[str, tuple[str | None, str | None]]:
    """Return whose answer holds and who chose that, for each case that several answered or that was settled."""
    verdicts = select(reviews.c.case_id).where(reviews.c.judge == judge, _VERDICT)
    several = verdicts.group_by(reviews.c.case_id).having(func.count() > 1)
    in_question = or_(
        queue.c.disputed == 1,
        queue.c.settled.is_not(None),
        queue.c.case_id.in_(several),
    )
    query = select(queue.c.case_id, queue.c.settled, queue.c.settled_by)
    rows = connection.execute(query.where(queue.c.judge == judge, in_question))
    return {row.case_id: (row.settled, row.settled_by) for row in rows}


# -- answers with their cases ----------------------------------------------------------------------


def lessons(connection: Connection, judge: str) -> list[AnsweredCase]:
    """Return everybody's answers that count and that the judge has not learned, the earliest first."""
    query = select(reviews, queue).join(queue, _OF_CASE)
    query = query.where(reviews.c.judge == judge, _UNTAUGHT, _TEACHES)
    return _answered_cases(connection, query.order_by(reviews.c.updated_at))


def untaught_words(
    connection: Connection, judge: str, person: str
) -> list[AnsweredCase]:
    """Return what a person explained and the judge has not learned or does not follow, the earliest first."""
    waits = and_(_UNTAUGHT, reviews.c.overruled_by.is_(None))
    query = select(reviews, queue).join(queue, _OF_CASE)
    query = query.where(_own(judge, person), reviews.c.rationale.is_not(None), waits)
    return _answered_cases(connection, query.order_by(reviews.c.updated_at))


def overruled_words(connection: Connection, judge: str, person: str) -> list[Answer]:
    """Return a person's words that somebody's choice put out of force, the earliest first."""
    out = (
        _ANSWERED,
        reviews.c.rationale.is_not(None),
        reviews.c.overruled_by.is_not(None),
    )
    query = select(reviews).where(_own(judge, person), *out)
    return _answers(connection, query.order_by(reviews.c.updated_at))


def judged_again(
    connection: Connection, judge: str, person: str, *, most: int
) -> list[AnsweredCase]:
    """Return a person's answered cases that a later version was asked about, the latest answer first.

    Cases that are held out are not among them: what a person says of those teaches nothing.
    """
    query = (
        select(queue, reviews)
        .join(reviews, _OF_CASE)
        .where(_own(judge, person), _ANSWERED)
    )
    query = query.where(
        queue.c.held_out == 0, queue.c.version > reviews.c.judge_version
    )
    return _answered_cases(
        connection, query.order_by(reviews.c.updated_at.desc()).limit(most)
    )


def cases_for_trial(
    connection: Connection,
    judge: str,
    person: str,
    behind: Collection[str],
    *,
    most: int,
) -> list[AnsweredCase]:
    """Return cases with what the person says of them: those `behind` a guideline first, then the latest ones.

    Cases that are held out stay so: what measures the judge must not choose its words.
    """
    query = select(queue, reviews).join(reviews, _OF_CASE)
    query = query.where(_own(judge, person), _VERDICT, queue.c.held_out == 0)
    order = (queue.c.case_id.in_(behind).desc(), reviews.c.updated_at.desc())
    return _answered_cases(connection, query.order_by(*order).limit(most))


def blind_answers(
    connection: Connection, judge: str, *, most: int
) -> list[AnsweredCase]:
    """Return the blind answers on the latest cases that are held out and judged, the earliest answer first."""
    of_judge = and_(queue.c.judge == judge, queue.c.case_id == reviews.c.case_id)
    blind = and_(
        reviews.c.judge == judge, _ANSWERED, reviews.c.blind_value.is_not(None)
    )
    unseen = and_(
        queue.c.held_out == 1, queue.c.seen == 0, queue.c.verdict.is_not(None)
    )
    ids = select(reviews.c.case_id).join(queue, of_judge).where(blind, unseen)
    latest = set[str]()
    with connection.execute(ids.order_by(reviews.c.created_at.desc())) as newest_first:
        for case_id in newest_first.scalars():
            latest.add(case_id)
            if len(latest) == most:
                break
    query = select(reviews, queue).join(queue, of_judge)
    pairs = _answered_cases(
        connection, query.where(blind, reviews.c.case_id.in_(latest))
    )
    return sorted(pairs, key=lambda pair: pair.answer.created_at)


def busiest(connection: Connection, judge: str) -> str | None:
    """Return who gave the most verdicts, or None."""
    query = select(reviews.c.person).where(reviews.c.judge == judge, _VERDICT)
    query = query.group_by(reviews.c.person).order_by(
        func.count().desc(), reviews.c.person
    )
    return connection.execute(query.limit(1)).scalar()


def agreements_with(
    connection: Connection,
    judge: str,
    person: str,
    agree: Callable[[Value, Value], bool],
) -> Mapping[str, tuple[int, int]]:
    """Return for each colleague how many cases both answered, and on how many of them they agree."""
    verdict = (reviews.c.judge == judge, _VERDICT)
    latest = select(reviews.c.case_id, reviews.c.value).where(
        *verdict, reviews.c.person == person
    )
    # The limit has it read first.
    own = latest.order_by(reviews.c.created_at.desc()).limit(_PAIRS).subquery()
    query = select(reviews.c.person, own.c.value, reviews.c.value, func.count())
    query = query.join(own, own.c.case_id == reviews.c.case_id)
    query = query.where(*verdict, reviews.c.person != person)
    query = query.group_by(reviews.c.person, own.c.value, reviews.c.value)
    common = Counter[str]()
    agreed = Counter[str]()
    for colleague, one, other, n in connection.execute(query):
        common[colleague] += n
        agreed[colleague] += n * agree(one, other)
    return {name: (n, agreed[name]) for name, n in common.items()}
