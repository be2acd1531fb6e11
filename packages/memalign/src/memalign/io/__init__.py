"""Files and frames: feedback and examples in, judgments and sheets for review out."""

from memalign.io.column_map import Columns, checked_columns, parse_columns
from memalign.io.examples import Examples, check_examples, read_examples
from memalign.io.feedback import FeedbackFile, check_feedback, read_feedback
from memalign.io.given import ExampleSource, FeedbackSource, Frame, Given
from memalign.io.judged import JudgmentFile, JudgmentWriter, OwnVerdicts, read_judgments

__all__ = [
    "Columns",
    "ExampleSource",
    "Examples",
    "FeedbackFile",
    "FeedbackSource",
    "Frame",
    "Given",
    "JudgmentFile",
    "JudgmentWriter",
    "OwnVerdicts",
    "check_examples",
    "check_feedback",
    "checked_columns",
    "parse_columns",
    "read_examples",
    "read_feedback",
    "read_judgments",
]
