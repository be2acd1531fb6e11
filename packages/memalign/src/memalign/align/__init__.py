"""Alignment: learning from experts' feedback, and forgetting it."""

from memalign.align.edit import edit_guideline, lock, merge_guidelines, set_policy, write_guideline
from memalign.align.pipeline import STAGES, MemAlign
from memalign.align.result import (
    AlignResult,
    Conflict,
    Impact,
    LockCheck,
    RowReport,
    RuleConflict,
    Trial,
    VerdictChange,
)

__all__ = [
    "STAGES",
    "AlignResult",
    "Conflict",
    "Impact",
    "LockCheck",
    "MemAlign",
    "RowReport",
    "RuleConflict",
    "Trial",
    "VerdictChange",
    "edit_guideline",
    "lock",
    "merge_guidelines",
    "set_policy",
    "write_guideline",
]
