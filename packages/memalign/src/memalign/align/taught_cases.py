"""The cases that a judge was taught, and what judges say of them while their labels are hidden."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from memalign import aio
from memalign.align.run import AlignRun
from memalign.errors import AccessDenied, InputError, ModelError
from memalign.judge import Judge
from memalign.judge.spec import lacks
from memalign.judge.verdict import decide
from memalign.memory import Case
from memalign.models.judge_models import open_judging_model
from memalign.types import Judgment

__all__ = ["agrees", "judge_cases", "taught_cases"]


def taught_cases(judge: Judge) -> list[Case]:
    """Return the labelled cases, one for each content, in the order of content hashes: the same whatever came first."""
    labelled = dict[str, Case]()
    for case in judge.memory.cases:
        if (
            judge.memory.label(case) is not None
            and lacks(judge, case.example.content, "the case") is None
        ):
            labelled.setdefault(case.example.content_hash, case)
    return [labelled[content] for content in sorted(labelled)]


def agrees(judge: Judge, case: Case, judgment: Judgment) -> bool:
    """Return whether a judgment agrees with the experts' label."""
    label, value = judge.memory.label(case), judgment.value
    return label is not None and value is not None and judge.value_type.agree(label, value)


async def judge_cases(
    pairs: Sequence[tuple[Judge, Case]], run: AlignRun, phase: str
) -> list[Judgment | str]:
    """Return what judges of one model say of cases, or for each that failed the reason."""

    async def judged(pair: tuple[Judge, Case]) -> Judgment | str:
        judge, case = pair
        try:
            judgment = await decide(judge, case.example, run.calls, standing=False)
        except (ModelError, InputError, AccessDenied) as error:
            return run.failure(
                error
            )  # as text: judgments that are paid for already must not go with it
        run.spend(replace(judgment.usage, seconds={}))
        return judgment

    limit = run.calls.in_flight(open_judging_model(pairs[0][0])) if pairs else 1
    return await aio.at_most(limit, judged, pairs, partial(run.tell, phase))
