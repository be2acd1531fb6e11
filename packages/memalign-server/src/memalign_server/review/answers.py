"""What experts say of cases: saved at once, once, and never over what another tab has said since.

Two people who answered a case differently see each other's answer. Where both keep their own, an owner chooses whose
holds. Until then neither is taught.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations, islice
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, func, insert, or_, select, true, update

from memalign.judge import Judge
from memalign.types import FeedbackKey
from memalign.values import Value, ValueType
from memalign_server.people.people import LOCAL
from memalign_server.problems import Refused
from memalign_server.review.cases import Progress, QueuedCase, case_of, cases_of, own_review, parts_of
from memalign_server.review.drafts import draft_of, drafts_of, end_draft, save_draft
from memalign_server.store.columns import from_json, new_id, now, to_json
from memalign_server.store.erasing import forget_judgments
from memalign_server.store.store import Store
from memalign_server.store.tables import people, queue, reviews

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

_TAKEN_OVER = "taken over"  # in place of a form: the person agreed with a colleague
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
    same = _same(old, value, kind)
    if before is None:
        connection.execute(insert(reviews).values(judge=judge, case_id=case_id, person=person, **values))
    else:
        if same and before.kept_revision == before.revision:
            values["kept_revision"] = values["revision"]  # only the words are new
        connection.execute(update(reviews).where(_key(judge, person, case_id)).values(**values))
    if not same:  # what it contradicts is open again, and is shown to those who kept theirs
        other = case.settled not in (None, "", person)
        holder = review_of(connection, judge, str(case.settled), case_id) if other else None
        stays = holder is not None and (value is None or _same(holder.value, value, kind))
        ((_, verdicts),) = _verdicts(connection, judge, [case_id])
        differing = [v.person for v in verdicts if value is not None and not _same(v.value, value, kind)]
        of_case = (reviews.c.judge == judge, reviews.c.case_id == case_id, reviews.c.person.in_(differing))
        connection.execute(update(reviews).where(*of_case).values(kept_revision=0))
        disputed = not stays and _differ(verdicts, kind)
        _mark_dispute(connection, judge, case_id, disputed, case.settled if stays else None)
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
        if before.form == _TAKEN_OVER and not case_ids:
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
    row = connection.execute(select(reviews).where(_key(judge, person, case_id))).one_or_none()
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


def _key(judge: str, person: str, case_id: str) -> ColumnElement[bool]:
    return and_(reviews.c.judge == judge, reviews.c.case_id == case_id, reviews.c.person == person)


def _same(one: Value | None, other: Value | None, kind: ValueType) -> bool:
    return one is other if one is None or other is None else kind.agree(one, other)


# -- people who differ -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A case on which people differ, with their answers, the earliest first.

    Where it waits for one person, `own` is theirs and `answers` are those that say otherwise; else it waits for an
    owner, because everybody has kept theirs.
    """

    case: QueuedCase
    answers: tuple[Review, ...]
    own: Review | None = None


def differences(
    connection: Connection, judge: str, person: str, *, kind: ValueType, limit: int = 20
) -> list[Difference]:
    """The cases that a person and somebody else answered differently, and that wait for this person's choice.

    Nearly equal scores of a `kind` are no difference. Cases that the person has kept or an owner has settled do not
    wait. The person's earliest answer comes first.
    """
    unchosen = (VERDICT, reviews.c.kept_revision != reviews.c.revision)
    query = _disputed(judge).join(reviews, own_review(judge, person)).where(*unchosen).order_by(reviews.c.updated_at)
    waiting = (
        (tuple(other for other in verdicts if not _same(other.value, own.value, kind)), own)
        for _, verdicts in _verdicts(connection, judge, connection.execute(query).scalars())
        for own in verdicts
        if own.person == person
    )
    return _first_cases(connection, judge, waiting, limit)


def take_over(
    connection: Connection,
    judge: str,
    person: str,
    case_id: str,
    other: str,
    *,
    kind: ValueType,
    revision: int | None = None,
) -> Saved:
    """Give a person's answer the verdict of the `other` one, a colleague: they agree now.

    The person's own words were about the verdict that they give up. They become a draft, so that they are not lost, and
    are not taught with the new verdict. It is a conflict if the colleague's answer is not of this `revision` any more.
    Raises InputError if one of the two has no answer on the case.
    """
    own, theirs = (review_of(connection, judge, name, case_id) for name in (person, other))
    if own is None or theirs is None or own.value is None or theirs.value is None:
        raise Refused("you and {other} have not both answered this case any more: look at it again", other=other)
    if revision is not None and revision != theirs.revision:
        return Saved(outcome="conflict", review=own)
    if _same(own.value, theirs.value, kind):
        return Saved(outcome="repeated", review=own)
    typed = draft_of(connection, judge, person, case_id)
    if own.rationale is not None and typed.words is None:  # nothing newer was typed
        save_draft(connection, judge, person, case_id, own.rationale, revision=typed.revision)
    answer = Answer(state="answered", value=theirs.value, form=_TAKEN_OVER, revision=own.revision, seen=True)
    return save(connection, judge, person, case_id, answer, kind=kind)


