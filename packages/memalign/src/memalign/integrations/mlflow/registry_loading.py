"""Reading aligned judges back from MLflow's registry.

`memalign.integrations.mlflow_entry` leads MLflow's own functions here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from memalign.integrations.mlflow.adoption import adopted
from memalign.integrations.mlflow.aligned_judge import MemAlignJudge
from memalign.integrations.mlflow.base_judges import base_of
from memalign.integrations.mlflow.label_types import scale_of
from memalign.integrations.mlflow.mlflow_errors import invalid
from memalign.integrations.mlflow.optimizer_settings import Settings
from memalign.integrations.mlflow.registered import FLAGS, FORMAT, OURS, THEIRS
from memalign.integrations.mlflow.trace_judging import with_guidelines

__all__ = ["get_scorer", "of_record"]

MEMORY = "memory_augmented_judge_data"
"""Where MLflow's MemAlign keeps its memory, and where ours kept its part at first."""


class _Part(msgspec.Struct):
    """Our part of a record, as far as a judge is made of it before its memory is fetched."""

    format: int = 1
    instructions: str | None = None
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
    data = whole.get(MEMORY) or {}
    part = record if record is not None else data.get(OURS)
    try:
        own = msgspec.convert(part or {}, _Part)
    except msgspec.ValidationError as error:
        raise invalid(f"its part of memalign is damaged: {error}") from error
    if own.format > FORMAT:
        raise invalid(
            f"it was registered by a newer memalign (format {own.format}); run: pip install --upgrade memalign"
        )
    if record is not None:
        base = _unedited(whole, own)
        data = {**msgspec.to_builtins(own), OURS: record}
    else:
        base = _base(data["base_judge"])
    for name in FLAGS:
        if name in own.flags:
            setattr(base, name, True)
    if own.base_url and hasattr(base, "_base_url"):
        base._base_url = own.base_url  # MLflow's record of a judge leaves it out
    if part is None:
        settings = Settings(reflection_lm=data.get("reflection_lm"), retrieval_k=data.get("retrieval_k"))
    else:
        settings = Settings.of_record(own.settings)
        if "timeout" in type(base).model_fields:
            base.timeout = own.timeout
    scale = scale_of(base.feedback_value_type, instructions=base.instructions)
    if own.value_type not in (None, scale.value_type.spec):
        scale = scale_of(None, own.value_type)
    return MemAlignJudge(base=base, scale=scale, settings=settings, record=dict(data))


def _unedited(whole: Mapping[str, Any], own: _Part) -> Any:
    """The judge that was aligned.

    Raises MlflowException where somebody changed the instructions, as MLflow's UI can.
    """
    theirs = whole[THEIRS]
    text = str(own.instructions)
    if theirs.get("instructions") != with_guidelines(
        text, [guideline["guideline_text"] for guideline in own.semantic_memory]
    ):
        raise invalid("its instructions were edited after it was aligned; align it again to give it a memory")
    return _base(
        {**whole, THEIRS: {key: value for key, value in theirs.items() if key != OURS} | {"instructions": text}}
    )


def _base(record: Mapping[str, Any]) -> Any:
    from mlflow.genai.scorers.base import Scorer

    base = base_of(Scorer.model_validate(dict(record)))
    base.aggregations = record.get("aggregations")  # MLflow's reader took them only later
    return base


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
    if whole[MEMORY] is None and OURS not in (whole[THEIRS] or {}):
        raise invalid(f"scorer {name!r} was never aligned; mlflow.genai.scorers.get_scorer loads it")
    judge = of_record(whole)
    if extra_headers:
        judge._base_judge._extra_headers = dict(extra_headers)  # read a moment ago, nobody else has it
    record = judge._record or {}
    if OURS in record:
        return judge
    return adopted(record, judge.base_judge, judge._settings, judge.scale)
