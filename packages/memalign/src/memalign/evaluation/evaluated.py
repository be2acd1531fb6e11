"""What an evaluation found: figures with intervals, every case, and where judge and people disagree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from memalign.metrics import Estimate
from memalign.types import Usage
from memalign.values import Value, value_text

__all__ = ["Disagreement", "Evaluation", "ScoredCase", "clusters", "same_value", "too_few_groups"]

FEWEST_GROUPS = 10
"""Groups from which on there is an interval: fewer do not show how far the cases of one go together."""

_TABLE_LABELS = 10  # more rows and columns than that are no table; to_dict has them all


def same_value(value: Value, label: Value) -> bool:
    """Whether a verdict is the people's label; white space around free text does not count."""
    if isinstance(value, str) and isinstance(label, str):
        return value.strip() == label.strip()
    return value == label


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoredCase:
    """One labelled case and the judge's verdict; `value` is None exactly when `error` says why there is none.

    `group` is what several cases share (a document, a question), or None. `calibrated` and `own` (the model's own verdict) are the judgment's.
    """

    id: str
    label: Value
    value: Value | None = None
    calibrated: Value | None = None
    own: Value | None = None
    error: str | None = None
    group: str | None = None

    @property
    def correct(self) -> bool | None:
        """Whether the verdict is the label; None when there is no verdict."""
        return None if self.value is None else same_value(self.value, self.label)


def clusters(cases: Sequence[ScoredCase]) -> list[str] | None:
    """The group of each case where some have one, a case without one standing alone; None when no case has one."""
    if not any(case.group for case in cases):
        return None
    return [f"group {case.group}" if case.group else f"case {case.id}" for case in cases]


def too_few_groups(groups: Sequence[str] | None) -> str | None:
    """Why these groups, one name a case, give no interval; None where they do, and without groups."""
    if groups is None or (count := len(set(groups))) >= FEWEST_GROUPS:
        return None
    return f"too few groups for an interval: {count}, and {FEWEST_GROUPS} are needed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Disagreement:
    """A case on which judge and people differ, with the reasons of both; `people` has the words by source."""

    id: str
    value: Value
    label: Value
    rationale: str | None
    people: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Agreement of one judge with people's labels.

    `n` cases have a label and a verdict, and every figure is over these. `unscored` cases have a label but no verdict
    (the call failed): they are not wrong. `unlabelled` ones have only comments and were not judged. `seen` of the n are
    in the judge's memory, by id or content: they say nothing about learning.

    `metrics` has, by value type: bool and choices: exact_match, balanced_accuracy, kappa; int: exact_match,
    weighted_kappa (quadratic), ccc, mae; float: ccc, mae; str: exact_match. Where the judge calibrates, exact_match_calibrated is that
    of the calibrated values and exact_match_own that of the model's own verdicts. Intervals are at 95 %, from whole groups
    where cases have a group; from fewer than ten groups there is none, and `no_interval` of the figure says so. `confusion` counts labels (rows: people, columns: judge) in the order of `labels`; both
    are empty for float and str. Shares are keyed by the label as files write it. `disagreements` are in the order of
    the cases, for numbers the furthest apart first.
    """

    judge: str
    value_type: str
    n: int
    unscored: int
    unlabelled: int
    seen: int
    metrics: dict[str, Estimate]
    labels: tuple[Value, ...]
    confusion: tuple[tuple[int, ...], ...]
    people_shares: dict[str, float]
    judge_shares: dict[str, float]
    disagreements: tuple[Disagreement, ...]
    usage: Usage
    model: str
    memory_hash: str
    cases: tuple[ScoredCase, ...]

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain JSON values."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain

    def __repr__(self) -> str:
        figures = ", ".join(f"{name.replace('_', ' ')} {found}" for name, found in self.metrics.items())
        return f"<Evaluation of {self.judge}: n = {self.n}, {figures}>"

    def _repr_html_(self) -> str:
        """The card of a notebook."""
        from memalign.notebook import card, facts, table

        figures = [[name.replace("_", " "), *_figures(found)] for name, found in self.metrics.items()]
        shares = [
            (name, f"{share:.0%}", f"{self.judge_shares[name]:.0%}") for name, share in self.people_shares.items()
        ]
        names = [value_text(label) for label in self.labels]
        counts = [(name, *row) for name, row in zip(names, self.confusion, strict=True)] if self.confusion else []
        differ = [
            (each.id, value_text(each.value), value_text(each.label), each.rationale) for each in self.disagreements
        ]
        left = {"without a verdict": self.unscored, "without a label": self.unlabelled, "in its memory": self.seen}
        small = len(names) <= _TABLE_LABELS
        return card(
            self.judge,
            f"{self.value_type}, {self.model}, n = {self.n}",
            facts([(name, count or None) for name, count in left.items()]),
            table(("agreement with people", "", "95 %"), figures),
            table(("label", "people", "judge"), shares) if small else "",
            table(("people \\ judge", *names), counts) if small else "",
            table(("id", "judge", "people", "the judge's reason"), differ, title="Disagreements"),
        )

    def __str__(self) -> str:
        total = self.n + self.unscored + self.unlabelled
        lines = [
            f"{self.judge} ({self.value_type}) on {self.model or 'a model that gave no verdict'}, memory {self.memory_hash[:12] or 'empty'}",
            f"n = {self.n} of {total} cases; {self.unscored} unscored (no verdict), {self.unlabelled} without a label",
        ]
        if self.seen:
            lines.append(f"{self.seen} of the {self.n} are in the judge's memory: they say nothing about learning")
        groups = clusters([case for case in self.cases if case.value is not None])
        if groups is not None:
            lines.append(too_few_groups(groups) or f"intervals are those of {len(set(groups))} groups of cases")
        lines += ["", *_table([[name.replace("_", " "), *_figures(found)] for name, found in self.metrics.items()])]
        if self.people_shares and len(self.people_shares) <= _TABLE_LABELS:
            shares = [[name, f"{share:.0%}", f"{self.judge_shares[name]:.0%}"]
                      for name, share in self.people_shares.items()]  # fmt: skip
            lines += ["", *_table([["label", "people", "judge"], *shares])]
        if self.confusion and len(self.labels) <= _TABLE_LABELS:
            names = [value_text(label) for label in self.labels]
            counts = [[name, *map(str, row)] for name, row in zip(names, self.confusion, strict=True)]
            lines += ["", *_table([["people \\ judge", *names], *counts])]
        return "\n".join(lines)


def _figures(found: Estimate) -> list[str]:
    if found.value is None:
        return ["n/a", ""]
    if found.no_interval:
        return [f"{found.value:.2f}", "no interval"]
    interval = "" if found.low is None or found.high is None else f"[{found.low:.2f}, {found.high:.2f}]"
    return [f"{found.value:.2f}", interval]


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Plain text, the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.rjust(width) if place else cell.ljust(width)
                  for place, (cell, width) in enumerate(zip(row, widths, strict=True))).rstrip()
        for row in rows
    ]  # fmt: skip
