"""What experts say of cases: saved at once, once, and never over what another tab has said since.

Two people who answered a case differently see each other's answer. Where both keep their own, an owner chooses whose
holds. Until then neither is taught.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, func, insert, or_, select, update

from memalign.judge import Judge
from memalign.types import FeedbackKey
from memalign.values import Value, ValueType
from memalign_server.people.people import LOCAL
from memalign_server.problems import Refused
from memalign_server.review.cases import QueuedCase, case_of, cases_of, disputed_cases, progress_of, queued
from memalign_server.review.drafts import draft_of, drafts_of, end_draft, save_draft
from memalign_server.store.columns import from_json, new_id, now, to_json
from memalign_server.store.erasing import forget_judgments
from memalign_server.store.store import Store
from memalign_server.store.tables import people, queue, reviews

__all__ = [
    "TEACHES",
    "Answer",
    "Difference",
    "Review",
    "Saved",
    "Settlement",
    "answers_on",
    "differences",
    "keep_answer",
    "left_behind",
    "open_settlements",
    "position",
    "previous_case",
    "refresh_disputes",
    "review",
    "review_of",
    "save",
    "say_drafts",
    "settle",
    "take_over",
    "withdrawn",
]

State = Literal["answered", "skipped", "unclear", "undone"]

LONGEST = 10_000
"""Characters of an expert's words."""

TEACHES: ColumnElement[bool] = and_(
    queue.c.held_out == 0,
    or_(and_(queue.c.disputed == 0, queue.c.settled.is_(None)), queue.c.settled == reviews.c.person),
)
"""The condition, of `reviews` joined to `queue`, under which a judge may learn an answer."""

_TAKEN_OVER = "taken over"  # in place of a form: the person agreed with a colleague
_NOTHING = dict.fromkeys(("value", "rationale", "blind_value", "judge_value", "judge_version"))
_ANSWERED = (reviews.c.state == "answered", reviews.c.value.is_not(None))


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
        case_id: The case.
        person: Who answered.
        state: Whether they answered, skipped it, could not tell, or took the answer back.
        value: Their verdict now.
        rationale: Their words.
        blind_value: Their first verdict, if the judge's was not in view yet.
        judge_value: What the judge had said then of a case that it had not learned from.
        judge_version: The version that had said so.
        revision: How often they answered, from 1.
        taught: The revision that the judge has learned, 0 for none.
        kept_revision: The revision that they kept against a colleague's answer, 0 for none.
        updated_at: When they answered last.
    """

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

    Args:
        connection: A transaction that writes.
        judge: The judge's name.
        person: Who answers.
        case_id: The case.
        answer: The form; one that was filled in against an older revision changes nothing and is a conflict.
        kind: What the judge answers with.

    Returns:
        What became of it, with the answer as it is now.

    Raises:
        InputError: The case is not in the queue, or an answer has neither value nor words.
    """
    case = case_of(connection, judge, case_id)
    if case is None:
        raise Refused("case '{case}' is not in the queue: it was erased or removed", case=case_id)
    value, words = _checked(answer, kind)
    row = _row(connection, judge, person, case_id)
    before = None if row is None else review(row)
    if row is not None and before is not None:
        if row.form == answer.form and answer.revision < before.revision:
            return Saved(outcome="repeated", review=before)
        if before.revision != answer.revision:
            return Saved(outcome="conflict", review=before)
    elif answer.revision:
        answer = replace(answer, revision=0)  # undone elsewhere
    at = now()
    values: dict[str, Any] = {
        "state": answer.state,
        "value": None if value is None else to_json(value),
        "rationale": words,
        "form": answer.form,
        "revision": answer.revision + 1,
        "updated_at": at,
    }
    blind = {} if answer.seen else _blind(case, value)
    if before is None:
        key = {"judge": judge, "case_id": case_id, "person": person}
        connection.execute(insert(reviews).values(**key, created_at=at, taught=0, **values, **blind))
    else:
        if before.state in ("skipped", "unclear") and before.blind_value is None:  # the judge's is still hidden
            values |= blind
        if before.state != "answered":
            values["created_at"] = at
        if _same(before.value, value, kind) and before.kept_revision == before.revision:
            values["kept_revision"] = values["revision"]  # only the words are new
        connection.execute(update(reviews).where(_key(judge, person, case_id)).values(**values))
    _mark_dispute(connection, judge, case, kind, person=person, before=before.value if before else None, value=value)
    after = review_of(connection, judge, person, case_id)
    assert after is not None  # just written, in this transaction
    return Saved(outcome="saved", review=after)


