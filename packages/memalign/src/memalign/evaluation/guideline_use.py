"""What each guideline did on labelled cases: which way its checks pulled, and which verdicts turned by it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from memalign.evaluation.evaluated import Evaluation, ScoredCase
from memalign.evaluation.report_parts import GuidelineUse
from memalign.judge.findings import LEAST
from memalign.types import Guideline, Judgment
from memalign.values import Value, ValueType

if TYPE_CHECKING:
    from memalign.judge import Judge

__all__ = ["guideline_uses"]


def guideline_uses(
    judge: Judge, evaluation: Evaluation, judgments: Mapping[str, Judgment], zero_shot: Evaluation | None
) -> tuple[GuidelineUse, ...]:
    """What each guideline in force did on the cases; `judgments` are theirs by id. See `GuidelineUse`."""
    kind, before = judge.value_type, _right(judge.value_type, zero_shot)
    spoke: dict[str, Counter[str]] = {}
    turned: dict[str, dict[str, list[str]]] = {}
    for case in evaluation.cases:
        if case.value is None:
            continue
        pulls = _pulls(judgments[case.id], spoke)
        for guideline, pull in pulls.items():
            if abs(pull) >= LEAST:
                spoke[guideline]["right" if _towards(kind, case, pull) else "wrong"] += 1
        was, now = before.get(case.id), kind.agree(case.value, case.label)
        if pulls and was is not None and was != now:
            weightiest = max(pulls, key=lambda name: abs(pulls[name]))
            if abs(pulls[weightiest]) >= LEAST:
                kinds = turned.setdefault(weightiest, {})
                kinds.setdefault("fixed" if now else "broken", []).append(case.id)

    def use(guideline: Guideline) -> GuidelineUse:
        counts, cases = spoke.get(guideline.id, Counter()), turned.get(guideline.id, {})
        return GuidelineUse(
            id=guideline.id,
            text=guideline.text,
            taught_by=tuple(map(str, judge.memory.sources_of(guideline))),
            yes=counts["yes"],
            no=counts["no"],
            right=counts["right"],
            wrong=counts["wrong"],
            fixed=tuple(cases.get("fixed", ())),
            broken=tuple(cases.get("broken", ())),
        )

    return tuple(map(use, judge.memory.semantic))


def _right(kind: ValueType, found: Evaluation | None) -> dict[str, bool]:
    """Of each case with a verdict whether it says the same as people; of `float` a score near theirs does."""
    cases = () if found is None else found.cases
    return {case.id: kind.agree(case.value, case.label) for case in cases if case.value is not None}


def _pulls(judgment: Judgment, spoke: dict[str, Counter[str]]) -> dict[str, float]:
    """What each guideline contributes to the verdict; its answers are counted in `spoke`."""
    pulls: dict[str, float] = {}
    for finding in judgment.findings:
        if finding.guideline is None:
            continue
        counts = spoke.setdefault(finding.guideline, Counter())
        if finding.answer in ("yes", "no"):
            counts[finding.answer] += 1
        pulls[finding.guideline] = pulls.get(finding.guideline, 0.0) + (finding.contribution or 0.0)
    return pulls


def _towards(kind: ValueType, case: ScoredCase, pull: float) -> bool:
    """Whether the pull is towards people's label: of `float`, whether without it the score would be further away."""
    said: Value | None = case.value if case.calibrated is None else case.calibrated  # contributions add up to this one
    if said is None:
        return False
    if kind.kind == "float":
        return abs(float(said) - pull - float(case.label)) > abs(float(said) - float(case.label))
    return (pull > 0) == kind.agree(said, case.label)
