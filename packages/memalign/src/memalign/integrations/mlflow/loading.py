"""Aligned judges from MLflow's registry, with their whole memory."""

from __future__ import annotations

from collections.abc import Mapping

from memalign.integrations.mlflow.base_judges import base_of
from memalign.integrations.mlflow.errors import invalid
from memalign.integrations.mlflow.judge import MemAlignJudge
from memalign.integrations.mlflow.optimizer import MemAlignOptimizer
from memalign.integrations.mlflow.record import DATA, OURS, core_in_artifact

AGAIN = "align it again to give it a memory, or load an earlier version"


def load(
    name: str,
    *,
    experiment_id: str | None = None,
    version: int | None = None,
    extra_headers: Mapping[str, str] | None = None,
) -> MemAlignJudge:
    """Load a registered judge with its whole memory.

    MLflow's own `get_scorer` gives the same judge with the guidelines alone.

    Args:
        name: The name of a registered judge.
        experiment_id: Where it is registered; None for the active experiment.
        version: None for the latest.
        extra_headers: Sent with every request to its model; they are never stored.

    Returns:
        The judge.

    Raises:
        MlflowException: It was never aligned, or its instructions were edited since (INVALID_PARAMETER_VALUE); it is
            not there, or its artifact is gone.
    """
    from mlflow.genai.scorers.base import Scorer
    from mlflow.tracking._tracking_service.utils import _get_store
    from mlflow.tracking.fluent import _get_experiment_id

    if not isinstance(name, str):
        raise invalid(f"load takes the name of a registered judge, got {type(name).__name__}")
    stored = _get_store().get_scorer(experiment_id or _get_experiment_id(), name, version)
    record = dict(vars(stored.serialized_scorer))
    data = dict(record.get(DATA) or {})
    if (own := data.pop(OURS, None)) is None:
        raise invalid(
            f"scorer {name!r} was never aligned by memalign; mlflow.genai.scorers.get_scorer loads it. "
            f"If its instructions were edited in MLflow since, {AGAIN}"
        )
    try:
        dumped = {**record, DATA: {**data, "instructions": own["instructions"]}}
        base = base_of(Scorer.model_validate(dumped))
        base.aggregations = record.get("aggregations")  # MLflow's reader took them only later
        for field, value in own["omitted"].items():
            if hasattr(base, field):  # a time limit is of newer versions of MLflow
                setattr(base, field, value)
        if extra_headers:
            base._extra_headers = dict(extra_headers)  # read a moment ago, nobody else has it
        optimizer = MemAlignOptimizer(**own["settings"])
        core = core_in_artifact(own, base, optimizer.routed_embedding())
    except (KeyError, TypeError, AttributeError) as error:
        raise invalid(f"scorer {name!r}: its part of memalign is damaged: {error!r}") from error
    judge = MemAlignJudge(base=base, core=core, optimizer=optimizer)
    if judge.instructions != data["instructions"]:
        raise invalid(f"scorer {name!r}: its instructions were edited after it was aligned; {AGAIN}")
    return judge
