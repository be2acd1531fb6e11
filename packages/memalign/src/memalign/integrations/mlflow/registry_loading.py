"""Aligned judges of ours: read back from MLflow's registry, or made of judges that MLflow's own optimizer aligned.

`memalign.integrations.mlflow_entry` leads MLflow's own functions here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from memalign.integrations.mlflow.adoption import adopted_core
from memalign.integrations.mlflow.aligned_judge import MemAlignJudge
from memalign.integrations.mlflow.base_judges import base_of, core_of
from memalign.integrations.mlflow.label_types import Scale, scale_of
from memalign.integrations.mlflow.mlflow_errors import invalid
from memalign.integrations.mlflow.optimizer_settings import Settings
from memalign.integrations.mlflow.registered import FLAGS, FORMAT, OURS, THEIRS
from memalign.integrations.mlflow.trace_judging import with_guidelines

__all__ = ["adopt", "aligned_from", "get_scorer", "of_record"]

MEMORY = "memory_augmented_judge_data"
"""Where MLflow's own MemAlign keeps its memory."""


class _Part(msgspec.Struct):
    """Our part of a record, as far as a judge is made of it before its memory is fetched."""

    format: int = FORMAT
    instructions: str = ""
    settings: dict[str, Any] = {}
    value_type: str | None = None
    timeout: float | None = None
    base_url: str | None = None
    flags: list[str] = []
    episodic_trace_ids: list[str] = []
    semantic_memory: list[dict[str, Any]] = []


def of_record(whole: Mapping[str, Any]) -> MemAlignJudge:
    """The judge of a whole record of ours or of MLflow's MemAlign; its memory is fetched or adopted at the first use.

    Raises MlflowException (INVALID_PARAMETER_VALUE) for a record that is damaged, of a newer memalign, or edited.
    """
    record = (whole.get(THEIRS) or {}).get(OURS)
    if record is None:
        record = whole[MEMORY]
        base = _base(record["base_judge"])
        settings = Settings(reflection_lm=record.get("reflection_lm"), retrieval_k=record.get("retrieval_k"))
        return MemAlignJudge(base=base, scale=_scale(base), settings=settings, record=dict(record))
    try:
        part = msgspec.convert(record, _Part)
    except msgspec.ValidationError as error:
        raise invalid(f"its part of memalign is damaged: {error}") from error
    if part.format > FORMAT:
        raise invalid(
            f"it was registered by a newer memalign (format {part.format}); run: pip install --upgrade memalign"
        )
    base = _unedited(whole, part)
    for name in set(FLAGS).intersection(part.flags):
        setattr(base, name, True)
    if part.base_url and hasattr(base, "_base_url"):
        base._base_url = part.base_url  # MLflow's record of a judge leaves it out
    if "timeout" in type(base).model_fields:
        base.timeout = part.timeout
    scale = _scale(base)
    if part.value_type not in (None, scale.value_type.spec):
        scale = scale_of(None, part.value_type)
    return MemAlignJudge(base=base, scale=scale, settings=Settings.of_record(part.settings), record=dict(record))


def _unedited(whole: Mapping[str, Any], part: _Part) -> Any:
    """The judge that was aligned.

    Raises MlflowException where somebody changed the instructions, as MLflow's UI can.
    """
    theirs = whole[THEIRS]
    text = with_guidelines(part.instructions, [guideline["guideline_text"] for guideline in part.semantic_memory])
    if theirs.get("instructions") != text:
        raise invalid("its instructions were edited after it was aligned; align it again to give it a memory")
    plain = {key: value for key, value in theirs.items() if key != OURS}
    return _base({**whole, THEIRS: plain | {"instructions": part.instructions}})


def _base(record: Mapping[str, Any]) -> Any:
    from mlflow.genai.scorers.base import Scorer

    base = base_of(Scorer.model_validate(dict(record)))
    base.aggregations = record.get("aggregations")  # MLflow's reader took them only later
    return base


def _scale(base: Any) -> Scale:
    return scale_of(base.feedback_value_type, instructions=base.instructions)


def get_scorer(
    *,
    name: str,
    experiment_id: str | None = None,
    version: int | None = None,
    extra_headers: Mapping[str, str] | None = None,
) -> MemAlignJudge:
    """A registered judge with its whole memory; one that MLflow's own optimizer aligned is adopted.

    As `mlflow.genai.scorers.get_scorer`, and beside it `extra_headers`, which are never stored. Needs no DSPy. Raises
    MlflowException: INVALID_PARAMETER_VALUE for a scorer that was never aligned.
    """
    from mlflow.tracking._tracking_service.utils import _get_store
    from mlflow.tracking.fluent import _get_experiment_id

    stored = _get_store().get_scorer(experiment_id or _get_experiment_id(), name, version)
    whole = vars(stored.serialized_scorer)
    ours = OURS in (whole[THEIRS] or {})
    if whole[MEMORY] is None and not ours:
        raise invalid(f"scorer {name!r} was never aligned; mlflow.genai.scorers.get_scorer loads it")
    judge = of_record(whole)
    if extra_headers:
        judge._base_judge._extra_headers = dict(extra_headers)  # read a moment ago, nobody else has it
    return judge if ours else adopt(judge)


def adopt(judge: Any) -> MemAlignJudge:
    """A judge of ours from one that MLflow's own optimizer aligned, or from a registered one whose artifact is gone.

    Its guidelines stand for the feedback on the traces that they name; that feedback is read from the traces as they
    are now, and traces that are gone are named in a warning. No model is asked: similar cases are found in this
    process. Raises MlflowException (INVALID_PARAMETER_VALUE) for any other judge.
    """
    if isinstance(judge, MemAlignJudge):
        base, scale, settings = judge.base_judge, judge.scale, judge._settings
    elif _is_theirs(judge):
        # The judge and not its record, which leaves out address and headers. Vectors are made anew, in this process.
        base = base_of(judge._base_judge)
        scale = _scale(base)
        settings = Settings(reflection_lm=judge._reflection_lm, retrieval_k=judge._retrieval_k)
    else:
        raise invalid(f"{type(judge).__name__} was never aligned; MemAlignOptimizer().align(judge, traces) does")
    guidelines = [guideline.model_dump() for guideline in judge._semantic_memory]  # both classes have them
    core = adopted_core(base, scale, settings, guidelines, judge._episodic_trace_ids)
    return MemAlignJudge(base=base, scale=scale, settings=settings, core=core)


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


def _is_theirs(judge: Any) -> bool:
    """Whether MLflow's own optimizer aligned the judge; its class is not imported, which would need DSPy."""
    return type(judge).__name__ == "MemoryAugmentedJudge" and type(judge).__module__.startswith("mlflow.")
