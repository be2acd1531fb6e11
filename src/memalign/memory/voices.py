"""Several people on one case: which label counts.

The policy is authority, then majority, then recency, then the canonical order of sources, so that the answer never
depends on the order in which voices arrived.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from memalign.values import Value

__all__ = ["LabelledVoice", "policy_label"]


class LabelledVoice(Protocol):
    """What the policy needs of a voice; Feedback and Voice both have it."""

    @property
    def source(self) -> str:
        """Who speaks."""

    @property
    def value(self) -> Value | None:
        """Their label, if they gave one."""

    @property
    def created_at(self) -> str | None:
        """When, as ISO 8601 in UTC."""


def policy_label(voices: Sequence[LabelledVoice], authority: Sequence[str] = ()) -> Value | None:
    """The effective label of one case, or None when nobody gave one.

    The first source of `authority` that labelled the case decides. Otherwise the most frequent label; between equally
    frequent ones the label given last (a voice without a time counts as the oldest).
    """
    labelled = [voice for voice in voices if voice.value is not None]
    if not labelled:
        return None
    for source in authority:
        spoken = [voice for voice in labelled if voice.source == source]
        if spoken:
            return max(spoken, key=_recency).value
    # A bool and an int of equal value never meet in one judge, so counting by equality is safe.
    counts = Counter(voice.value for voice in labelled)
    top = max(counts.values())
    leading = [voice for voice in labelled if voice.value is not None and counts[voice.value] == top]
    return max(leading, key=_recency).value


def _recency(voice: LabelledVoice) -> tuple[str, str, str]:
    # created_at is normalised to UTC ISO 8601 by Feedback, so text order is time order.
    return (voice.created_at or "", voice.source, str(voice.value))
