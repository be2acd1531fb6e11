"""The cases that a judge was taught, and what judges say of them while their labels are hidden."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from memalign import aio
from memalign.align.run import AlignRun
from memalign.errors import AccessDenied, InputError, ModelError
from memalign.judge import Judge, task_of
from memalign.judge.verdict import decide
from memalign.memory import Case
from memalign.models.judge_models import open_judging_model
from memalign.types import Judgment

__all__ = ["agrees", "judge_hidden", "taught_cases"]


def taught_cases(judge: Judge) -> list[Case]:
    """Return the labelled cases that the judge can be asked about, one for each content.

    They are in the order of content hashes, which does not depend on what was taught first.
    """
    memory = judge.memory
    task = task_of(judge)
    taught: dict[str, Case] = {}
    for case in memory.cases:
        example = case.example
        if memory.label(case) is None:
            continue
        if task.lacks(example.content, "the case") is None:
            taught.setdefault(example.content_hash, case)
    contents = sorted(taught)
    return [taught[content] for content in contents]


def agrees(judge: Judge, case: Case, judgment: Judgment) -> bool:
    """Return whether a judgment agrees with the experts' label."""
    label = judge.memory.label(case)
    if label is None or judgment.value is None:
        return False
    return judge.value_type.agree(label, judgment.value)


async def judge_hidden(
    pairs: Sequence[tuple[Judge, Case]], run: AlignRun, phase: str
) -> list[Judgment | str]:
    """Ask judges of one model about cases that are hidden from them.

    Args:
        pairs: The judges and the cases.
        run: Counts what the judgments cost.
        phase: The name of this step, for the progress.

    Returns:
        The judgments in the order of the pairs. For one that failed, the reason: judgments that are
        paid for already must not be lost with it.
    """

    async def judged(pair: tuple[Judge, Case]) -> Judgment | str:
        judge, case = pair
        example = case.example
        try:
            hidden = judge.without_case(example)
            task = task_of(hidden)
            judgment = await decide(
                task, hidden.memory, example, run.calls, standing=False
            )
        except (ModelError, InputError, AccessDenied) as error:
            return run.failure(error)
        run.spend(replace(judgment.usage, seconds={}))
        return judgment

    if not pairs:
        return []
    model = open_judging_model(pairs[0][0])
    limit = run.calls.in_flight(model)
    return await aio.at_most(limit, judged, pairs, partial(run.tell, phase))
