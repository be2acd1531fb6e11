"""How useful an expert's answer on a case would be, and why."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

import msgspec

from memalign.evaluation.label_next import silence
from memalign.memory.retrieval import RELEVANT
from memalign.types import Judgment

__all__ = ["Code", "Reason", "usefulness"]

Code = Literal["no judgment", "no check", "unsure", "two verdicts", "unlike", "new guideline"]

STANDS_OUT = 0.5


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that speaks for asking an expert: its code, how strongly (0 to 1), and a figure or a name."""

    code: Code
    degree: float
    detail: str = ""


def usefulness(
    judgment: Judgment | None, *, likeness: float | None, new_guidelines: Collection[str] = ()
) -> tuple[float, tuple[Reason, ...]]:
    """A rank from 0 to 1, the most useful first, and the reasons that stand out, the strongest first.

    The rank is the mean of five degrees: no check speaks; the calibrator decides another verdict than the model; the verdict is unsure;
    memory has nothing alike (`likeness` is the cosine of the nearest case, None without one); a guideline that this
    version learned spoke. A case without a judgment ranks 0.5.
    """
    if judgment is None or judgment.error is not None:
        return 0.5, (Reason(code="no judgment", degree=0.5),)
    fresh = [each.guideline for each in judgment.findings if each.guideline in new_guidelines and each.answer != "n/a"]
    unlike = 1.0 if likeness is None else min(1.0, max(0.0, (1 - likeness) / (1 - RELEVANT) / 2))
    confidence = judgment.confidence
    two = judgment.decided_by == "calibrator" and judgment.own_value != judgment.value
    reasons = [
        Reason(code="no check", degree=silence(judgment)),
        Reason(code="two verdicts", degree=float(two)),
        Reason(
            code="unsure",
            degree=0.0 if confidence is None else min(1.0, 2 * (1 - confidence)),
            detail="" if confidence is None else f"{confidence:.0%}",
        ),
        Reason(code="unlike", degree=unlike),
        Reason(code="new guideline", degree=float(bool(fresh)), detail=fresh[0] or "" if fresh else ""),
    ]
    named = sorted((each for each in reasons if each.degree >= STANDS_OUT), key=lambda each: -each.degree)
    return sum(each.degree for each in reasons) / len(reasons), tuple(named)
