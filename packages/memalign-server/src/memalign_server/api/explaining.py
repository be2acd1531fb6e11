"""Explaining a judgment: what it was made of, and the very prompt."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from memalign import Example, Judge, Judgment
from memalign.judge.explaining import explain
from memalign.registry import judged_by
from memalign.types import as_json
from memalign_server.api import shapes
from memalign_server.api.judges import JudgeName, loaded
from memalign_server.problems import Problem
from memalign_server.review.blind import hidden_from
from memalign_server.review.cases import case_of
from memalign_server.routing import guarded_router
from memalign_server.server import Blind, Here, Owning, Server

__all__ = ["router"]

router: APIRouter = guarded_router(prefix="/judges/{judge}", tags=["judging"])


class ExplainAsked(BaseModel):
    """A `case` of the review, or an `example` and the `judgment` on it.

    Its version is the one given, that of the `signature` (a job that judged has it as `judge`), or the newest with the
    judgment's memory.
    """

    model_config = ConfigDict(extra="forbid")

    case: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    example: shapes.Content | None = None
    judgment: dict[str, Any] | None = None
    signature: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    version: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None


class Explained(BaseModel):
    """What a judgment was made of: the guidelines and cases in its prompt, and the prompt as it was sent.

    `same_prompt` is false where the judge then read more of a trace.
    """

    judge: str
    version: int
    id: str
    judgment: Judgment
    guidelines: list[dict[str, Any]]
    examples: list[dict[str, Any]]
    same_prompt: bool
    prompt: dict[str, Any]
    swapped_prompt: dict[str, Any] | None = None


@router.post("/explain")
async def explain_judgment(
    judge: JudgeName, given: ExplainAsked, server: Here, blind: Blind, owner: Owning
) -> Explained:
    """Show the very prompt of one judgment, byte for byte, its guidelines and its cases. No judge model is asked.

    A reviewer answers the cases in it first: they are shown with what people said of them.
    """
    example, judgment, version, chosen = await asyncio.to_thread(_asked, server, judge, given)
    if not owner:
        await asyncio.to_thread(_check_blind, server, judge, blind, [example.id, *judgment.example_ids])
    told = await explain(chosen, example, judgment)
    return Explained(judge=judge, version=version, id=example.id, **as_json(told) | {"judgment": told["judgment"]})


def _asked(server: Server, judge: str, given: ExplainAsked) -> tuple[Example, Judgment, int, Judge]:
    if given.case is not None and given.example is None and given.judgment is None:
        with server.store.read() as connection:
            kept = case_of(connection, judge, given.case)
        if kept is None or kept.judgment is None or kept.version is None:
            raise Problem(404, f"no verdict is kept on case {given.case!r}")
        return kept.example, kept.judgment, kept.version, loaded(server, judge, kept.version)[0]
    if given.case is not None or given.example is None or given.judgment is None:
        raise Problem(422, "give a `case` of the review, or an `example` and its `judgment`")
    judgment = Judgment.from_dict({"id": given.example.id or "item", **given.judgment})
    fields = {name: value for name, value in given.example.model_dump().items() if value is not None}
    example = Example(**{"id": judgment.id} | fields)
    if given.signature is not None:
        version, chosen = judged_by(server.registry, judge, given.signature, given.version)
        return example, judgment, version, chosen
    numbers = [each.number for each in server.registry.history(judge) if each.memory_hash == judgment.memory_hash]
    if not numbers or given.version not in (None, *numbers):
        raise Problem(422, "no such version has the memory that this judgment was made with")
    version = given.version or numbers[-1]
    return example, judgment, version, loaded(server, judge, version)[0]


def _check_blind(server: Server, judge: str, blind: str | None, ids: list[str]) -> None:
    with server.store.read() as connection:
        hidden = hidden_from(connection, judge, blind, ids)
    if hidden:
        raise Problem(
            409, f"answer case {min(hidden)!r} first: what people and the judge say of it is hidden until then"
        )
