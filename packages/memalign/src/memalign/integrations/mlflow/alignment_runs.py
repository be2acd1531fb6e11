"""Alignments as MLflow runs: settings, counts, and what changed in memory."""

from __future__ import annotations

import html
from typing import Any

import memalign
from memalign.align import AlignResult
from memalign.integrations.mlflow.optimizer_settings import Settings

__all__ = ["log_alignment"]

NOTE = "mlflow.note.content"
"""The tag that the page of a run shows as its description."""
LONGEST_NOTE = 5_000

STYLE = "<style>td:not(:first-child) {overflow-wrap: anywhere} td:nth-child(2) {min-width: 18em}</style>"
"""Ids of traces are long, and a guideline's words need the room."""


def log_alignment(before: memalign.Judge, result: AlignResult, settings: Settings) -> str:
    """Log one alignment or unalignment; the id of its run.

    Parameters are the judge's and the optimizer's settings, metrics what became of the feedback and what it cost. The
    run's description names the guidelines in force. Artifacts are the report (`memalign/report.html` for people,
    `report.json` for programs) and what changed from the old memory to the new (`memalign/diff.txt`).
    """
    import mlflow
    from mlflow.tracking import MlflowClient
    from mlflow.tracking.fluent import _get_experiment_id

    judge, memory = result.judge, result.judge.memory
    client = MlflowClient()
    active = mlflow.active_run()
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
        client.log_metric(run_id, name, number)
    client.log_dict(run_id, result.to_dict(), "memalign/report.json")
    client.log_text(run_id, _page(result), "memalign/report.html")
    client.log_text(run_id, _diff(before, result), "memalign/diff.txt")
    client.set_terminated(run_id)
    return run_id


def _description(result: AlignResult) -> str:
    """Markdown, as the page of a run shows it."""
    lines = [html.escape(str(result), quote=False), "", "Guidelines in force:", ""]
    lines += [
        f"- **{guideline.id}** {html.escape(guideline.text, quote=False)}" for guideline in result.judge.memory.semantic
    ]
    text = "\n".join(lines)
    return text if len(text) <= LONGEST_NOTE else f"{text[:LONGEST_NOTE]}…"


def _page(result: AlignResult) -> str:
    """The report as one page: what changed, and the whole memory after it."""
    cards = f"{result._repr_html_()}<br>{result.judge.memory._repr_html_()}"  # the cards of a notebook
    title = html.escape(f"{result.judge.name}: alignment")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>{STYLE}</head>'
        f'<body style="font-family:system-ui,sans-serif;font-size:14px;margin:1em">{cards}</body></html>'
    )


def _metrics(result: AlignResult) -> dict[str, float]:
    memory, usage = result.judge.memory, result.usage
    states: dict[str, int] = {}
    for entry in memory.ledger():
        states[entry.state] = states.get(entry.state, 0) + 1
    impact = result.impact
    return {
        **{f"feedback.{state}": float(count) for state, count in states.items()},
        "guidelines.in_force": float(len(memory.semantic)),
        "guidelines.new": float(len(result.guidelines)),
        "guidelines.forgotten": float(len(result.forgotten)),
        "conflicts": float(len(result.conflicts)),
        "calls": float(usage.calls),
        "input_tokens": float(usage.input_tokens),
        "cached_tokens": float(usage.cached_tokens),
        "output_tokens": float(usage.output_tokens),
        "seconds": result.seconds,
        **({} if usage.cost is None else {"cost_usd": usage.cost}),
        **({} if impact is None else {"verdicts.fixed": float(impact.fixed), "verdicts.broken": float(impact.broken)}),
    }


def _diff(before: memalign.Judge, result: AlignResult) -> str:
    lines = [str(result), ""]
    lines += [f"- {guideline.id}  {guideline.text}" for guideline in result.forgotten]
    lines += [
        f"+ {guideline.id}  {guideline.text}  (from {', '.join(map(str, guideline.supported_by))})"
        for guideline in result.guidelines
    ]
    lines += [f"withdrawn {key}" for key in result.removed]
    lines += [
        f"{row.status} {row.key}: {row.state or 'left out'}{f', {row.reason}' if row.reason else ''}"
        for row in result.rows
    ]
    lines += [f"note: {note}" for note in result.notes]
    lines += ["", f"memory {before.memory.hash} -> {result.judge.memory.hash}"]
    return "\n".join(lines) + "\n"
