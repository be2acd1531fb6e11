"""What experts say of cases: saved at once, once, and never over what another tab has said since.

An answer is a row of the table `reviews`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, Row, and_, func, insert, or_, select, true, update

from memalign.keys import FeedbackKey, name_key
from memalign.memory import Annotation
from memalign.values import Value, ValueType
from memalign_server.people.service import spelled
from memalign_server.problems import Refused
from memalign_server.review.cases import Progress, case_of, own_review, parts_of
from memalign_server.store.tables import new_id, now, queue, reviews

State = Literal["answered", "skipped", "unclear"]

LONGEST = 50_000
"""Characters of an expert's words."""

VERDICT = and_(reviews.c.state == "answered", reviews.c.value.is_not(None))
"""The condition under which a row of `reviews` has somebody's verdict; words alone say nothing that could differ."""

TEACHES: ColumnElement[bool] = and_(
    queue.c.held_out == 0,
    reviews.c.overruled_by.is_(None),
    or_(
        and_(queue.c.disputed == 0, queue.c.settled.is_(None)), queue.c.settled == reviews.c.person
    ),
)
"""The condition, of `reviews` joined to `queue`, under which a judge may learn an answer."""

TAKEN_OVER = "taken over"  # in place of a form: the person agreed with a colleague
_NOTHING = dict.fromkeys(
    ("value", "rationale", "blind_value", "judge_value", "judge_version", "draft")
)
_FEW = 20  # cases whose answers are read at once, where the first that waits is enough


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a form says: the state, the value of an answered case, and words. `form` is the form's own random id.

    Without a `rationale` the words that are there stay with their verdict: if it changes, they become a draft.
    `revision` is the one that the form was filled in against: 0 for a case that nobody had answered. `seen` says that
    the judge's verdict was in view.
    """

    state: State
    value: Value | None = None
    rationale: str | None = ""
    form: str
    revision: int = 0
    seen: bool = False


def save(
    connection: Connection,
    judge: str,
    person: str,
    case_id: str,
    answer: Answer,
    *,
    kind: ValueType,
) -> Row[Any] | None:
    """Keep a person's answer on a case; the same form twice is kept once.

    Returns None, or the answer that stays: a form that was filled in against an older revision changes nothing. Raises
    InputError if the case is not in the queue, or an answer has neither value nor words.
    """
    case, before = (
        case_of(connection, judge, case_id),
        review_of(connection, judge, person, case_id),
    )
    if case is None:
        raise Refused("case '{case}' is not in the queue: it was erased or removed", case=case_id)
    value, words = _checked(answer, before, kind)
    if before is not None and before.revision != answer.revision:
        return None if before.form == answer.form and answer.revision < before.revision else before
    at = now()
    values: dict[str, Any] = {
        "state": answer.state,
        "value": value,
        "rationale": words,
        "form": answer.form,
        "revision": 1
        if before is None
        else before.revision + 1,  # what was undone elsewhere begins again
        "updated_at": at,
    }
    if before is None or before.state != "answered":
        values["created_at"] = at
    passed = (
        before is not None and before.state in ("skipped", "unclear") and before.blind_value is None
    )
    if (before is None or passed) and not answer.seen:
        values |= _blind(case, value)
    same = same_value(None if before is None else before.value, value, kind)
    values |= {"overruled_by": None, "overruled_for": None}  # it is a new statement
    if not (before is not None and same):
        values["value_since"] = values["revision"]
        if before is not None and answer.rationale is None:
            give_up_words(connection, before)
    if before is None:
        connection.execute(
            insert(reviews).values(judge=judge, case_id=case_id, person=person, **values)
        )
    else:
        if same and before.kept_revision == before.revision:
            values["kept_revision"] = values["revision"]  # only the words are new
        connection.execute(update(reviews).where(own_row(judge, person, case_id)).values(**values))
    if not same:  # what it contradicts is open again, and is shown to those who kept theirs
        other = case.settled not in (None, "", person)
        holder = review_of(connection, judge, case.settled, case_id) if other else None
        stays = holder is not None and (value is None or same_value(holder.value, value, kind))
        ((_, verdicts),) = verdicts_on(connection, judge, [case_id])
        differing = [
            v.person for v in verdicts if value is not None and not same_value(v.value, value, kind)
        ]
        of_case = (
            reviews.c.judge == judge,
            reviews.c.case_id == case_id,
            reviews.c.person.in_(differing),
        )
        connection.execute(update(reviews).where(*of_case).values(kept_revision=0))
        disputed = not stays and differ(verdicts, kind)
        mark_dispute(
            connection,
            judge,
            case_id,
            disputed,
            *((case.settled, case.settled_by) if stays else ()),
        )
    return None


def review_of(connection: Connection, judge: str, person: str, case_id: str) -> Row[Any] | None:
    """A person's answer on a case, or None."""
    return connection.execute(select(reviews).where(own_row(judge, person, case_id))).one_or_none()


def is_untaught(review: Row[Any]) -> bool:
    """Whether an answer says something that the judge has not learned."""
    return bool(review.state == "answered" and review.taught != review.revision)


