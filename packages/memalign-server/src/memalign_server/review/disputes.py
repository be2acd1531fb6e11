"""People who answered a case differently: each sees the other's answer, and where both keep theirs an owner settles.

Until then neither is taught.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from sqlalchemy import Connection, Row, func, or_, select, update

from memalign.values import ValueType
from memalign_server.people.service import LOCAL
from memalign_server.problems import Refused
from memalign_server.review.cases import case_of, own_review
from memalign_server.review.service import (
    TAKEN_OVER,
    VERDICT,
    Answer,
    differ,
    give_up_words,
    mark_dispute,
    own_row,
    review_of,
    same_value,
    save,
    verdicts_on,
)
from memalign_server.store.tables import new_id, people, queue, reviews


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A case on which people differ, with their answers, the earliest first.

    Where it waits for one person, `own` is theirs and `answers` are those that say otherwise; else it waits for an
    owner, because everybody has kept theirs.
    """

    case: Row[Any]
    answers: tuple[Row[Any], ...]
    own: Row[Any] | None = None


def difference(
    connection: Connection,
    judge: str,
    person: str,
    *,
    kind: ValueType,
    put_off: Collection[str] = (),
) -> Difference | None:
    """The first case that a person and somebody else answered differently, and that waits for this person's choice.

    Nearly equal scores of a `kind` are no difference. Cases that the person has kept or an owner has settled do not
    wait, nor do those that are `put_off`. The person's earliest answer comes first.
    """
    unchosen = (VERDICT, reviews.c.kept_revision != reviews.c.revision)
    query = (
        _disputed(judge)
        .join(reviews, own_review(judge, person))
        .where(*unchosen)
        .order_by(reviews.c.updated_at)
    )
    waiting = (
        (tuple(other for other in verdicts if not same_value(other.value, own.value, kind)), own)
        for _, verdicts in verdicts_on(
            connection, judge, _but(put_off, connection.execute(query).scalars())
        )
        for own in verdicts
        if own.person == person
    )
    return _first_case(connection, judge, waiting)


def take_over(
    connection: Connection,
    judge: str,
    person: str,
    case_id: str,
    other: str,
    *,
    kind: ValueType,
    revision: int,
) -> None:
    """Give a person's answer the verdict of the `other` one, a colleague: they agree now.

    The person's own words were about the verdict that they give up. They become a draft, so that they are not lost, and
    are not taught with the new verdict. Nothing changes if the colleague's answer is not of this `revision` any more.
    """
    own, theirs = (review_of(connection, judge, name, case_id) for name in (person, other))
    if own is None or theirs is None or own.value is None or theirs.value is None:
        raise Refused(
            "you and {other} have not both answered this case any more: look at it again",
            other=other,
        )
    if revision != theirs.revision or same_value(own.value, theirs.value, kind):
        return
    give_up_words(connection, own)
    answer = Answer(
        state="answered", value=theirs.value, form=TAKEN_OVER, revision=own.revision, seen=True
    )
    save(connection, judge, person, case_id, answer, kind=kind)


def keep_answer(connection: Connection, judge: str, person: str, case_id: str) -> None:
    """Note that a person has seen a colleague's answer and keeps their own: an owner chooses once everybody does."""
    own = (own_row(judge, person, case_id), reviews.c.state == "answered")
    connection.execute(update(reviews).where(*own).values(kept_revision=reviews.c.revision))


def open_settlement(
    connection: Connection, judge: str, *, kind: ValueType, put_off: Collection[str] = ()
) -> Difference | None:
    """The first case that only an owner can settle: all who differ have kept their answer, or have left the team."""
    team = {LOCAL.name, *connection.execute(select(people.c.name)).scalars()}
    chosen = or_(reviews.c.kept_revision == reviews.c.revision, reviews.c.person.not_in(team))
    of_case = (reviews.c.judge == judge, reviews.c.case_id == queue.c.case_id, VERDICT)
    several = select(func.count()).where(*of_case, chosen).correlate(queue).scalar_subquery() > 1
    query = (
        _disputed(judge).where(several).order_by(queue.c.number)
    )  # most cases wait for somebody and are not read
    waiting = (
        (differing, None)
        for _, verdicts in verdicts_on(
            connection, judge, _but(put_off, connection.execute(query).scalars())
        )
        if (
            differing := tuple(
                v for v in verdicts if any(not same_value(v.value, w.value, kind) for w in verdicts)
            )
        )
        and all(
            answer.kept_revision == answer.revision or answer.person not in team
            for answer in differing
        )
    )
    return _first_case(connection, judge, waiting)


