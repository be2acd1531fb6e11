"""What experts say of cases: saved at once, once, and never over what another tab said since."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from memalign.keys import FeedbackKey, name_key
from memalign.memory import Annotation
from memalign.values import Value, ValueType
from memalign_server.people.service import spelled
from memalign_server.problems import Refused
from memalign_server.store import Transaction
from memalign_server.store.answers import (
    add_answer,
    answer_of,
    change_answer,
    drafts_of,
    people_who_answered,
    seen_until,
    verdicts_on,
    withdraw_answers,
)
from memalign_server.store.cases import Progress, case_of, mark_dispute
from memalign_server.store.rows import Answer, AnswerChange, QueuedCase
from memalign_server.store.tables import new_id, now

State = Literal["answered", "skipped", "unclear"]

LONGEST = 50_000
"""Characters of an expert's words."""
TAKEN_OVER = "taken over"
"""In place of a form: the person agreed with a colleague."""


@dataclass(frozen=True, kw_only=True)
class NewAnswer:
    """What a form says of a case.

    Attributes:
        state: Whether the person answers, skips or is not sure.
        value: Their verdict; None for words alone.
        rationale: Their words. None keeps the words that are there with their verdict: if it
            changes, they become a draft.
        form: The form's own random id.
        revision: The revision that the form was filled in against: 0 for an unanswered case.
        seen: Whether the judge's verdict was in view.
    """

    state: State
    value: Value | None = None
    rationale: str | None = ""
    form: str
    revision: int = 0
    seen: bool = False


def save(
    connection: Transaction,
    judge: str,
    person: str,
    case_id: str,
    answer: NewAnswer,
    *,
    kind: ValueType,
) -> Answer | None:
    """Keep a person's answer on a case; the same form twice is kept once.

    Returns:
        None, or the answer that stays: a form that was filled in against an older revision changes
        nothing.

    Raises:
        InputError: The case is not in the queue, or an answer has neither value nor words.
    """
    case = case_of(connection, judge, case_id)
    if case is None:
        raise Refused(
            "case '{case}' is not in the queue: it was erased or removed", case=case_id
        )
    before = answer_of(connection, judge, person, case_id)
    value, words = _checked(answer, before, kind)
    if before is not None and before.revision != answer.revision:
        is_repeated = before.form == answer.form and answer.revision < before.revision
        return None if is_repeated else before
    values = _statement(answer, before, value, words)
    if _is_blind(answer, before):
        values |= _blind(case, value)
    if before is None:
        add_answer(connection, judge, person, case_id, **values)
        is_same = value is None
    else:
        is_same = same_value(before.value, value, kind)
        _replace(
            connection,
            before,
            values,
            is_same=is_same,
            keeps_words=answer.rationale is None,
        )
    if not is_same:
        _reopen(connection, case, person, value, kind)
    return None


def _checked(
    answer: NewAnswer, before: Answer | None, kind: ValueType
) -> tuple[Value | None, str | None]:
    """Return the verdict and the words that are kept of a form.

    Raises:
        InputError: An answer has neither value nor words, or there are too many.
    """
    if answer.rationale is None:
        words = None
        kept = None if before is None else before.rationale
    else:
        words = _checked_words(answer.rationale).strip() or None
        kept = words
    if answer.state != "answered":
        return None, kept
    if answer.value is None:
        if kept is None:
            raise Refused("choose a verdict, or write why, or skip the case")
        value = None
    else:
        value = kind.parse(answer.value)
    stays = (
        before is None or before.value is None or same_value(before.value, value, kind)
    )
    return value, kept if stays else words


def _checked_words(words: str) -> str:
    words = words.replace("\x00", "").replace("\r\n", "\n")
    if len(words) > LONGEST:
        raise Refused(
            "your words have {n} characters; keep them under {most}",
            n=len(words),
            most=LONGEST,
        )
    return words


def _statement(
    answer: NewAnswer, before: Answer | None, value: Value | None, words: str | None
) -> AnswerChange:
    """Return what a form says, as the next revision; what was undone elsewhere begins again."""
    at = now()
    values: AnswerChange = {
        "state": answer.state,
        "value": value,
        "rationale": words,
        "form": answer.form,
        "revision": 1 if before is None else before.revision + 1,
        "updated_at": at,
        "overruled_by": None,
        "overruled_for": None,
    }
    if before is None or before.state != "answered":
        values["created_at"] = at
    if before is None:
        values["value_since"] = 1
    return values


