"""What answers prove: how often the judge agrees with people on the cases that are held out from teaching.

A case counts by the answers that were given before the judge's was in view. The verdict on it is the newest one, and
beside it what the judge had said while its memory was empty.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memalign.errors import InvalidValue
from memalign.metrics import wilson_interval
from memalign.types import Example
from memalign.values import Value, ValueType
from memalign_server.store import Transaction
from memalign_server.store.answers import AnsweredCase, agreements_with, blind_answers, busiest
from memalign_server.store.cases import cases_of, waiting_to_measure

ENOUGH = 10
"""Cases from which on a figure is shown: fewer say nearly nothing."""
LATEST = 200
"""Cases that are counted: as many as each new version judges again."""
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


def trust_of(connection: Transaction, judge: str, kind: ValueType, person: str) -> Trust:
    """What a person is told of a judge: nothing of a case that they have not answered."""
    cases = _measured(connection, judge, kind)
    now, before = _agreements(cases, kind)
    return Trust(
        now=now,
        before=before if before.n >= ENOUGH else None,
        waiting=waiting_to_measure(connection, judge, person) if now.n < ENOUGH else 0,
        reader_alone=all({*case.people} == {person} for case in cases),
        people=_pairs(connection, judge, kind, person),
        mistakes=_mistakes(connection, judge, kind, person, cases),
    )


def is_measured(connection: Transaction, judge: str, kind: ValueType) -> bool:
    """Whether enough cases that are held out have an answer for a figure."""
    return len(_measured(connection, judge, kind)) >= ENOUGH


def figures_of(connection: Transaction, judge: str, kind: ValueType) -> dict[str, Any]:
    """The figures of a judge for a program or a report, as JSON has them."""
    now, before = _agreements(_measured(connection, judge, kind), kind)
    return {
        "judge": judge,
        "held_out_cases": {"now": now.figures(), "before_teaching": before.figures()},
    }


def _measured(connection: Transaction, judge: str, kind: ValueType) -> list[_Measured]:
    """Return the latest cases that are held out and that people answered alike, the latest answer last.

    Where they differ, the answer counts that an owner settled on. As soon as enough cases have a verdict of the newest
    version, the others wait for theirs.
    """
    by_case: dict[str, list[AnsweredCase]] = defaultdict(list)
    for pair in blind_answers(connection, judge, most=LATEST):
        if pair.case.settled in (None, pair.answer.person):
            by_case[pair.case.case_id].append(pair)
    found = (_measured_case(pairs, kind) for pairs in by_case.values())
    cases = [case for case in found if case is not None]
    newest = max((case.version for case in cases), default=0)
    of_newest = [case for case in cases if case.version == newest]
    return of_newest if len(of_newest) >= ENOUGH else cases


def _measured_case(pairs: Sequence[AnsweredCase], kind: ValueType) -> _Measured | None:
    """Return a case with the answer that people gave it; None where they differ, or the verdict cannot be read."""
    case = pairs[0].case
    blind = [pair.answer.blind_value for pair in pairs if pair.answer.blind_value is not None]
    if not all(kind.agree(blind[0], other) for other in blind[1:]):
        return None
    try:
        verdict = kind.parse(case.verdict or "")
    except InvalidValue:  # of a judge that answered otherwise once
        return None
    return _Measured(
        case_id=case.case_id,
        answer=blind[0],
        people={pair.answer.person: pair.answer.value for pair in pairs},
        verdict=verdict,
        version=case.version or 0,
        first=case.first_value,
        first_version=case.first_version,
    )


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


def _pairs(connection: Transaction, judge: str, kind: ValueType, person: str) -> tuple[Pair, ...]:
    """Return the reader and each colleague, on the cases that both answered; else the busiest person with theirs."""
    pairs = _pairs_of(connection, judge, kind, person, one=None)
    if pairs:
        return pairs
    other = busiest(connection, judge)
    return _pairs_of(connection, judge, kind, other, one=other) if other else ()


def _pairs_of(
    connection: Transaction, judge: str, kind: ValueType, person: str, *, one: str | None
) -> tuple[Pair, ...]:
    counts = agreements_with(connection, judge, person, kind.agree)
    most_common = sorted(counts.items(), key=lambda item: -item[1][0])[:_SHOWN]
    return tuple(
        Pair(one=one, other=name, agreement=Agreement(n=n, agreed=agreed))
        for name, (n, agreed) in most_common
    )


def _mistakes(
    connection: Transaction, judge: str, kind: ValueType, person: str, cases: Sequence[_Measured]
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
