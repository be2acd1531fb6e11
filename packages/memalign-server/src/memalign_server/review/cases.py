"""The queue of cases: put in, judged, read back, and which comes next for whom.

One case in four is held out: drawn by chance when it is put in, answered like any other, and never taught. The judge's
agreement with people is measured on those alone. They come in an order of chance too; the others the most useful first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from secrets import randbelow
from typing import Any, Literal, TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    case,
    exists,
    false,
    func,
    insert,
    or_,
    select,
    update,
)

from memalign.evaluation.label_next import silence
from memalign.judge import Judge
from memalign.memory.retrieval import RELEVANT
from memalign.registry.residue import strings
from memalign.types import Example, Judgment
from memalign.values import value_text
from memalign_server.problems import Refused
from memalign_server.store.tables import from_json, now, queue, reviews, to_json

CaseState = Literal["open", "answered", "skipped", "unclear"]
"""What a case is for one person."""

ONE_IN = 4
"""Of so many cases one is held out: enough for a figure from forty answers, and three of four answers teach."""
UNKNOWN = 0.5
"""The rank of a case without a judgment."""
VERDICT_LENGTH = 200
LONGEST_ID = 500
_AT_ONCE = 500  # rows of one statement, and ids of one IN (…)
_CHANCES = 1_000_000
_MOST_FOUND = 20  # cases of one search


T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class QueuedCase:
    """One case of the queue.

    Attributes:
        number: Its place in the order in which cases were put in.
        example: Its content.
        judgment: What the judge said of it last; None until it is judged.
        version: The judge's version that said so.
        problem: Why it could not be judged.
        seen: Whether the memory that judged it held the case, under this id or another: then it proves nothing.
        disputed: Whether people answered it differently and nothing is settled; it comes before others of its kind.
        held_out: Whether it was drawn to measure the judge: no answer on it is taught.
        settled: Whose answer holds, as an owner chose; empty for nobody's, None where nothing is settled.
    """

    number: int
    example: Example
    judgment: Judgment | None
    version: int | None
    problem: str | None = None
    seen: bool = False
    disputed: bool = False
    held_out: bool = False
    settled: str | None = None

    def is_behind(self, version: int) -> bool:
        """Whether an older version of the judge than this one gave the verdict."""
        return self.version is not None and self.version < version


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far one person is: all cases, those they answered, skipped and called unclear, and answers with words."""

    total: int
    answered: int
    skipped: int
    unclear: int
    explained: int

    @property
    def waiting(self) -> int:
        """Cases that the person has not seen."""
        return max(0, self.total - self.answered - self.skipped - self.unclear)


def own_review(judge: str, person: str) -> ColumnElement[bool]:
    """The condition that joins a person's row of `reviews` to a case of the queue."""
    return and_(reviews.c.judge == judge, reviews.c.case_id == queue.c.case_id, reviews.c.person == person)


def new_cases(connection: Connection, judge: str, examples: Iterable[Example]) -> list[Example]:
    """Those cases that a judge's queue does not have, by id or by content. Raises InputError for too long an id."""
    distinct = {example.id: example for example in examples}
    if long := next((case_id for case_id in distinct if len(case_id) > LONGEST_ID), None):
        n, most = len(long), LONGEST_ID
        raise Refused("id '{id}…' has {n} characters; give shorter ones, {most} at most", id=long[:60], n=n, most=most)
    present = set[str]()
    for column, values in (
        (queue.c.case_id, list(distinct)),
        (queue.c.content_hash, [example.content_hash for example in distinct.values()]),
    ):
        query = select(column).where(queue.c.judge == judge)
        for part in parts_of(values):
            present.update(connection.execute(query.where(column.in_(part))).scalars())
    new = dict[str, Example]()
    for example in distinct.values():
        if present.isdisjoint((example.id, example.content_hash)):
            new.setdefault(example.content_hash, example)
    return list(new.values())


def measuring_names(connection: Connection, judge: str) -> set[str]:
    """The ids and content hashes of the cases that are held out: no feedback on them is taught, under whatever id."""
    query = select(queue.c.case_id, queue.c.content_hash).where(queue.c.judge == judge, queue.c.held_out == 1)
    return {name for row in connection.execute(query) for name in row}


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
                "example": to_json(example.to_dict()),
                "held_out": int(place == drawn),
                "rank": randbelow(_CHANCES) / _CHANCES if place == drawn else UNKNOWN,
                "added_at": now(),
            }
        )
    for part in parts_of(rows):
        connection.execute(insert(queue), part)
    return len(new), len({example.id for example in examples}) - len(new)


