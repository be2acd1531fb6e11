"""What experts say of cases: saved at once, once, and never over what another tab said since."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from memalign.keys import FeedbackKey, same_person
from memalign.memory import Memory
from memalign.values import Value, ValueType
from memalign_server.people.service import spelled
from memalign_server.problems import Refused
from memalign_server.store import Transaction
from memalign_server.store.answers import (
    add_answer,
    answer_of,
    answers_on,
    change_answer,
    drafts_of,
    seen_until,
    verdicts_on,
)
from memalign_server.store.cases import Progress, case_of, mark_dispute
from memalign_server.store.rows import Answer, QueuedCase
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
    own = before or _nothing_said(case, person)
    is_same = same_value(own.value, value, kind)
    after = _statement(own, answer, value, words, is_same=is_same)
    if _is_blind(answer, before):
        after = _with_blind(after, case)
    if before is None:
        add_answer(connection, after)
    else:
        change_answer(connection, before, after)
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
    if before is None or before.value is None:
        return value, kept
    stays = same_value(before.value, value, kind)
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


def _nothing_said(case: QueuedCase, person: str) -> Answer:
    return Answer(
        judge=case.judge,
        case_id=case.case_id,
        content_hash=case.content_hash,
        person=person,
    )


def _statement(
    own: Answer,
    answer: NewAnswer,
    value: Value | None,
    words: str | None,
    *,
    is_same: bool,
) -> Answer:
    """Return an answer with what a form says, as its next revision.

    What was undone elsewhere begins again. Words about a verdict that is given up become a draft.
    """
    at = now()
    revision = own.revision + 1
    if not is_same and answer.rationale is None:
        own = without_words(own)
    return replace(
        own,
        state=answer.state,
        value=value,
        rationale=words,
        form=answer.form,
        revision=revision,
        value_since=own.value_since if is_same and own.value_since else revision,
        # It is kept where only the words are new.
        kept_revision=revision if is_same and own.is_kept else own.kept_revision,
        overruled_by=None,
        overruled_for=None,
        created_at=own.created_at if own.state == "answered" else at,
        updated_at=at,
    )


def _is_blind(answer: NewAnswer, before: Answer | None) -> bool:
    """Return whether nobody has told the person what the judge says, before or with this form."""
    if answer.seen:
        return False
    if before is None:
        return True
    return before.state in ("skipped", "unclear") and before.blind_value is None


def _with_blind(own: Answer, case: QueuedCase) -> Answer:
    """Return the answer with what counts as evidence later: its verdict, and the judge's of now.

    Of a case that the judge had learned from it is only the answer: that the judge repeats what it
    was taught proves nothing.
    """
    if own.value is None:
        return own
    blind = replace(own, blind_value=own.value)
    if case.judgment is None or case.judgment.value is None or case.seen:
        return blind
    return replace(blind, judge_value=case.judgment.value, judge_version=case.version)


def _reopen(
    connection: Transaction,
    case: QueuedCase,
    person: str,
    value: Value | None,
    kind: ValueType,
) -> None:
    """Open again what was settled, if a new verdict contradicts it."""
    if _holds_still(connection, case, person, value, kind):
        return
    for case_id, verdicts in verdicts_on(connection, case.judge, [case.case_id]):
        is_disputed = bool(differing(verdicts, kind))
        mark_dispute(connection, case.judge, case_id, is_disputed)


def _holds_still(
    connection: Transaction,
    case: QueuedCase,
    person: str,
    value: Value | None,
    kind: ValueType,
) -> bool:
    """Return whether the answer that was settled on holds although this person says more."""
    if not case.settled or case.settled == person:
        return False
    holder = answer_of(connection, case.judge, case.settled, case.case_id)
    if holder is None:
        return False
    return value is None or same_value(holder.value, value, kind)


def same_value(one: Value | None, other: Value | None, kind: ValueType) -> bool:
    """Return whether two verdicts agree; none agrees with none."""
    if one is None or other is None:
        return one is other
    return kind.agree(one, other)


def differing(verdicts: Sequence[Answer], kind: ValueType) -> list[Answer]:
    """Return the verdicts with which some other one does not agree."""
    differ = []
    for one in verdicts:
        if not all(same_value(one.value, other.value, kind) for other in verdicts):
            differ.append(one)
    return differ


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
        change_answer(connection, own, _with_draft(own, words, typed_over))
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
        said = answer_of(connection, judge, person, own.case_id) or own
        change_answer(connection, said, _with_draft(said, None))


def without_words(own: Answer) -> Answer:
    """Return an answer whose words are a draft, not taught, because its verdict is given up."""
    if own.rationale is None or own.draft is not None:  # something newer was typed
        return own
    return _with_draft(own, own.rationale, own.value_since)


def _with_draft(own: Answer, words: str | None, answer: int = 0) -> Answer:
    """Return an answer with another draft; what was typed before it and comes later is joined."""
    revision = own.draft_revision + 1
    return replace(own, draft=words, draft_revision=revision, draft_of=answer)


# -- blind first: before they answer a person is told nothing of what others say -------


def mark_seen(connection: Transaction, case: QueuedCase, person: str) -> None:
    """Note that a person was told the verdict on a case: no answer of theirs is blind any more.

    A case that they skipped is asked again.
    """
    said = answers_on(connection, case.judge, case.case_id, case.content_hash)
    own = next((one for one in said if one.person == person), None)
    if own is None:
        add_answer(connection, _nothing_said(case, person))
    elif own.state in ("skipped", "unclear") and own.blind_value is None:
        change_answer(connection, own, replace(own, state="undone"))


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
    memory: Memory,
    keys: Iterable[FeedbackKey],
    *,
    by: str,
    holder: str,
) -> None:
    """Put people's words out of force by somebody's choice: they stay, with whose choice it was.

    Args:
        connection: The transaction.
        judge: The judge that followed them.
        memory: Its memory, which had them.
        keys: What is out of force.
        by: Who chose.
        holder: Whose words hold instead; "" for nobody's.
    """
    for key in keys:
        said, case = memory.record(key)
        known = _answers_of(connection, judge, memory, key)
        for own in known:
            after = replace(own, overruled_by=by, overruled_for=holder, taught=0)
            change_answer(connection, own, after)
        if not known:
            at = said.created_at or now()
            answer = Answer(
                judge=judge,
                case_id=key.id,
                content_hash=case.example.content_hash,
                person=spelled(connection, said.source),
                state="answered",
                value=said.value,
                rationale=said.rationale,
                revision=1,
                value_since=1,
                overruled_by=by,
                overruled_for=holder,
                created_at=at,
                updated_at=at,
            )
            add_answer(connection, answer)


def withdraw(
    connection: Transaction,
    judge: str,
    memory: Memory,
    keys: Iterable[FeedbackKey],
    *,
    words_only: bool = False,
) -> None:
    """Take the answers of these keys back, on the content that the memory has under them.

    The next teaching must not teach them again, and no word of them stays. With `words_only`
    verdicts stay answers, and so do words that were written after those that the judge had learned.
    """
    for key in keys:
        for own in _answers_of(connection, judge, memory, key):
            after = _withdrawn(own, words_only=words_only)
            change_answer(connection, own, after)


def _answers_of(
    connection: Transaction, judge: str, memory: Memory, key: FeedbackKey
) -> list[Answer]:
    """Return what a person said of the content that a memory has, however their name is spelled."""
    case = memory.case(key.id)
    if case is None:
        return []
    said = answers_on(connection, judge, key.id, case.example.content_hash)
    return [own for own in said if same_person(own.person, key.source)]


def _withdrawn(own: Answer, *, words_only: bool) -> Answer:
    untaught = replace(own, taught=0)
    if words_only and own.taught != own.revision:
        return untaught
    wordless = replace(
        untaught, rationale=None, revision=own.revision + 1, updated_at=now()
    )
    if words_only and own.value is not None:
        return wordless
    return replace(
        wordless,
        state="undone",
        value=None,
        blind_value=None,
        judge_value=None,
        judge_version=None,
        draft=None,
        form="",
    )
