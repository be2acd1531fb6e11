"""Which guidelines a prompt shows, when several say the same or one was revised."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from memalign.memory.guard import normalised
from memalign.records import Guideline

__all__ = ["shown_once"]

replace = msgspec.structs.replace


def shown_once(guidelines: Iterable[Guideline]) -> tuple[Guideline, ...]:
    """`guidelines` with one shown for each text; the others are superseded, and step in when that one goes.

    A pinned one is shown before others, then a person's, then the oldest. A guideline that was revised stays behind
    its revision as long as that is there.
    """
    known = tuple(guidelines)
    texts = {guideline.id: normalised(guideline.text) for guideline in known}

    def released(guideline: Guideline) -> Guideline:
        # Duplicates are decided anew each time; only a revision keeps what it replaced out of sight.
        revised = guideline.shown_by in texts and texts[guideline.shown_by] != texts[guideline.id]
        if guideline.status == "superseded" and not revised:
            return replace(guideline, status="active", shown_by=None)
        return guideline

    retired = {texts[guideline.id] for guideline in known if guideline.status == "retired"}

    def respected(guideline: Guideline) -> Guideline:
        # What a person retired does not come back because a later distillation writes it again.
        if guideline.status == "active" and guideline.origin == "distilled" and texts[guideline.id] in retired:
            return replace(guideline, status="retired")
        return guideline

    respectful = [respected(released(guideline)) for guideline in known]
    shown: dict[str, str] = {}
    for guideline in sorted(respectful, key=lambda g: (not g.pinned, g.origin == "distilled", g.number)):
        if guideline.status == "active":
            shown.setdefault(texts[guideline.id], guideline.id)
    return tuple(
        replace(guideline, status="superseded", shown_by=shown[texts[guideline.id]])
        if guideline.status == "active" and shown[texts[guideline.id]] != guideline.id
        else guideline
        for guideline in respectful
    )
