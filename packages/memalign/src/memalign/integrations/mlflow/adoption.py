"""Judges that MLflow's own optimizer aligned, with what their record holds: guidelines, and the ids of their traces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memalign.integrations.mlflow.adopted_memory import adopted_core
from memalign.integrations.mlflow.aligned_judge import MemAlignJudge
from memalign.integrations.mlflow.base_judges import base_of, core_of
from memalign.integrations.mlflow.label_types import Scale, scale_of
from memalign.integrations.mlflow.mlflow_errors import invalid
from memalign.integrations.mlflow.optimizer_settings import Settings

__all__ = ["adopt", "adopted", "aligned_from"]


def _is_theirs(judge: Any) -> bool:
    """Whether MLflow's own optimizer aligned the judge; its class is not imported, which would need DSPy."""
    return type(judge).__name__ == "MemoryAugmentedJudge" and type(judge).__module__.startswith("mlflow.")


def adopt(judge: Any) -> MemAlignJudge:
    """A judge of ours from one that MLflow's own optimizer aligned, or from a registered one whose artifact is gone.

    Its guidelines stand for the feedback on the traces that they name; that feedback is read from the traces as they
    are now, and traces that are gone are named in a warning. No model is asked: similar cases are found in this
    process. Raises MlflowException (INVALID_PARAMETER_VALUE) for any other judge.
    """
    if not (_is_theirs(judge) or isinstance(judge, MemAlignJudge)):
        raise invalid(f"{type(judge).__name__} was never aligned; MemAlignOptimizer().align(judge, traces) does")
    record = {
        "episodic_trace_ids": judge._episodic_trace_ids,  # both classes have them
        "semantic_memory": [guideline.model_dump() for guideline in judge._semantic_memory],
    }
    if isinstance(judge, MemAlignJudge):
        return adopted(record, judge.base_judge, judge._settings, judge.scale)
    # The judge and not its record, which leaves out address and headers. Vectors are made anew, in this process.
    settings = Settings(reflection_lm=judge._reflection_lm, retrieval_k=judge._retrieval_k)
    return adopted(record, base_of(judge._base_judge), settings)


def aligned_from(judge: Any, settings: Settings) -> MemAlignJudge:
    """`judge` as one of ours: itself, or with an empty memory.

    Raises MlflowException for one that cannot be aligned.
    """
    if isinstance(judge, MemAlignJudge):
        return judge
    if _is_theirs(judge):
        return adopt(judge)
    base = base_of(judge)
    scale = scale_of(base.feedback_value_type, settings.value_type, instructions=base.instructions)
    return MemAlignJudge(base=base, scale=scale, settings=settings, core=core_of(base, scale, settings.parameters))


def adopted(record: Mapping[str, Any], base: Any, settings: Settings, scale: Scale | None = None) -> MemAlignJudge:
    """The judge of a record's guidelines and ids of traces, read now."""
    scale = scale or scale_of(base.feedback_value_type, instructions=base.instructions)
    core = adopted_core(base, scale, settings, record)
    return MemAlignJudge(base=base, scale=scale, settings=settings, core=core)
