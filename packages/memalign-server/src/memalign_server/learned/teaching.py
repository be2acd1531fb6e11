"""Teaching: what a judge is taught, and what it must forget.

Answers on cases that are held out never teach. Where two people differ, nothing is taught until
they agree or an owner has settled it. Then the answer that holds is taught alone, and what the
others had taught there is forgotten.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from memalign.keys import same_person
from memalign.memory import Annotation, Memory
from memalign.types import Feedback, FeedbackKey, Judgment
from memalign_server.store import Store, Transaction, answers
from memalign_server.store.answers import AnsweredCase
from memalign_server.store.rows import Answer

LATER = "memalign_later"
"""The cookie that says at how many explained answers a person put teaching off."""
ENOUGH = 3
"""Explained answers from which on a person is asked whether to teach."""
_CHOICE = "choice"
_WAITING = "waiting"


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """One answer that the judge has not learned, as the library takes it.

    Attributes:
        feedback: The answer.
        revision: Its revision.
        verdict: The judge's verdict that it answers; None if the judge has judged the case again
            since, or had learned from it before.
    """

    feedback: Feedback
    revision: int
    verdict: Judgment | None


def lessons_of(connection: Transaction, judge: str) -> list[Lesson]:
    """Return everybody's answers that count and are not learned yet, the earliest first."""
    return [_lesson(pair) for pair in answers.lessons(connection, judge)]


def _lesson(pair: AnsweredCase) -> Lesson:
    case = pair.case
    answer = pair.answer
    feedback = Feedback(
        id=answer.case_id,
        source=answer.person,
        value=answer.value,
        rationale=answer.rationale,
        created_at=answer.updated_at,
        **case.example.content,
    )
    is_of_verdict = answer.judge_version in (None, case.version) and not case.seen
    return Lesson(
        feedback=feedback,
        revision=answer.revision,
        verdict=case.judgment if is_of_verdict else None,
    )


def untaught_words(
    connection: Transaction, judge: str, person: str
) -> dict[str, list[Annotation]]:
    """Return what a person explained and the judge has not learned, by the reason, earliest first.

    It is `waiting` to be taught, or may not teach: `held-out`, `differing`, `apart` because the
    queue does not have what it is about, or out of force by somebody's choice, which `choice_of`
    reads.
    """
    words = defaultdict[str, list[Annotation]](list)
    for answer in answers.words_apart(connection, judge, person):
        words["apart"].append(_comment(answer))
    for answer in answers.overruled_words(connection, judge, person):
        reason = _choice(answer.overruled_by, answer.overruled_for)
        words[reason].append(_comment(answer))
    for pair in answers.untaught_words(connection, judge, person):
        reason = _reason(pair, person)
        words[reason].append(_comment(pair.answer))
    return words


def waiting_words(connection: Transaction, judge: str, person: str) -> list[Annotation]:
    """Return what a person explained and the judge can be taught, the earliest first."""
    words = []
    for pair in answers.untaught_words(connection, judge, person):
        if _reason(pair, person) == _WAITING:
            words.append(_comment(pair.answer))
    return words


def is_time_to_teach(waiting: int, later: str) -> bool:
    """Return whether a person is asked now to teach: at three explained answers, and three more.

    Args:
        waiting: The answers that they explained and that are not taught.
        later: The value of the cookie `LATER`, which browsers can send as they like.
    """
    put_off = 0
    if later.isdecimal() and len(later) < 10:
        put_off = int(later)
    return waiting >= ENOUGH + put_off


def _comment(answer: Answer) -> Annotation:
    return Annotation(
        id=answer.case_id,
        source=answer.person,
        rationale=answer.rationale or answer.draft,
        created_at=answer.updated_at,
    )


def _reason(pair: AnsweredCase, person: str) -> str:
    """Return why the words of an answer that nobody overruled are not taught."""
    case = pair.case
    if case.held_out:
        return "held-out"
    if case.disputed:
        return "differing"
    if case.settled in (None, person):
        return _WAITING
    return _choice(case.settled_by, case.settled)


def _choice(by: str | None, holder: str | None) -> str:
    return "\n".join((_CHOICE, by or "", holder or ""))


def choice_of(reason: str) -> tuple[str, str] | None:
    """Return who put words out of force and whose hold instead, or None for another reason.

    The holder is "" if nobody's words hold.
    """
    kind, _, names = reason.partition("\n")
    if kind != _CHOICE:
        return None
    by, _, holder = names.partition("\n")
    return by, holder


def overruled(connection: Transaction, judge: str, memory: Memory) -> list[FeedbackKey]:
    """Return what the judge has learned and an owner's choice has put out of force."""
    keys = []
    settled = answers.settlements(connection, judge)
    for case in memory.cases:
        content = case.example.content_hash
        holder, _ = settled.get((case.id, content), (None, None))
        if holder is None:
            continue
        for annotation in case.annotations:
            if not same_person(annotation.source, holder):
                keys.append(annotation.key)
    return keys


def mark_taught(store: Store, judge: str, lessons: Iterable[Lesson]) -> None:
    """Note which revision of each answer is learned, if it is still that one."""
    with store.write() as connection:
        for lesson in lessons:
            answers.mark_taught(connection, judge, lesson.feedback, lesson.revision)


def mark_untaught(store: Store, judge: str, keys: Iterable[FeedbackKey]) -> None:
    """Note that the judge does not follow these answers any more."""
    with store.write() as connection:
        for key in keys:
            own = answers.answer_of(connection, judge, key.source, key.id)
            if own is not None:
                answers.change_answer(connection, own, replace(own, taught=0))
