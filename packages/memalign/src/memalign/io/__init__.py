"""Files and frames: feedback and examples in, judgments and sheets for review out."""

from memalign.io.columns import checked_columns, parse_columns
from memalign.io.examples import Examples, read_examples
from memalign.io.feedback import SKIP_HINT, FeedbackFile, label_notes, read_feedback
from memalign.io.frames import Frame
from memalign.io.judgments import JudgmentFile, JudgmentWriter, OwnVerdicts, read_judgments
from memalign.io.source import ExampleSource, FeedbackSource, RowSource

__all__ = [
    "SKIP_HINT",
    "ExampleSource",
    "Examples",
    "FeedbackFile",
    "FeedbackSource",
    "Frame",
    "JudgmentFile",
    "JudgmentWriter",
    "OwnVerdicts",
    "RowSource",
    "checked_columns",
    "label_notes",
    "parse_columns",
    "read_examples",
    "read_feedback",
    "read_judgments",
]
