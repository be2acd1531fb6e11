"""Changes by hand: the text and pins of guidelines, conflicts, locked cases, whose label counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from memalign.align.deltas import doubles_replaced
from memalign.content.normal import word_form
from memalign.errors import InputError, UnknownKey
from memalign.judge import Judge
from memalign.judge.code_tests import named_in
from memalign.keys import same_person
from memalign.memory import FeedbackConflict, Memory
from memalign.memory.forget import without_disputed
from memalign.memory.guard import guideline_fault, tidy
from memalign.memory.label_policy import checked_authority
from memalign.types import FeedbackKey, Guideline

__all__ = [
    "dismiss_conflict",
    "edit_guideline",
    "lock",
    "set_policy",
    "write_guideline",
]


def edit_guideline(
    judge: Judge,
    guideline_id: str,
    *,
    by: str,
    text: str | None = None,
    pinned: bool | None = None,
    retired: bool | None = None,
    rule: bool | None = None,
) -> Judge:
    """Change a guideline by hand; no later distillation overwrites a person's words.

    Arguments that are None change nothing. The guideline keeps what it was exposed to, because the
    person wrote with it in view.

    Args:
        judge: The judge.
        guideline_id: The guideline.
        by: The person who changes it.
        text: Another text. Tests whose literal it still has stay.
        pinned: Whether it is shown before others.
        retired: Whether it is out of force.
        rule: Whether code may decide by its tests, on every item. Until somebody says so, code
            decides only if the guideline forbids something in so many words.

    Raises:
        UnknownKey: There is no such guideline.
        InputError: The text may not enter a prompt, or nothing changes.
    """
    memory = judge.memory
    old = memory.guideline(guideline_id)
    by = _named(by)
    changes = {}
    if text is not None:
        changes.update(_reworded(old, text, by))
    for name, said in (("pinned_by", pinned), ("retired_by", retired)):
        if said is not None:
            changes[name] = by if said else None
    if rule is not None:
        changes.update(_ruled(old, rule, by))
    if not changes:
        raise InputError(
            "nothing to change: give a text, or pin, retire, or say whether code decides (rule)"
        )
    if text is not None or pinned or retired is False:
        changes["replaced_by"] = None
    edited = [replace(old, **changes)]
    if text is not None:
        edited.extend(doubles_replaced(memory, old, old.id))
    if retired is False:
        edited.extend(_twins_restored(memory, edited[0]))
    return judge.replace(memory=memory.with_guidelines(edited))


def _reworded(old: Guideline, text: str, by: str) -> dict[str, object]:
    line = _checked(text)
    changes: dict[str, object] = {
        "text": line,
        "origin": by,
        "tests": tuple(test for test in old.tests if named_in(test, text)),
    }
    if line != old.text:
        changes["ruled_by"] = None  # which was said of other words
    return changes


def _ruled(old: Guideline, rule: bool, by: str) -> dict[str, object]:
    if not rule:
        return {"ruled_by": None, "unruled_by": by}
    if not old.tests:
        raise InputError(f"{old.id} has no test, so code cannot decide by it")
    return {"ruled_by": by, "unruled_by": None}


def _twins_restored(memory: Memory, restored: Guideline) -> list[Guideline]:
    """Restore other guidelines in the same words, or a retired one would retire this one again."""
    words = word_form(restored.text)
    twins = []
    for other in memory.guidelines:
        if other.id != restored.id and word_form(other.text) == words:
            twins.append(replace(other, retired_by=None))
    return twins


def write_guideline(judge: Judge, text: str, *, by: str, pinned: bool = False) -> Judge:
    """Add a guideline that a person wrote; it is exposed to no feedback.

    Args:
        judge: The judge.
        text: The guideline.
        by: The person who writes it.
        pinned: Whether it is shown before others.

    Raises:
        InputError: The text may not enter a prompt.
    """
    by = _named(by)
    new = Guideline(
        id=f"G{judge.memory.next_guideline}",
        text=_checked(text),
        origin=by,
        pinned_by=by if pinned else None,
    )
    return judge.replace(memory=judge.memory.with_guidelines([new]))


def dismiss_conflict(
    judge: Judge, keys: Iterable[str | FeedbackKey], *, by: str
) -> Judge:
    """Dismiss a conflict between comments, because a person says that there is none.

    A later distillation that names the same feedback does not bring it back, unless the feedback
    changes.

    Args:
        judge: The judge.
        keys: Two or more pieces of feedback, such as `t-1@ana`, or cases, such as `t-1`. Every open
            conflict that names all of them is dismissed.
        by: The person who says so.

    Raises:
        UnknownKey: A key names nothing in memory.
        InputError: There are fewer than two keys, or no open conflict names them all.
    """
    by = _named(by)
    memory = judge.memory
    if isinstance(keys, str | FeedbackKey):
        keys = (keys,)
    sides = [frozenset(memory.keys(selector)) for selector in keys]
    conflicts = []
    for conflict in memory.conflicts:
        seen = conflict.feedback
        meant = not any(side.isdisjoint(seen) for side in sides)
        if conflict.dismissed_by is None and meant:
            conflicts.append(
                FeedbackConflict(feedback=seen, exposed_to=seen, dismissed_by=by)
            )
        else:
            conflicts.append(conflict)
    if len(sides) < 2 or tuple(conflicts) == memory.conflicts:
        open_ones = []
        for conflict in memory.open_conflicts:
            open_ones.append(", ".join(map(str, conflict.feedback)))
        raise InputError(
            "no conflict between these: name both sides, such as t-1@ana t-2@ben; "
            f"conflicts: {'; '.join(open_ones) or 'none'}"
        )
    return judge.replace(memory=replace(memory, conflicts=tuple(conflicts)))


def lock(judge: Judge, *ids: str, unlock: bool = False) -> Judge:
    """Lock corrected cases: no later version may break them, unless somebody says so.

    Args:
        judge: The judge. Its answers can be compared: free text has none that is right.
        ids: The cases; each has an expert's label.
        unlock: Whether they may be broken again instead.

    Raises:
        UnknownKey: There is no such case, or it is not locked.
        InputError: There is no id, no label, or the judge's answers are free text.
    """
    memory = judge.memory
    if not ids:
        raise InputError("name the cases by their ids")
    if not judge.value_type.closed:
        raise InputError(
            "free text has no right answer to hold on to; "
            "lock cases of judges with labels or numbers"
        )
    locks = set(memory.locks)
    for name in ids:
        if unlock:
            _check_locked(memory, name)
            locks.discard(name)
        else:
            _check_lockable(memory, name)
            locks.add(name)
    return judge.replace(memory=replace(memory, locks=tuple(sorted(locks))))


def _check_locked(memory: Memory, name: str) -> None:
    if name not in memory.locks:
        locked = ", ".join(memory.locks) or "none"
        raise UnknownKey(f"case {name!r} is not locked; locked: {locked}")


def _check_lockable(memory: Memory, name: str) -> None:
    if memory.case(name) is None:
        raise UnknownKey(
            f"no case {name!r} in memory; `memalign show NAME --ledger` "
            "(in Python: judge.memory.ledger()) lists every key, as ID@SOURCE"
        )
    if not memory.has_label(name):
        raise InputError(
            f"case {name!r} has no label, so nobody can say when it breaks; align a value first"
        )


def set_policy(judge: Judge, *, authority: Sequence[str]) -> Judge:
    """Change whose label decides where people differ.

    Annotations whose label counts now are pending until the next align. Those whose label no longer
    counts are disputed, and what they taught goes.

    Args:
        judge: The judge.
        authority: The sources whose label decides, first one first.

    Raises:
        InputError: It is a bare name.
    """
    memory = replace(judge.memory, authority=checked_authority(authority))
    return judge.replace(memory=without_disputed(memory))


def _named(by: str) -> str:
    name = by.strip()
    if not name or same_person(name, "distilled"):
        raise InputError(
            "say who changes it: by='ana'; 'distilled' is what a model did"
        )
    return name


def _checked(text: str) -> str:
    line = tidy(text)
    fault = guideline_fault(line)
    if fault is not None:
        raise InputError(f"this text cannot be a guideline: {fault}")
    return line
