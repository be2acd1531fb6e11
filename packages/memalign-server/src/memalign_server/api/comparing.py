"""Setting judges, models or runs beside each other; each a job."""

from __future__ import annotations

from typing import Annotated, Any

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
_Concurrency = Annotated[int, Field(ge=1, le=256)]


class ReplayAsked(BaseModel):
    """The other model, and cases with labels or without; none: the labelled cases in memory, each hidden.

    `adopt` makes the judge on that model the next version, where every case was judged.
    """

    model_config = ConfigDict(extra="forbid")

    model: shapes.Model
    cases: shapes.Rows = Field(default_factory=list)
    version: _Version | None = None
    adopt: bool = False
    concurrency: _Concurrency | None = None


class RunGiven(BaseModel):
    """What a job that judged gave: `judge` is the signature of the judge, `judgments` are its verdicts."""

    model_config = ConfigDict(extra="forbid")

    judge: Annotated[str, Field(min_length=1, max_length=500)]
    judgments: shapes.Rows


class DriftAsked(BaseModel):
    """Two runs of one version on different items; with what was judged in both, their likeness to memory is compared too."""

    model_config = ConfigDict(extra="forbid")

    first: RunGiven
    second: RunGiven
    first_examples: shapes.Rows = Field(default_factory=list)
    second_examples: shapes.Rows = Field(default_factory=list)
    false_alarms: Annotated[float, Field(gt=0, lt=1)] = 0.05
    n: Annotated[int, Field(ge=0, le=1000)] = 5
    version: _Version | None = None


@router.post("/replay", status_code=202)
def replay_judge(judge: JudgeName, given: ReplayAsked, begin: Beginning) -> shapes.JobShown:
    """Show which verdicts another model would turn, and whether it agrees better with people."""
    if given.adopt and given.version is not None:
        raise Problem(422, "`adopt` goes on from the latest version: leave `version` out")
    return begin("replay", judge, given.model_dump())


@router.post("/drift", status_code=202)
def detect_drift(judge: JudgeName, given: DriftAsked, begin: Beginning) -> shapes.JobShown:
    """Tell whether two runs differ by more than chance. No model is called."""
    if bool(given.first_examples) != bool(given.second_examples):
        raise Problem(422, "give the examples of both runs, or of none")
    arguments: dict[str, Any] = given.model_dump()
    return begin("drift", judge, arguments)
