"""Learning and forgetting: each a job that is followed until it has ended."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict

from memalign.align import MemAlign
from memalign.evaluation import review_feedback
from memalign.types import Usage, as_json
from memalign_server.api import shapes
from memalign_server.api.beginning import Beginning
from memalign_server.api.judges import JudgeName, loaded
from memalign_server.people.roles import Person
from memalign_server.problems import Problem
from memalign_server.routing import guarded_router
from memalign_server.server import Asking, Here, Owning

__all__ = ["router"]

router: APIRouter = guarded_router(prefix="/judges/{judge}", tags=["learning"])


class CheckAsked(BaseModel):
    """Feedback to look at: rows of an example's fields with `value`, `rationale` and `source`; one without a source is yours."""

    model_config = ConfigDict(extra="forbid")

    feedback: shapes.Rows


class ReceiptGiven(BaseModel):
    """A receipt, as the job that erased gave it."""

    model_config = ConfigDict(extra="forbid")

    receipt: dict[str, Any]


class VerificationShown(BaseModel):
    """What a receipt is worth: it `holds` where it was signed here and nothing that was erased is back.

    `unchanged` says that the judge is as it was then; `back` names what is there again, with the version and why.
    """

    holds: bool
    judge: str
    genuine: bool
    unchanged: bool
    versions: int
    back: list[tuple[str, int, str]]


def _feedback(given: shapes.AlignAsked | CheckAsked, person: Person, *, owner: bool) -> list[dict[str, Any]]:
    """The rows; one without a source is of whoever sends it.

    Raises Problem 403 for a row of somebody else's, unless an owner hands it in: it would replace what they said.
    """
    rows = [row if row.get("source") else {**row, "source": person.name} for row in given.feedback]
    if not owner and (others := {str(row["source"])[:100] for row in rows if row["source"] != person.name}):
        raise Problem(403, f"a reviewer speaks as {person.name!r} alone; feedback of {min(others)!r} needs an owner")
    return rows


@router.post("/align", status_code=202)
def align_judge(
    judge: JudgeName, given: shapes.AlignAsked, begin: Beginning, person: Asking, owner: Owning
) -> shapes.JobShown:
    """Learn from experts' feedback: a new version. A row of a known id and source replaces the earlier one."""
    arguments = {**given.model_dump(exclude={"feedback"}), "feedback": _feedback(given, person, owner=owner)}
    return begin("align", judge, arguments)


@router.post("/estimate")
def estimate_align(judge: JudgeName, given: shapes.AlignAsked, server: Here, person: Asking, owner: Owning) -> Usage:
    """About how many calls, tokens and dollars an align would take. No model is asked."""
    optimizer = MemAlign(reflection_model=given.reflection_model, max_cost=given.max_cost)
    return server.registry.estimate(
        judge,
        _feedback(given, person, owner=owner),
        optimizer=optimizer,
        skip_invalid=given.skip_invalid,
        allow_erased=given.allow_erased,
    )


@router.post("/check")
def check_feedback(judge: JudgeName, given: CheckAsked, server: Here, person: Asking, owner: Owning) -> dict[str, Any]:
    """Look at feedback before aligning: labels, sources, duplicates, conflicts, bias. No model is called."""
    chosen = loaded(server, judge, None)[0]
    rows = _feedback(given, person, owner=owner)
    return dict(as_json(review_feedback(rows, chosen.value_type, chosen).to_dict()))


@router.post("/unalign", status_code=202)
def unalign_judge(
    judge: JudgeName, given: shapes.UnalignAsked, begin: Beginning, person: Asking, owner: Owning
) -> shapes.JobShown:
    """Forget feedback from the next version on; older versions keep it. A reviewer gives their own name as `source`."""
    if not owner and given.source != person.name:
        raise Problem(403, f"a reviewer withdraws their own feedback: give `source` as {person.name!r}")
    return begin("unalign", judge, given.model_dump())


@router.post("/erase", status_code=202)
def erase_by_api(judge: JudgeName, given: shapes.EraseAsked, begin: Beginning) -> shapes.JobShown:
    """Take feedback out of every version, for good; the job's result is the signed receipt."""
    return begin("erase", judge, given.model_dump())


@router.post("/erase/preview")
def preview_erase(judge: JudgeName, given: shapes.EraseAsked, server: Here) -> dict[str, Any]:
    """What an erasure would take out. Nothing is changed."""
    receipt = server.registry.erase(
        judge, tuple(given.keys), source=given.source, matching=given.matching, dry_run=True
    )
    return receipt.to_dict()


@router.post("/verify")
def verify_receipt(judge: JudgeName, given: ReceiptGiven, server: Here) -> VerificationShown:
    """Check the receipt of an erasure of this judge's: that it was signed here, and that nothing has come back."""
    if given.receipt.get("judge") != judge:
        raise Problem(422, f"this is no receipt of {judge!r}")
    found = server.registry.verify(given.receipt)
    return VerificationShown(holds=found.holds, **as_json(found))
