"""A memory made of what MLflow keeps of one: guidelines, and what people say today of the traces behind them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

import memalign
from memalign import aio
from memalign.align.annotations import add_annotations, checked_rows
from memalign.integrations.mlflow.assessments import read_feedback
from memalign.integrations.mlflow.errors import invalid, translated
from memalign.memory import Memory, Outcome
from memalign.memory.guard import guideline_fault, tidy
from memalign.memory.retrieval import embedding_text
from memalign.models import resolve_embedding
from memalign.types import Guideline

_logger = logging.getLogger(__name__)

TAKEN_OVER = Outcome(kind="example", reason="taken over from MLflow")


def is_theirs(judge: Any) -> bool:
    """Whether MLflow's own optimizer aligned the judge; its class is not imported, which would need DSPy."""
    return type(judge).__name__ == "MemoryAugmentedJudge" and type(judge).__module__.startswith("mlflow.")


def rebuilt_core(
    core: memalign.Judge, name: str, guidelines: Iterable[Mapping[str, Any]], trace_ids: Iterable[str]
) -> memalign.Judge:
    """`core` with these guidelines, and with what people say now of these traces for the MLflow judge `name`.

    Its cases are embedded in this process. Raises MlflowException (INVALID_PARAMETER_VALUE) for a judge of sessions.
    """
    import mlflow

    if "conversation" in core.fields:
        raise invalid(
            f"judge {core.name!r} judges sessions, and its record names only the first trace of each; align it again "
            "with MemAlignOptimizer().align(judge, traces)"
        )
    traces = {trace_id: mlflow.get_trace(trace_id, silent=True) for trace_id in trace_ids}
    if absent := [trace_id for trace_id, trace in traces.items() if trace is None]:
        text = "judge %s: %d traces are gone, and what was said of them: %s"
        _logger.warning(text, core.name, len(absent), ", ".join(absent[:5]))
    feedback = read_feedback([trace for trace in traces.values() if trace is not None], name, core)
    with translated():
        file = checked_rows(core, feedback.rows, skip_invalid=True)
        memory = add_annotations(Memory(), file.rows)
        memory = memory.with_outcomes(dict.fromkeys((row.key for row in file.rows), TAKEN_OVER))
        model = resolve_embedding(None)
        vectors = aio.run(model.embed([embedding_text(case.example) for case in memory.cases]))
    for fault in file.invalid:
        _logger.warning("judge %s: a label is left out: %s", core.name, fault)
    pairs = zip(memory.cases, vectors, strict=True)
    cases = tuple(replace(case, vector=vector.astype("<f4").tobytes()) for case, vector in pairs)
    memory = replace(memory, cases=cases, embedding_model=model.name if cases else None)
    return core.replace(memory=_with_guidelines(memory, guidelines))


def _with_guidelines(memory: Memory, records: Iterable[Mapping[str, Any]]) -> Memory:
    guidelines: list[Guideline] = []
    for record in records:
        text, sources = tidy(str(record["guideline_text"])), record.get("source_trace_ids") or ()
        cases = (case for name in sources if (case := memory.case(name)) is not None)
        support = tuple(annotation.key for case in cases for annotation in case.annotations)
        fault = guideline_fault(text)
        if fault or (sources and not support):
            why = f"it may not enter a prompt ({fault})" if fault else "nobody's feedback supports it any more"
            _logger.warning("a guideline is left out, %s: %.80s", why, text)
            continue
        # MLflow writes guidelines from batches of examples and does not say of which: what it names is all there is.
        origin, number = "distilled" if sources else "MLflow", len(guidelines) + 1
        guideline = Guideline(id=f"G{number}", text=text, supported_by=support, exposed_to=support, origin=origin)
        guidelines.append(guideline)
    return replace(memory, guidelines=tuple(guidelines), next_guideline=len(guidelines) + 1)
