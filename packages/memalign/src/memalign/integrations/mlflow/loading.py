"""Aligned judges from MLflow's registry, with their whole memory."""

from __future__ import annotations

from collections.abc import Mapping

from memalign.integrations.mlflow.errors import invalid
from memalign.integrations.mlflow.judge import MemAlignJudge
from memalign.integrations.mlflow.optimizer import MemAlignOptimizer
from memalign.integrations.mlflow.registered import AGAIN, damaged, registered


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
        MlflowException: It was never aligned, or its instructions were edited since
            (INVALID_PARAMETER_VALUE); it is not there, or its artifact is gone.
    """
    if not isinstance(name, str):
        raise invalid(
            f"load takes the name of a registered judge, got {type(name).__name__}"
        )
    found = registered(
        name, experiment_id=experiment_id, version=version, headers=extra_headers
    )
    with damaged(name):
        optimizer = MemAlignOptimizer(**found.own["settings"])
    core = found.core(optimizer.routed_embedding())
    judge = MemAlignJudge(base=found.base, core=core, optimizer=optimizer)
    if judge.instructions != found.shown:
        raise invalid(
            f"scorer {name!r}: its instructions were edited after it was aligned; {AGAIN}"
        )
    return judge
