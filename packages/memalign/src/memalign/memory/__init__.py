"""Memory: cases and guidelines, where each piece of feedback ended, retrieval, and forgetting."""

from memalign.memory.forget import forget
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
from memalign.memory.text_search import Finder

__all__ = [
    "Annotation",
    "Case",
    "FeedbackConflict",
    "Finder",
    "LedgerEntry",
    "Memory",
    "Outcome",
    "PreAlignmentVerdict",
    "Tombstone",
    "forget",
]
