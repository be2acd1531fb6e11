"""Files: feedback and examples in (JSONL, CSV, JSON, Parquet), judgments out (JSONL)."""

from memalign.io.examples import Examples, check_examples, read_examples
from memalign.io.feedback import FeedbackFile, check_feedback, read_feedback
from memalign.io.judged import JudgmentFile, JudgmentWriter, read_judgments

__all__ = [
    "Examples",
    "FeedbackFile",
    "JudgmentFile",
    "JudgmentWriter",
    "check_examples",
    "check_feedback",
    "read_examples",
    "read_feedback",
    "read_judgments",
]
