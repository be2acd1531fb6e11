"""A judge's memory as MLflow's pages and its own aligned judges show it: guidelines, episodes, and behind a verdict.

The pages show a rationale, and of the metadata nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from memalign.judge.decision import finding_text
from memalign.types import Judgment

__all__ = ["Episode", "LearnedGuideline", "memory_used", "told_reason"]

NAMED = 3
"""Of a guideline's traces, and of a prompt's guidelines in a rationale, how many are named."""
FINDINGS = 5
SHORT = 11
"""Characters of a trace's id in a rationale, beside which a page has little room; the metadata has the whole."""


@dataclass(frozen=True, kw_only=True)
class LearnedGuideline:
    """A guideline as MLflow knows it: its text, and the traces whose feedback it states."""

    guideline_text: str
    source_trace_ids: tuple[str, ...] = ()
    id: str = ""

    def model_dump(self) -> dict[str, Any]:
        """As MLflow stores it."""
        return {"guideline_text": self.guideline_text, "source_trace_ids": list(self.source_trace_ids)}


@dataclass(frozen=True, kw_only=True)
class Episode:
    """What one person said of one trace, with the fields that the judge reads."""

    trace_id: str
    source: str
    result: Any = None
    rationale: str | None = None
    inputs: Any = None
    outputs: Any = None
    expectations: Any = None
    conversation: Any = None
    trace: Any = None

    @property
    def _trace_id(self) -> str:
        return self.trace_id


def memory_used(guidelines: Sequence[LearnedGuideline], ids: Sequence[str], cases: Sequence[str]) -> dict[str, Any]:
    """The metadata of a verdict: the traces in its prompt, and the guidelines with their words and their traces.

    `cases` are in the order of the prompt, which shows the most similar one last. MLflow names it first.
    """
    used = {
        "retrieved_example_trace_ids": list(cases)[::-1],
        "memalign.guideline_ids": list(ids),
        "memalign.guidelines": _lines(guidelines, ids),
    }
    return {name: value for name, value in used.items() if value}


def told_reason(judgment: Judgment, guidelines: Sequence[LearnedGuideline]) -> str | None:
    """The reason of a verdict, and below it the checks that speak; where none does, the guidelines that apply.

    Of these with the words of the item that the model quotes. Where experts judged the item, their words alone.
    """
    rationale = judgment.rationale
    if judgment.decided_by != "model":
        return rationale  # the checks, or the experts' words, are the reason
    title, most = "Checks:", FINDINGS
    lines = [finding_text(finding) for finding in judgment.findings if finding.answer in ("yes", "no")]
    if not lines:
        title, most = "Guidelines:", NAMED
        quoted = {item.guideline: f', here: "{item.evidence}"' for item in judgment.findings if item.evidence}
        lines = [
            f"{line}{quoted.get(line.partition(' ')[0], '')}"
            for line in _lines(guidelines, judgment.guideline_ids, SHORT)
        ]
    if not lines:
        return rationale
    rest = [f"and {len(lines) - most} more"] if len(lines) > most else []
    return "\n".join(
        [*([rationale, ""] if rationale else []), title, *(f"- {line}" for line in [*lines[:most], *rest])]
    )


def _lines(guidelines: Sequence[LearnedGuideline], ids: Sequence[str], length: int | None = None) -> list[str]:
    """The guidelines of these ids, each in a line with its traces."""
    by_id = {guideline.id: guideline for guideline in guidelines}
    lines = []
    for rule in (by_id[name] for name in ids if name in by_id):
        origin = ", ".join(trace[:length] for trace in rule.source_trace_ids[:NAMED])
        lines.append(f"{rule.id} {rule.guideline_text} ({origin or 'written by a person'})")
    return lines
