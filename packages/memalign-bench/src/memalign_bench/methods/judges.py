"""Judges of memalign as methods: zero-shot, few-shot, and memalign whole and in parts."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from memalign.align import MemAlign
from memalign.align.pipeline import STAGES, default_stages
from memalign.judge import Judge
from memalign.models.base import Limits
from memalign.prompts import prompts_hash
from memalign.types import Feedback, Usage
from memalign.values import ValueType
from memalign_bench.memo import ANSWER, Memo
from memalign_bench.methods.base import Fitted, Setting, Verdict
from memalign_bench.raw import Fit, View
from memalign_bench.tasks import Case

__all__ = ["JUDGES", "JudgeMethod"]

replace = msgspec.structs.replace


def _everything(cases: Sequence[Case], k: int) -> Sequence[Case]:
    del k
    return cases


def _nothing(cases: Sequence[Case], k: int) -> Sequence[Case]:
    del cases, k
    return ()


def _balanced(cases: Sequence[Case], k: int) -> Sequence[Case]:
    """The first `k` cases, one of each label in turn: a fixed few-shot prompt, as people write them by hand."""
    by_label: dict[object, list[Case]] = {}
    for case in cases:
        by_label.setdefault(case.label, []).append(case)
    turns = max((len(group) for group in by_label.values()), default=0)
    drawn = [group[turn] for turn in range(turns) for group in by_label.values() if turn < len(group)]
    return drawn[:k]


def _whole(row: Feedback) -> Feedback | None:
    return row


def _label_only(row: Feedback) -> Feedback | None:
    return replace(row, rationale=None) if row.value is not None else None


def _comment_only(row: Feedback) -> Feedback | None:
    return replace(row, value=None) if (row.rationale or "").strip() else None


def _no_stages(limits: Limits) -> frozenset[str]:
    del limits
    return frozenset()


def _without(stage: str) -> Callable[[Limits], frozenset[str]]:
    return lambda limits: default_stages(limits) - {stage}


def _all_stages(limits: Limits) -> frozenset[str]:
    """Also what the model does not do by default."""
    del limits
    return STAGES


def _fitting(parameters: tuple[tuple[str, Any], ...], value_type: ValueType) -> dict[str, Any]:
    """The parameters that a judge of this type takes."""
    needed = {"calibrate": ("bool", "choice"), "verdict": ("bool", "choice", "int", "float")}
    return {name: value for name, value in parameters if value_type.kind in needed[name]}


@dataclass(frozen=True, kw_only=True)
class JudgeMethod:
    """A judge aligned with some stages on some of the feedback, showing `k` cases (None: as the judge itself has it).

    `parameters` are the judge's; with `calibrate` among them its verdict is the calibrated value, where there is one.
    """

    name: str
    stages: Callable[[Limits], frozenset[str]] = _no_stages
    k: int | None = None
    chosen: Callable[[Sequence[Case], int], Sequence[Case]] = _everything
    said: Callable[[Feedback], Feedback | None] = _whole
    parameters: tuple[tuple[str, Any], ...] = ()
    views: frozenset[View] = frozenset({"unseen", "seen", "left-out"})

    async def learn(self, setting: Setting, train: Sequence[Case], before: Fitted | None) -> Fitted:
        """The judge aligned on `train`: what `before` has learned already costs nothing again."""
        task, model = setting.task, setting.model
        judge = Judge(name=task.name, instructions=task.instructions, feedback_value_type=task.value_type, model=model)
        given = _fitting(self.parameters, task.value_type)
        if self.k is not None:
            judge = judge.replace(retrieval_k=self.k)
        if self.chosen is _everything and isinstance(before, _FittedJudge):
            judge = before.judge_.replace(parameters={})  # it learns more, instead of anew
        chosen = self.chosen(train, model.limits.examples)
        rows = [kept for case in chosen for row in case.feedback if (kept := self.said(replace(row, meta={})))]
        started = time.perf_counter()
        if isinstance(model, Memo):
            model.take()
        counts: dict[str, int] = {}
        usage = Usage()
        if rows:
            result = await MemAlign(stages=self.stages(model.limits), seed=setting.seed).align(judge, rows)
            judge, usage = result.judge, result.usage
            states = [entry.state for entry in judge.memory.ledger()]
            counts = {state: states.count(state) for state in sorted(set(states))}
            counts |= {"guidelines": len(judge.memory.semantic), "cases": len(judge.memory.cases)}
        # Only now: what it learns from, its own first verdicts among it, is the same whatever way it judges later.
        judge = judge.replace(parameters=given)
        seconds = time.perf_counter() - started
        if isinstance(model, Memo):
            usage, remembered = model.take()
            # As if nothing had been remembered: remembered calls would have shared the model's slots.
            seconds += remembered / model.limits.concurrency
        fit = Fit(
            # The wording of the prompts is no part of a judge, but it decides its verdicts.
            id=f"{judge.fingerprint[:12]}-{prompts_hash()[:6]}",
            calls=usage.calls,
            tokens_in=usage.input_tokens,
            cached=usage.cached_tokens,
            tokens_out=usage.output_tokens,
            cost=usage.cost,
            seconds=round(seconds, 2),
            counts=counts,
        )
        return _FittedJudge(judge_=judge, fit=fit, calibrated=bool(given.get("calibrate")))


@dataclass(frozen=True, kw_only=True)
class _FittedJudge:
    judge_: Judge
    fit: Fit
    calibrated: bool  # asked for by the method: some judges have a calibrated value beside every verdict unasked

    async def judge(self, case: Case, view: View) -> Verdict:
        """The verdict; for `left-out` by a judge from whose memory the case, and all exposed to it, is hidden."""
        judge = self.judge_
        if view == "left-out":
            judge = judge.replace(memory=judge.memory.hiding([case.id]))
        judgment = (await judge.ajudge_many([case.example], concurrency=1))[0]
        seconds = judgment.usage.seconds
        usage = replace(judgment.usage, seconds={"model": seconds.get(ANSWER, seconds.get("model", 0.0))})
        calibrated = judgment.calibrated_value if self.calibrated else None
        return Verdict(value=judgment.value if calibrated is None else calibrated, usage=usage, error=judgment.error)

    async def close(self) -> None:
        """Nothing is held."""


DIRECT, CALIBRATED = (("verdict", "direct"),), (("calibrate", True),)
OWN = (("calibrate", False),)  # parts of memalign are measured by the model's own verdict

JUDGES = {
    method.name: method
    for method in (
        # Taught none of the cases: a judge without memory. To it all cases are unmet: one view of a case says it all.
        JudgeMethod(name="zero-shot", chosen=_nothing, views=frozenset({"unseen", "seen"})),
        JudgeMethod(name="zero-shot-direct", chosen=_nothing, parameters=DIRECT, views=frozenset({"unseen", "seen"})),
        JudgeMethod(name="static", chosen=_balanced, parameters=OWN),
        JudgeMethod(name="nearest", parameters=OWN),
        JudgeMethod(name="nearest-1", k=1, parameters=OWN),
        JudgeMethod(name="nearest-5", k=5, parameters=OWN),
        JudgeMethod(name="nearest-labels", said=_label_only, parameters=OWN),
        JudgeMethod(name="guidelines", stages=default_stages, k=0, parameters=OWN),
        *(
            JudgeMethod(
                name=f"guidelines-without-{stage.replace('_', '-')}", stages=_without(stage), k=0, parameters=OWN
            )
            for stage in sorted(STAGES - {"distil"})
        ),
        JudgeMethod(name="examples", stages=_without("distil"), parameters=OWN),
        JudgeMethod(name="memalign", stages=default_stages),
        JudgeMethod(name="memalign-direct", stages=default_stages, parameters=DIRECT),
        JudgeMethod(name="memalign-calibrated", stages=default_stages, parameters=CALIBRATED),
        JudgeMethod(name="memalign-all-stages", stages=_all_stages),
        JudgeMethod(name="memalign-labels", stages=default_stages, said=_label_only),
        JudgeMethod(name="memalign-comments", stages=default_stages, said=_comment_only),
        *(
            JudgeMethod(name=f"memalign-without-{stage.replace('_', '-')}", stages=_without(stage))
            for stage in sorted(STAGES)
        ),
    )
}
"""`nearest` shows the nearest cases, without pre-alignment verdicts and guidelines; `examples` the misjudged of them first."""
