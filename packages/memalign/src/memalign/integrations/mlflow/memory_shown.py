"""A judge's memory as MLflow's own aligned judges show theirs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Episode", "LearnedGuideline"]


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