def _is_blind(answer: NewAnswer, before: Answer | None) -> bool:
    """Return whether nobody has told the person what the judge says, before or with this form."""
    if answer.seen:
        return False
    if before is None:
        return True
    return before.state in ("skipped", "unclear") and before.blind_value is None


def _blind(case: QueuedCase, value: Value | None) -> AnswerChange:
    """Return what counts as evidence later: the blind answer, and the judge's of that moment.

    Of a case that the judge had learned from it is only the answer: that the judge repeats what it
    was taught proves nothing.
    """
    if value is None:
        return {}
    blind: AnswerChange = {"blind_value": value}
    if case.judgment is not None and case.judgment.value is not None and not case.seen:
        blind |= {"judge_value": case.judgment.value, "judge_version": case.version}
    return blind


def _replace(
    connection: Transaction,
    before: Answer,
    values: AnswerChange,
    *,
    is_same: bool,
    keeps_words: bool,
) -> None:
    """Put a new statement in the place of the one before.

    Words about a verdict that is given up become a draft.
    """
    revision = values["revision"]
    if not is_same:
        values["value_since"] = revision
        if keeps_words:
            give_up_words(connection, before)
    elif before.is_kept:
        values["kept_revision"] = revision  # only the words are new
    change_answer(connection, before.judge, before.person, before.case_id, **values)


def _reopen(
    connection: Transaction,
    case: QueuedCase,
    person: str,
    value: Value | None,
    kind: ValueType,
) -> None:
    """Open again what was settled, if a new verdict contradicts it."""
    ((_, verdicts),) = verdicts_on(connection, case.judge, [case.case_id])
    if _holds_still(connection, case, person, value, kind):
        by = case.settled_by
        mark_dispute(connection, case.judge, case.case_id, False, case.settled, by)
    else:
        mark_dispute(connection, case.judge, case.case_id, differ(verdicts, kind))


def _holds_still(
    connection: Transaction,
    case: QueuedCase,
    person: str,
    value: Value | None,
    kind: ValueType,
) -> bool:
    """Return whether the answer that was settled on holds although this person says more."""
    if case.settled in (None, "", person):
        return False
    holder = answer_of(connection, case.judge, case.settled or "", case.case_id)
    return holder is not None and (
        value is None or same_value(holder.value, value, kind)
    )


def same_value(one: Value | None, other: Value | None, kind: ValueType) -> bool:
    """Return whether two verdicts agree; none agrees with none."""
    if one is None or other is None:
        return one is other
    return kind.agree(one, other)


def differ(verdicts: Iterable[Answer], kind: ValueType) -> bool:
    """Return whether two of the verdicts do not agree."""
    return any(
        not same_value(one.value, other.value, kind)
        for one, other in combinations(verdicts, 2)
    )


# -- drafts: words that are typed and not yet given to an answer -----------------------


def save_draft(
    connection: Transaction,
    judge: str,
    person: str,
    case_id: str,
    words: str,
    *,
    revision: int,
    answer: int | None = None,
) -> bool:
    """Keep all that is in the field of an answered case.

    Words that were typed over an older draft, in another window, are joined to those that were
    saved since: none of the two is lost. Words belong to the answer over which they were typed: if
    the verdict is another one by now, they are kept and are not given to it.

    Args:
        connection: A transaction.
        judge: The judge.
        person: Who types.
        case_id: The case.
        words: All that is in the field.
        revision: The revision of the draft with which the field was filled.
        answer: The revision of the answer over which it was typed; None for that of now.

    Returns:
        Whether they belong to the verdict of now.

    Raises:
        InputError: There are too many words, or the person has not answered the case.
    """
    words = _checked_words(words)
    own = answer_of(connection, judge, person, case_id)
    if own is None:
        raise Refused("answer this case first")
    typed_over = own.revision if answer is None else answer
    saved = own.words
    if own.draft_revision != revision and saved.strip() not in words:
        words = saved if words.strip() in saved else _checked_words(f"{saved}\n{words}")
    if words != own.draft or typed_over != own.draft_of:
        _set_draft(connection, own, words, typed_over)
    return typed_over >= own.value_since


