"""The impact of an align, where it is asked for: which verdicts on taught cases it changed, and by which guideline.

Each case is judged again before and after, with the case itself hidden: its label answers for nobody, and no judgment
is shown it. The guidelines stay, also those that its experts' words taught: what is shown is what they do.
"""

from __future__ import annotations

import time
from collections import Counter

from memalign import aio
from memalign.align.ask import PastCases, agrees, hiding, labelled_cases
from memalign.align.result import Impact, VerdictChange
from memalign.judge import Judge, Progress
from memalign.memory import Case
from memalign.models.calls import Calls
from memalign.types import Judgment, Usage

__all__ = ["impact"]


async def impact(
    before: Judge, after: Judge, calls: Calls, count: int, *, progress: Progress | None = None
) -> tuple[Impact | None, Usage, tuple[str, ...]]:
    """What the align changed on taught cases.

    Args:
        before: The judge as it was given.
        after: The judge that is delivered: locked cases hold already.
        count: How many cases are judged again, at most: two judgments each.
        calls: Steers the calls of the align.
        progress: Is told of each judgment.

    Returns:
        What changed, None where nothing did or no case has a label; what it cost; a note on judgments that failed.
    """
    cases = labelled_cases(after)[:count]
    if not cases or before.memory.hash == after.memory.hash:
        return None, Usage(), ()
    started = time.perf_counter()
    past = PastCases(after, calls, 2 * len(cases), progress, phase="impact")
    pairs = [(hiding(judge, case), case) for judge in (before, after) for case in cases]
    judgments = await aio.together(past.counted_judgment(judge, case, checks=True) for judge, case in pairs)
    changes, checked = [], 0
    for case, old, new in zip(cases, judgments[: len(cases)], judgments[len(cases) :], strict=True):
        if isinstance(old, Judgment) and isinstance(new, Judgment):
            checked += 1
            changes += [_change(before, after, case, old, new)] if old.value != new.value else []
    faults = Counter(answer for answer in judgments if isinstance(answer, str))
    notes = tuple(f"{number} of {len(pairs)} judgments for the impact failed: {why}" for why, number in faults.items())
    usage = past.usage + Usage(seconds={"impact": time.perf_counter() - started})
    return Impact(checked=checked, changes=tuple(changes)), usage, notes


def _change(before: Judge, after: Judge, case: Case, old: Judgment, new: Judgment) -> VerdictChange:
    was_right, is_right = (agrees(after, case, judgment) for judgment in (old, new))
    earlier = {guideline.id for guideline in before.memory.guidelines}
    speaking = (finding.guideline for finding in new.findings if finding.value in (None, new.value))
    return VerdictChange(
        id=case.id,
        label=after.memory.label(case),
        before=old.value,
        after=new.value,
        effect="moved" if was_right == is_right else "fixed" if is_right else "broken",
        guideline_ids=tuple(dict.fromkeys(name for name in speaking if name is not None and name not in earlier)),
    )
