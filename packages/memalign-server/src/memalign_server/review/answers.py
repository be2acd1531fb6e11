"""What experts say of cases: saved at once, once, and never over what another tab has said since."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, Row, and_, exists, func, insert, or_, select, true, update

from memalign.judge import Judge
from memalign.types import FeedbackKey, Judgment
from memalign.values import Value, ValueType
from memalign_server.problems import Refused
from memalign_server.review.cases import Progress, QueuedCase, case_of, own_review, parts_of
from memalign_server.store import Store
from memalign_server.store.erasing import forget_judgments
from memalign_server.store.tables import drafts, from_json, new_id, now, queue, reviews, to_json

State = Literal["answered", "skipped", "unclear", "undone"]

LONGEST = 10_000
"""Characters of an expert's words."""

VERDICT = and_(reviews.c.state == "answered", reviews.c.value.is_not(None))
"""The condition under which a row of `reviews` has somebody's verdict; words alone say nothing that could differ."""

TEACHES: ColumnElement[bool] = and_(
    queue.c.held_out == 0,
    or_(and_(queue.c.disputed == 0, queue.c.settled.is_(None)), queue.c.settled == reviews.c.person),
)
"""The condition, of `reviews` joined to `queue`, under which a judge may learn an answer."""

TAKEN_OVER = "taken over"  # in place of a form: the person agreed with a colleague
_NOTHING = dict.fromkeys(("value", "rationale", "blind_value", "judge_value", "judge_version"))
_FEW = 20  # cases whose answers are read at once, where the first that waits is enough


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
    """One person's answer on one case.

    Attributes:
        state: Whether they answered, skipped it, could not tell, or took the answer back.
        value: Their verdict now.
        rationale: Their words.
        blind_value: Their first verdict, if the judge's was not in view yet.
        judge_value: What the judge had said then of a case that it had not learned from.
        judge_version: The version that had said so.
        form: The form that gave it.
        revision: How often they answered, from 1.
        taught: The revision that the judge has learned, 0 for none.
        kept_revision: The revision that they kept against colleagues' answers, 0 for none, or if one differs since.
    """

    case_id: str
    person: str
    state: State
    value: Value | None
    rationale: str | None
    blind_value: Value | None
    judge_value: Value | None
    judge_version: int | None
    form: str
    revision: int
    taught: int
    kept_revision: int
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

    A form that was filled in against an older revision changes nothing and is a conflict. Raises InputError if the case
    is not in the queue, or an answer has neither value nor words.
    """
    case = case_of(connection, judge, case_id)
    if case is None:
        raise Refused("case '{case}' is not in the queue: it was erased or removed", case=case_id)
    value, words = _checked(answer, kind)
    before = review_of(connection, judge, person, case_id)
    if before is not None and before.revision != answer.revision:
        repeated = before.form == answer.form and answer.revision < before.revision
        return Saved(outcome="repeated" if repeated else "conflict", review=before)
    at = now()
    values: dict[str, Any] = {
        "state": answer.state,
        "value": None if value is None else to_json(value),
        "rationale": words,
        "form": answer.form,
        "revision": 1 if before is None else before.revision + 1,  # what was undone elsewhere begins again
        "updated_at": at,
    }
    if before is None or before.state != "answered":
        values["created_at"] = at
    passed = before is not None and before.state in ("skipped", "unclear") and before.blind_value is None
    if (before is None or passed) and not answer.seen:
        values |= _blind(case, value)
    old = None if before is None else before.value
    same = same_value(old, value, kind)
    if before is None:
        connection.execute(insert(reviews).values(judge=judge, case_id=case_id, person=person, **values))
    else:
        if same and before.kept_revision == before.revision:
            values["kept_revision"] = values["revision"]  # only the words are new
        connection.execute(update(reviews).where(own_row(reviews, judge, person, case_id)).values(**values))
    if not same:  # what it contradicts is open again, and is shown to those who kept theirs
        other = case.settled not in (None, "", person)
        holder = review_of(connection, judge, str(case.settled), case_id) if other else None
        stays = holder is not None and (value is None or same_value(holder.value, value, kind))
        ((_, verdicts),) = verdicts_on(connection, judge, [case_id])
        differing = [v.person for v in verdicts if value is not None and not same_value(v.value, value, kind)]
        of_case = (reviews.c.judge == judge, reviews.c.case_id == case_id, reviews.c.person.in_(differing))
        connection.execute(update(reviews).where(*of_case).values(kept_revision=0))
        disputed = not stays and differ(verdicts, kind)
        mark_dispute(connection, judge, case_id, disputed, case.settled if stays else None)
    after = review_of(connection, judge, person, case_id)
    assert after is not None  # just written, in this transaction
    return Saved(outcome="saved", review=after)


def say_drafts(connection: Connection, judge: str, person: str, *case_ids: str, kind: ValueType) -> list[str]:
    """Give a person's drafts to the answers that they belong to, as their words; without `case_ids` all of them.

    Returns the cases whose draft is longer than an answer holds. Those, drafts on cases without a verdict, and words of
    a verdict that was given up for a colleague's stay drafts.
    """
    long: list[str] = []
    for case_id, draft in drafts_of(connection, judge, person).items():
        before = review_of(connection, judge, person, case_id)
        if before is None or before.state != "answered" or (case_ids and case_id not in case_ids):
            continue
        if before.form == TAKEN_OVER and not case_ids:
            continue  # these words are of the verdict that the person gave up
        words = (draft.words or "").strip()
        if len(words) > LONGEST:
            long.append(case_id)
            continue
        if words != (before.rationale or "") and (words or before.value is not None):
            fields: dict[str, Any] = {"value": before.value, "rationale": words, "revision": before.revision}
            answer = Answer(state="answered", form=new_id(), seen=True, **fields)
            save(connection, judge, person, case_id, answer, kind=kind)
        end_draft(connection, judge, person, case_id)
    return long


def review_of(connection: Connection, judge: str, person: str, case_id: str) -> Review | None:
    """A person's answer on a case, or None."""
    row = connection.execute(select(reviews).where(own_row(reviews, judge, person, case_id))).one_or_none()
    return None if row is None else review(row)


