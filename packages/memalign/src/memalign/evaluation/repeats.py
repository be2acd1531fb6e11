"""How often verdicts turn when a judge is asked again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from memalign.evaluation.cases import Cases, ScoredCase, same_value, with_verdict
from memalign.evaluation.intervals import estimate_mean, share_interval
from memalign.metrics import Estimate
from memalign.types import Example, Judgment, Usage

__all__ = ["Repeated", "repeated"]

_SAMPLE = 20  # cases that are judged again


@dataclass(frozen=True, kw_only=True)
class Repeated:
    """How often a judge changes its verdict when it is asked again, on a sample of cases.

    Attributes:
        times: How often each case was judged, the first time included.
        n: Cases that were judged so often.
        turned: Those whose verdicts were not all the same.
        share: Their share, with its interval at 95 %.
        stopped: Why other cases of the sample were not judged again; empty where all were.
    """

    times: int
    n: int
    turned: int
    share: Estimate
    stopped: str = ""


async def repeated(
    cases: Cases,
    examples: Sequence[Example],
    times: int,
    ask: Callable[[Sequence[Example]], Awaitable[Sequence[Judgment]]],
) -> tuple[Repeated, Usage]:
    """Judge a sample again, without answers that are kept, and compare the verdicts.

    Args:
        cases: Cases with the first verdicts.
        examples: Their content.
        times: How often each case is judged, the first time included.
        ask: Judges examples.

    Returns:
        How often verdicts turned, and what the calls came to.
    """
    scored = {case.id: case for case in with_verdict(cases)}
    drawn = [example for example in examples if example.id in scored]
    drawn.sort(key=lambda example: example.content_hash)
    sample = drawn[:_SAMPLE]
    again: dict[str, list[Judgment]] = {example.id: [] for example in sample}
    usage = Usage()
    for _ in range(times - 1):
        for judgment in await ask(sample):
            usage += judgment.usage
            again[judgment.id].append(judgment)
    turned = []
    stopped = ""
    for name, judgments in again.items():
        failed = [one.error or "" for one in judgments if one.value is None]
        if failed:
            stopped = stopped or failed[0]
        else:
            turned.append(_turns(scored[name], judgments))
    result = Repeated(
        times=times,
        n=len(turned),
        turned=sum(turned),
        share=estimate_mean(turned, None, share_interval),
        stopped=stopped,
    )
    return result, usage


def _turns(first: ScoredCase, judgments: Iterable[Judgment]) -> bool:
    """Return whether a later verdict is another one than the first."""
    turns = False
    for judgment in judgments:
        if judgment.value is not None and first.value is not None:
            turns |= not same_value(judgment.value, first.value, first.tolerance)
    return turns