def settle(connection: Connection, judge: str, case_id: str, holder: str, *, by: str) -> None:
    """Choose whose answer on a case holds. It alone is taught, until somebody answers the case differently.

    An empty `holder` leaves the case out. Raises InputError for a holder who has no answer on the case.
    """
    answer = review_of(connection, judge, holder, case_id) if holder else None
    if holder and (answer is None or answer.value is None):
        raise Refused(
            "{person} has no answer on this case any more: look at it again", person=holder
        )
    mark_dispute(connection, judge, case_id, False, holder, by)


def undo(
    connection: Connection, judge: str, person: str, done: Mapping[str, Any], *, kind: ValueType
) -> None:
    """Take back what a person has just chosen on a difference, unless something was said there since.

    Args:
        connection: The transaction.
        judge: The judge.
        person: Who chose, and takes it back.
        done: The `case`; `what` was done: kept, taken or settled; and the `value` that the person had before.
        kind: The judge's type of verdicts.
    """
    case = case_of(connection, judge, str(done.get("case")))
    if case is None:
        return
    own = review_of(connection, judge, person, case.case_id)
    if done.get("what") == "settled" and case.settled_by == person:
        mark_dispute(connection, judge, case.case_id, True)
    elif own is not None and done.get("what") == "kept":
        connection.execute(
            update(reviews).where(own_row(judge, person, case.case_id)).values(kept_revision=0)
        )
    elif own is not None and done.get("what") == "taken" and own.form == TAKEN_OVER:
        before = {
            "value": done.get("value"),
            "rationale": own.draft or "",
            "revision": own.revision,
        }
        save(
            connection,
            judge,
            person,
            case.case_id,
            Answer(state="answered", form=new_id(), seen=True, **before),
            kind=kind,
        )
        connection.execute(
            update(reviews).where(own_row(judge, person, case.case_id)).values(draft=None)
        )


def refresh_disputes(connection: Connection, judge: str, *, kind: ValueType) -> None:
    """See again who differs where answers have gone without their person: erased, or withdrawn from the judge."""
    of_several = (
        select(reviews.c.case_id)
        .where(reviews.c.judge == judge, VERDICT)
        .group_by(reviews.c.case_id)
    )
    in_question = or_(
        queue.c.disputed == 1,
        queue.c.settled.is_not(None),
        queue.c.case_id.in_(of_several.having(func.count() > 1)),
    )
    query = select(queue.c.case_id, queue.c.settled, queue.c.settled_by).where(
        queue.c.judge == judge, in_question
    )
    settlements = {row.case_id: row for row in connection.execute(query)}
    for case_id, verdicts in verdicts_on(connection, judge, settlements):
        row = settlements[case_id]
        if row.settled in {"", *(answer.person for answer in verdicts)}:
            mark_dispute(connection, judge, case_id, False, row.settled, row.settled_by)
        else:
            mark_dispute(connection, judge, case_id, differ(verdicts, kind))


def _but(put_off: Collection[str], cases: Iterable[str]) -> list[str]:
    return [case for case in cases if case not in put_off]


def _disputed(judge: str) -> Any:
    """The ids of cases on which people differ; both kinds are named because the index begins with them."""
    return select(queue.c.case_id).where(
        queue.c.judge == judge, queue.c.held_out.in_((0, 1)), queue.c.disputed == 1
    )


def _first_case(
    connection: Connection,
    judge: str,
    waiting: Iterable[tuple[tuple[Row[Any], ...], Row[Any] | None]],
) -> Difference | None:
    """The first that waits, with its case; where answers have gone since, nobody may differ any more."""
    for answers, own in islice(filter(lambda row: row[0], waiting), 1):
        if (case := case_of(connection, judge, answers[0].case_id)) is not None:
            return Difference(case=case, answers=answers, own=own)
    return None