def answers_on(connection: Connection, judge: str, *case_ids: str) -> list[Review]:
    """Everybody's answers on cases, the earliest first. Not to be shown to somebody who has not answered."""
    query = select(reviews).where(reviews.c.judge == judge, reviews.c.case_id.in_(case_ids))
    rows = connection.execute(query.where(reviews.c.state == "answered")).all() if case_ids else []
    return [review(row) for row in sorted(rows, key=lambda row: str(row.created_at))]  # not by an index of all answers


def review(row: Row[Any]) -> Review:
    """A row of reviews as a value."""
    fields = {name: getattr(row, name) for name in Review.__dataclass_fields__}
    decoded = {name: from_json(fields[name]) for name in ("value", "blind_value", "judge_value")}
    return Review(**(fields | decoded))


def _checked(answer: Answer, kind: ValueType) -> tuple[Value | None, str | None]:
    words = answer.rationale.replace("\x00", "").strip() or None
    if words is not None and len(words) > LONGEST:
        raise Refused("your words have {n} characters; keep them under {most}", n=len(words), most=LONGEST)
    if answer.state != "answered":
        return None, words
    if answer.value is None and words is None:
        raise Refused("choose a verdict, or write why, or skip the case")
    return None if answer.value is None else kind.parse(answer.value), words


def _blind(case: QueuedCase, value: Value | None) -> dict[str, Any]:
    """What counts as evidence later: the answer before anything was shown, and the judge's of that moment.

    Of a case that the judge had learned from, only the answer: that it repeats what it was taught proves nothing.
    """
    blind: dict[str, Any] = {} if value is None else {"blind_value": to_json(value)}
    if blind and case.judgment is not None and case.judgment.value is not None and not case.seen:
        blind |= {"judge_value": to_json(case.judgment.value), "judge_version": case.version}
    return blind


def own_row(table: Any, judge: str, person: str, case_id: str) -> ColumnElement[bool]:
    """The condition for a person's row on a case, of `reviews` or `drafts`."""
    return and_(table.c.judge == judge, table.c.case_id == case_id, table.c.person == person)


