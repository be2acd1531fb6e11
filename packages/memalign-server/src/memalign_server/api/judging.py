"""Judging: one case at once for applications, many as a job."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from memalign import Example, Judgment
from memalign_server.api import shapes
from memalign_server.api.beginning import Beginning
from memalign_server.api.judges import JudgeName, Version
from memalign_server.routing import guarded_router
from memalign_server.server import Here

__all__ = ["router"]

router: APIRouter = guarded_router(prefix="/judges/{judge}", tags=["judging"])


class ManyGiven(BaseModel):
    """Cases to judge: rows of an example's fields."""

    model_config = ConfigDict(extra="forbid")

    examples: shapes.Rows
    version: Annotated[int, Field(ge=1)] | None = None
    concurrency: Annotated[int, Field(ge=1, le=256)] | None = None
    max_cost: Annotated[float, Field(gt=0)] | None = None


@router.post("/judge")
async def judge_one(judge: JudgeName, given: shapes.Content, server: Here, version: Version = None) -> Judgment:
    """Judge one case now. A model that fails is a problem with its reason."""
    chosen = await asyncio.to_thread(server.registry.load, judge, version)
    fields = {name: value for name, value in given.model_dump().items() if value is not None}
    return await chosen.ajudge(Example(**{"id": "item"} | fields))


@router.post("/judgments", status_code=202)
def judge_many(judge: JudgeName, given: ManyGiven, begin: Beginning) -> shapes.JobShown:
    """Judge many cases as a job; its result has `judgments`, in the order of the cases."""
    return begin("judge", judge, given.model_dump())
