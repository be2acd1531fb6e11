"""The queue of cases: put in, judged, read back, and which comes next for whom.

One case in four is held out: drawn by chance when it is put in, answered like any other, and never taught. The judge's
agreement with people is measured on those alone. They come in an order of chance too; the others the most useful first.

A case is a row of the table `queue`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from secrets import randbelow
from typing import Any, TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    Text,
    and_,
    case,
    exists,
    func,
    insert,
    or_,
    select,
    type_coerce,
    update,
)

from memalign.content.walk import texts_in
from memalign.evaluation import Usefulness, knows
from memalign.judge import Judge
from memalign.types import Example, Judgment
from memalign.values import value_text
from memalign_server.problems import Refused
from memalign_server.review.sharing import Turn, answers_of, answers_wanted, needed
from memalign_server.store.tables import from_json, now, queue, reviews, to_json

ONE_IN = 4
"""Of so many cases one is held out: enough for a figure from forty answers, and three of four answers teach."""
VERDICT_LENGTH = 200
LONGEST_ID = 500
_AT_ONCE = 500  # rows of one statement, and ids of one IN (…)
_CHANCES = 1_000_000
_MOST_FOUND = 20  # cases of one search

_NOBODY = Turn()

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far one person is: the cases they answered, skipped and called unclear, answers with words, and what waits.

    `waiting` are the cases that the person has not seen and that want an answer more.
    """

    answered: int
    skipped: int
    unclear: int
    explained: int
    waiting: int

    @property
    def total(self) -> int:
        """The cases that the person has seen, and those that wait for them."""
        return self.answered + self.skipped + self.unclear + self.waiting


def own_review(judge: str, person: str) -> ColumnElement[bool]:
    """The condition that joins a person's row of `reviews` to a case of the queue."""
    return and_(
        reviews.c.judge == judge, reviews.c.case_id == queue.c.case_id, reviews.c.person == person
    )


def is_behind(case: Row[Any], version: int) -> bool:
    """Whether an older version of the judge than this one gave the verdict."""
    return case.version is not None and case.version < version


# -- put in and judged -------------------------------------------------------------------------------------------------


def new_cases(connection: Connection, judge: str, examples: Iterable[Example]) -> list[Example]:
    """Those cases that a judge's queue does not have, by id or by content. Raises InputError for too long an id."""
    distinct = {example.id: example for example in examples}
    if long := next((case_id for case_id in distinct if len(case_id) > LONGEST_ID), None):
        n, most = len(long), LONGEST_ID
        raise Refused(
            "id '{id}…' has {n} characters; give shorter ones, {most} at most",
            id=long[:60],
            n=n,
            most=most,
        )
    present = set[str]()
    for part in parts_of(distinct.values()):
        ids, contents = [example.id for example in part], [example.content_hash for example in part]
        same = or_(queue.c.case_id.in_(ids), queue.c.content_hash.in_(contents))
        for row in connection.execute(
            select(queue.c.case_id, queue.c.content_hash).where(queue.c.judge == judge, same)
        ):
            present.update(row)
    new = dict[str, Example]()
    for example in distinct.values():
        if present.isdisjoint((example.id, example.content_hash)):
            new.setdefault(example.content_hash, example)
    return list(new.values())


def add_cases(connection: Connection, judge: str, examples: Iterable[Example]) -> tuple[int, int]:
    """Put cases in the queue of a judge, unjudged; returns how many are new, and how many it has already.

    Of several with one id the last counts. Raises InputError for too long an id.
    """
    examples = list(examples)
    new = new_cases(connection, judge, examples)
    rows, drawn = list[dict[str, Any]](), 0
    for number, example in enumerate(new):
        place = number % ONE_IN
        drawn = randbelow(ONE_IN) if place == 0 else drawn
        rows.append(
            {
                "judge": judge,
                "case_id": example.id,
                "content_hash": example.content_hash,
                "example": example,
                "held_out": int(place == drawn),
                "rank": _chance() if place == drawn else unknown_rank(),
                "added_at": now(),
            }
        )
    for part in parts_of(rows):
        connection.execute(insert(queue), part)
    return len(new), len({example.id for example in examples}) - len(new)


def _chance() -> float:
    return randbelow(_CHANCES) / _CHANCES


def unknown_rank() -> float:
    """The rank of a case without a judgment: in the middle, and among its like by chance."""
    return 0.5 + _chance() / _CHANCES


async def useful_ranks(
    useful: Usefulness, judged: Sequence[tuple[Example, Judgment]]
) -> dict[str, float]:
    """Return how useful an answer on each case is, by its id, in the order of `memalign next`."""
    rated = [(example, judgment) for example, judgment in judged if judgment.error is None]
    scores = await useful(rated) if rated else []
    return {example.id: score for (example, _), score in zip(rated, scores, strict=True)}