def _checked(
    answer: Answer, before: Row[Any] | None, kind: ValueType
) -> tuple[Value | None, str | None]:
    words = None if answer.rationale is None else _checked_words(answer.rationale).strip() or None
    kept = before.rationale if before is not None and answer.rationale is None else words
    if answer.state != "answered":
        return None, kept
    if answer.value is None and kept is None:
        raise Refused("choose a verdict, or write why, or skip the case")
    value = None if answer.value is None else kind.parse(answer.value)
    stays = before is None or before.value is None or same_value(before.value, value, kind)
    return value, kept if stays else words


def _checked_words(words: str) -> str:
    words = words.replace("\x00", "").replace("\r\n", "\n")
    if len(words) > LONGEST:
        raise Refused(
            "your words have {n} characters; keep them under {most}", n=len(words), most=LONGEST
        )
    return words


def _blind(case: Row[Any], value: Value | None) -> dict[str, Any]:
    """What counts as evidence later: the answer before anything was shown, and the judge's of that moment.

    Of a case that the judge had learned from, only the answer: that it repeats what it was taught proves nothing.
    """
    blind: dict[str, Any] = {} if value is None else {"blind_value": value}
    if blind and case.judgment is not None and case.judgment.value is not None and not case.seen:
        blind |= {"judge_value": case.judgment.value, "judge_version": case.version}
    return blind


def own_row(judge: str, person: str, case_id: str) -> ColumnElement[bool]:
    """The condition for a person's row of `reviews` on a case."""
    return and_(reviews.c.judge == judge, reviews.c.case_id == case_id, reviews.c.person == person)


def same_value(one: Value | None, other: Value | None, kind: ValueType) -> bool:
    """Whether two verdicts agree; none agrees with none."""
    return one is other if one is None or other is None else kind.agree(one, other)


def mark_dispute(
    connection: Connection,
    judge: str,
    case_id: str,
    disputed: bool,
    settled: str | None = None,
    by: str | None = None,
) -> None:
    """Note whether people differ on a case, whose answer holds, and by whose choice."""
    case = and_(queue.c.judge == judge, queue.c.case_id == case_id)
    state = {"disputed": int(disputed), "settled": settled, "settled_by": by}
    connection.execute(update(queue).where(case).values(state))


def differ(verdicts: Iterable[Row[Any]], kind: ValueType) -> bool:
    """Whether two of the verdicts do not agree."""
    return any(
        not same_value(one.value, other.value, kind) for one, other in combinations(verdicts, 2)
    )


def verdicts_on(
    connection: Connection, judge: str, case_ids: Iterable[str]
) -> Iterator[tuple[str, list[Row[Any]]]]:
    """Each case with everybody's verdicts on it, the earliest first; a few cases are read at a time."""
    for part in parts_of(case_ids, _FEW):
        query = select(reviews).where(
            reviews.c.judge == judge, reviews.c.case_id.in_(part), VERDICT
        )
        rows = sorted(
            connection.execute(query), key=lambda row: str(row.created_at)
        )  # not by an index of all answers
        for case_id in part:
            yield case_id, [row for row in rows if row.case_id == case_id]


# -- drafts: words that are typed and not yet given to an answer -------------------------------------------------------


def save_draft(
    connection: Connection,
    judge: str,
    person: str,
    case_id: str,
    words: str,
    *,
    revision: int,
    answer: int | None = None,
) -> bool:
    """Keep all that is in the field of an answered case, which was filled with the draft of a `revision`.

    Words that were typed over an older revision, in another window, are joined to those that were saved since: none of
    the two is lost. Words belong to the `answer`, by its revision, over which they were typed: if the verdict is
    another one by now, they are kept and are not given to it.

    Returns:
        Whether they belong to the verdict of now.

    Raises:
        InputError: There are too many words, or the person has not answered the case.
    """
    words, own = _checked_words(words), review_of(connection, judge, person, case_id)
    if own is None:
        raise Refused("answer this case first")
    answer = own.revision if answer is None else answer
    saved = (own.rationale or "") if own.draft is None else own.draft
    if own.draft_revision != revision and saved.strip() not in words:
        words = _checked_words(saved if words.strip() in saved else f"{saved}\n{words}")
    if words != own.draft or answer != own.draft_of:
        _set_draft(connection, own, words, answer)
    return bool(answer >= own.value_since)


def is_stale(own: Row[Any]) -> bool:
    """Return whether the words that are shown were written about another verdict of this person than that of now."""
    return own.draft is not None and own.draft_of < own.value_since


def say_drafts(
    connection: Connection, judge: str, person: str, *case_ids: str, kind: ValueType
) -> None:
    """Give a person's drafts to the answers that they belong to, as their words; without `case_ids` all of them.

    Drafts on cases without an answer stay, and so do words about a verdict that the person has given up since.
    """
    waiting = select(reviews).where(
        reviews.c.judge == judge, reviews.c.person == person, reviews.c.draft.is_not(None)
    )
    for own in connection.execute(waiting.where(reviews.c.state == "answered")).all():
        if is_stale(own) or (case_ids and own.case_id not in case_ids):
            continue
        words = own.draft.strip()
        if words != (own.rationale or "") and (words or own.value is not None):
            fields: dict[str, Any] = {
                "value": own.value,
                "rationale": words,
                "revision": own.revision,
            }
            answer = Answer(state="answered", form=new_id(), seen=True, **fields)
            save(connection, judge, person, own.case_id, answer, kind=kind)
        _set_draft(connection, own, None)


