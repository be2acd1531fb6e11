"""How useful an expert's answer on a case would be."""

from __future__ import annotations

from collections.abc import Collection

from memalign.evaluation.label_next import silence
from memalign.memory.retrieval import RELEVANT
from memalign.types import Judgment

__all__ = ["UNKNOWN", "usefulness"]

UNKNOWN = 0.5
"""The rank of a case without a judgment."""


def usefulness(judgment: Judgment, *, likeness: float | None, new_guidelines: Collection[str] = ()) -> float:
    """A rank from 0 to 1, the most useful first: the mean of five degrees.

    No check speaks; the calibrator decides another verdict than the model; the verdict is unsure; memory has nothing
    alike; a guideline that this version learned spoke.

    Args:
        judgment: The judgment on the case.
        likeness: The cosine of the nearest case of the memory; None without one.
        new_guidelines: The guidelines that this version learned.
    """
    fresh = any(finding.guideline in new_guidelines and finding.answer != "n/a" for finding in judgment.findings)
    two_verdicts = judgment.decided_by == "calibrator" and judgment.own_value != judgment.value
    unsure = 0.0 if judgment.confidence is None else min(1.0, 2 * (1 - judgment.confidence))
    unlike = 1.0 if likeness is None else min(1.0, max(0.0, (1 - likeness) / (1 - RELEVANT) / 2))
    return (silence(judgment) + two_verdicts + unsure + unlike + fresh) / 5
