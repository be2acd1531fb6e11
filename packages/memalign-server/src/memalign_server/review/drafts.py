"""Drafts: words that a person has typed on a case and has not yet given to an answer.

They are saved while they are typed, so that no button, closed window or dead connection can lose them. Nobody else sees
them, and no judge learns them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, and_, insert, select, update

from memalign_server.problems import Refused
from memalign_server.store.columns import now
from memalign_server.store.tables import drafts, reviews

__all__ = ["DRAFT_LENGTH", "Draft", "draft_of", "drafts_of", "end_draft", "save_draft"]

DRAFT_LENGTH = 100_000
"""Characters of a draft: ten times what an answer holds, so that too much can be typed, read about and shortened."""


@dataclass(frozen=True, kw_only=True)
class Draft:
    """What a person has typed on a case.

    Attributes:
        words: The text, empty where the person deleted it all; None where nothing waits.
        revision: How often it was changed; 0 where nobody has typed.
    """

    words: str | None = None
    revision: int = 0


def draft_of(connection: Connection, judge: str, person: str, case_id: str) -> Draft:
    """What a person has typed on a case."""
    query = select(drafts.c.words, drafts.c.revision).where(_key(drafts, judge, person, case_id))
    row = connection.execute(query).one_or_none()
    return Draft() if row is None else Draft(words=row.words, revision=row.revision)


def drafts_of(connection: Connection, judge: str, person: str) -> dict[str, Draft]:
    """Everything that a person has typed and not yet given to an answer, by the case's id."""
    query = select(drafts).where(drafts.c.judge == judge, drafts.c.person == person, drafts.c.words.is_not(None))
    return {row.case_id: Draft(words=row.words, revision=row.revision) for row in connection.execute(query)}


def save_draft(connection: Connection, judge: str, person: str, case_id: str, words: str, *, revision: int) -> Draft:
    """Keep all that is in the field of a case, which was filled with the draft of a `revision`; returns the new draft.

    Words that were typed over an older revision, in another window, are joined to those that were saved since: none of
    the two is lost. Raises InputError for more than `DRAFT_LENGTH` characters.
    """
    words = words.replace("\x00", "")
    before = draft_of(connection, judge, person, case_id)
    if before.revision != revision:
        answer = select(reviews.c.rationale).where(_key(reviews, judge, person, case_id))
        saved = before.words if before.words is not None else connection.execute(answer).scalar_one_or_none()
        words = _joined(saved or "", words)
    if len(words) > DRAFT_LENGTH:
        raise Refused("your words have {n} characters; keep them under {most}", n=len(words), most=DRAFT_LENGTH)
    return before if before.words == words else _write(connection, judge, person, case_id, before, words)


def end_draft(connection: Connection, judge: str, person: str, case_id: str) -> None:
    """Note that an answer holds the words now; what was typed before it and arrives later is joined to them."""
    _write(connection, judge, person, case_id, draft_of(connection, judge, person, case_id), None)


def _joined(one: str, other: str) -> str:
    if one.strip() in other:
        return other
    return one if other.strip() in one else f"{one}\n{other}"


def _write(connection: Connection, judge: str, person: str, case_id: str, before: Draft, words: str | None) -> Draft:
    values: dict[str, Any] = {"words": words, "revision": before.revision + 1, "updated_at": now()}
    if before.revision:
        connection.execute(update(drafts).where(_key(drafts, judge, person, case_id)).values(**values))
    else:
        connection.execute(insert(drafts).values(judge=judge, case_id=case_id, person=person, **values))
    return Draft(words=words, revision=before.revision + 1)


def _key(table: Any, judge: str, person: str, case_id: str) -> Any:
    return and_(table.c.judge == judge, table.c.case_id == case_id, table.c.person == person)
