"""What answers prove: how often the judge agrees with people on the cases that are held out from teaching.

A case counts by the answers that were given before the judge's was in view. The verdict on it is the newest one, and
beside it what the judge had said while its memory was empty.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from sqlalchemy import Connection, and_, exists, func, select

from memalign.errors import InvalidValue
from memalign.evaluation import agreement_of_people
from memalign.metrics import ccc, cohen_kappa, wilson_interval
from memalign.types import Example
from memalign.values import Value, ValueType
from memalign_server.review.answers import VERDICT
from memalign_server.review.cases import cases_of, own_review
from memalign_server.store.tables import from_json, queue, reviews

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

    @cached_property
    def interval(self) -> tuple[float, float]:
        """Wilson's interval of the share, at 95 %, as in the library's reports."""
        return wilson_interval(self.agreed, self.n) or (0.0, 1.0)


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
        people: Who agrees with whom, those with the most common cases first.
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
    now = _agreement(((case.verdict, case.answer) for case in cases), kind)
    before = _agreement(_firsts(cases), kind)
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
    """All figures of a judge for a program or a report, as JSON has them."""
    cases = _measured(connection, judge, kind)
    alpha, common = _people_agreement(connection, judge, kind)
    return {
        "judge": judge,
        "held_out_cases": {
            "now": _figures([(case.verdict, case.answer) for case in cases], kind),
            "before_teaching": _figures(_firsts(cases), kind),
        },
        "people": {"krippendorff_alpha": alpha, "cases_that_several_answered": common},
    }


def _measured(connection: Connection, judge: str, kind: ValueType) -> list[_Measured]:
    """The latest cases that are held out and that people answered alike, the latest answer last.

    Where they differ, the answer counts that an owner settled on. As soon as enough cases have a verdict of the newest
    version, the others wait for theirs.
    """
    of_case = and_(queue.c.judge == judge, queue.c.case_id == reviews.c.case_id)
    blind = (reviews.c.judge == judge, reviews.c.state == "answered", reviews.c.blind_value.is_not(None))
    unseen = (queue.c.held_out == 1, queue.c.seen == 0, queue.c.verdict.is_not(None))
    ids = select(reviews.c.case_id).join(queue, of_case).where(*blind, *unseen).order_by(reviews.c.created_at.desc())
    latest = set[str]()
    with connection.execute(ids) as newest_first:
        for case_id in newest_first.scalars():
            latest.add(case_id)
            if len(latest) == LATEST:
                break
    columns = (queue.c.verdict, queue.c.version, queue.c.first_value, queue.c.first_version, queue.c.settled)
    query = select(reviews, *columns).join(queue, of_case).where(*blind, reviews.c.case_id.in_(latest))
    by_case: dict[str, list[Any]] = defaultdict(list)
    for row in sorted(connection.execute(query), key=lambda row: str(row.created_at)):
        if row.settled is None or row.settled == row.person:
            by_case[row.case_id].append(row)
    cases = []
    for case_id, rows in by_case.items():
        first, *others = (_value(row.blind_value) for row in rows)
        verdict = _parsed(kind, rows[0].verdict)
        if verdict is None or not all(kind.agree(first, other) for other in others):
            continue
        cases.append(
            _Measured(
                case_id=case_id,
                answer=first,
                people={row.person: _value(row.value) for row in rows},
                verdict=verdict,
                version=rows[0].version,
                first=_value(rows[0].first_value),
                first_version=rows[0].first_version,
            )
        )
    newest = max((case.version for case in cases), default=0)
    of_newest = [case for case in cases if case.version == newest]
    return of_newest if len(of_newest) >= ENOUGH else cases


@lru_cache(maxsize=1_000)
def _value(text: str | None) -> Any:
    """A column's value, as `from_json` has it; the same few are decoded again and again."""
    return from_json(text)


def _parsed(kind: ValueType, text: str) -> Value | None:
    try:
        return kind.parse(text)
    except InvalidValue:  # of a judge that answered otherwise once
        return None


def _agreement(pairs: Iterable[tuple[Value, Value]], kind: ValueType) -> Agreement:
    same = [kind.agree(one, other) for one, other in pairs]
    return Agreement(n=len(same), agreed=sum(same))


