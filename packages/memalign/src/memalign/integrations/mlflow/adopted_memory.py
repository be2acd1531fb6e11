"""The memory that a record of MLflow's own optimizer stands for: its guidelines, and today's feedback on its traces."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

import memalign
from memalign import aio
from memalign.integrations.mlflow.base_judges import core_of
from memalign.integrations.mlflow.label_types import Scale
from memalign.integrations.mlflow.mlflow_errors import invalid, translated
from memalign.integrations.mlflow.optimizer_settings import Settings
from memalign.integrations.mlflow.trace_feedback import read_feedback
from memalign.memory import Annotation, Case, Memory, Outcome
from memalign.memory.guard import guideline_fault, tidy
from memalign.memory.retrieval import embedding_text
from memalign.models import resolve_embedding
from memalign.types import Example, Guideline

__all__ = ["adopted_core"]

_logger = logging.getLogger(__name__)


def adopted_core(base: Any, scale: Scale, settings: Settings, record: Mapping[str, Any]) -> memalign.Judge:
    """The judge of ours that a record without a memory of ours stands for.

    Its cases are embedded in this process; an embedder of the settings embeds them anew at the next align.
    Raises MlflowException (INVALID_PARAMETER_VALUE) for a judge of sessions.
    """
    core = core_of(base, scale, settings.parameters)
    cases = _cases(core, base, record.get("episodic_trace_ids") or ())
    memory = _memory(cases, record.get("semantic_memory") or ())
    with translated():
        return core.replace(memory=_embedded(memory), retrieval_k=settings.retrieval_k)


def _embedded(memory: Memory) -> Memory:
    if not memory.cases:
        return memory
    model = resolve_embedding(None)
    vectors = aio.run(model.embed([embedding_text(case.example) for case in memory.cases]))
    cases = tuple(
        replace(case, vector=vector.astype("<f4").tobytes()) for case, vector in zip(memory.cases, vectors, strict=True)
    )
    return replace(memory, cases=cases, embedding_model=model.name)


def _cases(core: memalign.Judge, base: Any, trace_ids: Iterable[str]) -> tuple[Case, ...]:
    import mlflow

    if "conversation" in core.fields:
        raise invalid(
            f"judge {core.name!r} judges sessions, and its record names only the first trace of each; align it again "
            "with MemAlignOptimizer().align(judge, traces)"
        )
    wanted = tuple(dict.fromkeys(trace_ids))
    traces = [trace for name in wanted if (trace := mlflow.get_trace(name, silent=True)) is not None]
    if len(traces) < len(wanted):
        present = {trace.info.trace_id for trace in traces}
        absent = [name for name in wanted if name not in present]
        _logger.warning(
            "judge %s: %d traces are gone, and what was said of them: %s", core.name, len(absent), ", ".join(absent[:5])
        )
    feedback = read_feedback(traces, base.name, core.fields)
    annotations: dict[str, list[Annotation]] = {}
    for row in feedback.rows:
        label = None if row.value is None else _label(core, row.value)
        if label is None and row.rationale is None:
            continue
        annotation = Annotation.of(replace(row, value=label))
        learned = replace(annotation, outcome=Outcome(kind="example", reason="adopted from MLflow"))
        annotations.setdefault(row.id, []).append(learned)
    return tuple(
        Case(
            example=Example(id=name, **{field: feedback.content[name][field] for field in core.fields}),
            annotations=tuple(sorted(annotated, key=lambda annotation: annotation.source)),
        )
        for name, annotated in sorted(annotations.items())
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
    for record in listed:
        text = tidy(str(record["guideline_text"]))
        if fault := guideline_fault(text):
            _logger.warning("a guideline is left out, it may not enter a prompt (%s): %.80s", fault, text)
            continue
        sources = record.get("source_trace_ids")
        behind = tuple(key for name in sources or () for key in keys.get(name, ()))
        if sources and not behind:
            _logger.warning("a guideline is left out, nobody's feedback stands behind it any more: %.80s", text)
            continue
        # MLflow writes guidelines from batches of examples and does not say of which: what it names is all there is.
        origin = "distilled" if sources else "MLflow"
        number = len(guidelines) + 1
        guidelines.append(Guideline(id=f"G{number}", text=text, supported_by=behind, exposed_to=behind, origin=origin))
    return Memory(
        cases=tuple(cases),
        guidelines=tuple(guidelines),
        next_guideline=len(guidelines) + 1,
    )