def same_value(one: Value | None, other: Value | None, kind: ValueType) -> bool:
    """Whether two verdicts agree; none agrees with none."""
    return one is other if one is None or other is None else kind.agree(one, other)


def mark_dispute(connection: Connection, judge: str, case_id: str, disputed: bool, settled: str | None) -> None:
    """Note whether people differ on a case, and whose answer holds."""
    case = and_(queue.c.judge == judge, queue.c.case_id == case_id)
    connection.execute(update(queue).where(case).values(disputed=int(disputed), settled=settled))


def differ(verdicts: Iterable[Review], kind: ValueType) -> bool:
    """Whether two of the verdicts do not agree."""
    return any(not same_value(one.value, other.value, kind) for one, other in combinations(verdicts, 2))


def verdicts_on(connection: Connection, judge: str, case_ids: Iterable[str]) -> Iterator[tuple[str, list[Review]]]:
    """Each case with everybody's verdicts on it, the earliest first; a few cases are read at a time."""
    for part in parts_of(case_ids, _FEW):
        answers = answers_on(connection, judge, *part)
        for case_id in part:
            yield case_id, [answer for answer in answers if answer.case_id == case_id and answer.value is not None]


# -- drafts: words that are typed and not yet given to an answer; nobody else sees them, no judge learns them ----------


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
    query = select(drafts.c.words, drafts.c.revision).where(own_row(drafts, judge, person, case_id))
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
        answer = select(reviews.c.rationale).where(own_row(reviews, judge, person, case_id))
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
        connection.execute(update(drafts).where(own_row(drafts, judge, person, case_id)).values(**values))
    else:
        connection.execute(insert(drafts).values(judge=judge, case_id=case_id, person=person, **values))
    return Draft(words=words, revision=before.revision + 1)


# -- blind first: before their answer a person is told neither the judge's verdict nor what others say -----------------


@dataclass(frozen=True, kw_only=True)
class ReviewedCase:
    """What one person may know of a case. While it is `hidden`, that is no verdict and nobody else's answer."""

    own: Review | None
    hidden: bool
    judgment: Judgment | None = None
    agree: bool | None = None
    others: tuple[Review, ...] = ()


def reviewed(connection: Connection, judge: Judge, person: str, case: QueuedCase) -> ReviewedCase:
    """A case as a person may see it."""
    name, case_id = judge.name, case.example.id
    own = review_of(connection, name, person, case_id)
    if own is None or own.state != "answered":
        return ReviewedCase(own=own, hidden=True)
    judgment, agree = case.judgment, None
    if judgment is not None and judgment.value is not None and own.value is not None:
        agree = judge.value_type.agree(judgment.value, own.value)
    others = tuple(answer for answer in answers_on(connection, name, case_id) if answer.person != person)
    return ReviewedCase(own=own, hidden=False, judgment=judgment, agree=agree, others=others)


def hidden_from(connection: Connection, judge: str, person: str, ids: Collection[str]) -> frozenset[str]:
    """Those of a few cases that are queued and that the person has not answered."""
    answered = exists().where(own_review(judge, person), reviews.c.state == "answered")
    query = select(queue.c.case_id).where(queue.c.judge == judge, queue.c.case_id.in_(ids), ~answered)
    return frozenset(connection.execute(query).scalars())


def mark_seen(store: Store, judge: str, person: str, content: str) -> None:
    """Note that a person was told the verdict on the queued case of this content: no answer of theirs is blind.

    If they skipped it or called it unclear, it is asked once more.
    """
    passed = and_(reviews.c.state.in_(("skipped", "unclear")), reviews.c.blind_value.is_(None))
    query = select(queue.c.case_id, reviews.c.state).outerjoin(reviews, own_review(judge, person))
    query = query.where(queue.c.judge == judge, queue.c.content_hash == content)
    query = query.where(or_(reviews.c.person.is_(None), passed))  # an answer would still be blind
    with store.read() as connection:  # most requests are about no case of the queue, and should not lock
        if connection.execute(query).first() is None:
            return
    with store.write() as connection:
        at = now()
        for case_id, state in connection.execute(query).all():
            if state is None:
                row = {"judge": judge, "case_id": case_id, "person": person, "state": "undone", "form": ""}
                connection.execute(insert(reviews).values(**row, revision=0, created_at=at, updated_at=at))
            else:
                own = (reviews.c.judge == judge, reviews.c.case_id == case_id, reviews.c.person == person)
                connection.execute(update(reviews).where(*own).values(state="undone"))