def say_drafts(
    connection: Transaction, judge: str, person: str, *case_ids: str, kind: ValueType
) -> None:
    """Give a person's drafts to the answers that they belong to, as their words.

    Without `case_ids` it is all of them. Drafts on cases without an answer stay, and so do words
    about a verdict that the person has given up since.
    """
    for own in drafts_of(connection, judge, person):
        if own.is_stale or (case_ids and own.case_id not in case_ids):
            continue
        words = own.words.strip()
        if words != (own.rationale or "") and (words or own.value is not None):
            answer = NewAnswer(
                state="answered",
                value=own.value,
                rationale=words,
                form=new_id(),
                revision=own.revision,
                seen=True,
            )
            save(connection, judge, person, own.case_id, answer, kind=kind)
        _set_draft(connection, own, None)


def give_up_words(connection: Transaction, own: Answer) -> None:
    """Keep a person's words about a verdict that they give up, as a draft that is not taught."""
    if own.rationale is not None and own.draft is None:  # nothing newer was typed
        _set_draft(connection, own, own.rationale, own.value_since)


def _set_draft(
    connection: Transaction, own: Answer, words: str | None, answer: int = 0
) -> None:
    """Change a draft; what was typed before that and arrives later is joined to it."""
    revision = own.draft_revision + 1
    change: AnswerChange = {
        "draft": words,
        "draft_revision": revision,
        "draft_of": answer,
    }
    change_answer(connection, own.judge, own.person, own.case_id, **change)


# -- blind first: before they answer a person is told nothing of what others say -------


def mark_seen(connection: Transaction, judge: str, person: str, case_id: str) -> None:
    """Note that a person was told the verdict on a case: no answer of theirs is blind any more.

    A case that they skipped is asked again.
    """
    own = answer_of(connection, judge, person, case_id)
    if own is None:
        add_answer(connection, judge, person, case_id, state="undone", revision=0)
    elif own.state in ("skipped", "unclear") and own.blind_value is None:
        change_answer(connection, judge, person, case_id, state="undone")


# -- the way through the cases ---------------------------------------------------------


def position(
    connection: Transaction,
    judge: str,
    person: str,
    progress: Progress,
    case_id: str | None = None,
) -> int:
    """Return which case this is for a person, from 1; one that they did not come to is the next."""
    number = 0 if case_id is None else seen_until(connection, judge, person, case_id)
    return min(number or progress.total - progress.waiting + 1, progress.total)


# -- what goes from memory without its person's doing ----------------------------------


def overrule(
    connection: Transaction,
    judge: str,
    feedback: Iterable[Annotation],
    *,
    by: str,
    holder: str,
) -> None:
    """Put people's words out of force by somebody's choice: they stay, with whose choice it was.

    Args:
        connection: The transaction.
        judge: The judge that followed them.
        feedback: What is out of force, as the judge had it in memory.
        by: Who chose.
        holder: Whose words hold instead; "" for nobody's.
    """
    choice: AnswerChange = {"overruled_by": by, "overruled_for": holder, "taught": 0}
    for said in feedback:
        person = spelled(connection, said.source)
        if change_answer(connection, judge, person, said.id, **choice):
            continue
        at = said.created_at or now()
        values: AnswerChange = {
            "state": "answered",
            "value": said.value,
            "rationale": said.rationale,
            "revision": 1,
            "value_since": 1,
            "created_at": at,
            "updated_at": at,
        }
        add_answer(connection, judge, person, said.id, **(values | choice))


def withdraw(
    connection: Transaction,
    judge: str,
    keys: Iterable[FeedbackKey],
    *,
    words_only: bool = False,
) -> None:
    """Take the answers of these keys back.

    The next teaching must not teach them again, and no word of them stays. With `words_only`
    verdicts stay answers, and so do words that were written after those that the judge had learned.
    """
    spellings: dict[str, list[str]] = {}
    for person in people_who_answered(connection, judge):
        spellings.setdefault(name_key(person), []).append(person)
    for key in keys:
        people = spellings.get(name_key(key.source), [])
        withdraw_answers(connection, judge, key.id, people, words_only=words_only)
