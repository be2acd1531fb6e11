"""What answers prove: how often the judge agrees with people on the cases that are held out from teaching.

A case counts by the answers that were given before the judge's was in view. The verdict on it is the newest one, and
beside it what the judge had said while its memory was empty.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, and_, exists, func, select

from memalign.errors import InvalidValue
from memalign.metrics import wilson_interval
from memalign.types import Example
from memalign.values import Value, ValueType
from memalign_server.review.cases import cases_of, own_review
from memalign_server.review.service import VERDICT
from memalign_server.store.tables import queue, reviews

ENOUGH = 10
"""Cases from which on a figure is shown: fewer say nearly nothing."""
LATEST = 200
"""Cases that are counted: as many as each new version judges again."""
_MOST = 1_000  # cases of which people's agreement is computed, the latest first
_SHOWN = 3  # mistakes, and pairs of people


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """On how many of `n` cases two said the same."""

    n: int
    agreed: int

    @property
    def share(self) -> float:
        """The share of the cases, 0 without cases."""
        return self.agreed / self.n if self.n else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's interval of the share, at 95 %, as in the library's reports."""
        return wilson_interval(self.agreed, self.n) or (0.0, 1.0)

    def figures(self) -> dict[str, Any]:
        """The same as JSON values; of too few cases only how many: a figure of one would tell a colleague's answer."""
        if self.n < ENOUGH:
            return {"cases": self.n}
        interval = {
            "low": self.interval[0],
            "high": self.interval[1],
            "confidence": 0.95,
            "method": "wilson",
        }
        return {"cases": self.n, "agreed": self.agreed, "share": self.share, "interval": interval}


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two people who answered the same cases; `one` is None for the reader."""

    one: str | None
    other: str
    agreement: Agreement


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """A case on which the judge says something else than the reader said first."""

    example: Example
    verdict: Value
    answer: Value


@dataclass(frozen=True, kw_only=True)
class Trust:
    """What the reader is told of a judge.

    Attributes:
        now: The newest verdicts against people's answers, on the cases that are held out.
        before: The verdicts of the empty memory on the same cases; None until it was taught, and of too few.
        waiting: While there is no figure, the cases that are held out and that the reader has not answered.
        reader_alone: Whether all these answers are the reader's.
        people: How far colleagues agree with the reader, those with the most common cases first.
        mistakes: Where the judge is wrong, of the cases that the reader has answered; the latest first.
    """

    now: Agreement
    before: Agreement | None
    waiting: int
    reader_alone: bool
    people: tuple[Pair, ...]
    mistakes: tuple[Mistake, ...]

    @property
    def missing(self) -> int:
        """How many more cases there must be before a figure is shown."""
        return max(0, ENOUGH - self.now.n)


@dataclass(frozen=True, kw_only=True)
class _Measured:
    """A case that is held out, with the answer that people gave it, and with two verdicts."""

    case_id: str
    answer: Value
    people: Mapping[str, Value | None]  # who gave it, each with what they say now
    verdict: Value
    version: int
    first: Value | None
    first_version: int | None


def trust_of(connection: Connection, judge: str, kind: ValueType, person: str) -> Trust:
    """What a person is told of a judge: nothing of a case that they have not answered."""
    cases = _measured(connection, judge, kind)
    now, before = _agreements(cases, kind)
    answered = exists().where(own_review(judge, person), reviews.c.state != "undone")
    waiting = select(func.count()).where(queue.c.judge == judge, queue.c.held_out == 1, ~answered)
    return Trust(
        now=now,
        before=before if before.n >= ENOUGH else None,
        waiting=connection.execute(waiting).scalar_one() if now.n < ENOUGH else 0,
        reader_alone=all({*case.people} == {person} for case in cases),
        people=_pairs(connection, judge, kind, person),
        mistakes=_mistakes(connection, judge, kind, person, cases),
    )


def is_measured(connection: Connection, judge: str, kind: ValueType) -> bool:
    """Whether enough cases that are held out have an answer for a figure."""
    return len(_measured(connection, judge, kind)) >= ENOUGH


def figures_of(connection: Connection, judge: str, kind: ValueType) -> dict[str, Any]:
    """The figures of a judge for a program or a report, as JSON has them."""
    now, before = _agreements(_measured(connection, judge, kind), kind)
    return {
        "judge": judge,
        "held_out_cases": {"now": now.figures(), "before_teaching": before.figures()},
    }


def _measured(connection: Connection, judge: str, kind: ValueType) -> list[_Measured]:
    """The latest cases that are held out and that people answered alike, the latest answer last.

    Where they differ, the answer counts that an owner settled on. As soon as enough cases have a verdict of the newest
    version, the others wait for theirs.
    """
    of_case = and_(queue.c.judge == judge, queue.c.case_id == reviews.c.case_id)
    blind = (
        reviews.c.judge == judge,
        reviews.c.state == "answered",
        reviews.c.blind_value.is_not(None),
    )
    unseen = (queue.c.held_out == 1, queue.c.seen == 0, queue.c.verdict.is_not(None))
    ids = (
        select(reviews.c.case_id)
        .join(queue, of_case)
        .where(*blind, *unseen)
        .order_by(reviews.c.created_at.desc())
    )
    latest = set[str]()
    with connection.execute(ids) as newest_first:
        for case_id in newest_first.scalars():
            latest.add(case_id)
            if len(latest) == LATEST:
                break
    columns = (
        queue.c.verdict,
        queue.c.version,
        queue.c.first_value,
        queue.c.first_version,
        queue.c.settled,
    )
    query = (
        select(reviews, *columns).join(queue, of_case).where(*blind, reviews.c.case_id.in_(latest))
    )
    by_case: dict[str, list[Any]] = defaultdict(list)
    for row in sorted(connection.execute(query), key=lambda row: str(row.created_at)):
        if row.settled is None or row.settled == row.person:
            by_case[row.case_id].append(row)
    cases = []
    for case_id, (row, *others) in by_case.items():
        try:
            verdict = kind.parse(row.verdict)
        except InvalidValue:  # of a judge that answered otherwise once
            continue
        if all(kind.agree(row.blind_value, other.blind_value) for other in others):
            cases.append(
                _Measured(
                    case_id=case_id,
                    answer=row.blind_value,
                    people={answer.person: answer.value for answer in (row, *others)},
                    verdict=verdict,
                    version=row.version,
                    first=row.first_value,
                    first_version=row.first_version,
                )
            )
    newest = max((case.version for case in cases), default=0)
    of_newest = [case for case in cases if case.version == newest]
    return of_newest if len(of_newest) >= ENOUGH else cases


def _agreements(cases: Sequence[_Measured], kind: ValueType) -> tuple[Agreement, Agreement]:
    """With the newest verdicts, and with those of the empty memory; none while the judge has learned nothing since."""
    firsts = [(case.first, case.answer) for case in cases if case.first is not None]
    untaught = all(case.version == case.first_version for case in cases)
    return _agreement([(case.verdict, case.answer) for case in cases], kind), _agreement(
        [] if untaught else firsts, kind
    )


def _agreement(pairs: Iterable[tuple[Value, Value]], kind: ValueType) -> Agreement:
    same = [kind.agree(one, other) for one, other in pairs]
    return Agreement(n=len(same), agreed=sum(same))


def _pairs(connection: Connection, judge: str, kind: ValueType, person: str) -> tuple[Pair, ...]:
    """The reader and each colleague, on the cases that both answered; for whoever answers none, the busiest of them."""
    if pairs := _pairs_of(connection, judge, kind, person):
        return tuple(replace(pair, one=None) for pair in pairs)
    answered = (
        select(reviews.c.person).where(reviews.c.judge == judge, VERDICT).group_by(reviews.c.person)
    )
    busiest = connection.execute(
        answered.order_by(func.count().desc(), reviews.c.person).limit(1)
    ).scalar()
    return _pairs_of(connection, judge, kind, busiest) if busiest else ()


def _pairs_of(connection: Connection, judge: str, kind: ValueType, person: str) -> tuple[Pair, ...]:
    answered = (reviews.c.judge == judge, VERDICT)
    latest = select(reviews.c.case_id, reviews.c.value).where(*answered, reviews.c.person == person)
    own = (
        latest.order_by(reviews.c.created_at.desc()).limit(_MOST).subquery()
    )  # the limit has it read first
    query = (
        select(reviews.c.person, own.c.value, reviews.c.value, func.count())
        .join(own, own.c.case_id == reviews.c.case_id)
        .where(*answered, reviews.c.person != person)
        .group_by(reviews.c.person, own.c.value, reviews.c.value)
    )
    common, agreed = Counter[str](), Counter[str]()
    for colleague, one, other, n in connection.execute(query):
        common[colleague] += n
        agreed[colleague] += n * kind.agree(one, other)
    pairs = ((name, Agreement(n=n, agreed=agreed[name])) for name, n in common.most_common(_SHOWN))
    return tuple(Pair(one=person, other=name, agreement=agreement) for name, agreement in pairs)


def _mistakes(
    connection: Connection, judge: str, kind: ValueType, person: str, cases: Sequence[_Measured]
) -> tuple[Mistake, ...]:
    """The latest cases on which the reader says something else than the judge, and said so before they saw it."""
    wrong = dict[str, _Measured]()
    for case in reversed(cases):
        now = case.people.get(person)
        if now is not None and not (
            kind.agree(case.verdict, case.answer) or kind.agree(case.verdict, now)
        ):
            wrong[case.case_id] = case
    latest = cases_of(connection, judge, list(wrong)[:_SHOWN])
    pairs = ((row.example, wrong[row.case_id]) for row in latest)
    return tuple(
        Mistake(example=example, verdict=case.verdict, answer=case.answer)
        for example, case in pairs
    )
