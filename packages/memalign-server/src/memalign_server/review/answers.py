"""What experts say of cases: saved at once, once, and never over what another tab has said since."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, Literal

from sqlalchemy import Connection, Row, Select, and_, func, insert, select, update

from memalign.types import FeedbackKey
from memalign.values import Value, ValueType
from memalign_server.problems import Refused
from memalign_server.review.cases import QueuedCase, case_of, disputed_cases, queued
from memalign_server.review.drafts import draft_of, drafts_of, end_draft, save_draft
from memalign_server.store.columns import from_json, new_id, now, to_json
from memalign_server.store.judgment_erasing import forget_judgments
from memalign_server.store.store import Store
from memalign_server.store.tables import queue, reviews

__all__ = [
    "Answer",
    "Disagreement",
    "Review",
    "Saved",
    "answers_on",
    "disagreement_count",
    "disagreements",
    "review",
    "review_of",
    "save",
    "say_drafts",
    "undo",
    "withdrawn",
]

State = Literal["answered", "skipped", "unclear", "undone"]

LONGEST = 10_000
"""Characters of an expert's words."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a form says: the state, the value of an answered case, and words. `form` is the form's own random id.

    `revision` is the one that the form was filled in against: 0 for a case that nobody had answered. `seen` says that
    the judge's verdict was in view.
    """

    state: State
    value: Value | None = None
    rationale: str = ""
    form: str
    revision: int = 0
    seen: bool = False


@dataclass(frozen=True, kw_only=True)
class Review:
    """One person's answer on one case. `taught` is the revision that the judge has learned, 0 for none."""

    case_id: str
    person: str
    state: State
    value: Value | None
    rationale: str | None
    blind_value: Value | None
    judge_value: Value | None
    judge_version: int | None
    revision: int
    taught: int
    updated_at: str

    @property
    def untaught(self) -> bool:
        """Whether it says something that the judge has not learned."""
        return self.state == "answered" and self.taught != self.revision


@dataclass(frozen=True, kw_only=True)
class Saved:
    """What a save did: `saved`, `repeated` (this form had saved already), or `conflict` with `review`, which stays."""

    outcome: Literal["saved", "repeated", "conflict"]
    review: Review


def save(connection: Connection, judge: str, person: str, case_id: str, answer: Answer, *, kind: ValueType) -> Saved:
    """Keep a person's answer on a case; the same form twice is kept once.

    A form that was filled in against an older revision changes nothing and is a conflict. Raises InputError for a case
    that is not in the queue, and for an answer without a value and words.
    """
    case = case_of(connection, judge, case_id)
    if case is None:
        raise Refused("case '{case}' is not in the queue: it was erased or removed", case=case_id)
    value, words = _checked(answer, kind)
    before = review_of(connection, judge, person, case_id)
    if before is not None:
        row = _row(connection, judge, person, case_id)
        if row is not None and row.form == answer.form and answer.revision < before.revision:
            return Saved(outcome="repeated", review=before)
        if before.revision != answer.revision:
            return Saved(outcome="conflict", review=before)
    elif answer.revision:
        answer = replace(answer, revision=0)  # undone elsewhere
    at, blind = now(), {} if answer.seen else _blind(case, value)
    said = {
        "state": answer.state,
        "value": None if value is None else to_json(value),
        "rationale": words,
        "form": answer.form,
        "revision": answer.revision + 1,
        "updated_at": at,
    }
    if before is None:
        connection.execute(
            insert(reviews).values(
                judge=judge, case_id=case_id, person=person, created_at=at, taught=0, **said, **blind
            )
        )
    else:
        if before.state in ("skipped", "unclear") and before.blind_value is None:  # the judge's is still hidden
            said |= blind
        connection.execute(update(reviews).where(_key(judge, person, case_id)).values(**said))
    _mark_disagreement(connection, judge, case, kind)
    found = review_of(connection, judge, person, case_id)
    assert found is not None  # just written, in this transaction
    return Saved(outcome="saved", review=found)


def undo(connection: Connection, judge: str, person: str, case_id: str, *, kind: ValueType) -> None:
    """Take back an answer that was not taught yet.

    The next answer on the case is not blind any more: the judge's may have been shown. Its words become a draft.
    Raises InputError for an answer that was taught: it has to be forgotten, which is the registry's to do.
    """
    before = review_of(connection, judge, person, case_id)
    if before is None or before.state == "undone":
        return
    if before.taught:
        raise Refused(
            "the judge has learned from your answer on '{case}': withdraw it on the page Memory", case=case_id
        )
    empty = dict.fromkeys(("value", "rationale", "blind_value", "judge_value", "judge_version"))
    values = {"state": "undone", "form": "", "revision": before.revision + 1, "updated_at": now(), **empty}
    connection.execute(update(reviews).where(_key(judge, person, case_id)).values(**values))
    typed = draft_of(connection, judge, person, case_id)
    if before.rationale is not None and typed.words is None:
        save_draft(connection, judge, person, case_id, before.rationale, revision=typed.revision)
    case = case_of(connection, judge, case_id)
    if case is not None:
        _mark_disagreement(connection, judge, case, kind)


