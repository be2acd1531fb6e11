"""Memory: cases and guidelines, where each piece of feedback ended, retrieval, and forgetting."""

from memalign.memory.model import (
    Annotation,
    Case,
    FeedbackConflict,
    Memory,
    Outcome,
    PreAlignmentVerdict,
    Tombstone,
)
from memalign.memory.status import LedgerEntry

__all__ = [
    "Annotation",
    "Case",
    "FeedbackConflict",
    "LedgerEntry",
    "Memory",
    "Outcome",
    "PreAlignmentVerdict",
    "Tombstone",
]
