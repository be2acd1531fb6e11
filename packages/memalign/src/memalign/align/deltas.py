"""Typed deltas: what a distillation call proposes, whether it may be carried out, and what it does to memory."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from memalign.memory import FeedbackConflict, Memory, Outcome
from memalign.types import CodeTest, FeedbackKey, Guideline

__all__ = ["CallAnswer", "Delta", "apply_answer"]

REFUSED = "its rule was refused: {}; write it yourself (memalign guideline NAME --add), or reword the feedback"
NOT_MENTIONED = "the model's answer did not mention it; it is asked again at the next align"
NOTHING_DRAWN = "kept as an example: the model drew no rule from it"  # not in its words: it saw other people's feedback


class Delta(msgspec.Struct, frozen=True, kw_only=True):
    """One typed change to the guidelines, as a model proposed it (ACE, arXiv 2510.04618).

    A `fault` says why the text of an ADD or REVISE may not enter a prompt. SUPPORT and REVISE are about a `guideline`.
    """

    action: str
    text: str = ""
    fault: str | None = None
    feedback: tuple[FeedbackKey, ...] = ()
    guideline: str | None = None
    tests: tuple[CodeTest, ...] = ()


class CallAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What one call about the feedback of `keys` gave, or why it failed (`fault`).

    `guideline_ids` are those that its prompt held, `exposed_to` all feedback whose words or guidelines it held.
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
    """The memory after the deltas of one call, each checked first, and what becomes of the call's feedback."""
    taught, passed = set[FeedbackKey](), set[FeedbackKey]()
    faults, refused = dict[FeedbackKey, str](), dict[FeedbackKey, str]()
    for delta in answer.deltas:
        keys = {key for key in delta.feedback if key in answer.keys}
        if (fault := _impossible(memory, answer, delta)) is not None:
            faults |= dict.fromkeys(keys, fault)
        elif delta.fault is not None:
            refused |= dict.fromkeys(keys, delta.fault)
        elif delta.action == "NOOP":
            passed |= keys
        elif keys:
            memory = _carried_out(memory, answer, delta, keys)
            taught |= keys

    seen = answer.exposed_to
    # What went wrong may be told in words of the prompt: some servers send back what they refuse.
    waiting = Outcome(
        kind="waiting",
        reason=answer.fault or NOT_MENTIONED,
        exposed_to=seen if answer.fault else (),
    )
    outcomes: dict[FeedbackKey, Outcome | None] = dict.fromkeys(answer.keys, waiting)
    before = {
        key: annotation.outcome for key in answer.keys if (annotation := memory.annotation(key))
    }
    # For the same reason as before: nothing has changed.
    outcomes |= {
        key: outcome
        for key, outcome in before.items()
        if outcome and outcome.reason == answer.fault
    }
    outcomes |= dict.fromkeys(
        passed, Outcome(kind="example", reason=NOTHING_DRAWN, exposed_to=seen)
    )
    outcomes |= {
        key: Outcome(kind="waiting", reason=f"its rule was not taken: {why}")
        for key, why in faults.items()
    }
    for key, why in refused.items():
        outcomes[key] = Outcome(kind="refused", reason=REFUSED.format(why), exposed_to=seen)
    for key in taught:
        outcomes[key] = None
        if also := refused.get(key) or faults.get(key):
            outcomes[key] = Outcome(
                kind="taught", reason=f"learned without one more rule from it: {also}"
            )

    dismissed = [
        {*conflict.feedback} for conflict in memory.conflicts if conflict.dismissed_by is not None
    ]
    named = (
        new
        for new in answer.conflicts
        if not any(rest.issuperset(new.feedback) for rest in dismissed)
    )
    conflicts = {conflict.feedback: conflict for conflict in (*named, *memory.conflicts)}
    memory = replace(memory, conflicts=tuple(conflicts[keys] for keys in sorted(conflicts)))
    return memory, outcomes


def _impossible(memory: Memory, answer: CallAnswer, delta: Delta) -> str | None:
    """Why a delta cannot be carried out, or None."""
    if not delta.feedback:
        return "it names no feedback"
    if any(key not in answer.keys for key in delta.feedback):
        return "it names feedback outside its call"
    if delta.action in ("ADD", "NOOP"):
        return None
    if delta.action not in ("SUPPORT", "REVISE"):
        return "its action is unknown"
    name = delta.guideline or ""
    if name not in answer.guideline_ids or memory.status(memory.guideline(name)) != "active":
        return "it names a guideline that it was not shown, or one that no longer stands"
    if delta.action == "REVISE" and memory.guideline(name).people:
        return f"{name} was set by a person"
    return None


def _carried_out(
    memory: Memory, answer: CallAnswer, delta: Delta, keys: set[FeedbackKey]
) -> Memory:
    old = [] if delta.action == "ADD" else [memory.guideline(delta.guideline or "")]
    supported = tuple(sorted(keys.union(*(guideline.supported_by for guideline in old))))
    if delta.action == "SUPPORT":
        return memory.with_guidelines([replace(old[0], supported_by=supported)])
    name, seen = f"G{memory.next_guideline}", answer.exposed_to
    new = Guideline(
        id=name, text=delta.text, supported_by=supported, exposed_to=seen, tests=delta.tests
    )
    return memory.with_guidelines([*(replace(revised, replaced_by=name) for revised in old), new])
