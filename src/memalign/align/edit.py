"""What a person changes in semantic memory by hand: text, pin, retire. Always attributed."""

from __future__ import annotations

import msgspec

from memalign.align.consolidate import consolidate
from memalign.errors import InputError
from memalign.judge import Judge
from memalign.memory.guard import guideline_fault, normalised, tidy
from memalign.records import Guideline

__all__ = ["edit_guideline", "write_guideline"]

replace = msgspec.structs.replace


def edit_guideline(
    judge: Judge,
    guideline_id: str,
    *,
    by: str,
    text: str | None = None,
    pinned: bool | None = None,
    retired: bool | None = None,
) -> Judge:
    """A judge whose guideline has another text, is pinned or not, is retired or in force again; `by` says who did it.

    A person's text is never overwritten by later distillation. It keeps what the guideline was exposed to: the person
    wrote with it in view, so withdrawing that feedback takes the edited text with it. Raises UnknownKey, InputError.
    """
    old = judge.memory.guideline(guideline_id)
    by = _named(by)
    changes: dict[str, object] = {}
    if text is not None:
        changes |= {"text": _checked(text), "origin": by}
        if old.status == "superseded":
            changes |= {"status": "active", "shown_by": None}  # with words of its own it stands behind no other
    if pinned is not None:
        changes["pinned"] = pinned
    if retired is not None:
        changes |= {"status": "retired" if retired else "active", "shown_by": None}
    if not changes:
        raise InputError("nothing to change: give a text, or pin, or retire")
    guidelines = tuple(replace(old, **changes) if g.id == guideline_id else g for g in judge.memory.guidelines)
    if retired is False:
        # One that says the same and was retired with it would retire it again.
        same = normalised(old.text)
        guidelines = tuple(
            replace(g, status="active", shown_by=None) if g.status == "retired" and normalised(g.text) == same else g
            for g in guidelines
        )
    return judge.replace(memory=consolidate(replace(judge.memory, guidelines=guidelines)))


def write_guideline(judge: Judge, text: str, *, by: str, pinned: bool = False) -> Judge:
    """A judge with one more guideline, written by a person and exposed to no feedback. Raises InputError."""
    memory = judge.memory
    new = Guideline(id=f"G{memory.next_guideline}", text=_checked(text), origin=_named(by), pinned=pinned)
    grown = replace(memory, guidelines=(*memory.guidelines, new), next_guideline=memory.next_guideline + 1)
    return judge.replace(memory=consolidate(grown))


def _named(by: str) -> str:
    name = by.strip()
    if not name or name == "distilled":
        raise InputError("say who changes a guideline: by='ana'; 'distilled' is what a model wrote")
    return name


def _checked(text: str) -> str:
    line = tidy(text)
    fault = guideline_fault(line)
    if fault is not None:
        raise InputError(f"this text cannot be a guideline: {fault}")
    return line