def store_judgments(
    connection: Connection,
    judge: Judge,
    version: int,
    judged: Sequence[tuple[Example, Judgment]],
    ranks: Mapping[str, float],
) -> None:
    """Keep the judgments of a version of a judge on cases of its queue.

    A judgment that failed leaves the older one, and says why. Cases that are no longer queued are passed over. A judge
    whose memory is empty says what people compare with later. `ranks` say how useful an answer is, by the case's id, at
    the first judgment; a case that is held out keeps its chance place.
    """
    memory = judge.memory
    for example, judgment in judged:
        of_case = update(queue).where(queue.c.judge == judge.name, queue.c.case_id == judgment.id)
        change = of_case.where(
            func.coalesce(queue.c.version, 0) <= version
        )  # else a newer one was quicker
        if judgment.error is not None:
            connection.execute(change.values(problem=judgment.error))
            continue
        # By the first judgment: if what a new version judges ahead moved back, what comes next would be behind it.
        stays = or_(queue.c.held_out == 1, queue.c.version.is_not(None))
        untaught = {} if memory else {"first_value": judgment.value, "first_version": version}
        connection.execute(
            change.values(
                judgment=judgment,
                problem=None,
                version=version,
                seen=int(knows(judge, example)),
                verdict=value_text(judgment.value)[:VERDICT_LENGTH],
                rank=case((stays, queue.c.rank), else_=ranks[judgment.id]),
                **untaught,
            )
        )


# -- what comes next ---------------------------------------------------------------------------------------------------


def next_cases(
    connection: Connection,
    judge: str,
    person: str,
    *,
    n: int = 2,
    again: Collection[str] = (),
    measuring: bool = False,
    turn: Turn = _NOBODY,
) -> list[Row[Any]]:
    """The cases that come next for a person.

    After three others comes one that is held out. Where one of the two kinds is used up, the other goes on. What they
    have open comes first, and what has all the answers that it wants, or will have them from those who have it open,
    does not come.

    Args:
        connection: A transaction.
        judge: The judge.
        person: Who is served.
        n: How many cases at most.
        again: States, such as `skipped`: the cases that the person left so come instead of those that wait.
        measuring: Whether those that are held out come first: the person wants to know how good the judge is.
        turn: Who has what open.
    """
    wanted, given, own = (
        answers_wanted(connection, judge),
        answers_of(judge),
        own_review(judge, person),
    )
    query = select(queue, given.label("given"), needed(wanted).label("needed"))
    query = query.where(queue.c.judge == judge, given < needed(wanted)).limit(n + len(turn.others))
    order = (queue.c.rank.desc(), queue.c.number)

    def free(rows: Iterable[Row[Any]]) -> list[Row[Any]]:
        return [row for row in rows if row.given + turn.others.get(row.case_id, 0) < row.needed]

    if again:  # few: found by the person and sorted, not by the order of all cases
        passed = query.join(reviews, own).where(reviews.c.state.in_(again))
        return free(connection.execute(passed.order_by((queue.c.disputed + 0).desc(), *order)))[:n]
    query = query.where(~exists().where(own, reviews.c.state != "undone")).order_by(
        queue.c.disputed.desc(), *order
    )
    others, held_out = (
        free(connection.execute(query.where(queue.c.held_out == kind))) for kind in (0, 1)
    )
    coming = [] if measuring else _opened(connection, query, others, held_out, turn)[:n]
    since = _since_held_out(connection, judge, own)
    while (others or held_out) and len(coming) < n:
        kind = (
            held_out if not others or (held_out and (measuring or since >= ONE_IN - 1)) else others
        )
        since = 0 if kind is held_out else since + 1
        coming.append(kind.pop(0))
    return coming


def _opened(
    connection: Connection,
    waiting: Select[Any],
    others: list[Row[Any]],
    held_out: list[Row[Any]],
    turn: Turn,
) -> list[Row[Any]]:
    """Take what a person has open and has not answered out of both kinds, to come first."""
    if not turn.own:
        return []
    rows = list(connection.execute(waiting.where(queue.c.case_id.in_(turn.own))))
    for kind in (others, held_out):
        kind[:] = [row for row in kind if row.case_id not in turn.own]
    return rows


def _since_held_out(connection: Connection, judge: str, own: ColumnElement[bool]) -> int:
    """How many of the last cases that a person saw came after one that was held out."""
    seen = (
        select(queue.c.held_out)
        .join(reviews, and_(own, reviews.c.state != "undone"))
        .where(queue.c.judge == judge)
    )
    latest = (
        connection.execute(seen.order_by(reviews.c.created_at.desc()).limit(ONE_IN - 1))
        .scalars()
        .all()
    )
    return latest.index(1) if 1 in latest else len(latest)


def cases_ahead(connection: Connection, judge: str, *, n: int) -> list[Row[Any]]:
    """The `n` cases that come next for each person who has answered, and for whoever begins, without repetition."""
    people = (
        connection.execute(select(reviews.c.person).where(reviews.c.judge == judge).distinct())
        .scalars()
        .all()
    )
    coming = {
        ahead.number: ahead
        for person in (*people, "")
        for ahead in next_cases(connection, judge, person, n=n)
    }
    return [coming[number] for number in sorted(coming)]


