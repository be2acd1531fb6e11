"""What answers prove: agreement on cases that the judge had not learned from when people answered them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Connection, func, select

from memalign.metrics import Estimate, cohen_kappa, krippendorff_alpha, wilson_interval
from memalign.values import Value, ValueType
from memalign_server.store.columns import from_json
from memalign_server.store.review_tables import reviews

__all__ = ["ENOUGH", "Evidence", "VersionEvidence", "evidence_of", "people_agreement"]

ENOUGH = 10
"""Blind answers from which on a figure is shown: fewer say nearly nothing."""


MOST = 1_000
"""Cases of which people's agreement is computed for a page."""


@dataclass(frozen=True, kw_only=True)
class VersionEvidence:
    """How often people agreed with one version, on cases that they answered before they saw its verdict."""

    version: int
    n: int
    agreed: int

    @property
    def share(self) -> Estimate:
        """The share of agreement with Wilson's interval."""
        low, high = wilson_interval(self.agreed, self.n) or (None, None)
        return Estimate(value=self.agreed / self.n if self.n else None, low=low, high=high)


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """All blind answers of a judge: by version, together, and which labels were taken for which.

    Each answer tests the version of its moment, which had not learned from it. `pairs` counts (people's label, judge's).
    """

    versions: tuple[VersionEvidence, ...]
    pairs: tuple[tuple[tuple[Value, Value], int], ...]
    kappa: float | None

    @property
    def n(self) -> int:
        """Blind answers on judged cases."""
        return sum(each.n for each in self.versions)

    @property
    def agreed(self) -> int:
        """Those that say what the judge said."""
        return sum(each.agreed for each in self.versions)

    @property
    def missing(self) -> int:
        """How many more answers there must be before a figure is shown."""
        return max(0, ENOUGH - self.n)

    @property
    def share(self) -> Estimate:
        """Agreement over all versions."""
        return VersionEvidence(version=0, n=self.n, agreed=self.agreed).share


def evidence_of(connection: Connection, judge: str, kind: ValueType) -> Evidence:
    """The evidence of a judge's blind answers."""
    facts = (reviews.c.blind_value, reviews.c.judge_value, reviews.c.judge_version)
    query = select(*facts, func.count()).group_by(*facts)
    query = query.where(
        reviews.c.judge == judge, reviews.c.judge_version.is_not(None), reviews.c.blind_value.is_not(None)
    )
    said: Counter[int] = Counter()
    agreed: Counter[int] = Counter()
    pairs: Counter[tuple[Value, Value]] = Counter()
    for blind, verdict, version, n in connection.execute(query):
        label, value = from_json(blind), from_json(verdict)
        if label is None or value is None:
            continue
        said[version] += n
        agreed[version] += n * kind.agree(value, label)
        pairs[label, value] += n
    versions = tuple(VersionEvidence(version=v, n=said[v], agreed=agreed[v]) for v in sorted(said))
    both = [pair for pair, n in pairs.items() for _ in range(n)]
    kappa = None
    if both and not kind.numeric and kind.closed:
        kappa = cohen_kappa([value for _, value in both], [label for label, _ in both])
    return Evidence(versions=versions, pairs=tuple(pairs.items()), kappa=kappa)


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
    level: Literal["interval", "nominal"] = "interval" if kind.numeric else "nominal"
    return (krippendorff_alpha(list(units.values()), level=level) if kind.closed else None), len(units)
