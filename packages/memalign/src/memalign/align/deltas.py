"""Typed deltas: the changes that a distillation call proposes, and what they do to memory."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec
from msgspec.structs import replace

from memalign.memory import FeedbackConflict, Memory, Outcome
from memalign.types import CodeTest, FeedbackKey, Guideline

__all__ = ["REFUSED", "CallAnswer", "Delta", "apply_answer", "doubles_replaced"]

REFUSED = (
    "its rule was refused: {}; write it yourself (memalign guideline NAME --add), "
    "or reword the feedback"
)
NOT_MENTIONED = (
    "the model's answer did not mention it; it is asked again at the next align"
)
NOT_TAKEN = "its rule was not taken: {}"
REMARK = "learned without one more rule from it: {}"
# Not in the model's words: it saw other people's feedback.
NOTHING_DRAWN = "kept as an example: the model drew no rule from it"


class Delta(msgspec.Struct, frozen=True, kw_only=True):
    """One typed change to the guidelines, as a model proposed it (ACE, arXiv 2510.04618).

    Attributes:
        action: ADD, SUPPORT, REVISE or NOOP, or whatever else the model wrote.
        text: The text of an ADD or REVISE.
        fault: Why the text may not enter a prompt.
        feedback: The feedback that the change is about.
        guideline: The guideline of a SUPPORT or REVISE.
        tests: The tests of a new guideline that labels bear out.
    """

    action: str
    text: str = ""
    fault: str | None = None
    feedback: tuple[FeedbackKey, ...] = ()
    guideline: str = ""
    tests: tuple[CodeTest, ...] = ()


class CallAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What one distillation call gave.

    Attributes:
        keys: The feedback that it was asked about.
        guideline_ids: The guidelines that its prompt held.
        exposed_to: All feedback whose words were in its prompt, or behind its guidelines.
        deltas: The changes that it proposes.
        conflicts: The conflicts that it names.
        fault: Why it failed.
    """

    keys: tuple[FeedbackKey, ...]
    guideline_ids: tuple[str, ...] = ()
    exposed_to: tuple[FeedbackKey, ...] = ()
    deltas: tuple[Delta, ...] = ()
    conflicts: tuple[FeedbackConflict, ...] = ()
    fault: str | None = None


def apply_answer(
    memory: Memory, answer: CallAnswer
) -> tuple[Memory, dict[FeedbackKey, Outcome | None]]:
    """Carry out the deltas of one call that are possible.

    Args:
        memory: The memory after the answers before this one.
        answer: The answer.

    Returns:
        The memory, and for each piece of feedback that the call was about its outcome; None if it
        was learned and there is nothing to remark.
    """
    taught = set()
    passed = set()
    impossible = {}
    refused = {}
    for delta in answer.deltas:
        keys = set(answer.keys).intersection(delta.feedback)
        why = _impossible(memory, answer, delta)
        if why is not None:
            impossible.update(dict.fromkeys(keys, why))
        elif delta.fault is not None:
            refused.update(dict.fromkeys(keys, delta.fault))
        elif delta.action == "NOOP":
            passed |= keys
        else:
            memory = _carried_out(memory, answer, delta)
            taught |= keys

    outcomes: dict[FeedbackKey, Outcome | None] = {}
    seen = answer.exposed_to
    for key in answer.keys:
        why_not = refused.get(key) or impossible.get(key)
        if key in taught:
            outcomes[key] = None
            if why_not:
                reason = REMARK.format(why_not)
                outcomes[key] = Outcome(kind="taught", reason=reason)
        elif key in refused:
            reason = REFUSED.format(why_not)
            outcomes[key] = Outcome(kind="rejected", reason=reason, exposed_to=seen)
        elif key in impossible:
            reason = NOT_TAKEN.format(why_not)
            outcomes[key] = Outcome(kind="pending", reason=reason)
        elif key in passed:
            outcomes[key] = Outcome(
                kind="learned", reason=NOTHING_DRAWN, exposed_to=seen
            )
        else:
            outcomes[key] = _unanswered(memory, answer, key)
    return _with_conflicts(memory, answer.conflicts), outcomes


