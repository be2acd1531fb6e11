"""Aligned judges from MLflow's registry, from MLflow's own optimizer, and from memalign."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import memalign
from memalign.integrations.mlflow.base_judges import annotation_of, base_of
from memalign.integrations.mlflow.errors import invalid, translated
from memalign.integrations.mlflow.judge import MemAlignJudge
from memalign.integrations.mlflow.optimizer import MemAlignOptimizer
from memalign.integrations.mlflow.rebuilding import is_theirs
from memalign.integrations.mlflow.record import DATA, OURS, core_in_artifact
from memalign.models.judge_models import open_judging_model
from memalign.models.providers import parse_name

MEMORY = "memory_augmented_judge_data"
"""Where MLflow's own MemAlign keeps its memory."""
AGAIN = "align it again to give it a memory, or load an earlier version"


def load(
    name: Any,
    *,
    experiment_id: str | None = None,
    version: int | None = None,
    extra_headers: Mapping[str, str] | None = None,
    rebuild: bool = False,
) -> MemAlignJudge:
    """Load a registered judge with its whole memory.

    MLflow's own `get_scorer` gives the same judge with the guidelines alone. A judge that MLflow's own optimizer
    aligned is taken over: its guidelines, and what people say today of its traces. No model is asked for that.

    Args:
        name: The name of a registered judge, or the scorer that MLflow loaded.
        experiment_id: Where it is registered; None for the active experiment.
        version: None for the latest.
        extra_headers: Sent with every request to its model; they are never stored.
        rebuild: Whether its memory is made of what the record itself has, where its artifact is gone.

    Returns:
        The judge.

    Raises:
        MlflowException: It was never aligned, or its instructions were edited since (INVALID_PARAMETER_VALUE); it is
            not there, or its artifact is gone.
    """
    if isinstance(name, MemAlignJudge):
        return name
    if is_theirs(name):  # the judge and not its record, which leaves out address and headers
        return MemAlignOptimizer(reflection_lm=name._reflection_lm, retrieval_k=name._retrieval_k).start(name)
    record = _record(name, experiment_id, version)
    if record.get(MEMORY):
        theirs = record[MEMORY]
        base = _base(theirs["base_judge"])
        optimizer = MemAlignOptimizer(reflection_lm=theirs.get("reflection_lm"), retrieval_k=theirs.get("retrieval_k"))
        return optimizer.rebuilt(base, theirs["semantic_memory"], theirs.get("episodic_trace_ids") or ())
    data = dict(record.get(DATA) or {})
    if (own := data.pop(OURS, None)) is None:
        raise invalid(
            f"scorer {record.get('name')!r} was never aligned by memalign; mlflow.genai.scorers.get_scorer loads it. "
            f"If its instructions were edited in MLflow since, {AGAIN}"
        )
    try:
        base = _base({**record, DATA: {**data, "instructions": own["instructions"]}})
        for field, value in own["omitted"].items():
            if hasattr(base, field):  # a time limit is of newer versions of MLflow
                setattr(base, field, value)
        optimizer, value_type = MemAlignOptimizer(**own["settings"]), own["value_type"]
        learned = own["semantic_memory"], own["episodic_trace_ids"]
    except (KeyError, TypeError, AttributeError) as error:
        raise invalid(f"scorer {record.get('name')!r}: its part of memalign is damaged: {error!r}") from error
    if extra_headers:
        base._extra_headers = dict(extra_headers)  # read a moment ago, nobody else has it
    if rebuild or "run_id" not in own:
        return optimizer.rebuilt(base, *learned, value_type)
    judge = MemAlignJudge(
        base=base, core=core_in_artifact(own, base, optimizer.routed_embedding()), optimizer=optimizer
    )
    if judge.instructions != data["instructions"]:
        raise invalid(f"scorer {judge.name!r}: its instructions were edited after it was aligned; {AGAIN}")
    return judge


def _record(scorer: Any, experiment_id: str | None, version: int | None) -> dict[str, Any]:
    """The record of a registered scorer; of one that MLflow loaded, that of the version with its instructions."""
    from mlflow.genai.scorers.base import Scorer
    from mlflow.tracking._tracking_service.utils import _get_store
    from mlflow.tracking.fluent import _get_experiment_id

    experiment = experiment_id or getattr(scorer, "_experiment_id", None) or _get_experiment_id()
    if isinstance(scorer, str):
        return dict(vars(_get_store().get_scorer(experiment, scorer, version).serialized_scorer))
    if not isinstance(scorer, Scorer):
        raise invalid(f"load takes the name of a registered judge or a scorer, got {type(scorer).__name__}")
    versions = _get_store().list_scorer_versions(experiment, scorer.name)
    for stored in sorted(versions, key=lambda stored: stored.scorer_version, reverse=True):
        record = dict(vars(stored.serialized_scorer))
        if (record.get(DATA) or {}).get("instructions") == getattr(scorer, "instructions", None):
            return record
    raise invalid(f"no version of scorer {scorer.name!r} in experiment {experiment} has its instructions")


def _base(record: Mapping[str, Any]) -> Any:
    from mlflow.genai.scorers.base import Scorer

    base = base_of(Scorer.model_validate(dict(record)))
    base.aggregations = record.get("aggregations")  # MLflow's reader took them only later
    return base


def as_scorer(judge: memalign.Judge) -> MemAlignJudge:
    """A memalign judge as an MLflow scorer: for `mlflow.genai.evaluate`, and to register.

    Args:
        judge: The judge. One of `{{ conversation }}` becomes a session-level scorer.

    Returns:
        The scorer.

    Raises:
        MlflowException: It is no judge of memalign, or has fields that MLflow's judges cannot have together
            (INVALID_PARAMETER_VALUE).
    """
    from mlflow.genai.judges.instructions_judge import InstructionsJudge

    if not isinstance(judge, memalign.Judge):
        raise invalid(
            f"as_scorer takes a memalign.Judge, got {type(judge).__name__}; MLflow's own judges are scorers already"
        )
    with translated():
        provider, model = parse_name(open_judging_model(judge).name)
        optimizer = MemAlignOptimizer(
            embedding_model=judge.embedding_model, value_type=judge.value_type.spec, parameters=dict(judge.parameters)
        )
    decides = {"model_api": "decisions"} if provider == "openai-decisions" else {}
    base = InstructionsJudge(
        name=judge.name,
        instructions=judge.instructions,
        model=f"{'openai' if decides else provider}:/{model}",
        feedback_value_type=annotation_of(judge.value_type),
        **decides,
    )
    return MemAlignJudge(base=base, core=judge, optimizer=optimizer)
