"""Alignments as MLflow runs: settings, counts, and what changed in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from memalign.align import AlignResult

_PAGE = "<!doctype html><meta charset='utf-8'><body style='font-family:system-ui,sans-serif'>{cards}</body>"


def log_alignment(result: AlignResult, settings: Mapping[str, Any]) -> None:
    """Log one alignment or unalignment as a run, inside the active run if there is one.

    Parameters are the judge's and the optimizer's settings, metrics what became of the feedback and what it cost. The
    report is an artifact for people and one for programs.
    """
    import mlflow
    from mlflow.tracking import MlflowClient
    from mlflow.tracking.fluent import _get_experiment_id

    judge, memory, usage = result.judge, result.judge.memory, result.usage
    client, active = MlflowClient(), mlflow.active_run()
    tags = {"memalign.judge": judge.name, "memalign.memory_hash": memory.hash}
    if active is not None:
        tags["mlflow.parentRunId"] = active.info.run_id
    experiment = _get_experiment_id() if active is None else active.info.experiment_id
    run_id = client.create_run(experiment, run_name=f"memalign: align {judge.name}", tags=tags).info.run_id
    parameters = {"judge": judge.name, "model": judge.model_name, "value_type": judge.value_type.spec}
    for name, value in {**parameters, **settings, "embedding_model": memory.embedding_model}.items():
        client.log_param(run_id, name, str(value)[:500])
    states = Counter(entry.state for entry in memory.ledger())
    metrics = {f"feedback.{state}": count for state, count in states.items()}
    metrics |= {name: getattr(usage, name) for name in ("calls", "input_tokens", "cached_tokens", "output_tokens")}
    metrics |= {"guidelines.in_force": len(memory.semantic), "conflicts": len(result.conflicts)}
    metrics |= {"guidelines.new": len(result.guidelines), "guidelines.forgotten": len(result.forgotten)}
    for name, number in {**metrics, "seconds": result.seconds, "cost_usd": usage.cost}.items():
        if number is not None:
            client.log_metric(run_id, name, float(number))
    cards = f"{result._repr_html_()}<br>{memory._repr_html_()}"  # the cards of a notebook
    client.log_dict(run_id, result.to_dict(), "memalign/report.json")
    client.log_text(run_id, _PAGE.format(cards=cards), "memalign/report.html")
    client.set_terminated(run_id)
