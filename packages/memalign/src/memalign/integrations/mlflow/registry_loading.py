"""Reading aligned judges back from MLflow's registry, also through MLflow's own functions."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from memalign.integrations.mlflow.adoption import adopted
from memalign.integrations.mlflow.aligned_judge import MemAlignJudge
from memalign.integrations.mlflow.label_types import scale_of
from memalign.integrations.mlflow.mlflow_errors import invalid
from memalign.integrations.mlflow.optimizer_settings import Settings
from memalign.integrations.mlflow.registered import FLAGS, OURS

__all__ = ["get_scorer", "of_record", "teach_mlflow"]


def of_record(data: Mapping[str, Any], timeout: float | None = None) -> MemAlignJudge:
    """The judge of a record's `memory_augmented_judge_data`; its memory is fetched at the first use.

    The record of a judge that was never registered names no artifact: such a one is adopted, as MLflow reads its own.
    """
    from mlflow.genai.scorers.base import Scorer

    base = Scorer.model_validate(data["base_judge"])
    base.aggregations = data["base_judge"].get("aggregations")  # MLflow's reader took them only later
    own = data.get(OURS) or {}
    for name in FLAGS:
        if name in own.get("shown", ()):
            setattr(base, name, True)
    if own.get("base_url") and hasattr(base, "_base_url"):
        base._base_url = own["base_url"]  # noqa: SLF001  # MLflow's record of a judge leaves it out
    if "timeout" in type(base).model_fields:
        base.timeout = own.get("timeout", timeout)
    settings = Settings.of_record(own.get("settings") or {})
    scale = scale_of(base.feedback_value_type)
    if scale.value_type.spec != own.get("value_type", scale.value_type.spec):
        scale = scale_of(None, own["value_type"])
    if "run_id" not in own:
        return adopted({**data, "base_judge": base}, settings=settings, scale=scale)
    return MemAlignJudge(base=base, scale=scale, settings=settings, record=dict(data))


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
    from mlflow.genai.scorers.base import Scorer
    from mlflow.tracking._tracking_service.utils import _get_store
    from mlflow.tracking.fluent import _get_experiment_id

    found = _get_store().get_scorer(experiment_id or _get_experiment_id(), name, version)
    stored = found.serialized_scorer
    data = stored.memory_augmented_judge_data
    if data is None:
        raise invalid(f"scorer {name!r} was never aligned; mlflow.genai.scorers.get_scorer loads it")
    judge: MemAlignJudge = Scorer.model_validate(stored) if OURS in data else adopted(data)
    if extra_headers:
        judge._base_judge._extra_headers = dict(extra_headers)  # noqa: SLF001  # read a moment ago, nobody else has it
    return judge


def teach_mlflow() -> None:
    """Let `Scorer.model_validate`, through which MLflow reads every record, read ours; all others go on as before."""
    from mlflow.genai.scorers.base import Scorer

    theirs = Scorer.model_validate.__func__
    if getattr(theirs, "reads_memalign", False):
        return

    @functools.wraps(theirs)
    def model_validate(cls: type[Any], obj: Any, *args: Any, **kwargs: Any) -> Any:
        whole = obj if isinstance(obj, Mapping) else getattr(obj, "__dict__", {})
        data = whole.get("memory_augmented_judge_data")
        if isinstance(data, Mapping) and OURS in data:
            return of_record(data, timeout=whole.get("timeout"))
        return theirs(cls, obj, *args, **kwargs)

    model_validate.reads_memalign = True  # type: ignore[attr-defined]
    Scorer.model_validate = classmethod(model_validate)