def say_drafts(connection: Connection, judge: str, person: str, *case_ids: str, kind: ValueType) -> list[str]:
    """Give a person's drafts to the answers that they belong to, as their words.

    Args:
        connection: A transaction that writes.
        judge: The judge whose queue has the cases.
        person: Whose drafts; those of others are theirs to finish.
        case_ids: The cases; without any, all.
        kind: What the judge answers with.

    Returns:
        The cases whose draft is longer than an answer holds. Those, and drafts on cases without a verdict, stay drafts.
    """
    long: list[str] = []
    for case_id, draft in drafts_of(connection, judge, person).items():
        said = review_of(connection, judge, person, case_id)
        if said is None or said.state != "answered" or (case_ids and case_id not in case_ids):
            continue
        words = (draft.words or "").strip()
        if len(words) > LONGEST:
            long.append(case_id)
            continue
        if words != (said.rationale or "") and (words or said.value is not None):
            answer = Answer(
                state="answered", value=said.value, rationale=words, form=new_id(), revision=said.revision, seen=True
            )
            save(connection, judge, person, case_id, answer, kind=kind)
        end_draft(connection, judge, person, case_id)
    return long


def review_of(connection: Connection, judge: str, person: str, case_id: str) -> Review | None:
    """A person's answer on a case, or None."""
    row = _row(connection, judge, person, case_id)
    return None if row is None else review(row)


def answers_on(connection: Connection, judge: str, *case_ids: str) -> list[Review]:
    """Everybody's answers on cases, the earliest first. Not to be shown to somebody who has not answered."""
    said = select(reviews).where(reviews.c.judge == judge, reviews.c.case_id.in_(case_ids))
    query = said.where(reviews.c.state == "answered").order_by(reviews.c.created_at)
    return [review(row) for row in connection.execute(query)]


def review(row: Row[Any]) -> Review:
    """A row of reviews as a value."""
    return Review(
        case_id=row.case_id,
        person=row.person,
        state=row.state,
        value=from_json(row.value),
        rationale=row.rationale,
        blind_value=from_json(row.blind_value),
        judge_value=from_json(row.judge_value),
        judge_version=row.judge_version,
        revision=row.revision,
        taught=row.taught,
        updated_at=row.updated_at,
    )


def _checked(answer: Answer, kind: ValueType) -> tuple[Value | None, str | None]:
    words = answer.rationale.replace("\x00", "").strip() or None
    if words is not None and len(words) > LONGEST:
        raise Refused("your words have {n} characters; keep them under {most}", n=len(words), most=LONGEST)
    if answer.state != "answered":
        return None, words
    if answer.value is None:
        if words is None:
            raise Refused("choose a verdict, or write why, or skip the case")
        return None, words
    return kind.parse(answer.value), words


def _blind(case: QueuedCase, value: Value | None) -> dict[str, Any]:
    """What counts as evidence later: the answer before anything was shown, and the judge's of that moment.

    Nothing, where the judge had learned from the case: that it repeats what it was told proves nothing.
    """
    judgment = case.judgment
    if value is None or judgment is None or case.seen:
        return {}
    return {
        "blind_value": to_json(value),
        "judge_value": None if judgment.value is None else to_json(judgment.value),
        "judge_version": case.version,
    }


def _row(connection: Connection, judge: str, person: str, case_id: str) -> Row[Any] | None:
    return connection.execute(select(reviews).where(_key(judge, person, case_id))).one_or_none()


def _key(judge: str, person: str, case_id: str) -> Any:
    return and_(reviews.c.judge == judge, reviews.c.case_id == case_id, reviews.c.person == person)


def _mark_disagreement(connection: Connection, judge: str, case: QueuedCase, kind: ValueType) -> None:
    """Put a case first while people disagree on it, and back in its place when they agree."""
    differ = bool(disputed_cases(connection, judge, [case.example.id], kind))
    if differ != case.disputed:
        same = and_(queue.c.judge == judge, queue.c.case_id == case.example.id)
        connection.execute(update(queue).where(same).values(disputed=int(differ)))


def withdrawn(store: Store, judge: str, keys: Collection[FeedbackKey], guidelines: Collection[str]) -> None:
    """Take the answers of these keys back, and judgments that saw them or the guidelines that went with them.

    The next teaching must not teach them again, and no word of them stays.
    """
    empty = dict.fromkeys(("value", "rationale", "blind_value", "judge_value", "judge_version"))
    with store.write() as connection:
        forget_judgments(connection, judge, guidelines=guidelines, cases={key.id for key in keys})
        for key in keys:
            connection.execute(
                update(reviews)
                .where(reviews.c.judge == judge, reviews.c.case_id == key.id, reviews.c.person == key.source)
                .values(state="undone", form="", taught=0, revision=reviews.c.revision + 1, updated_at=now(), **empty)
            )


@dataclass(frozen=True, kw_only=True)
class Disagreement:
    """One case and what each person says of it."""

    case: QueuedCase
    answers: tuple[Review, ...]


def disagreements(connection: Connection, judge: str, person: str, *, limit: int = 20) -> list[Disagreement]:
    """Cases that a person and somebody else answered differently, the person's latest answer first."""
    query = _differing(select(queue), judge, person).order_by(reviews.c.updated_at.desc()).limit(limit)
    found = [queued(row) for row in connection.execute(query)]
    said = answers_on(connection, judge, *(each.example.id for each in found))
    return [Disagreement(case=c, answers=tuple(a for a in said if a.case_id == c.example.id)) for c in found]


def disagreement_count(connection: Connection, judge: str, person: str) -> int:
    """How many cases a person and somebody else answered differently."""
    query = _differing(select(func.count()).select_from(queue), judge, person)
    return int(connection.execute(query).scalar_one())


def _differing(query: Select[Any], judge: str, person: str) -> Select[Any]:
    """The disputed cases that the person answered."""
    mine = and_(reviews.c.judge == queue.c.judge, reviews.c.case_id == queue.c.case_id, reviews.c.person == person)
    query = query.join(reviews, mine).where(reviews.c.state == "answered")
    return query.where(queue.c.judge == judge, queue.c.disputed == 1)