def keep_answer(connection: Connection, judge: str, person: str, case_id: str) -> None:
    """Note that a person has seen a colleague's answer and keeps their own: an owner chooses once everybody does."""
    own = (_key(judge, person, case_id), reviews.c.state == "answered")
    connection.execute(update(reviews).where(*own).values(kept_revision=reviews.c.revision))


def open_settlements(connection: Connection, judge: str, *, kind: ValueType, limit: int = 20) -> list[Difference]:
    """The cases that only an owner can settle: everybody who differs has kept their answer, or has left the team."""
    team = {LOCAL.name, *connection.execute(select(people.c.name)).scalars()}
    chosen = or_(reviews.c.kept_revision == reviews.c.revision, reviews.c.person.not_in(team))
    of_case = (reviews.c.judge == judge, reviews.c.case_id == queue.c.case_id, VERDICT)
    several = select(func.count()).where(*of_case, chosen).correlate(queue).scalar_subquery() > 1
    query = _disputed(judge).where(several).order_by(queue.c.number)  # most cases wait for somebody and are not read
    waiting = (
        (differing, None)
        for _, verdicts in _verdicts(connection, judge, connection.execute(query).scalars())
        if (differing := tuple(v for v in verdicts if any(not _same(v.value, w.value, kind) for w in verdicts)))
        and all(answer.kept_revision == answer.revision or answer.person not in team for answer in differing)
    )
    return _first_cases(connection, judge, waiting, limit)


def settle(connection: Connection, judge: str, case_id: str, holder: str) -> None:
    """Choose whose answer on a case holds. It alone is taught, until somebody answers the case differently.

    An empty `holder` leaves the case out. Raises InputError for a holder who has no answer on the case.
    """
    answer = review_of(connection, judge, holder, case_id) if holder else None
    if holder and (answer is None or answer.value is None):
        raise Refused("{person} has no answer on this case any more: look at it again", person=holder)
    _mark_dispute(connection, judge, case_id, False, holder)


def refresh_disputes(connection: Connection, judge: str, *, kind: ValueType) -> None:
    """See again who differs where answers have gone without their person: erased, or withdrawn from the judge."""
    of_several = select(reviews.c.case_id).where(reviews.c.judge == judge, VERDICT).group_by(reviews.c.case_id)
    in_question = or_(
        queue.c.disputed == 1, queue.c.settled.is_not(None), queue.c.case_id.in_(of_several.having(func.count() > 1))
    )
    query = select(queue.c.case_id, queue.c.disputed, queue.c.settled).where(queue.c.judge == judge, in_question)
    before = {row.case_id: row for row in connection.execute(query)}
    for case_id, verdicts in _verdicts(connection, judge, before):
        row = before[case_id]
        settled = row.settled if row.settled in {"", *(answer.person for answer in verdicts)} else None
        disputed = settled is None and _differ(verdicts, kind)
        if (disputed, settled) != (bool(row.disputed), row.settled):
            _mark_dispute(connection, judge, case_id, disputed, settled)


def _mark_dispute(connection: Connection, judge: str, case_id: str, disputed: bool, settled: str | None) -> None:
    case = and_(queue.c.judge == judge, queue.c.case_id == case_id)
    connection.execute(update(queue).where(case).values(disputed=int(disputed), settled=settled))


def _differ(verdicts: Iterable[Review], kind: ValueType) -> bool:
    return any(not _same(one.value, other.value, kind) for one, other in combinations(verdicts, 2))


def _disputed(judge: str) -> Select[Any]:
    """The ids of cases on which people differ; both kinds are named because the index begins with them."""
    return select(queue.c.case_id).where(queue.c.judge == judge, queue.c.held_out.in_((0, 1)), queue.c.disputed == 1)


def _verdicts(connection: Connection, judge: str, case_ids: Iterable[str]) -> Iterator[tuple[str, list[Review]]]:
    """Each case with everybody's verdicts on it, the earliest first; a few cases are read at a time."""
    for part in parts_of(case_ids, _FEW):
        answers = answers_on(connection, judge, *part)
        for case_id in part:
            yield case_id, [answer for answer in answers if answer.case_id == case_id and answer.value is not None]


def _first_cases(
    connection: Connection, judge: str, waiting: Iterable[tuple[tuple[Review, ...], Review | None]], limit: int
) -> list[Difference]:
    """The first that wait, with their cases; where answers have gone since, nobody may differ any more."""
    first = {answers[0].case_id: (answers, own) for answers, own in islice(filter(lambda row: row[0], waiting), limit)}
    pairs = ((case, *first[case.example.id]) for case in cases_of(connection, judge, list(first)))
    return [Difference(case=case, answers=answers, own=own) for case, answers, own in pairs]


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
            own = update(reviews).where(_key(judge, key.source, key.id))
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
