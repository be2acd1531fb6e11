"""Teaching and judging: what a judge is taught, what it must forget, and which cases it then judges again.

Answers on cases that are held out never teach. Where two people differ, nothing is taught until they agree or an owner
has settled it: then the answer that holds is taught alone, and what the others had taught there is forgotten.

A case is judged with itself hidden from the judge. Of a case that it was taught it would repeat the expert's label, and
nobody could see whether the lesson helped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, and_, func, select, update

from memalign.evaluation.label_next import likeness_to_memory
from memalign.judge import Judge, Progress
from memalign.memory import Annotation, Memory
from memalign.registry import tables
from memalign.types import Example, Feedback, FeedbackKey, Judgment
from memalign_server.review.answers import TEACHES
from memalign_server.review.cases import QueuedCase, cases_ahead, cases_of, judgment_of, queued, store_judgments
from memalign_server.store import Store
from memalign_server.store.tables import from_json, queue, reviews

_OF_CASE = and_(reviews.c.judge == queue.c.judge, reviews.c.case_id == queue.c.case_id)
_UNTAUGHT = and_(reviews.c.state == "answered", reviews.c.taught != reviews.c.revision)


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """One answer that the judge has not learned.

    Attributes:
        feedback: The answer as the library takes it.
        revision: The revision of the answer.
        verdict: The judge's verdict that it is an answer to; None if the judge has judged the case again since, or had
            learned from it before.
    """

    feedback: Feedback
    revision: int
    verdict: Judgment | None


def lessons_of(connection: Connection, judge: str) -> list[Lesson]:
    """Everybody's answers that count and that the judge has not learned, the earliest first."""
    query = select(reviews, queue.c.example, queue.c.judgment, queue.c.version, queue.c.seen).join(queue, _OF_CASE)
    query = query.where(reviews.c.judge == judge, _UNTAUGHT, TEACHES).order_by(reviews.c.updated_at)
    lessons = []
    for row in connection.execute(query):
        feedback = Feedback(
            id=row.case_id,
            source=row.person,
            value=from_json(row.value),
            rationale=row.rationale,
            created_at=row.updated_at,
            **Example.from_dict(from_json(row.example)).content,
        )
        answers_it = row.judge_version in (None, row.version) and not row.seen
        verdict = judgment_of(row.judgment) if answers_it else None
        lessons.append(Lesson(feedback=feedback, revision=row.revision, verdict=verdict))
    return lessons


def untaught_words(connection: Connection, judge: str, person: str) -> dict[str, list[Annotation]]:
    """What a person explained and the judge has not learned, the earliest first, by the reason.

    They are `waiting` to be taught, or may not teach: `held-out`, `differing`, or `settled` for another answer.
    """
    query = select(reviews, queue.c.held_out, queue.c.disputed, queue.c.settled).join(queue, _OF_CASE)
    query = query.where(
        reviews.c.judge == judge, reviews.c.person == person, reviews.c.rationale.is_not(None), _UNTAUGHT
    )
    words: dict[str, list[Annotation]] = {}
    for row in connection.execute(query.order_by(reviews.c.updated_at)):
        comment = Annotation(id=row.case_id, source=person, rationale=row.rationale, created_at=row.updated_at)
        settled = "waiting" if row.settled in (None, person) else "settled"
        reason = "held-out" if row.held_out else "differing" if row.disputed else settled
        words.setdefault(reason, []).append(comment)
    return words


def teachable_count(connection: Connection, judge: str, person: str) -> int:
    """How many explained answers of a person wait to be taught: from three on the person is asked."""
    return len(untaught_words(connection, judge, person).get("waiting", ()))


def overruled(connection: Connection, judge: str, memory: Memory) -> list[FeedbackKey]:
    """What the judge has learned of cases on which an owner has settled that somebody else's answer holds, or none."""
    query = select(queue.c.case_id, queue.c.settled).where(queue.c.judge == judge, queue.c.settled.is_not(None))
    holders: dict[str, str] = dict(connection.execute(query).all())
    learned = (annotation.key for annotation in memory.annotations())
    return [key for key in learned if key.id in holders and key.source != holders[key.id]]


def mark_taught(store: Store, judge: str, revisions: Mapping[FeedbackKey, int]) -> None:
    """Note which revision of an answer the judge has learned, unless it has changed since; 0 for none."""
    with store.write() as connection:
        for key, revision in revisions.items():
            own = (reviews.c.judge == judge, reviews.c.case_id == key.id, reviews.c.person == key.source)
            same = own if not revision else (*own, reviews.c.revision == revision)
            connection.execute(update(reviews).where(*same).values(taught=revision))


