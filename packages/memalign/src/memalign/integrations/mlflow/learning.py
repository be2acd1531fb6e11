"""Learning from traces and forgetting them: MLflow's traces in, our judge out. Knows no class of MLflow's judges."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Sequence
from typing import Any

import mlflow
import msgspec
from mlflow.entities import Trace

import memalign
from memalign import aio
from memalign.align import AlignResult, MemAlign
from memalign.align.annotations import checked_rows
from memalign.align.forget import forget
from memalign.integrations.mlflow.alignment_runs import log_alignment
from memalign.integrations.mlflow.label_types import Scale
from memalign.integrations.mlflow.mlflow_errors import in_mlflows_words, invalid, translated
from memalign.integrations.mlflow.optimizer_settings import Settings
from memalign.integrations.mlflow.sessions import cases_of
from memalign.integrations.mlflow.trace_feedback import TraceFeedback, checked_traces, read_feedback
from memalign.judge import Progress
from memalign.types import Example, Feedback, FeedbackKey
from memalign.values import value_text

__all__ = ["forget_traces", "learn"]

_logger = logging.getLogger(__name__)

NAMED = 5
"""How many traces a warning names."""


def learn(
    core: memalign.Judge,
    traces: list[Any],
    settings: Settings,
    *,
    base: Any,
    scale: Scale,
    progress: Progress | None = None,
    log_run: bool = False,
) -> AlignResult:
    """What `core` learns from the feedback in `traces`; `base` is MLflow's judge that it stands for.

    Raises MlflowException: INVALID_PARAMETER_VALUE where nothing can be learned. No model was asked then.
    """
    optimizer = settings.memalign()
    feedback, retracted = _feedback(core, traces, base)
    _warn(core, feedback, retracted)
    rows = _rows(core, feedback, scale)
    skip_invalid = settings.skip_invalid
    with translated(), mlflow.tracing.context(enabled=False):
        result = aio.run(_aligned(optimizer, core, rows, retracted, skip_invalid=skip_invalid, progress=progress))
    if not result.changed:
        _logger.info("judge %s: nothing new in %d traces", core.name, len(feedback.content))
    result = dataclasses.replace(result, notes=(*feedback.notes, *result.notes))
    return _reported(core, result, settings, log_run=log_run)


def _feedback(core: memalign.Judge, traces: list[Any], base: Any) -> tuple[TraceFeedback, list[FeedbackKey]]:
    """The feedback in `traces`, and what memory has that they no longer say.

    Raises MlflowException where there is neither.
    """
    _require_traces(traces)
    feedback = read_feedback(traces, base.name, core.fields, base=base, memory=core.memory)
    retracted = _taken_back(core, feedback)
    if not feedback.rows and not retracted:
        why = next(iter(feedback.skipped.values()), "")
        raise invalid(
            f"none of {len(feedback.skipped)} traces has feedback for judge {base.name!r} ({why}); log some with "
            "mlflow.log_feedback, as a person (source_type HUMAN)"
        )
    return feedback, retracted


def forget_traces(
    core: memalign.Judge,
    traces: Iterable[Any],
    settings: Settings,
    *,
    progress: Progress | None = None,
    log_run: bool = False,
) -> AlignResult | None:
    """`core` without the feedback on `traces` (or ids of traces); None where it never learned from any.

    Any trace of a session stands for the session.
    """
    if _is_one(traces):
        raise invalid("traces must be a list of Trace objects, or of the ids of traces")
    learned, unknown = cases_of(checked_traces(traces), core.memory)
    if unknown:
        _logger.warning("judge %s never learned from %s", core.name, _few(unknown))
    if not learned:
        return None
    with translated(), mlflow.tracing.context(enabled=False):
        result = aio.run(settings.memalign().unalign(core, *learned, progress=progress))
    return _reported(core, result, settings, log_run=log_run)


def _reported(before: memalign.Judge, result: AlignResult, settings: Settings, *, log_run: bool) -> AlignResult:
    if not result.changed:
        return result
    _logger.info("judge %s: %s", before.name, result)
    for conflict in result.conflicts[:NAMED]:
        labels = ", ".join(f"{key.source} gave {value_text(value)}" for key, value in conflict.annotations.items())
        counts = "no label counts" if conflict.label is None else f"{value_text(conflict.label)} counts"
        if conflict.kind == "comments":
            counts = "their comments contradict each other"
        reason, cases = conflict.reason, _few(conflict.ids)
        _logger.warning("judge %s: people differ on %s: %s; %s (%s)", before.name, cases, labels, counts, reason)
    if pending := result.pending:
        waiting = "; ".join(f"{key}: {in_mlflows_words(why)}" for key, why in pending[:NAMED])
        text = "judge %s: %d lessons wait and are tried again at the next align: %s"
        _logger.warning(text, before.name, len(pending), waiting)
    if log_run:
        log_alignment(result, settings)
    return result


async def _aligned(
    optimizer: MemAlign,
    core: memalign.Judge,
    rows: list[Feedback],
    retracted: Sequence[FeedbackKey],
    *,
    skip_invalid: bool,
    progress: Progress | None,
) -> AlignResult:
    if not retracted:
        return await optimizer.align(core, rows, skip_invalid=skip_invalid, progress=progress)
    # Nothing is asked of a model before every row is known to be fit.
    remaining = core.replace(memory=forget(core.memory, core.memory.keys(*retracted)))
    checked_rows(remaining, rows, skip_invalid=skip_invalid)
    forgotten = await optimizer.unalign(core, *retracted, progress=progress)
    if not rows:
        return forgotten
    result = await optimizer.align(forgotten.judge, rows, skip_invalid=skip_invalid, progress=progress)
    return _joined(forgotten, result)


def _joined(first: AlignResult, second: AlignResult) -> AlignResult:
    """Two reports on one alignment, as one."""
    present = {guideline.id for guideline in second.judge.memory.guidelines}
    return dataclasses.replace(
        second,
        guidelines=(*(guideline for guideline in first.guidelines if guideline.id in present), *second.guidelines),
        forgotten=(*first.forgotten, *second.forgotten),
        removed=(*first.removed, *second.removed),
        notes=(*first.notes, *second.notes),
        usage=first.usage + second.usage,
        seconds=first.seconds + second.seconds,
        changed=first.changed or second.changed,
    )


def _is_one(traces: Any) -> bool:
    """Whether what should be several is one: a trace and a text can be iterated over, too."""
    return isinstance(traces, str | bytes | Trace) or not isinstance(traces, Iterable) or hasattr(traces, "columns")


def _require_traces(traces: Any) -> None:
    """Raise MlflowException (INVALID_PARAMETER_VALUE) for anything but a list of traces."""
    if _is_one(traces):
        raise invalid("traces must be a list of Trace objects, such as mlflow.search_traces(return_type='list') gives")
    every = list(traces)
    if not every:
        raise invalid("no traces to align with")
    if strange := next((trace for trace in every if not isinstance(trace, Trace)), None):
        raise invalid(f"traces must be Trace objects, got {type(strange).__name__}; mlflow.get_trace(ID) gives one")


def _taken_back(core: memalign.Judge, feedback: TraceFeedback) -> list[FeedbackKey]:
    """Keys in memory that the traces no longer have: taken back in MLflow, or said of other content than it is now."""
    keys = {row.key for row in feedback.rows}
    retracted = []
    for name, content in feedback.content.items():
        case = core.memory.case(name)
        if case is None:
            continue
        fields = {field: content[field] for field in core.fields if field in content}
        same = fields and Example(id=name, **fields).content_hash == case.example.content_hash
        retracted += [annotation.key for annotation in case.annotations if not same or annotation.key not in keys]
    return retracted


def _rows(core: memalign.Judge, feedback: TraceFeedback, scale: Scale) -> list[Feedback]:
    ours = {str(value): label for label, value in scale.theirs.items()}
    rows = []
    for row in feedback.rows:
        content = {field: feedback.content[row.id][field] for field in core.fields}
        label = ours.get(str(row.value), row.value) if ours else row.value
        rows.append(msgspec.structs.replace(row, value=label, **content))
    return rows


def _warn(core: memalign.Judge, feedback: TraceFeedback, retracted: Sequence[FeedbackKey]) -> None:
    name, skipped = core.name, list(feedback.skipped)
    if skipped:
        why = feedback.skipped[skipped[0]]
        text = "judge %s: skipped %d of %d traces, %s (%s)"
        _logger.warning(text, name, len(skipped), len(feedback.content), _few(skipped), why)
    for note in feedback.notes:
        _logger.info("judge %s: %s", core.name, note)
    if retracted:
        _logger.info("judge %s: forgets what is no longer said: %s", core.name, _few([str(key) for key in retracted]))
    if core.value_type.numeric and not core.value_type.bounded:
        _logger.warning(
            "judge %s gives numbers without bounds; MemAlignOptimizer(value_type='%s:1..5') says which scale is meant, "
            "and which verdicts are far from a label",
            name,
            core.value_type.kind,
        )


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
