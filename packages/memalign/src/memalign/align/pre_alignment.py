"""Probing: the judge's own verdict on each new case, before it learns from it.

Where the judge stumbled is what distillation contrasts and what retrieval shows first.
"""

from __future__ import annotations

import asyncio
import time

import msgspec

from memalign import aio
from memalign.align.known import asked_about
from memalign.errors import InputError, ModelError, ModelRefused
from memalign.judge import Judge, Progress
from memalign.memory import Case, Memory, Probe
from memalign.models import resolve
from memalign.types import Usage

__all__ = ["probe"]

replace = msgspec.structs.replace

REFUSED = "; it may decline this case every time: unalign the feedback, or give the judge another model"


async def probe(judge: Judge, memory: Memory, *, progress: Progress | None = None) -> tuple[Memory, Usage]:
    """`memory` with a probe on every case that has none, made by `judge` as it was before; and what that cost.

    One call for all cases of identical content, and none where memory has that content's probe already. A case that
    memory has met hides itself from its probe, as in leave-one-out. A failed call leaves the case without a probe, and
    its pending voices say why; they are tried again at the next align.
    """
    started = time.perf_counter()
    found: dict[str, Probe | str] = {case.example.content_hash: case.probe for case in memory.cases if case.probe}
    unprobed: dict[str, Case] = {}
    for case in memory.cases:
        if case.probe is None and any(voice.state == "pending" for voice in case.voices):
            unprobed.setdefault(case.example.content_hash, case)
    if not unprobed:
        return memory, Usage()
    for content in found:
        unprobed.pop(content, None)
    done = 0
    slots = asyncio.Semaphore(resolve(judge.model).limits.concurrency if unprobed else 1)
    fingerprint = judge.base_fingerprint

    async def one(case: Case) -> tuple[Probe | str, Usage]:
        nonlocal done
        prober = asked_about(_unlearned(judge, case), case)
        async with slots:
            try:
                judgment = await prober.ajudge(case.example)
            except (ModelError, InputError) as error:
                spent = error.usage if isinstance(error, ModelError) else None
                # A model that declines will decline again: whoever reads this must know what would help.
                advice = REFUSED if isinstance(error, ModelRefused) else ""
                return f"{type(error).__name__}: {error}{advice}", spent or Usage()
            finally:
                done += 1
                if progress is not None:
                    progress("probe", done, len(unprobed))
        if judgment.value is None:
            return judgment.error or "no verdict", judgment.usage
        rationale = None if prober.memory else judgment.rationale
        return Probe(value=judgment.value, judge=fingerprint, rationale=rationale), judgment.usage

    contents = list(unprobed)
    answers = await aio.together(one(unprobed[content]) for content in contents)
    found |= zip(contents, (answer for answer, _ in answers), strict=True)

    def probed(case: Case) -> Case:
        answer = found.get(case.example.content_hash)
        if answer is None or case.probe is not None or all(voice.state != "pending" for voice in case.voices):
            return case
        if isinstance(answer, Probe):
            return replace(case, probe=answer)
        reason = f"not probed: {answer}"
        return replace(
            case, voices=tuple(replace(v, reason=reason) if v.state == "pending" else v for v in case.voices)
        )

    usage = sum((spent for _, spent in answers), Usage())
    usage = replace(usage, seconds={"probe": time.perf_counter() - started})
    return replace(memory, cases=tuple(probed(case) for case in memory.cases)), usage


def _unlearned(judge: Judge, case: Case) -> Judge:
    """`judge` as if it had never met the case: its example would give the answer away."""
    if not judge.value_type.closed:
        return judge.without_memory()  # a free text is words: guidelines in view would pass into the probe
    content = case.example.content_hash
    met = [known.id for known in judge.memory.cases if known.example.content_hash == content]
    return judge.replace(memory=judge.memory.hiding(met)) if met else judge
