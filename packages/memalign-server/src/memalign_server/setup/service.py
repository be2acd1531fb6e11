"""What owners do with a judge's cases and its name, and a provider that is opened early."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import suppress

from memalign import aio
from memalign.errors import InputError, MemalignError
from memalign.models import default_model_name, resolve
from memalign.registry import Registry
from memalign.types import UNKNOWN_SOURCE, Feedback
from memalign.values import ValueType
from memalign_server.people.service import spelled
from memalign_server.problems import Refused
from memalign_server.review.service import NewAnswer, save
from memalign_server.store import Transaction
from memalign_server.store.answers import answer_of
from memalign_server.store.cases import ids_with_content
from memalign_server.store.tables import new_id
from memalign_server.work.jobs import Jobs

__all__ = ["delete_judge", "keep_said", "open_provider", "rename_judge"]


def keep_said(
    connection: Transaction,
    judge: str,
    said: Iterable[Feedback],
    *,
    by: str,
    kind: ValueType,
) -> int:
    """Keep what the rows of a file say of queued cases as answers, which the next teaching teaches.

    They were given with the case in another tool, so none is a blind one. What somebody has said
    here stays.

    Args:
        connection: The transaction.
        judge: The judge.
        said: What the rows say.
        by: Whose answers they are where a row names nobody.
        kind: The judge's type of verdicts.

    Returns:
        How many answers are new.
    """
    kept = 0
    names = {}
    for feedback in said:
        source = by if feedback.source == UNKNOWN_SOURCE else feedback.source
        if source not in names:
            names[source] = spelled(connection, source)
        for case_id in ids_with_content(connection, judge, feedback.content_hash):
            if answer_of(connection, judge, names[source], case_id) is None:
                kept += _keep_one(
                    connection, judge, names[source], case_id, feedback, kind
                )
    return kept


def _keep_one(
    connection: Transaction,
    judge: str,
    person: str,
    case_id: str,
    feedback: Feedback,
    kind: ValueType,
) -> bool:
    answer = NewAnswer(
        state="answered",
        value=feedback.value,
        rationale=feedback.rationale or "",
        form=new_id(),
        seen=True,
    )
    try:
        save(connection, judge, person, case_id, answer, kind=kind)
    except InputError:  # such as words without end: the case itself can be used
        return False
    return True


def rename_judge(registry: Registry, jobs: Jobs, judge: str, name: str) -> None:
    """Give a judge another name.

    Raises:
        InputError: Work on the judge is under way, or the name is none that a judge can have.
        JudgeExists: Another judge has the name.
    """
    _check_idle(jobs, judge)
    registry.rename(judge, name.strip())


def delete_judge(registry: Registry, jobs: Jobs, judge: str, *, typed: str) -> None:
    """Delete a judge with all its versions, cases and answers.

    Raises:
        InputError: What was typed is not the judge's name, or work on the judge is under way.
    """
    if typed.strip() != judge:
        raise Refused(
            "type the name of the judge, {name}, to delete it", field="name", name=judge
        )
    _check_idle(jobs, judge)
    registry.delete(judge)


def _check_idle(jobs: Jobs, judge: str) -> None:
    if jobs.recent(judge, active=True):
        raise Refused("the judge is at work: wait until it has ended", field="name")


def open_provider(model: str | None = None) -> None:
    """Begin to load a model's library in the background, so that no trial waits for it.

    Args:
        model: The model's name; without one the model for which the server has a key.
    """

    def load() -> None:
        with suppress(MemalignError, OSError):  # the trial itself says what is wrong
            ready = getattr(resolve(name), "ready", None)
            if ready is not None:
                aio.run(ready())

    name = model or default_model_name()
    if name is not None and not name.startswith("local:"):
        threading.Thread(target=load, name="memalign-provider", daemon=True).start()
