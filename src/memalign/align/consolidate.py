"""Consolidation: guidelines that say the same are shown once; all are kept, with all their sources.

Deterministic and without a model: forgetting the one that is shown promotes the next. So far "the same" means the same
words; verdicts on meaning across shards come with the memory engine.
"""

from __future__ import annotations

import msgspec

from memalign.memory import Memory, Voice
from memalign.memory.shown import shown_once
from memalign.records import Guideline

__all__ = ["consolidate"]

replace = msgspec.structs.replace


def consolidate(memory: Memory) -> Memory:
    """`memory` with one guideline shown for each text, and the voices behind it learned or merged accordingly."""
    return _credited(replace(memory, guidelines=shown_once(memory.guidelines)))


def _credited(memory: Memory) -> Memory:
    """Voices in the state that their guidelines give them.

    Learned: a guideline in force was written from the voice. Merged: the guideline that carries it was there before,
    or stands behind another of the same text. A voice without a guideline keeps its state.
    """
    carried: dict[str, list[Guideline]] = {}
    for guideline in memory.guidelines:
        for key in guideline.supported_by:
            carried.setdefault(key, []).append(guideline)

    def credit(voice: Voice) -> Voice:
        mine = carried.get(voice.key)
        if not mine or voice.state not in ("learned", "merged"):
            return voice
        if any(g.status != "superseded" and voice.key in g.exposed_to for g in mine):
            return replace(voice, state="learned", reason="")
        return replace(voice, state="merged", reason=f"{mine[0].shown_by or mine[0].id} already says it")

    return replace(
        memory,
        cases=tuple(replace(case, voices=tuple(credit(voice) for voice in case.voices)) for case in memory.cases),
    )
