"""What answers prove: agreement on cases that the judge had not learned from when people answered them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from sqlalchemy import Connection, select

from memalign.metrics import Estimate, cohen_kappa, krippendorff_alpha, wilson_interval
from memalign.values import Value, ValueType
from memalign_server.store.columns import from_json
from memalign_server.store.review_tables import reviews

__all__ = ["ENOUGH", "Evidence", "VersionEvidence", "evidence_of", "people_agreement"]

ENOUGH = 10
"""Blind answers from which on a figure is shown: fewer say nearly nothing."""


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
    query = select(reviews.c.blind_value, reviews.c.judge_value, reviews.c.judge_version).where(
        reviews.c.judge == judge, reviews.c.judge_version.is_not(None), reviews.c.blind_value.is_not(None)
    )
    said: Counter[int] = Counter()
    agreed: Counter[int] = Counter()
    pairs: Counter[tuple[Value, Value]] = Counter()
    # Counted by text first: many answers are few different ones.
    for (blind, verdict, version), n in Counter(connection.execute(query)).items():
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
    """Krippendorff's alpha of people against each other, and the number of cases that two or more answered."""
    query = select(reviews.c.case_id, reviews.c.value).where(
        reviews.c.judge == judge, reviews.c.state == "answered", reviews.c.value.is_not(None)
    )
    units: dict[str, list[Value]] = {}
    for case_id, value in connection.execute(query):
        units.setdefault(case_id, []).append(from_json(value))
    several = [values for values in units.values() if len(values) > 1]
    level = "interval" if kind.numeric else "nominal"
    return (krippendorff_alpha(several, level=level) if kind.closed else None), len(several)  # type: ignore[arg-type]
