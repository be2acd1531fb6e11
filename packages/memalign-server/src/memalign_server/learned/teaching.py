"""Teaching: what a judge is taught, and what it must forget.

Answers on cases that are held out never teach. Where two people differ, nothing is taught until they agree or an owner
has settled it: then the answer that holds is taught alone, and what the others had taught there is forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memalign.keys import same_person
from memalign.memory import Annotation, Memory
from memalign.types import Feedback, FeedbackKey, Judgment
from memalign_server.store import Store, Transaction, answers
from memalign_server.store.answers import AnsweredCase
from memalign_server.store.rows import Answer

_CHOICE = "choice"


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """One answer that the judge has not learned, as the library takes it, and its revision.

    `verdict` is the judge's that it is an answer to; None if the judge has judged the case again since, or had learned
    from it before.
    """

    feedback: Feedback
    revision: int
    verdict: Judgment | None


def lessons_of(connection: Transaction, judge: str) -> list[Lesson]:
    """Return everybody's answers that count and that the judge has not learned, the earliest first."""
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


def untaught_words(connection: Transaction, judge: str, person: str) -> dict[str, list[Annotation]]:
    """Return what a person explained and the judge has not learned, the earliest first, by the reason.

    They are `waiting` to be taught, or may not teach: `held-out`, `differing`, or out of force by somebody's choice,
    whose reason says who chose, and whose words hold instead (see `choice_of`).
    """
    words: dict[str, list[Annotation]] = {}
    for answer in answers.overruled_words(connection, judge, person):
        reason = _choice(answer.overruled_by, answer.overruled_for)
        words.setdefault(reason, []).append(_comment(answer))
    for pair in answers.untaught_words(connection, judge, person):
        words.setdefault(_reason(pair, person), []).append(_comment(pair.answer))
    return words


def _comment(answer: Answer) -> Annotation:
    return Annotation(
        id=answer.case_id,
        source=answer.person,
        rationale=answer.rationale,
        created_at=answer.updated_at,
    )


def _reason(pair: AnsweredCase, person: str) -> str:
    """Return why the words of an answer that nobody overruled are not taught."""
    case = pair.case
    if case.held_out:
        return "held-out"
    if case.disputed:
        return "differing"
    return "waiting" if case.settled in (None, person) else _choice(case.settled_by, case.settled)


def _choice(by: str | None, holder: str | None) -> str:
    return "\n".join((_CHOICE, by or "", holder or ""))


def choice_of(reason: str) -> tuple[str, str] | None:
    """Return who put words out of force and whose hold instead, "" for nobody's; None for another reason."""
    kind, _, names = reason.partition("\n")
    by, _, holder = names.partition("\n")
    return (by, holder) if kind == _CHOICE else None


def overruled(connection: Transaction, judge: str, memory: Memory) -> list[FeedbackKey]:
    """Return what the judge has learned of cases on which an owner has settled on somebody else's answer, or none."""
    keys = list[FeedbackKey]()
    settled = answers.settlements(connection, judge)
    for annotation in memory.annotations():
        holder, _ = settled.get(annotation.id, (None, None))
        if holder is not None and not same_person(annotation.source, holder):
            keys.append(annotation.key)
    return keys


def mark_taught(store: Store, judge: str, revisions: Mapping[FeedbackKey, int]) -> None:
    """Note which revision of an answer the judge has learned, unless it has changed since; 0 for none."""
    with store.write() as connection:
        for key, revision in revisions.items():
            answers.mark_taught(connection, judge, key, revision)
