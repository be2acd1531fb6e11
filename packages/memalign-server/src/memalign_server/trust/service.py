"""What answers prove: how often the judge agrees with people on cases that never teach.

A case counts by the answers that were given before the judge's was in view. The verdict on it is
the newest one, and beside it what the judge had said while its memory was empty.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from memalign.errors import InvalidValue
from memalign.metrics import wilson_interval
from memalign.types import Example
from memalign.values import Value, ValueType
from memalign_server.store import Transaction
from memalign_server.store.answers import (
    AnsweredCase,
    agreements_with,
    blind_answers,
    busiest,
)
from memalign_server.store.cases import cases_of, waiting_to_measure

__all__ = [
    "ENOUGH",
    "LATEST",
    "Agreement",
    "Mistake",
    "Pair",
    "Trust",
    "figures_of",
    "is_measured",
    "trust_of",
]

ENOUGH: Final = 10
"""Cases from which on a figure is shown: fewer say nearly nothing."""
LATEST: Final = 200
"""Cases that are counted: as many as each new version judges again."""
_SHOWN: Final = 3
"""Mistakes that are shown, and pairs of people."""


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """How often two say the same.

    Attributes:
        n: The cases on which both said something.
        agreed: Those on which it was the same.
    """

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
        """Return the same as JSON values.

        Of too few cases it is only how many: a figure of one would tell a colleague's answer.
        """
        if self.n < ENOUGH:
            return {"cases": self.n}
        low, high = self.interval
        interval = {"low": low, "high": high, "confidence": 0.95, "method": "wilson"}
        return {
            "cases": self.n,
            "agreed": self.agreed,
            "share": self.share,
            "interval": interval,
        }


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
        before: The verdicts of the empty memory on the same cases; None until it was taught, and of
            too few.
        waiting: The held-out cases that the reader has not seen and nobody has answered blind; 0
            once there is a figure.
        reader_alone: Whether all these answers are the reader's.
        people: How far colleagues agree with the reader, those with the most common cases first.
        mistakes: Where the judge is wrong, of the reader's cases; the latest first.
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
    """A case that is held out, with the answer that people gave it, and with two verdicts.

    Attributes:
        case_id: The case.
        answer: What people said before they saw the judge's verdict.
        people: Who said so, each with what they say now.
        verdict: The newest verdict.
        version: The version of the judge that gave it.
        first: The verdict of the empty memory.
        first_version: The version that gave that.
    """

    case_id: str
    answer: Value
    people: Mapping[str, Value | None]
    verdict: Value
    version: int
    first: Value | None
    first_version: int | None


def trust_of(
    connection: Transaction, judge: str, kind: ValueType, person: str
) -> Trust:
    """Return what a person is told of a judge: nothing of a case that they have not answered."""
    cases = _measured(connection, judge, kind)
    now = _now(cases, kind)
    before = _before(cases, kind)
    return Trust(
        now=now,
        before=before if before.n >= ENOUGH else None,
        waiting=waiting_to_measure(connection, judge, person) if now.n < ENOUGH else 0,
        reader_alone=all({*case.people} == {person} for case in cases),
        people=_pairs(connection, judge, kind, person),
        mistakes=_mistakes(connection, judge, kind, person, cases),
    )


def is_measured(connection: Transaction, judge: str, kind: ValueType) -> bool:
    """Return whether enough cases that are held out have an answer for a figure."""
    return len(_measured(connection, judge, kind)) >= ENOUGH


def figures_of(connection: Transaction, judge: str, kind: ValueType) -> dict[str, Any]:
    """Return the figures of a judge for a program or a report, as JSON has them."""
    cases = _measured(connection, judge, kind)
    now = _now(cases, kind).figures()
    before = _before(cases, kind).figures()
    return {"judge": judge, "held_out_cases": {"now": now, "before_teaching": before}}


def _measured(connection: Transaction, judge: str, kind: ValueType) -> list[_Measured]:
    """Return the latest cases that are held out and that people answered alike, in order of time.

    Where people differ, the answer counts that an owner settled on. As soon as enough cases have a
    verdict of the newest version, the others wait for theirs.
    """
    by_case = defaultdict[str, list[AnsweredCase]](list)
    for pair in blind_answers(connection, judge, most=LATEST):
        if pair.case.settled in (None, pair.answer.person):
            by_case[pair.case.case_id].append(pair)
    cases = []
    for pairs in by_case.values():
        case = _measured_case(pairs, kind)
        if case is not None:
            cases.append(case)
    newest = max((case.version for case in cases), default=0)
    of_newest = [case for case in cases if case.version == newest]
    return of_newest if len(of_newest) >= ENOUGH else cases


def _measured_case(pairs: Sequence[AnsweredCase], kind: ValueType) -> _Measured | None:
    """Return a case with the answer that people gave it.

    It is None if they differ, or if the verdict of a judge of another type cannot be read.
    """
    case = pairs[0].case
    blind = []
    for pair in pairs:
        if pair.answer.blind_value is not None:
            blind.append(pair.answer.blind_value)
    if not all(kind.agree(blind[0], other) for other in blind[1:]):
        return None
    try:
        verdict = kind.parse(case.verdict or "")
    except InvalidValue:
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


def _now(cases: Iterable[_Measured], kind: ValueType) -> Agreement:
    """Return how far the newest verdicts agree with people."""
    return _agreement([(case.verdict, case.answer) for case in cases], kind)


def _before(cases: Sequence[_Measured], kind: ValueType) -> Agreement:
    """Return how far the verdicts of the empty memory agree; of none if it has learned nothing."""
    if all(case.version == case.first_version for case in cases):
        return Agreement(n=0, agreed=0)
    firsts = [(case.first, case.answer) for case in cases if case.first is not None]
    return _agreement(firsts, kind)


def _agreement(pairs: Sequence[tuple[Value, Value]], kind: ValueType) -> Agreement:
    agreed = sum(kind.agree(one, other) for one, other in pairs)
    return Agreement(n=len(pairs), agreed=agreed)


def _pairs(
    connection: Transaction, judge: str, kind: ValueType, person: str
) -> tuple[Pair, ...]:
    """Return the reader with each colleague; for who answers nothing, the busiest with theirs."""
    pairs = _pairs_of(connection, judge, kind, person, one=None)
    if pairs:
        return pairs
    other = busiest(connection, judge)
    return _pairs_of(connection, judge, kind, other, one=other) if other else ()


def _pairs_of(
    connection: Transaction,
    judge: str,
    kind: ValueType,
    person: str,
    *,
    one: str | None,
) -> tuple[Pair, ...]:
    """Return a person with those who answered the most of the same cases."""
    counts = agreements_with(connection, judge, person, kind.agree)
    most_common = sorted(counts.items(), key=lambda count: count[1][0], reverse=True)
    pairs = []
    for other, (n, agreed) in most_common[:_SHOWN]:
        pairs.append(
            Pair(one=one, other=other, agreement=Agreement(n=n, agreed=agreed))
        )
    return tuple(pairs)


def _mistakes(
    connection: Transaction,
    judge: str,
    kind: ValueType,
    person: str,
    cases: Sequence[_Measured],
) -> tuple[Mistake, ...]:
    """Return the latest cases on which the judge contradicts the reader, blind and now."""
    wrong = {}
    for case in reversed(cases):
        own = case.people.get(person)
        if own is None or kind.agree(case.verdict, own):
            continue
        if not kind.agree(case.verdict, case.answer):
            wrong[case.case_id] = case
    mistakes = []
    for queued in cases_of(connection, judge, list(wrong)[:_SHOWN]):
        case = wrong[queued.case_id]
        mistake = Mistake(
            example=queued.example, verdict=case.verdict, answer=case.answer
        )
        mistakes.append(mistake)
    return tuple(mistakes)
