"""Alignments as MLflow runs: settings, counts, and what changed in memory."""

from __future__ import annotations

from collections import Counter
from html import escape
from typing import Any

from memalign.align import AlignResult
from memalign.integrations.mlflow.optimizer_settings import Settings

__all__ = ["log_alignment"]

NOTE = "mlflow.note.content"
"""The tag that the page of a run shows as its description."""
LONGEST_NOTE = 5_000

STYLE = "<style>td:not(:first-child) {overflow-wrap: anywhere} td:nth-child(2) {min-width: 18em}</style>"
"""Ids of traces are long, and a guideline's words need the room."""


def log_alignment(result: AlignResult, settings: Settings) -> str:
    """Log one alignment or unalignment; the id of its run.

    Parameters are the judge's and the optimizer's settings, metrics what became of the feedback and what it cost. The
    run's description names the guidelines in force. The artifact is the report: `memalign/report.html` for people,
    `memalign/report.json` for programs.
    """
    import mlflow
    from mlflow.tracking import MlflowClient
    from mlflow.tracking.fluent import _get_experiment_id

    judge, memory = result.judge, result.judge.memory
    client, active = MlflowClient(), mlflow.active_run()
    tags = {"memalign.judge": judge.name, "memalign.memory_hash": memory.hash, NOTE: _description(result)}
    if active is not None:
        tags["mlflow.parentRunId"] = active.info.run_id
    experiment = active.info.experiment_id if active is not None else _get_experiment_id()
    run_id: str = client.create_run(experiment, run_name=f"memalign: align {judge.name}", tags=tags).info.run_id
    parameters: dict[str, Any] = {
        "judge": judge.name,
        "model": judge.model_name,
        "value_type": judge.value_type.spec,
        "embedding_model": memory.embedding_model,
        **{name: value for name, value in settings.record().items() if value not in (None, {}, False)},
    }
    for name, value in parameters.items():
        client.log_param(run_id, name, str(value)[:500])
    for name, number in _metrics(result).items():
        client.log_metric(run_id, name, float(number))
    client.log_dict(run_id, result.to_dict(), "memalign/report.json")
    client.log_text(run_id, _page(result), "memalign/report.html")
    client.set_terminated(run_id)
    return run_id


def _description(result: AlignResult) -> str:
    """Markdown, as the page of a run shows it."""
    rules = [f"- **{rule.id}** {escape(rule.text, quote=False)}\n" for rule in result.judge.memory.semantic]
    text = f"{escape(str(result), quote=False)}\n\nGuidelines in force:\n\n{''.join(rules)}"
    return text if len(text) <= LONGEST_NOTE else f"{text[:LONGEST_NOTE]}…"


def _page(result: AlignResult) -> str:
    """The report as one page: what changed, and the whole memory after it."""
    cards = f"{result._repr_html_()}<br>{result.judge.memory._repr_html_()}"  # the cards of a notebook
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(result.judge.name)}: alignment'
        f'</title>{STYLE}</head><body style="font-family:system-ui,sans-serif;font-size:14px;margin:1em">{cards}</body>'
        "</html>"
    )


def _metrics(result: AlignResult) -> dict[str, float]:
    memory, usage, impact = result.judge.memory, result.usage, result.impact
    states = Counter(entry.state for entry in memory.ledger())
    metrics = {f"feedback.{state}": float(count) for state, count in states.items()}
    metrics |= {name: getattr(usage, name) for name in ("calls", "input_tokens", "cached_tokens", "output_tokens")}
    metrics |= {
        "guidelines.in_force": len(memory.semantic),
        "guidelines.new": len(result.guidelines),
        "guidelines.forgotten": len(result.forgotten),
        "conflicts": len(result.conflicts),
        "seconds": result.seconds,
    }
    if usage.cost is not None:
        metrics["cost_usd"] = usage.cost
    if impact is not None:
        metrics |= {"verdicts.fixed": impact.fixed, "verdicts.broken": impact.broken}
    return metrics
