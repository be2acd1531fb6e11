"""Files: feedback and examples in, judgments out (JSONL, CSV, JSON)."""

from memalign.files.feedback import FeedbackFile, check_examples, check_feedback, read_examples, read_feedback
from memalign.files.judged import JudgmentFile, JudgmentWriter, read_judgments

__all__ = [
    "FeedbackFile",
    "JudgmentFile",
    "JudgmentWriter",
    "check_examples",
    "check_feedback",
    "read_examples",
    "read_feedback",
    "read_judgments",
]
