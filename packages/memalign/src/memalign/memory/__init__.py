"""Memory: episodic (cases) and semantic (guidelines), retrieval, and the working memory of one judgment."""

from memalign.memory.label_policy import policy_label
from memalign.memory.model import (
    Annotation,
    Answers,
    Case,
    Expectation,
    FeedbackConflict,
    LedgerEntry,
    Memory,
    Outcome,
    PreAlignmentVerdict,
    Tombstone,
)

__all__ = [
    "Annotation",
    "Answers",
    "Case",
    "Expectation",
    "FeedbackConflict",
    "LedgerEntry",
    "Memory",
    "Outcome",
    "PreAlignmentVerdict",
    "Tombstone",
    "policy_label",
]
