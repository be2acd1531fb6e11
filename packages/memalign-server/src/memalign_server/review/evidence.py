"""What answers prove: agreement on cases that the judge had not learned from when people answered them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from memalign.evaluation import agreement_of_people
from memalign.metrics import Estimate, wilson_interval
from memalign.values import Value, ValueType
from memalign_server.store.columns import from_json
from memalign_server.store.tables import reviews

__all__ = ["ENOUGH", "Evidence", "evidence_of", "people_agreement"]

ENOUGH = 10
"""Cases from which on a figure is shown: fewer say nearly nothing."""


MOST = 1_000
"""Cases of which people's agreement is computed for a page."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """How often people agree with a judge on cases that it had not learned from, asked before they saw its verdict.

    Each answer tests the version of its moment. The unit is the case: two people's answers on one case say less than
    answers on two cases.

    Attributes:
        n: The cases.
        agreed: Their sum, each counted by the share of its answers that say what the judge said.
    """

    n: int
    agreed: float

    @property
    def missing(self) -> int:
        """How many more cases there must be before a figure is shown."""
        return max(0, ENOUGH - self.n)

    @property
    def share(self) -> Estimate:
        """The share of agreement with Wilson's interval."""
        low, high = wilson_interval(self.agreed, self.n) or (None, None)
        return Estimate(value=self.agreed / self.n if self.n else None, low=low, high=high)


def evidence_of(connection: Connection, judge: str, kind: ValueType) -> Evidence:
    """The evidence of a judge's blind answers."""
    facts = (reviews.c.case_id, reviews.c.blind_value, reviews.c.judge_value)
    query = select(*facts, func.count()).group_by(*facts)
    query = query.where(
        reviews.c.judge == judge,
        reviews.c.judge_version.is_not(None),
        reviews.c.blind_value.is_not(None),
        reviews.c.judge_value.is_not(None),
    )
    answers: Counter[str] = Counter()
    agreed: Counter[str] = Counter()
    for case_id, blind, verdict, n in connection.execute(query):
        answers[case_id] += n
        agreed[case_id] += n * kind.agree(from_json(verdict), from_json(blind))
    return Evidence(n=len(answers), agreed=sum(agreed[case_id] / n for case_id, n in answers.items()))


def people_agreement(connection: Connection, judge: str, kind: ValueType) -> tuple[float | None, int]:
    """Krippendorff's alpha of people against each other, and on how many cases that two or more answered.

    Of more than `MOST` such cases those with the last ids count.
    """
    said = (reviews.c.judge == judge, reviews.c.state == "answered", reviews.c.value.is_not(None))
    both = select(reviews.c.case_id).where(*said).group_by(reviews.c.case_id).having(func.count() > 1)
    both = both.order_by(reviews.c.case_id.desc()).limit(MOST)
    query = select(reviews.c.case_id, reviews.c.value).where(*said, reviews.c.case_id.in_(both))
    units: dict[str, list[Value]] = {}
    for case_id, value in connection.execute(query):
        units.setdefault(case_id, []).append(from_json(value))
    return (agreement_of_people(list(units.values()), kind) if kind.closed else None), len(units)
