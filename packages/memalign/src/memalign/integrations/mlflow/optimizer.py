"""MemAlignOptimizer: what `judge.align(traces=…, optimizer=…)` calls."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from mlflow.genai.judges.base import AlignmentOptimizer

import memalign
from memalign import aio
from memalign.align import AlignResult
from memalign.align.forget import forget
from memalign.align.ingest import checked_rows
from memalign.integrations.mlflow.failures import invalid, translated
from memalign.integrations.mlflow.judge import MemAlignJudge, aligned_from
from memalign.integrations.mlflow.scale import UNBOUNDED
from memalign.integrations.mlflow.settings import Settings
from memalign.integrations.mlflow.traces import TraceFeedback, read_feedback, trace_ids
from memalign.judge import Progress
from memalign.models import ChatModel, EmbeddingModel
from memalign.types import Example, Feedback

__all__ = ["MemAlignOptimizer"]

_logger = logging.getLogger(__name__)

SHOWN = 5
"""How many traces a warning names."""


class MemAlignOptimizer(AlignmentOptimizer):  # type: ignore[misc]  # MLflow's classes are Any to mypy
    """Aligns MLflow judges with people's feedback; the arguments of MLflow's own optimizer, and more.

    `reflection_lm` distils guidelines (None: the judge's own model). `retrieval_k` is how many similar cases a judgment sees
    (None: as many as suit the model; an identical one is always shown). `embedding_model` is a provider's, such as
    `openai:/text-embedding-3-small`, with vectors of `embedding_dim` (None: the model's own length); None is the one in this
    process, which needs no network. Models are named as MLflow names them.

    `value_type` gives numbers their bounds (`"int:1..5"`), which MLflow's types lack. `parameters` are those of
    `memalign.Judge` (`{"samples": 3}`), beside the judge's own inference parameters. `authority` and `policy` say whose label
    counts where people differ. `stages` and `shard_size` are those of `memalign.MemAlign`. With `skip_invalid`, labels that
    are none of the judge's are set aside with a warning instead of stopping the alignment. `progress` is called with the
    stage, how much of it is done, and of how much; None shows a line on a terminal or in a notebook. With `log_run` every
    alignment is an MLflow run: settings, counts, and what changed in memory.

    Safe to use from several threads; an optimizer holds nothing of a judge.
    """

    def __init__(
        self,
        reflection_lm: str | ChatModel | None = None,
        retrieval_k: int | None = None,
        embedding_model: str | EmbeddingModel | None = None,
        embedding_dim: int | None = None,
        *,
        value_type: Any = None,
        parameters: Mapping[str, Any] | None = None,
        authority: Sequence[str] | None = None,
        policy: Sequence[Any] | None = None,
        stages: Iterable[str] | None = None,
        shard_size: int | None = None,
        skip_invalid: bool = False,
        progress: Progress | None = None,
        log_run: bool = False,
    ) -> None:
        self._settings = Settings(
            reflection_lm=reflection_lm,
            retrieval_k=retrieval_k,
            embedding_model=embedding_model,
            embedding_dim=embedding_dim,
            value_type=value_type,
            parameters=_named("parameters", parameters),
            authority=_listed("authority", authority),
            policy=_listed("policy", policy),
            stages=None if stages is None else frozenset(_listed("stages", stages) or ()),
            shard_size=shard_size,
            skip_invalid=skip_invalid,
        ).checked()
        if progress is not None and not callable(progress):
            raise invalid(f"progress must be a function of stage, done and total, got {progress!r}")
        self._progress = progress
        self._log_run = log_run

    @classmethod
    def _of(cls, settings: Settings) -> MemAlignOptimizer:
        made = cls()
        made._settings = settings
        return made

    def align(self, judge: Any, traces: list[Any]) -> MemAlignJudge:
        """A judge that learned from the feedback in `traces`; the one that is given stays as it is.

        For every trace that is given, memory holds what people say of it now: unchanged feedback costs nothing, changed
        feedback replaces, feedback that was taken back in MLflow is forgotten. Traces without feedback for the judge are named
        in a warning and skipped. Raises MlflowException: INVALID_PARAMETER_VALUE where nothing can be learned, for a judge
        that cannot be aligned, and for labels that are none of the judge's; nothing was asked of a model then.
        """
        _check(traces)
        settings = self._settings
        start = aligned_from(judge, settings)
        core = start.memalign_judge
        settings.resolved()
        found = read_feedback(traces, start.name, core.fields, base=start._base_judge)  # noqa: SLF001  # one piece in two files
        gone = _taken_back(core, found)
        if not found.rows and not gone:
            why = next(iter(found.skipped.values()), "")
            raise invalid(f"none of {len(found.skipped)} traces has feedback for judge {start.name!r} ({why}); log some with "
                          "mlflow.log_feedback, as a person (source_type HUMAN)")  # fmt: skip
        _warn(start, found, gone)
        rows = _rows(core, found, start)
        with translated(), _Shown(self._progress) as progress:
            result = aio.run(_aligned(settings, core, rows, gone, progress))
        if not result.changed and isinstance(judge, MemAlignJudge):
            _logger.info("judge %s: nothing new in %d traces", start.name, len(found.content))
            return judge
        return self._made(start, core, result)

    def unalign(self, judge: MemAlignJudge, traces: Iterable[Any]) -> MemAlignJudge:
        """`judge` without the feedback on `traces` (or ids of traces), as `MemAlignJudge.unalign`."""
        core = judge.memalign_judge
        if _is_one(traces):
            raise invalid("traces must be a list of Trace objects, or of the ids of traces")
        asked = trace_ids(traces)
        known = [name for name in asked if core.memory.case(name) is not None]
        strange = [name for name in asked if core.memory.case(name) is None]
        if strange and not (known and judge.is_session_level_scorer):  # a session goes by its first trace
            _logger.warning("judge %s never learned from %s", judge.name, _few(strange))
        if not known:
            return judge
        with translated(), _Shown(self._progress) as progress:
            result = aio.run(self._settings.memalign().unalign(core, *known, progress=progress))
        return self._made(judge, core, result)

    def _made(self, start: MemAlignJudge, before: memalign.Judge, result: AlignResult) -> MemAlignJudge:
        _logger.info("judge %s: %s", start.name, result)
        if result.pending:
            _logger.warning(
                "judge %s: %d lessons wait and are tried again at the next align: %s",
                start.name, len(result.pending), "; ".join(f"{key}: {why}" for key, why in result.pending[:SHOWN]),
            )  # fmt: skip
        if self._log_run:
            from memalign.integrations.mlflow.runs import log_alignment

            log_alignment(before, result, self._settings)
        return MemAlignJudge(
            base=start._base_judge,  # noqa: SLF001  # one piece in two files
            scale=start._scale,  # noqa: SLF001
            settings=self._settings,
            core=result.judge,
            alignment=result,
        )


async def _aligned(
    settings: Settings, core: memalign.Judge, rows: list[Feedback], gone: Sequence[str], progress: Progress | None
) -> AlignResult:
    optimizer, forgotten = settings.memalign(), None
    if gone:
        # Nothing is asked of a model before every row is known to be fit.
        left = core.replace(memory=forget(core.memory, core.memory.keys(*gone)))
        checked_rows(left, rows, skip_invalid=settings.skip_invalid)
        forgotten = await optimizer.unalign(core, *gone, progress=progress)
        core = forgotten.judge
    if not rows and forgotten is not None:
        return forgotten
    result = await optimizer.align(core, rows, skip_invalid=settings.skip_invalid, progress=progress)
    if forgotten is None:
        return result
    return _joined(forgotten, result)


def _joined(first: AlignResult, second: AlignResult) -> AlignResult:
    """Two reports on one alignment, as one."""
    from dataclasses import replace

    there = {guideline.id for guideline in second.judge.memory.guidelines}
    return replace(
        second,
        guidelines=(*(each for each in first.guidelines if each.id in there), *second.guidelines),
        forgotten=(*first.forgotten, *second.forgotten),
        removed=(*first.removed, *second.removed),
        notes=(*first.notes, *second.notes),
        usage=first.usage + second.usage,
        seconds=first.seconds + second.seconds,
        changed=first.changed or second.changed,
    )


def _named(name: str, given: Any) -> dict[str, Any]:
    if given is not None and not isinstance(given, Mapping):
        raise invalid(f"{name} must be a dict, such as {{'samples': 3}}, got {given!r}")
    return dict(given or {})


def _listed(name: str, given: Any) -> tuple[Any, ...] | None:
    if isinstance(given, str) or (given is not None and not isinstance(given, Iterable)):
        raise invalid(f"{name} must be a list, such as [{given!r}], got {given!r}")
    return None if given is None else tuple(given)


def _is_one(traces: Any) -> bool:
    """Whether what should be several is one: a trace and a text can be iterated over, too."""
    from mlflow.entities import Trace

    return isinstance(traces, str | bytes | Trace) or not isinstance(traces, Iterable) or hasattr(traces, "columns")


def _check(traces: Any) -> None:
    from mlflow.entities import Trace

    if _is_one(traces):
        raise invalid("traces must be a list of Trace objects, such as mlflow.search_traces(return_type='list') gives")
    every = list(traces)
    if not every:
        raise invalid("no traces to align with")
    if strange := next((each for each in every if not isinstance(each, Trace)), None):
        raise invalid(f"traces must be Trace objects, got {type(strange).__name__}; mlflow.get_trace(ID) gives one")


def _taken_back(core: memalign.Judge, found: TraceFeedback) -> list[str]:
    """Keys in memory that the traces no longer have: taken back in MLflow, or said of other content than it is now."""
    given = {row.key for row in found.rows}
    gone = []
    for name, content in found.content.items():
        case = core.memory.case(name)
        if case is None:
            continue
        fields = {each: content[each] for each in core.fields if each in content}
        same = fields and Example(id=name, **fields).content_hash == case.example.content_hash
        gone += [annotation.key for annotation in case.annotations if not same or annotation.key not in given]
    return gone


def _rows(core: memalign.Judge, found: TraceFeedback, start: MemAlignJudge) -> list[Feedback]:
    ours = {str(value): label for label, value in start._scale.theirs.items()}  # noqa: SLF001
    rows = []
    for row in found.rows:
        content = {each: found.content[row.id][each] for each in core.fields}
        label = ours.get(str(row.value), row.value) if ours else row.value
        rows.append(msgspec.structs.replace(row, value=label, **content))
    return rows


def _warn(judge: MemAlignJudge, found: TraceFeedback, gone: Sequence[str]) -> None:
    if found.skipped:
        why = next(iter(found.skipped.values()))
        _logger.warning(
            "judge %s: skipped %d of %d traces, %s (%s)",
            judge.name, len(found.skipped), len(found.content), _few(list(found.skipped)), why,
        )  # fmt: skip
    for note in found.notes:
        _logger.info("judge %s: %s", judge.name, note)
    if gone:
        _logger.info("judge %s: forgets what is no longer said: %s", judge.name, _few(gone))
    value_type = judge.memalign_judge.value_type
    if value_type.high == UNBOUNDED:
        _logger.warning(
            "judge %s gives numbers without bounds; MemAlignOptimizer(value_type='%s:1..5') says which scale is meant, and "
            "which verdicts are far from a label", judge.name, value_type.kind,
        )  # fmt: skip


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


class _Shown:
    """The progress to report to: the caller's, or one line on a terminal or in a notebook."""

    def __init__(self, given: Progress | None) -> None:
        self._given = given
        self._width = 0

    def __enter__(self) -> Progress | None:
        if self._given is not None:
            return self._given
        return self._line if sys.stderr.isatty() or "ipykernel" in sys.modules else None

    def _line(self, stage: str, done: int, total: int) -> None:
        text = f"memalign: {stage} {done}/{total}"
        sys.stderr.write(f"\r{text.ljust(self._width)}")
        sys.stderr.flush()
        self._width = len(text)

    def __exit__(self, *_: object) -> None:
        if self._width:
            sys.stderr.write(f"\r{' ' * self._width}\r")
            sys.stderr.flush()
