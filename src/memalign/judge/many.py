"""Many items: at most so many at a time, in order, resumed from what an earlier run wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memalign import aio
from memalign.errors import InputError, ModelError
from memalign.files import JudgmentWriter, check_examples, read_examples
from memalign.models.resolve import resolve
from memalign.records import Example, Judgment, Usage

if TYPE_CHECKING:
    from memalign.judge.judge import Judge

__all__ = ["Progress", "judge_many"]

Progress = Callable[[str, int, int], None]
"""Called with the phase, how many are done, and how many there are."""


async def judge_many(
    judge: Judge,
    examples: Iterable[Example | Mapping[str, Any]] | str | Path,
    *,
    concurrency: int | None,
    out: str | Path | None,
    progress: Progress | None,
) -> list[Judgment]:
    """See `Judge.ajudge_many`."""
    items = read_examples(examples) if isinstance(examples, str | Path) else check_examples(examples)
    if concurrency is not None and concurrency < 1:
        raise InputError("concurrency must be 1 or more")
    model = resolve(judge.model)
    limit = concurrency or model.limits.concurrency
    if out is None:
        return await _judge_all(judge, items, {}, limit, progress, None)
    # By the model that judges: one that is left to the environment may be another one when `out` is resumed.
    signature = f"{judge.name}@{judge.replace(model=model).fingerprint}"
    with JudgmentWriter.open(Path(out), judge=signature, examples=items) as writer:
        return await _judge_all(judge, items, writer.done, limit, progress, writer)


async def _judge_all(  # noqa: PLR0913
    judge: Judge,
    items: Sequence[Example],
    done: Mapping[str, Judgment],
    limit: int,
    progress: Progress | None,
    writer: JudgmentWriter | None,
) -> list[Judgment]:
    waiting = iter(enumerate(items))
    judgments: list[Judgment | None] = [None] * len(items)
    written = finished = 0

    async def work() -> None:
        nonlocal written, finished
        for index, item in waiting:  # workers share one iterator: each takes the next item when it is free
            known = done.get(item.id)
            judgments[index] = known or await _judge_safely(judge, item)
            finished += 1
            if progress is not None:
                progress("judge", finished, len(items))
            # Lines are written in the order of the items, as far as all before them are there.
            while written < len(items) and (ready := judgments[written]) is not None:
                if writer is not None and items[written].id not in done:
                    writer.write(items[written].id, ready)
                written += 1

    await aio.together(work() for _ in range(min(limit, len(items))))
    return [judgment for judgment in judgments if judgment is not None]


async def _judge_safely(judge: Judge, item: Example) -> Judgment:
    try:
        return await judge.ajudge(item)
    except (ModelError, InputError) as error:
        usage = (error.usage if isinstance(error, ModelError) else None) or Usage()
        return Judgment(error=f"{type(error).__name__}: {error}", memory_hash=judge.memory.hash, usage=usage)
