"""The queue of cases: put in, judged, read back, and which comes next for whom."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

from sqlalchemy import Connection, Row, Select, and_, case, exists, func, insert, select, update

from memalign.evaluation.label_next import silence
from memalign.judge import Judge
from memalign.memory.retrieval import RELEVANT
from memalign.types import Example, Judgment
from memalign.values import Value, ValueType, value_text
from memalign_server.problems import Refused
from memalign_server.store.columns import from_json, now, to_json
from memalign_server.store.tables import queue, reviews

__all__ = [
    "Added",
    "CaseState",
    "Progress",
    "QueuedCase",
    "add_cases",
    "case_of",
    "cases_of",
    "disputed_cases",
    "list_cases",
    "next_cases",
    "progress_of",
    "store_judgments",
    "unanswered_cases",
]

CaseState = Literal["open", "answered", "skipped", "unclear"]
"""What a case is for one person."""

UNKNOWN = 0.5
"""The rank of a case without a judgment."""
VERDICT_LENGTH = 200
LONGEST_ID = 500
_AT_ONCE = 500  # rows of one statement, and ids of one IN (…)


@dataclass(frozen=True, kw_only=True)
class QueuedCase:
    """One case of the queue: its content, the judgment on it (None: not judged).

    `disputed` says that people answered it differently, which puts it before every other. `seen` says that the memory which judged it held the case, under this id or another: no answer on it is evidence.
    """

    number: int
    example: Example
    judgment: Judgment | None
    version: int | None
    problem: str | None = None
    seen: bool = False
    disputed: bool = False


@dataclass(frozen=True, kw_only=True)
class Added:
    """What became of cases that were put in: `added` ids, and how many were there already, by id or by content."""

    added: tuple[str, ...]
    known: int


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far one person is: all cases, those they answered, skipped and called unclear."""

    total: int
    answered: int
    skipped: int
    unclear: int

    @property
    def left(self) -> int:
        """Cases that the person has not seen."""
        return max(0, self.total - self.answered - self.skipped - self.unclear)


def add_cases(connection: Connection, judge: str, examples: Iterable[Example]) -> Added:
    """Put cases in the queue of a judge, unjudged; content that is there already stays as it is. Raises InputError."""
    given = list({each.id: each for each in examples}.values())
    if long := next((each.id for each in given if len(each.id) > LONGEST_ID), None):
        raise Refused(
            "id '{id}…' has {n} characters; give shorter ones, {most} at most",
            id=long[:60],
            n=len(long),
            most=LONGEST_ID,
        )
    ids = _present(connection, judge, queue.c.case_id, [each.id for each in given])
    contents = _present(connection, judge, queue.c.content_hash, [each.content_hash for each in given])
    at, rows = now(), list[dict[str, Any]]()
    for example in given:
        if example.id in ids or example.content_hash in contents:
            continue
        contents.add(example.content_hash)
        rows.append(
            {
                "judge": judge,
                "case_id": example.id,
                "content_hash": example.content_hash,
                "example": to_json(example.to_dict()),
                "rank": UNKNOWN,
                "added_at": at,
            }
        )
    for start in range(0, len(rows), _AT_ONCE):
        connection.execute(insert(queue), rows[start : start + _AT_ONCE])
    return Added(added=tuple(row["case_id"] for row in rows), known=len(given) - len(rows))


def store_judgments(
    connection: Connection,
    judge: Judge,
    version: int,
    judged: Sequence[tuple[Example, Judgment, float | None]],
    *,
    new_guidelines: Collection[str] = (),
    no_lower: Collection[str] = (),
) -> None:
    """Keep the judgments of a judge on cases of its queue, and rank those cases anew.

    A judgment that failed leaves the older one, and says why. Cases that are no longer queued are passed over.

    Args:
        connection: A transaction that writes.
        judge: The judge as it judged.
        version: Which version that is.
        judged: Each case with its judgment and its likeness to memory.
        new_guidelines: The guidelines that this version learned.
        no_lower: Ids of cases that come next and must go on to do so, whatever their new rank.
    """
    name, memory = judge.name, judge.memory
    for example, judgment, likeness in judged:
        there = and_(queue.c.judge == name, queue.c.case_id == judgment.id)
        if judgment.error is not None:
            connection.execute(update(queue).where(there).values(problem=judgment.error))
            continue
        rank = _usefulness(judgment, likeness=likeness, new_guidelines=new_guidelines)
        connection.execute(
            update(queue)
            .where(there)
            .values(
                judgment=to_json(judgment.to_dict()),
                problem=None,
                version=version,
                seen=int(memory.case(example.id) is not None or bool(memory.duplicates(example))),
                verdict=value_text(judgment.value)[:VERDICT_LENGTH],
                rank=case((queue.c.rank > rank, queue.c.rank), else_=rank) if judgment.id in no_lower else rank,
            )
        )