def _impossible(memory: Memory, answer: CallAnswer, delta: Delta) -> str | None:
    """Return why a delta cannot be carried out, or None."""
    action = delta.action
    if not delta.feedback:
        return "it names no feedback"
    if not set(answer.keys).issuperset(delta.feedback):
        return "it names feedback outside its call"
    if action in ("ADD", "NOOP"):
        return None
    if action not in ("SUPPORT", "REVISE"):
        return "its action is unknown"
    if delta.guideline not in answer.guideline_ids:
        return "it names a guideline that it was not shown"
    if action == "SUPPORT":
        return None
    guideline = memory.guideline(delta.guideline)
    if memory.status(guideline) != "active":
        return f"{guideline.id} no longer stands: other feedback has just revised it"
    if guideline.people:
        return f"{guideline.id} was set by a person"
    return None


def _carried_out(memory: Memory, answer: CallAnswer, delta: Delta) -> Memory:
    if delta.action == "SUPPORT":
        return _supported(memory, delta.guideline, delta.feedback)
    name = f"G{memory.next_guideline}"
    supporters = set(delta.feedback)
    changed = []
    if delta.action == "REVISE":
        revised = memory.guideline(delta.guideline)
        supporters.update(memory.sources_of(revised))
        changed.append(replace(revised, replaced_by=name))
        changed.extend(doubles_replaced(memory, revised, name))
    new = Guideline(
        id=name,
        text=delta.text,
        supported_by=tuple(sorted(supporters)),
        exposed_to=answer.exposed_to,
        tests=delta.tests,
    )
    return memory.with_guidelines([*changed, new])


def doubles_replaced(
    memory: Memory, guideline: Guideline, successor: str
) -> list[Guideline]:
    """Return a model's other guidelines in these words, replaced by `successor` as well.

    Otherwise the old words would come back through them.
    """
    doubles = []
    for other in memory.guidelines:
        same = memory.successor(other) == guideline.id
        if same and other.replaced_by is None and not other.people:
            doubles.append(replace(other, replaced_by=successor))
    return doubles


def _supported(
    memory: Memory, guideline_id: str, keys: Collection[FeedbackKey]
) -> Memory:
    """Return the memory with this feedback behind a guideline.

    Where other feedback of the same align has revised the guideline, this feedback is behind the
    revision too, so that the order of the answers does not matter.
    """
    name: str | None = guideline_id
    while name is not None:
        guideline = memory.guideline(name)
        supporters = {*guideline.supported_by, *keys}
        changed = replace(guideline, supported_by=tuple(sorted(supporters)))
        memory = memory.with_guidelines([changed])
        name = memory.successor(changed)
        if name != changed.replaced_by:
            break  # the successor merely has the same words; it is no revision
    return memory


def _unanswered(memory: Memory, answer: CallAnswer, key: FeedbackKey) -> Outcome:
    """Return the outcome of feedback that no change of the answer is about."""
    if answer.fault is None:
        return Outcome(kind="pending", reason=NOT_MENTIONED)
    before = memory.record(key)[0].outcome
    if before is not None and before.reason == answer.fault:
        return before  # it waits for the same reason as before
    # The fault may repeat words of the prompt: some servers send back what they refuse.
    return Outcome(kind="pending", reason=answer.fault, exposed_to=answer.exposed_to)


def _with_conflicts(memory: Memory, named: Iterable[FeedbackConflict]) -> Memory:
    """Return the memory with new conflicts, except those that a person dismissed."""
    conflicts = {}
    dismissed = []
    for conflict in memory.conflicts:
        conflicts[conflict.feedback] = conflict
        if conflict.dismissed_by is not None:
            dismissed.append(set(conflict.feedback))
    for new in named:
        if not any(keys.issuperset(new.feedback) for keys in dismissed):
            conflicts.setdefault(new.feedback, new)
    ordered = [conflicts[keys] for keys in sorted(conflicts)]
    return replace(memory, conflicts=tuple(ordered))