def _firsts(cases: Sequence[_Measured]) -> list[tuple[Value, Value]]:
    """The verdicts of the empty memory with people's answers; none while the judge has learned nothing since."""
    if all(case.version == case.first_version for case in cases):
        return []
    return [(case.first, case.answer) for case in cases if case.first is not None]


def _figures(pairs: Sequence[tuple[Value, Value]], kind: ValueType) -> dict[str, Any]:
    agreement = _agreement(pairs, kind)
    if agreement.n < ENOUGH:  # a figure of one case would tell a colleague's answer
        return {"cases": agreement.n}
    low, high = agreement.interval
    one, other = zip(*pairs, strict=True)
    kappa = (ccc if kind.numeric else cohen_kappa)(one, other) if kind.closed else None
    interval = {"low": low, "high": high, "confidence": 0.95, "method": "wilson"}
    shares = {"cases": agreement.n, "agreed": agreement.agreed, "share": agreement.share, "interval": interval}
    return {**shares, "cohen_kappa": kappa}


def _pairs(connection: Connection, judge: str, kind: ValueType, person: str) -> tuple[Pair, ...]:
    """The reader and each colleague, on the cases that both answered; for whoever answers none, the busiest of them."""
    if pairs := _pairs_of(connection, judge, kind, person):
        return tuple(replace(pair, one=None) for pair in pairs)
    answered = (reviews.c.judge == judge, reviews.c.state == "answered")
    busiest = select(reviews.c.person).where(*answered).group_by(reviews.c.person)
    name = connection.execute(busiest.order_by(func.count().desc(), reviews.c.person).limit(1)).scalar()
    return _pairs_of(connection, judge, kind, name) if name else ()


def _pairs_of(connection: Connection, judge: str, kind: ValueType, person: str) -> tuple[Pair, ...]:
    answered = (reviews.c.judge == judge, VERDICT)
    latest = select(reviews.c.case_id, reviews.c.value).where(*answered, reviews.c.person == person)
    own = latest.order_by(reviews.c.created_at.desc()).limit(_MOST).subquery()  # the limit has it read first
    query = (
        select(reviews.c.person, own.c.value, reviews.c.value, func.count())
        .join(own, own.c.case_id == reviews.c.case_id)
        .where(*answered, reviews.c.person != person)
        .group_by(reviews.c.person, own.c.value, reviews.c.value)
    )
    common, agreed = Counter[str](), Counter[str]()
    for colleague, one, other, n in connection.execute(query):
        common[colleague] += n
        agreed[colleague] += n * kind.agree(_value(one), _value(other))
    pairs = ((name, Agreement(n=n, agreed=agreed[name])) for name, n in common.most_common(_SHOWN))
    return tuple(Pair(one=person, other=name, agreement=agreement) for name, agreement in pairs)


def _mistakes(
    connection: Connection, judge: str, kind: ValueType, person: str, cases: Sequence[_Measured]
) -> tuple[Mistake, ...]:
    """The latest cases on which the reader says something else than the judge, and said so before they saw it."""
    wrong = dict[str, _Measured]()
    for case in reversed(cases):
        now = case.people.get(person)
        if now is not None and not (kind.agree(case.verdict, case.answer) or kind.agree(case.verdict, now)):
            wrong[case.case_id] = case
    latest = cases_of(connection, judge, list(wrong)[:_SHOWN])
    pairs = ((row.example, wrong[row.example.id]) for row in latest)
    return tuple(Mistake(example=example, verdict=case.verdict, answer=case.answer) for example, case in pairs)


def _people_agreement(connection: Connection, judge: str, kind: ValueType) -> tuple[float | None, int]:
    """Krippendorff's alpha of people against each other, and on how many cases that two or more answered."""
    answered = (reviews.c.judge == judge, VERDICT)
    common = select(reviews.c.case_id).where(*answered).group_by(reviews.c.case_id).having(func.count() > 1)
    common = common.order_by(func.max(reviews.c.created_at).desc()).limit(_MOST)
    query = select(reviews.c.case_id, reviews.c.value).where(*answered, reviews.c.case_id.in_(common))
    units: dict[str, list[Value]] = defaultdict(list)
    for case_id, value in connection.execute(query):
        units[case_id].append(_value(value))
    enough = kind.closed and len(units) >= ENOUGH
    return (agreement_of_people(list(units.values()), kind) if enough else None), len(units)
