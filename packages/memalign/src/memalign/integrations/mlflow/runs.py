"""Alignments as MLflow runs: settings, counts, and what changed in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from html import escape
from typing import Any

from memalign.align import AlignResult

LONGEST_NOTE = 5_000

PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}: alignment</title>
<style>td:not(:first-child) {{overflow-wrap: anywhere}} td:nth-child(2) {{min-width: 18em}}</style></head>
<body style="font-family:system-ui,sans-serif;font-size:14px;margin:1em">{cards}</body></html>
"""
"""Ids of traces are long, and a guideline's words need the room."""


def log_alignment(result: AlignResult, settings: Mapping[str, Any]) -> None:
    """Log one alignment or unalignment as a run, inside the active run if there is one.

    Parameters are the judge's and the optimizer's settings, metrics what became of the feedback and what it cost. The
    run's description names the guidelines in force, and the report is an artifact for people and one for programs.
    """
    import mlflow
    from mlflow.tracking import MlflowClient
    from mlflow.tracking.fluent import _get_experiment_id

    judge, memory, usage = result.judge, result.judge.memory, result.usage
    client, active = MlflowClient(), mlflow.active_run()
    rules = [f"- **{rule.id}** {escape(rule.text, quote=False)}\n" for rule in memory.semantic]
    note = f"{escape(str(result), quote=False)}\n\nGuidelines in force:\n\n{''.join(rules)}"
    tags = {"memalign.judge": judge.name, "memalign.memory_hash": memory.hash}
    tags["mlflow.note.content"] = note if len(note) <= LONGEST_NOTE else f"{note[:LONGEST_NOTE]}…"
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
    client.log_text(run_id, PAGE.format(title=escape(judge.name), cards=cards), "memalign/report.html")
    client.set_terminated(run_id)
