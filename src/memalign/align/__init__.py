"""Alignment: learning from experts' feedback, and forgetting it."""

from memalign.align.edit import edit_guideline, write_guideline
from memalign.align.optimizer import STAGES, MemAlign
from memalign.align.result import AlignResult, Conflict, RowReport

__all__ = ["STAGES", "AlignResult", "Conflict", "MemAlign", "RowReport", "edit_guideline", "write_guideline"]