# -- read back ---------------------------------------------------------------------------------------------------------


def first_case(connection: Connection, judge: str) -> Row[Any] | None:
    """The case that was put in first."""
    return connection.execute(
        select(queue).where(queue.c.judge == judge).order_by(queue.c.number).limit(1)
    ).first()


def unjudged(connection: Connection, judge: str) -> list[Example]:
    """The cases without a judgment, in their order."""
    query = select(queue.c.example).where(queue.c.judge == judge, queue.c.judgment.is_(None))
    return list(connection.execute(query.order_by(queue.c.number)).scalars())


def latest_answered(
    connection: Connection, judge: str, *, held_out: int, most: int
) -> list[Row[Any]]:
    """Answered cases of one kind, the latest answer first."""
    answered = and_(
        reviews.c.judge == judge,
        reviews.c.case_id == queue.c.case_id,
        reviews.c.state == "answered",
    )
    query = (
        select(queue)
        .join(reviews, answered)
        .where(queue.c.judge == judge, queue.c.held_out == held_out)
    )
    return list(
        connection.execute(
            query.group_by(queue.c.number)
            .order_by(func.max(reviews.c.updated_at).desc())
            .limit(most)
        )
    )


def case_of(connection: Connection, judge: str, case_id: str) -> Row[Any] | None:
    """A case of the queue by its id, or None."""
    return next(iter(cases_of(connection, judge, [case_id])), None)


def cases_of(connection: Connection, judge: str, ids: Sequence[str]) -> list[Row[Any]]:
    """Cases of the queue in the order of their ids; those that are not there are left out."""
    rows = dict[str, Row[Any]]()
    for part in parts_of(ids):
        query = select(queue).where(queue.c.judge == judge, queue.c.case_id.in_(part))
        rows |= {row.case_id: row for row in connection.execute(query)}
    return [rows[case_id] for case_id in ids if case_id in rows]


def measuring_names(connection: Connection, judge: str) -> set[str]:
    """The ids and content hashes of the cases that are held out: no feedback on them is taught, under whatever id."""
    query = select(queue.c.case_id, queue.c.content_hash).where(
        queue.c.judge == judge, queue.c.held_out == 1
    )
    return {name for row in connection.execute(query) for name in row}


def progress_of(connection: Connection, judge: str, person: str) -> Progress:
    """How far a person is with the queue of a judge."""
    states = {
        state: func.count(case((reviews.c.state == state, 1))) for state in ("answered", "unclear")
    }
    explained = func.count(case((reviews.c.state == "answered", reviews.c.rationale)))
    # What has its answers from others by now is nothing that the person could take up again.
    wanting = _wanting(connection, judge)
    skipped = wanting.where(exists().where(own_review(judge, person), reviews.c.state == "skipped"))
    waiting = wanting.where(~exists().where(own_review(judge, person), reviews.c.state != "undone"))
    counts = {"skipped": skipped.scalar_subquery(), "waiting": waiting.scalar_subquery()}
    columns = {**states, "explained": explained, **counts}
    query = select(*(column.label(name) for name, column in columns.items()))
    row = connection.execute(
        query.where(reviews.c.judge == judge, reviews.c.person == person)
    ).one()
    return Progress(**row._mapping)  # SQLAlchemy's public name for it


def _wanting(connection: Connection, judge: str) -> Select[Any]:
    """The number of cases that want an answer more."""
    wants = answers_of(judge) < needed(answers_wanted(connection, judge))
    return select(func.count()).select_from(queue).where(queue.c.judge == judge, wants)


def find_cases(connection: Connection, judge: Judge, text: str) -> list[Example]:
    """The cases of the queue and of the memory that hold a text, in whatever letters and with whatever blanks."""
    wanted = _plain(text)
    if not wanted:
        return []
    query = (
        select(type_coerce(queue.c.example, Text))
        .where(queue.c.judge == judge.name)
        .order_by(queue.c.number)
    )
    words = [
        to_json(word)[1:-1] for word in wanted.split()
    ]  # as JSON spells them: most rows need not be read
    rows = (
        row
        for row in connection.execute(query).scalars()
        if all(word in row.casefold() for word in words)
    )
    queued = (Example.from_dict(from_json(row)) for row in rows)
    cases = {case.id: case for case in (*queued, *(case.example for case in judge.memory.cases))}
    holding = (
        case
        for case in cases.values()
        if wanted in _plain(" ".join(texts_in(list(case.content.values()))))
    )
    return list(islice(holding, _MOST_FOUND))


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def parts_of(values: Iterable[T], size: int = _AT_ONCE) -> Iterator[list[T]]:
    """The values in parts, each as long as one statement takes."""
    rest = list(values)
    return (rest[start : start + size] for start in range(0, len(rest), size))