def _set_draft(connection: Connection, own: Row[Any], words: str | None, answer: int = 0) -> None:
    """Change a draft; what was typed before that and arrives later is joined to it."""
    change = {"draft": words, "draft_revision": own.draft_revision + 1, "draft_of": answer}
    connection.execute(
        update(reviews).where(own_row(own.judge, own.person, own.case_id)).values(change)
    )


# -- blind first: before their answer a person is told neither the judge's verdict nor what others say -----------------


def mark_seen(connection: Connection, judge: str, person: str, case_id: str) -> None:
    """Note that a person was told the verdict on a case: no answer of theirs is blind; a skipped one is asked again."""
    own = review_of(connection, judge, person, case_id)
    if own is None:
        row = {
            "judge": judge,
            "case_id": case_id,
            "person": person,
            "state": "undone",
            "form": "",
            "revision": 0,
        }
        connection.execute(insert(reviews).values(**row, created_at=now(), updated_at=now()))
    elif own.state in ("skipped", "unclear") and own.blind_value is None:
        connection.execute(
            update(reviews).where(own_row(judge, person, case_id)).values(state="undone")
        )


# -- the way through the cases -----------------------------------------------------------------------------------------


def previous_case(
    connection: Connection, judge: str, person: str, case_id: str | None = None
) -> str | None:
    """The id of the case that a person answered, skipped or called unclear before this one; without one, the latest."""
    own = and_(own_review(judge, person), reviews.c.state != "undone")
    query = select(queue.c.case_id).join(reviews, own).where(queue.c.judge == judge)
    if case_id is not None:
        earlier = reviews.c.created_at < _came_at(judge, person, case_id)
        query = query.where(
            func.coalesce(earlier, true())
        )  # all are earlier than a case that waits
    return connection.execute(query.order_by(reviews.c.created_at.desc()).limit(1)).scalar()


def position(
    connection: Connection, judge: str, person: str, progress: Progress, case_id: str | None = None
) -> int:
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
    own = (
        other.c.judge == judge,
        other.c.person == person,
        other.c.case_id == case_id,
        other.c.state != "undone",
    )
    return select(other.c.created_at).where(*own).scalar_subquery()


def give_up_words(connection: Connection, own: Row[Any]) -> None:
    """Make a person's words about a verdict that they give up a draft: it is kept, and not taught with another one."""
    if own.rationale is not None and own.draft is None:  # nothing newer was typed
        _set_draft(connection, own, own.rationale, own.value_since)


def overrule(
    connection: Connection, judge: str, feedback: Iterable[Annotation], *, by: str, holder: str
) -> None:
    """Put people's words out of force by somebody else's choice: they stay, with whose choice it was.

    Args:
        connection: The transaction.
        judge: The judge that followed them.
        feedback: What is out of force, as the judge had it in memory.
        by: Who chose.
        holder: Whose words hold instead; "" for nobody's.
    """
    choice = {"overruled_by": by, "overruled_for": holder, "taught": 0}
    for said in feedback:
        person = spelled(connection, said.source)
        own = own_row(judge, person, said.id)
        if connection.execute(update(reviews).where(own).values(**choice)).rowcount:
            continue
        at = said.created_at or now()
        row = {
            "judge": judge,
            "case_id": said.id,
            "person": person,
            "state": "answered",
            "form": "",
        }
        words = {"value": said.value, "rationale": said.rationale, "revision": 1, "value_since": 1}
        connection.execute(
            insert(reviews).values(**row, **words, **choice, created_at=at, updated_at=at)
        )


def withdraw(
    connection: Connection, judge: str, keys: Iterable[FeedbackKey], *, words_only: bool = False
) -> None:
    """Take the answers of these keys back.

    The next teaching must not teach them again, and no word of them stays. With `words_only` verdicts stay answers, and
    so do words that were written after those that the judge had learned.
    """
    change = {"taught": 0, "revision": reviews.c.revision + 1, "updated_at": now()}
    spellings: dict[str, list[str]] = {}
    for person in connection.execute(
        select(reviews.c.person).where(reviews.c.judge == judge).distinct()
    ).scalars():
        spellings.setdefault(name_key(person), []).append(person)
    for key in keys:
        people = spellings.get(name_key(key.source), [])
        of_case = and_(
            reviews.c.judge == judge, reviews.c.case_id == key.id, reviews.c.person.in_(people)
        )
        own = update(reviews).where(of_case)
        answer = own
        if words_only:
            answer = own.where(reviews.c.taught == reviews.c.revision)
            connection.execute(
                answer.where(reviews.c.value.is_not(None)).values(rationale=None, **change)
            )
            answer = answer.where(reviews.c.value.is_(None))
        connection.execute(answer.values(state="undone", form="", **change, **_NOTHING))
        connection.execute(own.values(taught=0))
