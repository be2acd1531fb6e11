"""What the API takes and gives; what is plain data of the library's own stands there as it is."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from memalign import Guideline
from memalign_server.people.roles import Role

__all__ = [
    "AlignAsked",
    "BundleGiven",
    "CheckGiven",
    "Content",
    "EraseAsked",
    "GuidelineChanged",
    "GuidelineGiven",
    "JobShown",
    "JudgeChanged",
    "JudgeGiven",
    "JudgeShown",
    "JudgeSummary",
    "LedgerShown",
    "LocksShown",
    "MeasureAsked",
    "RoleName",
    "Saved",
    "UnalignAsked",
    "VersionShown",
]

RoleName = Literal["viewer", "reviewer", "owner"]
assert {role.word for role in Role} == {"viewer", "reviewer", "owner"}  # noqa: S101  # the two must not part

Name = Annotated[str, Field(min_length=1, max_length=100, examples=["helpfulness"])]
Key = Annotated[str, Field(min_length=1, max_length=2000, examples=["t-17@ana"])]
Model = Annotated[str, Field(min_length=1, max_length=300, examples=["openai:gpt-4.1-mini"])]
Rows = Annotated[list[dict[str, Any]], Field(max_length=100_000)]


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Content(_Shape):
    """One case: at least one of its fields."""

    id: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    inputs: Any = None
    outputs: Any = None
    expectations: Any = None
    conversation: Any = None
    trace: Any = None
    meta: dict[str, Any] = Field(default_factory=dict)


class JudgeGiven(_Shape):
    """A new judge."""

    name: Name
    instructions: Annotated[str, Field(min_length=1, max_length=100_000, examples=["Is it polite? {{ outputs }}"])]
    value_type: Annotated[str, Field(min_length=1, max_length=1000, examples=["bool", "int:1..5", "A|B|tie"])]
    model: Model | None = None
    embedding_model: Model | None = None
    retrieval_k: Annotated[int, Field(ge=0, le=1000)] | None = None
    parameters: dict[str, Any] = Field(default_factory=dict)
    columns: dict[str, str] = Field(default_factory=dict)
    team: Annotated[str, Field(max_length=32)] | None = Field(None, description="Whose it is; your only team without.")


class JudgeChanged(_Shape):
    """Settings to change; those that are left out stay."""

    instructions: Annotated[str, Field(min_length=1, max_length=100_000)] | None = None
    model: Model | None = None
    embedding_model: Model | None = None
    retrieval_k: Annotated[int, Field(ge=0, le=1000)] | None = None
    parameters: dict[str, Any] | None = None
    columns: dict[str, str] | None = None
    authority: list[str] | None = None
    policy: list[Literal["authority", "majority", "recency"]] | None = None


class JudgeSummary(BaseModel):
    """One judge, in its latest version."""

    name: str
    team: str
    versions: int
    latest: int
    value_type: str
    model: str | None
    cases: int
    feedback: int
    guidelines: int
    pending: int
    updated_at: str


class PendingShown(BaseModel):
    """Feedback whose lesson waits."""

    key: str
    reason: str


class JudgeShown(BaseModel):
    """A judge's settings and what its memory holds."""

    name: str
    version: int
    instructions: str
    value_type: str
    model: str | None
    embedding_model: str | None
    retrieval_k: int | None
    parameters: dict[str, Any]
    columns: dict[str, str]
    policy: list[str]
    authority: list[str]
    locks: list[str]
    memory_hash: str
    cases: int
    feedback: int
    guidelines: list[Guideline]
    pending: list[PendingShown]
    stale_pre_alignment: list[str]


class Saved(BaseModel):
    """What a change made: the version now, and the one that it was made from; the same where nothing changed."""

    judge: str
    version: int
    parent: int


class VersionShown(BaseModel):
    """One version of a judge."""

    number: int
    parent: int | None
    action: str
    created_at: str
    summary: str
    note: str | None
    redacted: bool
    memory_hash: str
    cases: int
    feedback: int
    guidelines: int
    pending: int


class CheckGiven(_Shape):
    """A yes/no question about an item, what answer speaks for a label, and for which."""

    question: Annotated[str, Field(min_length=1, max_length=1000)]
    answer: Literal["yes", "no"] = "yes"
    value: Any = None


class GuidelineGiven(_Shape):
    """A guideline of your own words."""

    text: Annotated[str, Field(min_length=1, max_length=2000)]
    pinned: bool = False
    checks: list[CheckGiven] = Field(default_factory=list)


class GuidelineChanged(_Shape):
    """What to change; what is left out stays."""

    text: Annotated[str, Field(min_length=1, max_length=2000)] | None = None
    pinned: bool | None = None
    retired: bool | None = None
    checks: list[CheckGiven] | None = None


class LedgerShown(BaseModel):
    """Where one piece of feedback ended."""

    key: str
    state: str
    reason: str
    guideline_ids: list[str]


class LocksShown(BaseModel):
    """The ids of the cases that no later align may break."""

    version: int
    locks: list[str]


class AlignAsked(_Shape):
    """Feedback to learn: rows of an example's fields with `value`, `rationale` and `source`. None: what is pending.

    A row without a source is yours.
    """

    feedback: Rows = Field(default_factory=list)
    skip_invalid: bool = False
    allow_erased: bool = False
    reflection_model: Model | None = None
    max_cost: Annotated[float, Field(gt=0)] | None = None


class UnalignAsked(_Shape):
    """Feedback to forget: by case (`t-17`), by key (`t-17@ana`) or by source."""

    keys: list[Key] = Field(default_factory=list, max_length=10_000)
    source: Annotated[str, Field(min_length=1, max_length=500)] | None = None


class EraseAsked(UnalignAsked):
    """Feedback to erase from every version; `matching` all whose case or words hold a text. Of several, all must hold."""

    matching: Annotated[str, Field(min_length=1, max_length=2000)] | None = None


class MeasureAsked(_Shape):
    """Labelled cases: rows of an example's fields with `value` and `source`."""

    labelled: Rows
    version: Annotated[int, Field(ge=1)] | None = None


class JobShown(BaseModel):
    """Long work: how far it is, and what it gave.

    `state` is queued, running, done, failed or cancelled. `done` of `total` steps of `phase` are finished.
    """

    id: str
    kind: str
    judge: str
    state: Literal["queued", "running", "done", "failed", "cancelled"]
    asked_by: str
    phase: str
    done: int
    total: int
    result: Any
    problem: str | None
    created_at: str
    started_at: str | None
    ended_at: str | None


class BundleGiven(_Shape):
    """An exported judge."""

    bundle: dict[str, Any]
    name: Name | None = None
    team: Annotated[str, Field(max_length=32)] | None = None
    allow_erased: bool = False
