"""What a person changes by hand: a guideline's text, pins, what is retired, conflicts, locked cases, the policy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from memalign.content.normal import word_form
from memalign.errors import InputError, UnknownKey
from memalign.judge import Judge
from memalign.judge.code_tests import named_in
from memalign.keys import same_person
from memalign.memory import FeedbackConflict
from memalign.memory.forget import without_disputed
from memalign.memory.guard import guideline_fault, tidy
from memalign.memory.label_policy import checked_authority
from memalign.types import FeedbackKey, Guideline

__all__ = ["dismiss_conflict", "edit_guideline", "lock", "set_policy", "write_guideline"]


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
    """A judge with a guideline changed by a person, whose words no later distillation overwrites.

    What is None stays. The guideline keeps what it was exposed to: the person wrote with it in view.

    Args:
        judge: The judge.
        guideline_id: Which guideline.
        by: Who changes it.
        text: Another text. Tests stay of which it still has the literal.
        pinned: Whether it stands before others.
        retired: Whether it is out of force.
        rule: Whether code may decide by its tests, on every item. Without a word of anybody it may only where the
            guideline forbids something in so many words.

    Raises:
        UnknownKey: There is no such guideline.
        InputError: The text may not enter a prompt, or nothing changes.
    """
    old, by = judge.memory.guideline(guideline_id), _named(by)
    changes: dict[str, object] = {}
    if text is not None:
        changes |= {"text": _checked(text), "origin": by}
        changes["tests"] = tuple(test for test in old.tests if named_in(test, text))
        if changes["text"] != old.text:
            changes["ruled_by"] = None  # said of other words
    if pinned is not None:
        changes["pinned_by"] = by if pinned else None
    if retired is not None:
        changes["retired_by"] = by if retired else None
    if rule is not None:
        if rule and not old.tests:
            raise InputError(f"{guideline_id} has no test, so code cannot decide by it")
        changes |= {"ruled_by": by if rule else None, "unruled_by": None if rule else by}
    if not changes:
        raise InputError(
            "nothing to change: give a text, or pin, retire, or say whether code decides (rule)"
        )
    if text is not None or pinned or retired is False:
        changes["replaced_by"] = None
    changed = replace(old, **changes)
    edited = [changed]
    if text is not None:
        # What a model wrote and stood behind the old words must not bring them back: the new ones stand for it.
        behind = (g for g in judge.memory.guidelines if judge.memory.successor(g) == old.id)
        edited += [
            replace(g, replaced_by=old.id)
            for g in behind
            if g.origin == "distilled" and not g.pinned
        ]
    if retired is False:
        # Another one of the same words that is retired would retire it again.
        words = word_form(changed.text)
        others = (
            g for g in judge.memory.guidelines if g.id != old.id and word_form(g.text) == words
        )
        edited += [replace(g, retired_by=None) for g in others]
    return judge.replace(memory=judge.memory.with_guidelines(edited))


def write_guideline(judge: Judge, text: str, *, by: str, pinned: bool = False) -> Judge:
    """A judge with one more guideline, written by a person and exposed to no feedback.

    Args:
        judge: The judge.
        text: The guideline.
        by: Who writes it.
        pinned: Whether it stands before others.

    Raises:
        InputError: The text may not enter a prompt.
    """
    by, number = _named(by), judge.memory.next_guideline
    new = Guideline(
        id=f"G{number}", text=_checked(text), origin=by, pinned_by=by if pinned else None
    )
    return judge.replace(memory=judge.memory.with_guidelines([new]))


def dismiss_conflict(judge: Judge, keys: Iterable[str | FeedbackKey], *, by: str) -> Judge:
    """A judge that no longer reports a conflict which a distillation saw, because a person says that there is none.

    A later distillation that names the same feedback again does not bring it back, unless the feedback changes.

    Args:
        judge: The judge.
        keys: Two or more pieces of feedback, such as `t-1@ana`, or cases, such as `t-1`. Every open conflict that names
            all of them is dismissed.
        by: Who says so.

    Raises:
        UnknownKey: A key names nothing in memory.
        InputError: There are fewer than two keys, or no open conflict names them all.
    """
    by, memory = _named(by), judge.memory
    named = [
        frozenset(memory.keys(key))
        for key in ((keys,) if isinstance(keys, str | FeedbackKey) else keys)
    ]

    def dismissed(conflict: FeedbackConflict) -> FeedbackConflict:
        if conflict.dismissed_by is not None or any(
            side.isdisjoint(conflict.feedback) for side in named
        ):
            return conflict
        return FeedbackConflict(
            feedback=conflict.feedback, exposed_to=conflict.feedback, dismissed_by=by
        )

    conflicts = tuple(map(dismissed, memory.conflicts))
    if len(named) < 2 or conflicts == memory.conflicts:
        pairs = (
            "; ".join(", ".join(map(str, conflict.feedback)) for conflict in memory.open_conflicts)
            or "none"
        )
        raise InputError(
            f"no conflict between these: name both sides, such as t-1@ana t-2@ben; conflicts: {pairs}"
        )
    return judge.replace(memory=replace(memory, conflicts=conflicts))


def lock(judge: Judge, *ids: str, unlock: bool = False) -> Judge:
    """A judge whose corrected cases no later version may break, unless somebody says so.

    Args:
        judge: The judge. Its answers can be compared: free text has none that is right.
        ids: The cases; each has an expert's label.
        unlock: Whether they may be broken again instead.

    Raises:
        UnknownKey: There is no such case, or it is not locked.
        InputError: No id, no label, or free text.
    """
    memory = judge.memory
    if not ids:
        raise InputError("name the cases by their ids")
    if not judge.value_type.closed:
        raise InputError(
            "free text has no right answer to hold on to; lock cases of judges with labels or numbers"
        )
    for name in ids:
        case = memory.case(name)
        if unlock and name not in memory.locks:
            raise UnknownKey(
                f"case {name!r} is not locked; locked: {', '.join(memory.locks) or 'none'}"
            )
        if not unlock and case is None:
            raise UnknownKey(
                f"no case {name!r} in memory; `memalign show NAME --ledger` lists every key, as ID@SOURCE"
            )
        if not unlock and case is not None and memory.label(case) is None:
            raise InputError(
                f"case {name!r} has no label, so nobody can say when it breaks; align a value first"
            )
    locks = {*memory.locks} - {*ids} if unlock else {*memory.locks, *ids}
    return judge.replace(memory=replace(memory, locks=tuple(sorted(locks))))


def set_policy(judge: Judge, *, authority: Sequence[str]) -> Judge:
    """A judge for whom other people's labels decide.

    Annotations whose label counts now are pending until the next align, those that no longer do are disputed, and what
    they taught goes.

    Args:
        judge: The judge.
        authority: The sources whose label decides where people differ, first one first.

    Raises:
        InputError: A bare name.
    """
    memory = replace(judge.memory, authority=checked_authority(authority))
    return judge.replace(memory=without_disputed(memory))


def _named(by: str) -> str:
    name = by.strip()
    if not name or same_person(name, "distilled"):
        raise InputError("say who changes it: by='ana'; 'distilled' is what a model did")
    return name


def _checked(text: str) -> str:
    if fault := guideline_fault(line := tidy(text)):
        raise InputError(f"this text cannot be a guideline: {fault}")
    return line
