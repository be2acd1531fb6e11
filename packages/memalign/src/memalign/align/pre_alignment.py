"""Pre-alignment verdicts: the judge's own verdict on each new case, before it learns from it.

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
from memalign.memory import Case, Memory, PreAlignmentVerdict
from memalign.models import resolve
from memalign.types import Usage

__all__ = ["pre_alignment"]

replace = msgspec.structs.replace

REFUSED = "; it may decline this case every time: unalign the feedback, or give the judge another model"


async def pre_alignment(judge: Judge, memory: Memory, *, progress: Progress | None = None) -> tuple[Memory, Usage]:
    """`memory` with a pre-alignment verdict on every case that has none, made by `judge` as it was before; and what that cost.

    One call for all cases of identical content, and none where memory has that content's pre-alignment verdict already. A case that
    memory has met hides itself from its pre-alignment verdict, as in leave-one-out. A failed call leaves the case without a pre-alignment verdict, and
    its pending annotations say why; they are tried again at the next align.
    """
    started = time.perf_counter()
    found: dict[str, PreAlignmentVerdict | str] = {
        case.example.content_hash: case.pre_alignment for case in memory.cases if case.pre_alignment
    }
    without_pre_alignment: dict[str, Case] = {}
    for case in memory.cases:
        if case.pre_alignment is None and any(annotation.state == "pending" for annotation in case.annotations):
            without_pre_alignment.setdefault(case.example.content_hash, case)
    if not without_pre_alignment:
        return memory, Usage()
    for content in found:
        without_pre_alignment.pop(content, None)
    done = 0
    slots = asyncio.Semaphore(resolve(judge.model).limits.concurrency if without_pre_alignment else 1)
    fingerprint = judge.base_fingerprint

    async def one(case: Case) -> tuple[PreAlignmentVerdict | str, Usage]:
        nonlocal done
        pre_alignment_judge = asked_about(_unlearned(judge, case), case)
        async with slots:
            try:
                judgment = await pre_alignment_judge.ajudge(case.example)
            except (ModelError, InputError) as error:
                spent = error.usage if isinstance(error, ModelError) else None
                # A model that declines will decline again: whoever reads this must know what would help.
                advice = REFUSED if isinstance(error, ModelRefused) else ""
                return f"{type(error).__name__}: {error}{advice}", spent or Usage()
            finally:
                done += 1
                if progress is not None:
                    progress("pre_alignment", done, len(without_pre_alignment))
        if judgment.value is None:
            return judgment.error or "no verdict", judgment.usage
        rationale = None if pre_alignment_judge.memory else judgment.rationale
        return PreAlignmentVerdict(value=judgment.value, judge=fingerprint, rationale=rationale), judgment.usage

    contents = list(without_pre_alignment)
    answers = await aio.together(one(without_pre_alignment[content]) for content in contents)
    found |= zip(contents, (answer for answer, _ in answers), strict=True)

    def asked_before(case: Case) -> Case:
        answer = found.get(case.example.content_hash)
        if (
            answer is None
            or case.pre_alignment is not None
            or all(annotation.state != "pending" for annotation in case.annotations)
        ):
            return case
        if isinstance(answer, PreAlignmentVerdict):
            return replace(case, pre_alignment=answer)
        reason = f"not asked before learning: {answer}"
        return replace(
            case, annotations=tuple(replace(v, reason=reason) if v.state == "pending" else v for v in case.annotations)
        )

    usage = sum((spent for _, spent in answers), Usage())
    usage = replace(usage, seconds={"pre_alignment": time.perf_counter() - started})
    return replace(memory, cases=tuple(asked_before(case) for case in memory.cases)), usage


def _unlearned(judge: Judge, case: Case) -> Judge:
    """`judge` as if it had never met the case: its example would give the answer away."""
    if not judge.value_type.closed:
        return (
            judge.without_memory()
        )  # a free text is words: guidelines in view would pass into the pre-alignment verdict
    content = case.example.content_hash
    met = [known.id for known in judge.memory.cases if known.example.content_hash == content]
    return judge.replace(memory=judge.memory.hiding(met)) if met else judge
