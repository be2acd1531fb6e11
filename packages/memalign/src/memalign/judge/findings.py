"""The reason that adds up: what each finding, and what nobody taught, contributes to a verdict."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from memalign.judge.calibrator import Calibrated
from memalign.types import Finding, Judgment
from memalign.values import value_text

__all__ = ["finding_text", "reason", "weighed"]

replace = msgspec.structs.replace

LEAST = 0.05
"""A contribution below it is written as nothing, in words; JSON has every one."""


def weighed(findings: Sequence[Finding], calibrated: Calibrated) -> tuple[Finding, ...]:
    """The findings with what each contributes, and with what no expert taught, the weightiest first."""
    parts = dict(calibrated.parts)
    asking = {finding.check for finding in findings}  # a question is asked once, whoever asks it
    taught = [replace(finding, contribution=parts.get(finding.check)) for finding in findings]
    plain = [
        Finding(guideline=None, check=name, contribution=part)
        for name, part in calibrated.parts
        if name not in asking and part != 0.0
    ]
    return tuple(sorted((*taught, *plain), key=lambda finding: -abs(finding.contribution or 0.0)))


def finding_text(finding: Finding) -> str:
    """A finding in words: `G3 (t-3@ana): Is money promised? yes: +1.8`, or `the length: +0.4` where nobody taught it.

    Of a chat model's: `G3 (t-3@ana) applies, here: "a refund of $20"`.
    """
    who = f"{finding.guideline} ({', '.join(map(str, finding.taught_by)) or 'a person'})" if finding.guideline else ""
    if finding.guideline and not finding.check:
        return f"{who} applies" + (f', here: "{finding.evidence}"' if finding.evidence else "")
    who = f"{who}: " if who else ""
    answer = f" {finding.answer}" if finding.answer is not None else ""
    counts = "" if finding.contribution is None else f": {finding.contribution:+.1f}"
    return f"{who}{finding.check}{answer}{counts}"


def reason(judgment: Judgment) -> str | None:
    """The model's rationale; where the calibrator decided, what its verdict adds up from, and the model's own below."""
    if judgment.decided_by != "calibrator":
        return judgment.rationale
    counted = (each for each in judgment.findings if abs(each.contribution or 0.0) >= LEAST)
    added = "\n".join(map(finding_text, counted))
    own = f"\nThe model's own verdict: {value_text(judgment.own_value)}. {judgment.rationale or ''}".rstrip()
    return f"{added}{own}"
