"""People who answered a case differently: each sees the other's answer once, then an owner settles.

If one of them takes the other's answer there is nothing to settle. Until then neither is taught.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from memalign.values import ValueType
from memalign_server.people.service import LOCAL, list_people
from memalign_server.problems import Refused
from memalign_server.review.service import (
    TAKEN_OVER,
    NewAnswer,
    differing,
    same_value,
    save,
    without_words,
)
from memalign_server.store import Transaction
from memalign_server.store.answers import (
    answer_of,
    change_answer,
    disputed_for,
    disputed_for_owner,
    settlements,
    verdicts_on,
)
from memalign_server.store.cases import case_of, mark_dispute
from memalign_server.store.rows import Answer, QueuedCase
from memalign_server.store.tables import new_id


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A case on which people differ, with their answers, the earliest first.

    Attributes:
        case: The case.
        answers: Those that differ; for one of the people, those that say otherwise than theirs.
        own: The answer of the person for whom it waits; None if it waits for an owner.
    """

    case: QueuedCase
    answers: Sequence[Answer]
    own: Answer | None = None


def difference(
    connection: Transaction,
    judge: str,
    person: str,
    *,
    kind: ValueType,
    put_off: Collection[str] = (),
) -> Difference | None:
    """Return the first case on which a person has to choose between their answer and another's.

    Nearly equal scores of a `kind` are no difference. Cases whose answer the person has kept do not
    wait, nor do those that an owner has settled or that are `put_off`. The person's earliest answer
    comes first.
    """
    waiting = _but(put_off, disputed_for(connection, judge, person))
    for case_id, verdicts in verdicts_on(connection, judge, waiting):
        own = next((answer for answer in verdicts if answer.person == person), None)
        if own is None:
            continue
        others = []
        for answer in verdicts:
            if not same_value(answer.value, own.value, kind):
                others.append(answer)
        case = case_of(connection, judge, case_id) if others else None
        if case is not None:
            return Difference(case=case, answers=others, own=own)
    return None


def take_over(
    connection: Transaction,
    judge: str,
    person: str,
    case_id: str,
    other: str,
    *,
    kind: ValueType,
    revision: int,
) -> bool:
    """Give a person's answer the verdict of the `other` one, a colleague: they agree now.

    The person's own words were about the verdict that they give up. They become a draft, so that
    they are not lost, and are not taught with the new verdict.

    Returns:
        Whether it was done: not if the colleague's answer is not of this `revision` any more.

    Raises:
        InputError: One of the two has no verdict on the case.
    """
    own = answer_of(connection, judge, person, case_id)
    theirs = answer_of(connection, judge, other, case_id)
    if own is None or theirs is None or own.value is None or theirs.value is None:
        raise Refused(
            "you and {other} have not both answered this case any more: look at it again",
            other=other,
        )
    if revision != theirs.revision or same_value(own.value, theirs.value, kind):
        return False
    change_answer(connection, own, without_words(own))
    answer = NewAnswer(
        state="answered",
        value=theirs.value,
        form=TAKEN_OVER,
        revision=own.revision,
        seen=True,
    )
    save(connection, judge, person, case_id, answer, kind=kind)
    return True


def keep_answer(connection: Transaction, judge: str, person: str, case_id: str) -> bool:
    """Note that a person has seen a colleague's answer and keeps their own.

    They are not asked again while their verdict stays. Once everybody who differs keeps theirs, an
    owner chooses.

    Returns:
        Whether they have an answer.
    """
    own = answer_of(connection, judge, person, case_id)
    if own is None or own.state != "answered":
        return False
    change_answer(connection, own, replace(own, kept_revision=own.revision))
    return True


def open_settlement(
    connection: Transaction,
    judge: str,
    *,
    kind: ValueType,
    put_off: Collection[str] = (),
) -> Difference | None:
    """Return the first case that only an owner can settle.

    All who differ have kept their answers, or have left the team.
    """
    team = {LOCAL.name, *(member.name for member in list_people(connection))}
    waiting = _but(put_off, disputed_for_owner(connection, judge, team))
    for case_id, verdicts in verdicts_on(connection, judge, waiting):
        differ = differing(verdicts, kind)
        chosen = all(answer.is_kept or answer.person not in team for answer in differ)
        case = case_of(connection, judge, case_id) if differ and chosen else None
        if case is not None:
            return Difference(case=case, answers=differ)
    return None


def settle(
    connection: Transaction, judge: str, case_id: str, holder: str, *, by: str
) -> None:
    """Choose whose answer on a case holds; an empty `holder` leaves the case out.

    It alone is taught, until somebody answers the case differently.

    Raises:
        InputError: The holder has no answer on the case.
    """
    answer = answer_of(connection, judge, holder, case_id) if holder else None
    if holder and (answer is None or answer.value is None):
        raise Refused(
            "{person} has no answer on this case any more: look at it again",
            person=holder,
        )
    mark_dispute(connection, judge, case_id, False, holder, by)


def undo(
    connection: Transaction,
    judge: str,
    person: str,
    done: Mapping[str, Any],
    *,
    kind: ValueType,
) -> None:
    """Take back what a person has just chosen on a difference, if nothing was said there since.

    Args:
        connection: The transaction.
        judge: The judge.
        person: Who chose, and takes it back.
        done: The `case`; `what` was done: kept, taken or settled; and the person's `value` before.
        kind: The judge's type of verdicts.
    """
    case = case_of(connection, judge, str(done.get("case")))
    if case is None:
        return
    own = answer_of(connection, judge, person, case.case_id)
    what = done.get("what")
    if what == "settled" and case.settled_by == person:
        mark_dispute(connection, judge, case.case_id, True)
    elif own is not None and what == "kept":
        change_answer(connection, own, replace(own, kept_revision=0))
    elif own is not None and what == "taken" and own.form == TAKEN_OVER:
        before = NewAnswer(
            state="answered",
            value=done.get("value"),
            rationale=own.draft or "",
            form=new_id(),
            revision=own.revision,
            seen=True,
        )
        save(connection, judge, person, case.case_id, before, kind=kind)
        said = answer_of(connection, judge, person, case.case_id) or own
        change_answer(connection, said, replace(said, draft=None))


def refresh_disputes(connection: Transaction, judge: str, *, kind: ValueType) -> None:
    """Note again who differs where answers have gone without their person: erased or withdrawn."""
    holders = {}
    for (case_id, _), (holder, _) in settlements(connection, judge).items():
        holders[case_id] = holder
    for case_id, verdicts in verdicts_on(connection, judge, holders):
        people = {answer.person for answer in verdicts}
        if holders[case_id] not in {"", *people}:
            is_disputed = bool(differing(verdicts, kind))
            mark_dispute(connection, judge, case_id, is_disputed)


def _but(put_off: Collection[str], cases: Iterable[str]) -> list[str]:
    return [case for case in cases if case not in put_off]