def _usefulness(judgment: Judgment, *, likeness: float | None, new_guidelines: Collection[str] = ()) -> float:
    """A rank from 0 to 1, the most useful first: the mean of five degrees.

    No check speaks; the calibrator decides another verdict than the model; the verdict is unsure; memory has nothing
    alike; a guideline that this version learned spoke.

    Args:
        judgment: The judgment on the case.
        likeness: The cosine of the nearest case of the memory; None without one.
        new_guidelines: The guidelines that this version learned.
    """
    fresh = any(finding.guideline in new_guidelines and finding.answer != "n/a" for finding in judgment.findings)
    two_verdicts = judgment.decided_by == "calibrator" and judgment.own_value != judgment.value
    unsure = 0.0 if judgment.confidence is None else min(1.0, 2 * (1 - judgment.confidence))
    unlike = 1.0 if likeness is None else min(1.0, max(0.0, (1 - likeness) / (1 - RELEVANT) / 2))
    return (silence(judgment) + two_verdicts + unsure + unlike + fresh) / 5


def next_cases(
    connection: Connection, judge: str, person: str, *, n: int = 2, without: Collection[str] = (), again: bool = False
) -> list[QueuedCase]:
    """The `n` most useful cases that a person has not answered; with `again` those that they skipped."""
    query = _with_state(judge, person, "skipped" if again else "open")
    first: Any = queue.c.disputed + 0 if again else queue.c.disputed  # few are skipped: found by person, and sorted
    if without:
        query = query.where(queue.c.case_id.not_in(list(without)))
    query = query.order_by(first.desc(), queue.c.rank.desc(), queue.c.number).limit(n)
    return [queued(row) for row in connection.execute(query)]


def unanswered_cases(connection: Connection, judge: str, *, n: int) -> list[QueuedCase]:
    """The `n` most useful cases that nobody has answered: those that come next for most people."""
    said = and_(reviews.c.judge == queue.c.judge, reviews.c.case_id == queue.c.case_id, reviews.c.state == "answered")
    query = select(queue).where(queue.c.judge == judge, ~exists().where(said))
    order = (queue.c.disputed.desc(), queue.c.rank.desc(), queue.c.number)
    return [queued(row) for row in connection.execute(query.order_by(*order).limit(n))]


def list_cases(
    connection: Connection,
    judge: str,
    person: str,
    *,
    state: CaseState | None = None,
    after: int = 0,
    limit: int = 50,
) -> list[QueuedCase]:
    """Cases in the order in which they were put in, from behind the number `after`; those in a `state` for the person."""
    query = _with_state(judge, person, state).where(queue.c.number > after)
    return [queued(row) for row in connection.execute(query.order_by(queue.c.number).limit(limit))]


def _with_state(judge: str, person: str, state: CaseState | None) -> Select[Any]:
    """The cases that are in a state for a person; open ones were not seen, or their answer was taken back."""
    mine = and_(reviews.c.judge == judge, reviews.c.case_id == queue.c.case_id, reviews.c.person == person)
    query = select(queue).where(queue.c.judge == judge)
    if state is None:
        return query
    if state == "open":
        return query.where(~exists().where(mine, reviews.c.state != "undone"))
    return query.join(reviews, mine).where(reviews.c.state == state)


def case_of(connection: Connection, judge: str, case_id: str) -> QueuedCase | None:
    """A case of the queue by its id, or None."""
    return next(iter(cases_of(connection, judge, [case_id])), None)


def cases_of(connection: Connection, judge: str, ids: Sequence[str]) -> list[QueuedCase]:
    """Cases of the queue in the order of their ids; those that are not there are left out."""
    query = select(queue).where(queue.c.judge == judge, queue.c.case_id.in_(ids))
    found = {row.case_id: row for row in connection.execute(query)}
    return [queued(found[each]) for each in ids if each in found]


def progress_of(connection: Connection, judge: str, person: str) -> Progress:
    """How far a person is with the queue of a judge."""
    total = connection.execute(select(func.count()).select_from(queue).where(queue.c.judge == judge)).scalar_one()
    said: dict[str, int] = dict(
        connection.execute(
            select(reviews.c.state, func.count())
            .where(reviews.c.judge == judge, reviews.c.person == person)
            .group_by(reviews.c.state)
        ).all()
    )
    return Progress(
        total=total, answered=said.get("answered", 0), skipped=said.get("skipped", 0), unclear=said.get("unclear", 0)
    )


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
    )


def judgment_of(text: str | None) -> Judgment | None:
    """A judgment as a column keeps it."""
    found = from_json(text)
    return None if found is None else Judgment.from_dict(found)


def _present(connection: Connection, judge: str, column: Any, values: Sequence[str]) -> set[str]:
    found: set[str] = set()
    for start in range(0, len(values), _AT_ONCE):
        query = select(column).where(queue.c.judge == judge, column.in_(values[start : start + _AT_ONCE]))
        found.update(connection.execute(query).scalars())
    return found


def disputed_cases(connection: Connection, judge: str, ids: Sequence[str], kind: ValueType) -> set[str]:
    """Those of the cases on which two people say what does not agree."""
    said: dict[str, list[Value]] = {}
    for start in range(0, len(ids), _AT_ONCE):
        query = select(reviews.c.case_id, reviews.c.value).where(
            reviews.c.judge == judge,
            reviews.c.case_id.in_(ids[start : start + _AT_ONCE]),
            reviews.c.state == "answered",
            reviews.c.value.is_not(None),
        )
        for case_id, value in connection.execute(query):
            said.setdefault(case_id, []).append(from_json(value))
    return {
        case_id
        for case_id, values in said.items()
        if not all(kind.agree(one, other) for one, other in combinations(values, 2))
    }
