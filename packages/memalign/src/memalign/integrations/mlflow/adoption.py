"""The memory that a record of MLflow's own optimizer stands for: its guidelines, and today's feedback on its traces."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

import memalign
from memalign import aio
from memalign.errors import InvalidValue
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


def adopted_core(
    base: Any, scale: Scale, settings: Settings, guidelines: Sequence[Mapping[str, Any]], trace_ids: Sequence[str]
) -> memalign.Judge:
    """The judge of ours with the guidelines of a record, and with what people say now of its traces.

    Its cases are embedded in this process; an embedder of the settings embeds them anew at the next align.
    Raises MlflowException (INVALID_PARAMETER_VALUE) for a judge of sessions.
    """
    core = core_of(base, scale, settings.parameters)
    if "conversation" in core.fields:
        raise invalid(
            f"judge {core.name!r} judges sessions, and its record names only the first trace of each; align it again "
            "with MemAlignOptimizer().align(judge, traces)"
        )
    cases = _cases(core, base.name, trace_ids)
    listed = _guidelines(guidelines, cases)
    with translated():
        model = resolve_embedding(None)
        vectors = aio.run(model.embed([embedding_text(case.example) for case in cases])) if cases else ()
        memory = Memory(
            cases=tuple(
                replace(case, vector=vector.astype("<f4").tobytes())
                for case, vector in zip(cases, vectors, strict=True)
            ),
            guidelines=listed,
            next_guideline=len(listed) + 1,
            embedding_model=model.name if cases else None,
        )
        return core.replace(memory=memory, retrieval_k=settings.retrieval_k)


def _cases(core: memalign.Judge, name: str, trace_ids: Iterable[str]) -> list[Case]:
    import mlflow

    traces = {trace_id: mlflow.get_trace(trace_id, silent=True) for trace_id in trace_ids}
    if absent := [trace_id for trace_id, trace in traces.items() if trace is None]:
        _logger.warning(
            "judge %s: %d traces are gone, and what was said of them: %s", core.name, len(absent), ", ".join(absent[:5])
        )
    feedback = read_feedback([trace for trace in traces.values() if trace is not None], name, core.fields)
    annotations: dict[str, list[Annotation]] = {}
    for row in feedback.rows:
        label = None if row.value is None else _label(core, row.value)
        if label is not None or row.rationale is not None:
            annotation = Annotation.of(replace(row, value=label))
            learned = replace(annotation, outcome=Outcome(kind="example", reason="adopted from MLflow"))
            annotations.setdefault(row.id, []).append(learned)
    return [
        Case(
            example=Example(id=case_id, **{field: feedback.content[case_id][field] for field in core.fields}),
            annotations=tuple(sorted(annotated, key=lambda annotation: annotation.source)),
        )
        for case_id, annotated in sorted(annotations.items())
    ]


def _label(core: memalign.Judge, value: Any) -> Any:
    try:
        return core.value_type.parse(value)
    except InvalidValue as error:
        _logger.warning("judge %s: a label is left out: %s", core.name, error)
        return None


def _guidelines(listed: Iterable[Mapping[str, Any]], cases: Sequence[Case]) -> tuple[Guideline, ...]:
    keys = {case.id: [annotation.key for annotation in case.annotations] for case in cases}
    guidelines: list[Guideline] = []
    for record in listed:
        text = tidy(str(record["guideline_text"]))
        if fault := guideline_fault(text):
            _logger.warning("a guideline is left out, it may not enter a prompt (%s): %.80s", fault, text)
            continue
        sources = record.get("source_trace_ids") or ()
        behind = tuple(key for name in sources for key in keys.get(name, ()))
        if sources and not behind:
            _logger.warning("a guideline is left out, nobody's feedback stands behind it any more: %.80s", text)
            continue
        # MLflow writes guidelines from batches of examples and does not say of which: what it names is all there is.
        origin = "distilled" if sources else "MLflow"
        number = len(guidelines) + 1
        guidelines.append(Guideline(id=f"G{number}", text=text, supported_by=behind, exposed_to=behind, origin=origin))
    return tuple(guidelines)
