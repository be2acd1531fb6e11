"""Judges that MLflow's own optimizer aligned, with what their record holds: guidelines, and the ids of their traces."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

import memalign
from memalign.integrations.mlflow.aligned_judge import MemAlignJudge
from memalign.integrations.mlflow.base_judges import base_of, core_of
from memalign.integrations.mlflow.label_types import Scale, scale_of
from memalign.integrations.mlflow.mlflow_errors import invalid, translated
from memalign.integrations.mlflow.optimizer_settings import Settings
from memalign.integrations.mlflow.trace_feedback import read_feedback
from memalign.memory import Annotation, Case, Memory, Shard
from memalign.memory.guard import guideline_fault, tidy
from memalign.types import Example, FeedbackKey, Guideline

__all__ = ["adopt", "adopted", "aligned_from"]

_logger = logging.getLogger(__name__)


def _is_theirs(judge: Any) -> bool:
    """Whether MLflow's own optimizer aligned the judge; its class is not imported, which would need DSPy."""
    return type(judge).__name__ == "MemoryAugmentedJudge" and type(judge).__module__.startswith("mlflow.")


def adopt(judge: Any) -> MemAlignJudge:
    """A judge of ours from one that MLflow's own optimizer aligned, or from a registered one whose artifact is gone.

    Its guidelines stand for the feedback on the traces that they name; that feedback is read from the traces as they are
    now, and traces that are gone are named in a warning. No model is asked: vectors and pre-alignment verdicts follow at the next align.
    Raises MlflowException (INVALID_PARAMETER_VALUE) for any other judge.
    """
    if not (_is_theirs(judge) or isinstance(judge, MemAlignJudge)):
        raise invalid(f"{type(judge).__name__} was never aligned; MemAlignOptimizer().align(judge, traces) does")
    data = judge.model_dump()["memory_augmented_judge_data"]
    if _is_theirs(judge):
        data["base_judge"] = judge._base_judge  # noqa: SLF001  # with what its record leaves out: address, headers
    return adopted(data)


def aligned_from(judge: Any, settings: Settings) -> MemAlignJudge:
    """`judge` as one of ours: itself, or with an empty memory. Raises MlflowException for one that cannot be aligned."""
    if isinstance(judge, MemAlignJudge):
        return judge
    if _is_theirs(judge):
        return adopt(judge)
    base = base_of(judge)
    scale = scale_of(base.feedback_value_type, settings.value_type)
    return MemAlignJudge(base=base, scale=scale, settings=settings, core=core_of(base, scale, settings.parameters))


def adopted(data: Mapping[str, Any], *, settings: Settings | None = None, scale: Scale | None = None) -> MemAlignJudge:
    """The judge of such a record; `base_judge` is a judge or its record, the settings are MLflow's where none are given."""
    from mlflow.genai.scorers.base import Scorer

    from memalign.integrations.mlflow.aligned_judge import MemAlignJudge

    base = data["base_judge"]
    base = base_of(Scorer.model_validate(base) if isinstance(base, Mapping) else base)
    # Vectors are made anew in any case: in this process, unless an optimizer says otherwise.
    settings = settings or Settings(reflection_lm=data.get("reflection_lm"), retrieval_k=data.get("retrieval_k"))
    scale = scale or scale_of(base.feedback_value_type)
    core = core_of(base, scale, settings.parameters)
    cases = _cases(core, data.get("episodic_trace_ids") or ())
    memory = _memory(cases, data.get("semantic_memory") or ())
    with translated():
        core = core.replace(memory=memory.settled(), retrieval_k=settings.retrieval_k)
    return MemAlignJudge(base=base, scale=scale, settings=settings, core=core)


def _cases(core: memalign.Judge, trace_ids: Iterable[str]) -> tuple[Case, ...]:
    import mlflow

    if "conversation" in core.fields:
        raise invalid(
            f"judge {core.name!r} judges sessions, and its record names only the first trace of each; align it again with "
            "MemAlignOptimizer().align(judge, traces)"
        )
    wanted = tuple(dict.fromkeys(trace_ids))
    traces = [trace for name in wanted if (trace := mlflow.get_trace(name, silent=True)) is not None]
    if len(traces) < len(wanted):
        there = {trace.info.trace_id for trace in traces}
        gone = [name for name in wanted if name not in there]
        _logger.warning(
            "judge %s: %d traces are gone, and what was said of them: %s", core.name, len(gone), ", ".join(gone[:5])
        )
    found = read_feedback(traces, core.name, core.fields)
    annotations: dict[str, list[Annotation]] = {}
    for row in found.rows:
        label = None if row.value is None else _label(core, row.value)
        if label is None and row.rationale is None:
            continue
        annotation = Annotation.of(msgspec.structs.replace(row, value=label))
        learned = msgspec.structs.replace(annotation, state="learned", reason="adopted from MLflow")
        annotations.setdefault(row.id, []).append(learned)
    return tuple(
        Case(
            example=Example(id=name, **{each: found.content[name][each] for each in core.fields}),
            annotations=tuple(sorted(said, key=lambda annotation: annotation.source)),
        )
        for name, said in sorted(annotations.items())
    )


def _label(core: memalign.Judge, value: Any) -> Any:
    from memalign.errors import InvalidValue

    try:
        return core.value_type.parse(value)
    except InvalidValue as error:
        _logger.warning("judge %s: a label is left out: %s", core.name, error)
        return None


def _memory(cases: Sequence[Case], listed: Iterable[Mapping[str, Any]]) -> Memory:
    keys = {case.id: tuple(annotation.key for annotation in case.annotations) for case in cases}
    guidelines: list[Guideline] = []
    for each in listed:
        text = tidy(str(each["guideline_text"]))
        if fault := guideline_fault(text):
            _logger.warning("a guideline is left out, it may not enter a prompt (%s): %.80s", fault, text)
            continue
        sources = each.get("source_trace_ids")
        behind = tuple(key for name in sources or () for key in keys.get(name, ()))
        if sources and not behind:
            _logger.warning("a guideline is left out, nobody's feedback stands behind it any more: %.80s", text)
            continue
        # MLflow writes guidelines from batches of examples and does not say of which: what it names is all there is.
        origin = "distilled" if sources else "MLflow"
        number = len(guidelines) + 1
        guidelines.append(Guideline(id=f"G{number}", text=text, supported_by=behind, exposed_to=behind, origin=origin))
    shards = tuple(Shard(keys=guideline.supported_by) for guideline in guidelines if guideline.supported_by)
    return Memory(
        cases=tuple(cases),
        guidelines=tuple(guidelines),
        shards=_apart(shards, keys),
        next_guideline=len(guidelines) + 1,
    )


def _apart(shards: Sequence[Shard], keys: Mapping[str, Sequence[FeedbackKey]]) -> tuple[Shard, ...]:
    """Every key in one shard: guidelines that share a source go into one together."""
    groups: list[set[FeedbackKey]] = []
    for shard in (*shards, *(Shard(keys=(key,)) for several in keys.values() for key in several)):
        joined = set(shard.keys)
        apart = []
        for group in groups:
            if group & joined:
                joined |= group
            else:
                apart.append(group)
        groups = [*apart, joined]
    return tuple(sorted((Shard(keys=tuple(sorted(group))) for group in groups), key=lambda shard: shard.keys))