def store_judgments(
    connection: Connection,
    judge: Judge,
    version: int,
    judged: Sequence[tuple[Example, Judgment, float | None]],
    *,
    new_guidelines: Collection[str] = (),
    no_lower: Collection[str] = (),
) -> None:
    """Keep the judgments of a version of a judge on cases of its queue, and rank those cases by them.

    A judgment that failed leaves the older one, and says why. Cases that are no longer queued are passed over. A judge
    whose memory is empty says what people compare with later; a case that is held out keeps its chance place.

    Beside each judgment of `judged` is its case's likeness to memory. The version has learned `new_guidelines`. The
    cases of `no_lower` come next and must go on to do so, whatever their new rank.
    """
    memory = judge.memory
    for example, judgment, likeness in judged:
        change = update(queue).where(queue.c.judge == judge.name, queue.c.case_id == judgment.id)
        change = change.where(
            or_(queue.c.version.is_(None), queue.c.version <= version)
        )  # else a newer one was quicker
        if judgment.error is not None:
            connection.execute(change.values(problem=judgment.error))
            continue
        rank = _usefulness(judgment, likeness, new_guidelines)
        stays = or_(queue.c.held_out == 1, (queue.c.rank > rank) if judgment.id in no_lower else false())
        untaught = {} if memory else {"first_value": to_json(judgment.value), "first_version": version}
        connection.execute(
            change.values(
                judgment=to_json(judgment.to_dict()),
                problem=None,
                version=version,
                seen=int(memory.case(example.id) is not None or bool(memory.duplicates(example))),
                verdict=value_text(judgment.value)[:VERDICT_LENGTH],
                rank=case((stays, queue.c.rank), else_=rank),
                **untaught,
            )
        )


def _usefulness(judgment: Judgment, likeness: float | None, new_guidelines: Collection[str]) -> float:
    """A rank from 0 to 1, the most useful first: the mean of five degrees.

    No check speaks; the calibrator decides another verdict than the model; the verdict is unsure; memory has nothing
    alike, by the cosine of its nearest case; a guideline that this version learned spoke.
    """
    fresh = any(finding.guideline in new_guidelines and finding.answer != "n/a" for finding in judgment.findings)
    two_verdicts = judgment.decided_by == "calibrator" and judgment.own_value != judgment.value
    unsure = 0.0 if judgment.confidence is None else min(1.0, 2 * (1 - judgment.confidence))
    unlike = 1.0 if likeness is None else min(1.0, max(0.0, (1 - likeness) / (1 - RELEVANT) / 2))
    return (silence(judgment) + two_verdicts + unsure + unlike + fresh) / 5


def next_cases(
    connection: Connection,
    judge: str,
    person: str,
    *,
    n: int = 2,
    again: bool = False,
    measuring: bool = False,
) -> list[QueuedCase]:
    """The cases that come next for a person.

    After three others comes one that is held out. Where one of the two kinds is used up, the other goes on. With
    `measuring` those that are held out come first, because the person wants to know how good the judge is. With `again`
    it is the cases that the person skipped, instead of those that wait for an answer.
    """
    query = _with_state(judge, person, "skipped" if again else "open").limit(n)
    order = (queue.c.rank.desc(), queue.c.number)
    if again:  # few: found by the person and sorted, not by the order of all cases
        return [queued(row) for row in connection.execute(query.order_by((queue.c.disputed + 0).desc(), *order))]
    query = query.order_by(queue.c.disputed.desc(), *order)
    others, held_out = (
        [queued(row) for row in connection.execute(query.where(queue.c.held_out == kind))] for kind in (0, 1)
    )
    since, coming = _since_held_out(connection, judge, person), list[QueuedCase]()
    while (others or held_out) and len(coming) < n:
        kind = held_out if not others or (held_out and (measuring or since >= ONE_IN - 1)) else others
        since = 0 if kind is held_out else since + 1
        coming.append(kind.pop(0))
    return coming


def _since_held_out(connection: Connection, judge: str, person: str) -> int:
    """How many other cases the person saw since the last one that was held out; few are enough to know."""
    answered = and_(own_review(judge, person), reviews.c.state != "undone")
    latest = select(queue.c.held_out).join(reviews, answered).where(queue.c.judge == judge)
    kinds = connection.execute(latest.order_by(reviews.c.created_at.desc()).limit(ONE_IN - 1)).scalars().all()
    return next((number for number, held_out in enumerate(kinds) if held_out), len(kinds))


