"""Alignment: learning from experts' feedback, and forgetting it."""

from memalign.align.edit import (
    dismiss_conflict,
    edit_guideline,
    lock,
    set_policy,
    write_guideline,
)
from memalign.align.optimizer import MemAlign
from memalign.align.result import (
    AlignResult,
    BrokenLock,
    Conflict,
    Impact,
    RowReport,
    VerdictChange,
)

__all__ = [
    "AlignResult",
    "BrokenLock",
    "Conflict",
    "Impact",
    "MemAlign",
    "RowReport",
    "VerdictChange",
    "dismiss_conflict",
    "edit_guideline",
    "lock",
    "set_policy",
    "write_guideline",
]
