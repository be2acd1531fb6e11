"""Measuring a judge on labelled cases, and choosing what to label next: jobs too."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from memalign_server.api import shapes
from memalign_server.api.beginning import Beginning
from memalign_server.api.judges import JudgeName
from memalign_server.problems import Problem
from memalign_server.routing import guarded_router

__all__ = ["router"]

router: APIRouter = guarded_router(prefix="/judges/{judge}", tags=["measuring"])

_Version = Annotated[int, Field(ge=1, le=2**31 - 1)]


class LabelledGiven(BaseModel):
    """Labelled cases: rows of an example's fields with `value` and `source`."""

    model_config = ConfigDict(extra="forbid")

    labelled: shapes.Rows
    version: _Version | None = None


class EvaluateAsked(LabelledGiven):
    """Labelled cases: rows of an example's fields with `value` and `source`."""

    max_cost: Annotated[float, Field(gt=0)] | None = None


class GateAsked(LabelledGiven):
    """Labelled cases, and what the judge must reach on them."""

    minimum: dict[str, float] = Field(default_factory=dict, examples=[{"kappa": 0.6}])
    not_worse_than: Annotated[float, Field(ge=0, le=100, description="Points.")] | None = None
    baseline: _Version | None = None


class NextAsked(BaseModel):
    """Cases that nobody has labelled: rows of an example's fields."""

    model_config = ConfigDict(extra="forbid")

    cases: shapes.Rows
    n: Annotated[int, Field(ge=1, le=1000)] = 5
    version: _Version | None = None
    max_cost: Annotated[float, Field(gt=0)] | None = None


@router.post("/evaluate", status_code=202)
def evaluate_judge(judge: JudgeName, given: EvaluateAsked, begin: Beginning) -> shapes.JobShown:
    """Measure how far the judge agrees with people's labels, with 95 % intervals."""
    return begin("evaluate", judge, given.model_dump())


@router.post("/gate", status_code=202)
def gate_judge(judge: JudgeName, given: GateAsked, begin: Beginning) -> shapes.JobShown:
    """Decide whether a judge is good enough; the result's `outcome` is pass, regression or inconclusive."""
    if not given.minimum and given.not_worse_than is None:
        raise Problem(422, "say what it must reach: `minimum`, or `not_worse_than` with a `baseline`")
    if (given.not_worse_than is None) != (given.baseline is None):
        raise Problem(422, "`not_worse_than` and `baseline` go together")
    return begin("gate", judge, given.model_dump())


@router.post("/report", status_code=202)
def report_judge(judge: JudgeName, given: LabelledGiven, begin: Beginning) -> shapes.JobShown:
    """Gather the evidence on cases that the judge has not learned from: data, a page, and text."""
    return begin("report", judge, given.model_dump())


@router.post("/next", status_code=202)
def next_cases(judge: JudgeName, given: NextAsked, begin: Beginning) -> shapes.JobShown:
    """Name the cases that experts should label next, and why."""
    return begin("next", judge, given.model_dump())