def cases_ahead(connection: Connection, judge: str, *, n: int) -> list[QueuedCase]:
    """The `n` cases that come next for each person who has answered, and for whoever begins, without repetition."""
    people = connection.execute(select(reviews.c.person).where(reviews.c.judge == judge).distinct()).scalars().all()
    coming = {ahead.number: ahead for person in (*people, "") for ahead in next_cases(connection, judge, person, n=n)}
    return [coming[number] for number in sorted(coming)]


def list_cases(
    connection: Connection,
    judge: str,
    person: str,
    *,
    state: CaseState | None = None,
    after: int = 0,
    limit: int = 50,
) -> list[QueuedCase]:
    """Cases in the order in which they were put in, from behind `after`; those in a `state` for the person."""
    query = _with_state(judge, person, state).where(queue.c.number > after)
    return [queued(row) for row in connection.execute(query.order_by(queue.c.number).limit(limit))]


def _with_state(judge: str, person: str, state: CaseState | None) -> Select[Any]:
    """The cases that are in a state for a person; open ones were not seen, or their answer was taken back."""
    query, own = select(queue).where(queue.c.judge == judge), own_review(judge, person)
    if state is None:
        return query
    if state == "open":
        return query.where(~exists().where(own, reviews.c.state != "undone"))
    return query.join(reviews, own).where(reviews.c.state == state)


def case_of(connection: Connection, judge: str, case_id: str) -> QueuedCase | None:
    """A case of the queue by its id, or None."""
    return next(iter(cases_of(connection, judge, [case_id])), None)


def cases_of(connection: Connection, judge: str, ids: Sequence[str]) -> list[QueuedCase]:
    """Cases of the queue in the order of their ids; those that are not there are left out."""
    rows = dict[str, Row[Any]]()
    for part in parts_of(ids):
        query = select(queue).where(queue.c.judge == judge, queue.c.case_id.in_(part))
        rows |= {row.case_id: row for row in connection.execute(query)}
    return [queued(rows[case_id]) for case_id in ids if case_id in rows]


def progress_of(connection: Connection, judge: str, person: str) -> Progress:
    """How far a person is with the queue of a judge."""
    total = select(func.count()).select_from(queue).where(queue.c.judge == judge).scalar_subquery()
    counts = {state: func.count(case((reviews.c.state == state, 1))) for state in ("answered", "skipped", "unclear")}
    explained = func.count(case((reviews.c.state == "answered", reviews.c.rationale)))
    query = select(total, *counts.values(), explained).where(reviews.c.judge == judge, reviews.c.person == person)
    total_n, *states, explained_n = connection.execute(query).one()
    return Progress(total=total_n, **dict(zip(counts, states, strict=True)), explained=explained_n)


def queued(row: Row[Any]) -> QueuedCase:
    """A row of the queue as a value."""
    return QueuedCase(
        number=row.number,
        example=Example.from_dict(from_json(row.example)),
        judgment=judgment_of(row.judgment),
        version=row.version,
        problem=row.problem,
        seen=bool(row.seen),
        disputed=bool(row.disputed),
        held_out=bool(row.held_out),
        settled=row.settled,
    )


def judgment_of(text: str | None) -> Judgment | None:
    """A judgment as a column keeps it."""
    row = from_json(text)
    return None if row is None else Judgment.from_dict(row)


def parts_of(values: Iterable[T], size: int = _AT_ONCE) -> Iterator[list[T]]:
    """The values in parts, each as long as one statement takes."""
    rest = list(values)
    return (rest[start : start + size] for start in range(0, len(rest), size))


def find_cases(connection: Connection, judge: Judge, text: str) -> list[Example]:
    """The cases of the queue and of the memory that hold a text, in whatever letters and with whatever blanks."""
    wanted = _plain(text)
    if not wanted:
        return []
    query = select(queue.c.example).where(queue.c.judge == judge.name).order_by(queue.c.number)
    words = [to_json(word)[1:-1] for word in wanted.split()]  # as JSON spells them: most rows need not be read
    rows = (row for row in connection.execute(query).scalars() if all(word in row.casefold() for word in words))
    queued = (Example.from_dict(from_json(row)) for row in rows)
    cases = {case.id: case for case in (*queued, *(case.example for case in judge.memory.cases))}
    holding = (case for case in cases.values() if wanted in _plain(" ".join(strings(list(case.content.values())))))
    return list(islice(holding, _MOST_FOUND))


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
