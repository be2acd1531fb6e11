"""Memory: episodic (cases) and semantic (guidelines), retrieval, and the working memory of one judgment."""

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
