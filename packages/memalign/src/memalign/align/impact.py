"""The impact of an align: which verdicts on taught cases it changed, and by which guideline. Only where it is asked for.

Each case is judged again before and after, with the case itself hidden: its label answers for nobody, and no judgment is
shown it. The guidelines stay, also those that its experts' words taught: what is shown is what they do.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Literal

from memalign import aio
from memalign.align.ask import PastCases, agrees, hiding
from memalign.align.result import Impact, VerdictChange
from memalign.judge import Judge, Progress
from memalign.judge.spec import lacks
from memalign.memory import Case
from memalign.types import Judgment, Usage

__all__ = ["impact"]


async def impact(
    before: Judge, after: Judge, count: int, *, progress: Progress | None = None
) -> tuple[Impact | None, Usage, tuple[str, ...]]:
    """What the align changed on taught cases.

    Args:
        before: The judge as it was given.
        after: The judge that is delivered: locked cases hold already.
        count: How many cases are judged again, at most: two judgments each.
        progress: Is told of each judgment.

    Returns:
        What changed, None where nothing did or there is no labelled case; what it cost; and a note on judgments that failed.
    """
    cases = _labelled(after)[:count]
    if not cases or before.memory.hash == after.memory.hash:
        return None, Usage(), ()
    started = time.perf_counter()
    past = PastCases(after, 2 * len(cases), progress, phase="impact")
    asked = [past.ask(hiding(judge, [case]), case, checks=True) for judge in (before, after) for case in cases]
    verdicts = await aio.together(asked)
    pairs = zip(cases, verdicts[: len(cases)], verdicts[len(cases) :], strict=True)
    judged = [(case, old.judgment, new.judgment) for case, old, new in pairs if old.judgment and new.judgment]
    changes = tuple(_change(before, after, *triple) for triple in judged if triple[1].value != triple[2].value)
    faults = Counter(verdict.fault for verdict in verdicts if verdict.fault is not None)
    notes = tuple(f"{number} of {len(asked)} judgments for the impact failed: {why}" for why, number in faults.items())
    usage = past.usage + Usage(seconds={"impact": time.perf_counter() - started})
    return Impact(checked=len(judged), changes=changes), usage, notes


def _labelled(judge: Judge) -> list[Case]:
    """The labelled cases, one a content, by hash: as good as drawn, and the same whatever came first."""
    labelled: dict[str, Case] = {}
    for case in judge.memory.cases:
        if judge.memory.label(case) is not None and lacks(judge, case.example.content, "the case") is None:
            labelled.setdefault(case.example.content_hash, case)
    return [labelled[content] for content in sorted(labelled)]


def _change(before: Judge, after: Judge, case: Case, old: Judgment, new: Judgment) -> VerdictChange:
    was_right, is_right = (agrees(after, case, judgment.value) for judgment in (old, new))
    effect: Literal["fixed", "broken", "moved"]
    effect = "moved" if was_right == is_right else "fixed" if is_right else "broken"
    known = {guideline.id for guideline in before.memory.guidelines}
    named = [
        finding.guideline
        for finding in new.findings
        if finding.guideline is not None and finding.guideline not in known and finding.value in (None, new.value)
    ]
    return VerdictChange(
        id=case.id,
        label=after.memory.label(case),
        before=old.value,
        after=new.value,
        effect=effect,
        guideline_ids=tuple(dict.fromkeys(named)),
    )
