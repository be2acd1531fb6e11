"""Where a verdict comes from, for MLflow's pages: these show a rationale, and of the metadata nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memalign.integrations.mlflow.memory_shown import LearnedGuideline
from memalign.judge.decision import finding_text
from memalign.types import Judgment

__all__ = ["memory_used", "told_reason"]

NAMED = 3
"""Of a guideline's traces, and of a prompt's guidelines in a rationale, how many are named."""
FINDINGS = 5
SHORT = 11
"""Characters of a trace's id in a rationale, beside which a page has little room; the metadata has the whole."""


def memory_used(guidelines: Sequence[LearnedGuideline], ids: Sequence[str], cases: Sequence[str]) -> dict[str, Any]:
    """The metadata of a verdict: the traces in its prompt, and the guidelines with their words and their traces.

    `cases` are in the order of the prompt, which shows the most similar one last. MLflow names it first.
    """
    used = {
        "retrieved_example_trace_ids": list(cases)[::-1],
        "memalign.guideline_ids": list(ids),
        "memalign.guidelines": _words(guidelines, ids),
    }
    return {name: value for name, value in used.items() if value}


def told_reason(judgment: Judgment, guidelines: Sequence[LearnedGuideline]) -> str | None:
    """The reason of a verdict, and below it the checks that speak; where none does, the guidelines that apply.

    Of these with the words of the item that the model quotes. Where experts judged the item, their words alone.
    """
    rationale = judgment.rationale
    if judgment.decided_by != "model":
        return rationale  # the checks, or the experts' words, are the reason
    answered = [finding_text(finding) for finding in judgment.findings if finding.answer in ("yes", "no")]
    quoted = {finding.guideline: f', here: "{finding.evidence}"' for finding in judgment.findings if finding.evidence}
    words = [
        f"{line}{quoted.get(line.partition(' ')[0], '')}" for line in _words(guidelines, judgment.guideline_ids, SHORT)
    ]
    lines, most = (answered, FINDINGS) if answered else (words, NAMED)
    if not lines:
        return rationale
    rest = [f"and {len(lines) - most} more"] if len(lines) > most else []
    title = "Checks:" if answered else "Guidelines:"
    return "\n".join(
        [*([rationale, ""] if rationale else []), title, *(f"- {line}" for line in [*lines[:most], *rest])]
    )


def _words(guidelines: Sequence[LearnedGuideline], ids: Sequence[str], length: int | None = None) -> list[str]:
    by_id = {guideline.id: guideline for guideline in guidelines}
    named = [(name, by_id[name]) for name in ids if name in by_id]
    origins = [", ".join(trace[:length] for trace in rule.source_trace_ids[:NAMED]) for _, rule in named]
    return [
        f"{name} {rule.guideline_text} ({origin or 'written by a person'})"
        for (name, rule), origin in zip(named, origins, strict=True)
    ]