# -- the way through the cases -----------------------------------------------------------------------------------------


def previous_case(connection: Connection, judge: str, person: str, case_id: str | None = None) -> str | None:
    """The id of the case that a person answered, skipped or called unclear before this one; without one, the latest."""
    own = and_(own_review(judge, person), reviews.c.state != "undone")
    query = select(queue.c.case_id).join(reviews, own).where(queue.c.judge == judge)
    if case_id is not None:
        earlier = reviews.c.created_at < _came_at(judge, person, case_id)
        query = query.where(func.coalesce(earlier, true()))  # all are earlier than a case that waits
    return connection.execute(query.order_by(reviews.c.created_at.desc()).limit(1)).scalar()


def position(connection: Connection, judge: str, person: str, progress: Progress, case_id: str | None = None) -> int:
    """Which case this is for a person, from 1: one that they have answered, or else the next one."""
    number = 0
    if case_id is not None:
        own = (reviews.c.judge == judge, reviews.c.person == person, reviews.c.state != "undone")
        query = select(func.count()).select_from(reviews).where(*own)
        query = query.where(reviews.c.created_at <= _came_at(judge, person, case_id))
        number = connection.execute(query).scalar_one()
    return min(number or progress.total - progress.waiting + 1, progress.total)


def _came_at(judge: str, person: str, case_id: str) -> Any:
    """When a person came to a case, for a condition; NULL if it waits for them."""
    other = reviews.alias()
    own = (other.c.judge == judge, other.c.person == person, other.c.case_id == case_id, other.c.state != "undone")
    return select(other.c.created_at).where(*own).scalar_subquery()


def withdrawn(
    store: Store, judge: str, keys: Collection[FeedbackKey], guidelines: Collection[str], *, words_only: bool = False
) -> None:
    """Take the answers of these keys back, and judgments that saw them or the guidelines that went with them.

    The next teaching must not teach them again, and no word of them stays. With `words_only` verdicts stay answers, and
    so do words that were written after those that the judge had learned.
    """
    change = {"taught": 0, "revision": reviews.c.revision + 1, "updated_at": now()}
    with store.write() as connection:
        # A version whose memory was empty had nothing of them in view.
        taught, empty = (
            set(connection.execute(select(column).where(queue.c.judge == judge).distinct()).scalars())
            for column in (queue.c.version, queue.c.first_version)
        )
        cases = {key.id for key in keys}
        forget_judgments(connection, judge, guidelines=guidelines, cases=cases, versions=taught - empty)
        for key in keys:
            own = update(reviews).where(own_row(reviews, judge, key.source, key.id))
            answer = own
            if words_only:
                answer = own.where(or_(reviews.c.taught == 0, reviews.c.taught == reviews.c.revision))
                connection.execute(answer.where(reviews.c.value.is_not(None)).values(rationale=None, **change))
                answer = answer.where(reviews.c.value.is_(None))
            connection.execute(answer.values(state="undone", form="", **change, **_NOTHING))
            connection.execute(own.values(taught=0))


def left_behind(connection: Connection, judge: Judge, keys: Collection[str], source: str | None) -> list[FeedbackKey]:
    """Answers that `keys` or a `source` name and that are taken for taught, although the judge has forgotten them."""
    query = select(reviews.c.case_id, reviews.c.person).where(reviews.c.judge == judge.name, reviews.c.taught != 0)
    taught = (FeedbackKey(row.case_id, row.person) for row in connection.execute(query))
    forgotten = (key for key in taught if judge.memory.annotation(key) is None)
    return [
        key
        for key in forgotten
        if (not keys or key.id in keys or str(key) in keys) and (source is None or key.source == source)
    ]