AHEAD = 12
"""Cases of every person's queue that a new version judges before they are shown."""
HELD_OUT = 200
"""Answered cases that are held out and judged by every version, the latest answers first."""
AGAIN = 24
"""Answered cases that were not held out and are judged again, the latest answers first."""
Latest = Callable[[], Awaitable[tuple[Judge, int]]]
"""Loads the newest version of the judge, and its number."""
_AT_ONCE = 16
"""Cases between two writes: what is judged can be reviewed while the rest is still judged."""


def unjudged(store: Store, judge: str) -> list[Example]:
    """The cases of the queue without a judgment, in their order."""
    query = select(queue).where(queue.c.judge == judge, queue.c.judgment.is_(None)).order_by(queue.c.number)
    with store.read() as connection:
        return [queued(row).example for row in connection.execute(query)]


async def judge_hidden(judge: Judge, examples: Sequence[Example]) -> list[Judgment]:
    """The judgments of a judge on cases, each hidden from it where it was taught: the model is asked every time."""
    pairs = [(judge.without_case(example), example) for example in examples]
    others = [example for hiding, example in pairs if hiding is judge]
    runs = [judge.ajudge_many(others)] if others else []
    runs += [hiding.ajudge_many([example]) for hiding, example in pairs if hiding is not judge]
    judgments = {judgment.id: judgment for run in await asyncio.gather(*runs) for judgment in run}
    return [judgments[example.id] for example in examples]


async def judge_cases(
    store: Store,
    judge: Judge,
    version: int,
    examples: Sequence[Example],
    *,
    latest: Latest,
    new_guidelines: Collection[str] = (),
    no_lower: Collection[str] = (),
    progress: Progress | None = None,
) -> list[Judgment]:
    """Judge cases and keep the judgments as they come; a case that fails says so and does not stop the rest.

    Cases of `no_lower` keep their place among those that come next, or gain a better one. What a version says is not
    kept once something was erased from it, because it may repeat that: the `latest` one judges these cases instead.
    """
    judgments, waiting = list[Judgment](), list(examples)
    while waiting:
        part = waiting[:_AT_ONCE]
        new = await judge_hidden(judge, part)
        judged = list(zip(part, new, await likeness_to_memory(judge, part), strict=True))
        with store.write("", judge.name) as connection:  # by its name no erasure of the judge runs beside this
            if redacted := _is_redacted(connection, judge.name, version):
                waiting = [case.example for case in cases_of(connection, judge.name, [one.id for one in waiting])]
            else:
                store_judgments(connection, judge, version, judged, new_guidelines=new_guidelines, no_lower=no_lower)
        if redacted:
            judge, version = await latest()
            continue
        judgments, waiting = judgments + new, waiting[len(part) :]
        if progress is not None:
            progress("judging", len(judgments), len(judgments) + len(waiting))
    return judgments


def _is_redacted(connection: Connection, judge: str, version: int) -> bool:
    """Whether a version has lost feedback or guidelines to an erasure: then its memory has no hash any more."""
    judges, versions = tables.judges, tables.versions
    query = select(versions.c.number).join(judges, judges.c.id == versions.c.judge)
    query = query.where(judges.c.name == judge, versions.c.number == version, versions.c.memory_hash == "")
    return connection.execute(query).first() is not None


async def judge_again(
    store: Store,
    judge: Judge,
    version: int,
    *,
    latest: Latest,
    new_guidelines: Collection[str] = (),
    blank: Sequence[Example] = (),
    progress: Progress,
) -> int:
    """Have a new version judge what people see next, then what measures it, what it was taught, and what is blank.

    It has learned `new_guidelines`. What it has judged already is not judged twice: a server may be killed meanwhile.
    Returns how many cases could not be judged, because the model failed.
    """
    with store.read() as connection:
        ahead = cases_ahead(connection, judge.name, n=AHEAD)
        measuring = _answered(connection, judge.name, held_out=1, most=HELD_OUT)
        teaching = _answered(connection, judge.name, held_out=0, most=AGAIN)
    behind = (case for case in (*ahead, *measuring, *teaching) if case.judgment is None or case.is_behind(version))
    cases = {example.id: example for example in (*(case.example for case in behind), *blank)}
    judgments = await judge_cases(
        store,
        judge,
        version,
        list(cases.values()),
        latest=latest,
        new_guidelines=new_guidelines,
        no_lower={case.example.id for case in ahead},
        progress=progress,
    )
    return sum(judgment.error is not None for judgment in judgments)


def _answered(connection: Connection, judge: str, *, held_out: int, most: int) -> list[QueuedCase]:
    """Answered cases, the latest answer first."""
    answered = and_(reviews.c.judge == judge, reviews.c.case_id == queue.c.case_id, reviews.c.state == "answered")
    query = select(queue).join(reviews, answered).where(queue.c.judge == judge, queue.c.held_out == held_out)
    query = query.group_by(queue.c.number).order_by(func.max(reviews.c.updated_at).desc()).limit(most)
    return [queued(row) for row in connection.execute(query)]
