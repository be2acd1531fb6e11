"""What the tables hold, as frozen values: a row is read once, a misspelt column is a type error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeVar

from sqlalchemy import Row, Table

from memalign.types import Example, Judgment
from memalign.values import Value
from memalign_server.store.tables import now

__all__ = ["Answer", "Job", "Member", "QueuedCase", "read_row"]

AnswerState = Literal["answered", "skipped", "unclear", "undone"]
JobState = Literal["queued", "running", "done", "failed"]

_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class QueuedCase:
    """A case of a judge's queue, with what the judge said of it.

    Attributes:
        number: The order in which cases were put in.
        judge: The judge's name.
        case_id: The case's id.
        content_hash: The hash of what it holds.
        example: What it holds.
        judgment: The newest judgment; None until it is judged.
        version: The version of the judge that gave it.
        seen: Whether that version's memory held the case, under this id or another one.
        verdict: The judgment's value as files write it, cut where it is long.
        problem: Why the case could not be judged.
        held_out: Whether it was drawn by chance to measure the judge, and is never taught.
        answers: How many people have answered it as it is now.
        first_value: What the judge said while its memory was empty.
        first_version: The version that said so.
        disputed: Whether people answered it differently, and nothing is settled.
        settled: Whose answer holds; "" for nobody's, None where nothing is settled.
        settled_by: Who chose that.
    """

    number: int
    judge: str
    case_id: str
    content_hash: str
    example: Example
    judgment: Judgment | None
    version: int | None
    seen: bool
    verdict: str | None
    problem: str | None
    held_out: bool
    answers: int
    first_value: Value | None
    first_version: int | None
    disputed: bool
    settled: str | None
    settled_by: str | None

    def is_behind(self, version: int) -> bool:
        """Return whether an older version of the judge than this one gave the verdict."""
        return self.version is not None and self.version < version


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What one person said of a case.

    Attributes:
        judge: The judge's name.
        case_id: The case's id.
        content_hash: What the case held. A case with other content under the same id is another
            one, for which this answer does not count.
        person: Their name, which is the source of their feedback.
        state: Whether they answered, skipped or were not sure; `undone` without an answer by now.
        value: Their verdict now; None for words alone.
        rationale: Their words.
        blind_value: Their first answer, given before the judge's was shown.
        judge_value: What the judge said then.
        judge_version: The version that said so.
        revision: The number of answers so far; the newest is in force.
        draft: What is typed and not yet said: shown to nobody else, and never taught.
        draft_revision: The number of changes of the draft.
        draft_of: The revision of the answer over which the draft was typed.
        value_since: The revision that gave the verdict of now.
        overruled_by: Who put these words out of force; None where they are in force.
        overruled_for: Whose words hold instead; "" for nobody's.
        form: The form that gave the last answer: the same form saves once.
        taught: The revision that the judge was taught; 0 for none.
        kept_revision: The revision that they kept against a colleague's.
        created_at: When they came to the case, last time without an answer.
        updated_at: When they said it.
    """

    judge: str
    case_id: str
    content_hash: str
    person: str
    state: AnswerState = "undone"
    value: Value | None = None
    rationale: str | None = None
    blind_value: Value | None = None
    judge_value: Value | None = None
    judge_version: int | None = None
    revision: int = 0
    draft: str | None = None
    draft_revision: int = 0
    draft_of: int = 0
    value_since: int = 0
    overruled_by: str | None = None
    overruled_for: str | None = None
    form: str = ""
    taught: int = 0
    kept_revision: int = 0
    created_at: str = field(default_factory=now)
    updated_at: str = field(default_factory=now)

    @property
    def words(self) -> str:
        """Return the text for the field: the draft if there is one, otherwise the words."""
        return (self.rationale if self.draft is None else self.draft) or ""

    @property
    def is_kept(self) -> bool:
        """Return whether its person has seen a colleague's answer and keeps this one."""
        return 0 < self.kept_revision == self.revision

    @property
    def is_stale(self) -> bool:
        """Return whether this person has changed the verdict since the draft was written."""
        return self.draft is not None and self.draft_of < self.value_since


@dataclass(frozen=True, kw_only=True)
class Member:
    """A person of the team, without their secrets.

    Attributes:
        id: The id of their row.
        name: Their name, which is the source of their feedback.
        name_key: The name as it is compared.
        role: `owner` or `reviewer`.
        link_until: Until when a personal link waits to be used; None for none.
    """

    id: str
    name: str
    name_key: str
    role: str
    link_until: str | None


@dataclass(frozen=True, kw_only=True)
class Job:
    """Long work: how far it is, and what it gave. `done` of `total` steps of `phase` are finished.

    Reviewers see of a `result` only what gives away no verdict or answer on a case that may wait
    for them.
    """

    id: str
    kind: str
    judge: str
    state: JobState
    asked_by: str
    phase: str = ""
    done: int = 0
    total: int = 0
    problem: str | None = None
    created_at: str
    started_at: str | None = None
    ended_at: str | None = None
    result: Any = None

    @property
    def ended(self) -> bool:
        """Return whether the job is over."""
        return self.state in ("done", "failed")


def read_row(kind: type[_T], table: Table, row: Row[Any]) -> _T:
    """Return a row of a table as a value; the row may hold columns of other tables beside it."""
    columns: Mapping[Any, Any] = row._mapping  # SQLAlchemy's public name for it
    names = (one.name for one in fields(kind))  # type: ignore[arg-type]
    return kind(**{name: columns[table.c[name]] for name in names})