def _words_to_draft(connection: Connection, judge: str, answer: Review) -> None:
    """Keep the words of an answer that goes, where nothing newer was typed."""
    typed = draft_of(connection, judge, answer.person, answer.case_id)
    if answer.rationale is not None and typed.words is None:
        save_draft(connection, judge, answer.person, answer.case_id, answer.rationale, revision=typed.revision)


def say_drafts(connection: Connection, judge: str, person: str, *case_ids: str, kind: ValueType) -> list[str]:
    """Give a person's drafts to the answers that they belong to, as their words.

    Args:
        connection: A transaction that writes.
        judge: The judge whose queue has the cases.
        person: Whose drafts; those of others are theirs to finish.
        case_ids: The cases; without any, all.
        kind: What the judge answers with.

    Returns:
        The cases whose draft is longer than an answer holds. Those, drafts on cases without a verdict, and words of a
        verdict that was given up for a colleague's stay drafts.
    """
    long: list[str] = []
    for case_id, draft in drafts_of(connection, judge, person).items():
        row = _row(connection, judge, person, case_id)
        if row is None or row.state != "answered" or (case_ids and case_id not in case_ids):
            continue
        if row.form == _TAKEN_OVER and not case_ids:
            continue  # these words are of the verdict that the person gave up
        before = review(row)
        words = (draft.words or "").strip()
        if len(words) > LONGEST:
            long.append(case_id)
            continue
        if words != (before.rationale or "") and (words or before.value is not None):
            answer = Answer(
                state="answered",
                value=before.value,
                rationale=words,
                form=new_id(),
                revision=before.revision,
                seen=True,
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
    if answer.value is None:
        if words is None:
            raise Refused("choose a verdict, or write why, or skip the case")
        return None, words
    return kind.parse(answer.value), words


def _blind(case: QueuedCase, value: Value | None) -> dict[str, Any]:
    """What counts as evidence later: the answer before anything was shown, and the judge's of that moment.

    Of a case that the judge had learned from, only the answer: that it repeats what it was taught proves nothing.
    """
    if value is None:
        return {}
    blind: dict[str, Any] = {"blind_value": to_json(value)}
    if case.judgment is not None and case.judgment.value is not None and not case.seen:
        blind |= {"judge_value": to_json(case.judgment.value), "judge_version": case.version}
    return blind


def _row(connection: Connection, judge: str, person: str, case_id: str) -> Row[Any] | None:
    return connection.execute(select(reviews).where(_key(judge, person, case_id))).one_or_none()


def _key(judge: str, person: str, case_id: str) -> Any:
    return and_(reviews.c.judge == judge, reviews.c.case_id == case_id, reviews.c.person == person)


def _same(one: Value | None, other: Value | None, kind: ValueType) -> bool:
    return one is other if one is None or other is None else kind.agree(one, other)


# -- people who differ -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A case on which a person and others differ: the person's `own` answer, and those of the `others` who differ."""

    case: QueuedCase
    own: Review
    others: tuple[Review, ...]


@dataclass(frozen=True, kw_only=True)
class Settlement:
    """A case that waits for an owner: everybody who differs kept their answer. `answers` has the earliest first."""

    case: QueuedCase
    answers: tuple[Review, ...]


def differences(
    connection: Connection, judge: str, person: str, *, kind: ValueType, limit: int = 20
) -> list[Difference]:
    """The cases that a person and somebody else answered differently, and that wait for this person's choice.

    Args:
        connection: A transaction.
        judge: The judge's name.
        person: Who may choose: they have answered, so that nothing is shown too early.
        kind: What the judge answers with: nearly equal scores are no difference.
        limit: How many at most.

    Returns:
        Those that the person has not kept since and nobody has settled, the earliest answer first.
    """
    own = and_(reviews.c.judge == judge, reviews.c.case_id == queue.c.case_id, reviews.c.person == person)
    query = _disputed(judge).join(reviews, own).where(*_ANSWERED, reviews.c.kept_revision != reviews.c.revision)
    waiting: dict[str, tuple[Review, tuple[Review, ...]]] = {}
    for case_id, verdicts in _verdicts(connection, judge, query.order_by(reviews.c.updated_at)).items():
        answer = next(verdict for verdict in verdicts if verdict.person == person)
        if others := tuple(verdict for verdict in verdicts if not _same(verdict.value, answer.value, kind)):
            waiting[case_id] = (answer, others)
    cases = cases_of(connection, judge, list(waiting)[:limit])
    return [
        Difference(case=case, own=waiting[case.example.id][0], others=waiting[case.example.id][1]) for case in cases
    ]


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
    """Give a person's answer the verdict of a colleague: they agree now.

    The person's own words were about the verdict that they give up. They become a draft, so that they are not lost, and
    are not taught with the new verdict.

    Args:
        connection: A transaction that writes.
        judge: The judge's name.
        person: Who changes their answer.
        case_id: The case; both have answered it.
        other: The colleague who is right.
        kind: What the judge answers with.
        revision: That of the colleague's answer as it was in view; None for whatever it is now.

    Returns:
        The person's answer. `conflict`: the colleague has changed theirs since, so nothing was changed.

    Raises:
        InputError: One of the two has no answer on the case.
    """
    own, theirs = (review_of(connection, judge, name, case_id) for name in (person, other))
    if own is None or theirs is None or own.value is None or theirs.value is None:
        raise Refused("you and {other} have not both answered this case any more: look at it again", other=other)
    if revision is not None and revision != theirs.revision:
        return Saved(outcome="conflict", review=own)
    if _same(own.value, theirs.value, kind):
        return Saved(outcome="repeated", review=own)
    _words_to_draft(connection, judge, own)
    answer = Answer(state="answered", value=theirs.value, form=_TAKEN_OVER, revision=own.revision, seen=True)
    return save(connection, judge, person, case_id, answer, kind=kind)


def keep_answer(connection: Connection, judge: str, person: str, case_id: str) -> None:
    """Note that a person has seen a colleague's answer and keeps their own: an owner chooses once everybody does."""
    own = (_key(judge, person, case_id), reviews.c.state == "answered")
    connection.execute(update(reviews).where(*own).values(kept_revision=reviews.c.revision))


def open_settlements(connection: Connection, judge: str, *, kind: ValueType, limit: int = 20) -> list[Settlement]:
    """The cases that only an owner can settle: everybody who differs has kept their answer, or has left the team."""
    team = {LOCAL.name, *connection.execute(select(people.c.name)).scalars()}
    waiting: dict[str, tuple[Review, ...]] = {}
    for case_id, verdicts in _verdicts(connection, judge, _disputed(judge).order_by(queue.c.number)).items():
        differing = tuple(one for one in verdicts if any(not _same(one.value, other.value, kind) for other in verdicts))
        if differing and all(one.kept_revision == one.revision or one.person not in team for one in differing):
            waiting[case_id] = differing
    cases = cases_of(connection, judge, list(waiting)[:limit])
    return [Settlement(case=case, answers=waiting[case.example.id]) for case in cases]


def settle(connection: Connection, judge: str, case_id: str, holder: str | None) -> None:
    """Choose whose answer on a case holds. It alone is taught, until somebody answers the case differently.

    Args:
        connection: A transaction that writes.
        judge: The judge's name.
        case_id: The case.
        holder: Whose answer holds; empty to leave the case out, None to open the question again.

    Raises:
        InputError: The holder has no answer on the case.
    """
    answer = review_of(connection, judge, holder, case_id) if holder else None
    if holder and (answer is None or answer.value is None):
        raise Refused("{person} has no answer on this case any more: look at it again", person=holder)
    case = and_(queue.c.judge == judge, queue.c.case_id == case_id)
    connection.execute(update(queue).where(case).values(settled=holder, disputed=int(holder is None)))


def refresh_disputes(connection: Connection, judge: str, *, kind: ValueType) -> None:
    """See again who differs where answers have gone without their person: erased, or withdrawn from the judge."""
    several = select(reviews.c.case_id).where(reviews.c.judge == judge, *_ANSWERED).group_by(reviews.c.case_id)
    ids = connection.execute(several.having(func.count() > 1)).scalars().all()
    differing = disputed_cases(connection, judge, ids, kind)
    query = select(queue.c.number, queue.c.case_id, queue.c.disputed, queue.c.settled).where(queue.c.judge == judge)
    for row in connection.execute(query).all():
        holder = review_of(connection, judge, row.settled, row.case_id) if row.settled else None
        settled = row.settled if row.settled == "" or (holder and holder.value is not None) else None
        disputed = int(settled is None and row.case_id in differing)
        if (disputed, settled) != (row.disputed, row.settled):
            change = update(queue).where(queue.c.number == row.number)
            connection.execute(change.values(disputed=disputed, settled=settled))


def _mark_dispute(
    connection: Connection,
    judge: str,
    case: QueuedCase,
    kind: ValueType,
    *,
    person: str,
    before: Value | None,
    value: Value | None,
) -> None:
    """After an answer: put a case first while people differ, and open again what it contradicts."""
    if _same(before, value, kind):
        return
    settled = case.settled
    if settled and settled != person:
        holder = review_of(connection, judge, settled, case.example.id)
        agrees = holder is not None and (value is None or _same(holder.value, value, kind))
        settled = settled if agrees else None
    else:
        settled = None
    _write_dispute(connection, judge, case, kind, settled)


def _write_dispute(connection: Connection, judge: str, case: QueuedCase, kind: ValueType, settled: str | None) -> None:
    case_id = case.example.id
    disputed = settled is None and bool(disputed_cases(connection, judge, [case_id], kind))
    if (disputed, settled) != (case.disputed, case.settled):
        row = and_(queue.c.judge == judge, queue.c.case_id == case_id)
        connection.execute(update(queue).where(row).values(disputed=int(disputed), settled=settled))


def _disputed(judge: str) -> Select[Any]:
    """The ids of cases on which people differ; both kinds are named because the index begins with them."""
    return select(queue.c.case_id).where(queue.c.judge == judge, queue.c.held_out.in_((0, 1)), queue.c.disputed == 1)


def _verdicts(connection: Connection, judge: str, query: Select[Any]) -> dict[str, list[Review]]:
    """Everybody's verdicts on the cases of a query, in its order; words alone say nothing that could differ."""
    verdicts: dict[str, list[Review]] = {case_id: [] for case_id in connection.execute(query).scalars()}
    for answer in answers_on(connection, judge, *verdicts):
        if answer.value is not None:
            verdicts[answer.case_id].append(answer)
    return verdicts


# -- the way through the cases -----------------------------------------------------------------------------------------


def previous_case(connection: Connection, judge: str, person: str, case_id: str | None = None) -> QueuedCase | None:
    """The case that a person answered, skipped or called unclear before this one; without one, the latest."""
    own = (reviews.c.judge == judge, reviews.c.person == person)
    query = select(queue).join(reviews, and_(queue.c.judge == judge, reviews.c.case_id == queue.c.case_id))
    query = query.where(*own, reviews.c.state != "undone").order_by(reviews.c.created_at.desc()).limit(1)
    if case_id is not None and (row := _row(connection, judge, person, case_id)) is not None:
        query = query.where(reviews.c.created_at < row.created_at)
    row = connection.execute(query).one_or_none()
    return None if row is None else queued(row)


def position(connection: Connection, judge: str, person: str, case_id: str | None = None) -> tuple[int, int]:
    """Which case this is for a person, from 1, and how many there are: the next one, or one that they have answered."""
    progress = progress_of(connection, judge, person)
    row = None if case_id is None else _row(connection, judge, person, case_id)
    number = progress.total - progress.waiting + 1
    if row is not None and row.state != "undone":
        earlier = (reviews.c.judge == judge, reviews.c.person == person, reviews.c.created_at <= row.created_at)
        query = select(func.count()).select_from(reviews).where(*earlier, reviews.c.state != "undone")
        number = connection.execute(query).scalar_one()
    return min(number, progress.total), progress.total


def withdrawn(
    store: Store,
    judge: str,
    keys: Collection[FeedbackKey],
    guidelines: Collection[str],
    *,
    words_only: bool = False,
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
