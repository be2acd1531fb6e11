"""A labelled case with the judge's verdict on it, and the groups that cases come in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memalign.values import Value

__all__ = ["ScoredCase", "clusters", "same_value", "too_few_groups"]

FEWEST_GROUPS = 10
"""Groups from which on there is an interval: fewer do not show how far the cases of one go together."""


def same_value(value: Value, label: Value) -> bool:
    """Whether a verdict is the people's label; white space around free text does not count."""
    if isinstance(value, str) and isinstance(label, str):
        return value.strip() == label.strip()
    return value == label


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoredCase:
    """One labelled case and the judge's verdict; `value` is None exactly when `error` says why there is none.

    Attributes:
        id: The example's id.
        label: The label that counts among people's, by the judge's label policy.
        value: The judge's verdict.
        own: The model's own verdict, where a calibrator decided.
        error: Why there is no verdict.
        group: What several cases share (a document, a customer), or None.
    """

    id: str
    label: Value
    value: Value | None = None
    own: Value | None = None
    error: str | None = None
    group: str | None = None

    @property
    def correct(self) -> bool | None:
        """Whether the verdict is the label; None when there is no verdict."""
        return None if self.value is None else same_value(self.value, self.label)


def clusters(cases: Sequence[ScoredCase]) -> list[str] | None:
    """The group of each case, a case without one being its own group; None when no case has a group."""
    if not any(case.group for case in cases):
        return None
    return [f"group {case.group}" if case.group else f"case {case.id}" for case in cases]


def too_few_groups(groups: Sequence[str] | None) -> str | None:
    """Why these groups, one name a case, give no interval; None where they do, and without groups."""
    if groups is None or (count := len(set(groups))) >= FEWEST_GROUPS:
        return None
    return f"too few groups for an interval: {count}, and {FEWEST_GROUPS} are needed"
