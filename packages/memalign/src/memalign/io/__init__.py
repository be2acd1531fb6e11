"""Files and frames: feedback and examples in, judgments and sheets for review out."""

from memalign.io.columns import Columns, checked_columns, parse_columns
from memalign.io.examples import Examples, read_examples
from memalign.io.feedback import SKIP_HINT, FeedbackFile, label_notes, read_feedback
from memalign.io.files import beside, try_lock, unlock
from memalign.io.frames import Frame
from memalign.io.judgments import (
    JudgmentFile,
    JudgmentWriter,
    OwnVerdicts,
    read_judgments,
)
from memalign.io.rows import Row
from memalign.io.source import ExampleSource, FeedbackSource, RowSource

__all__ = [
    "SKIP_HINT",
    "Columns",
    "ExampleSource",
    "Examples",
    "FeedbackFile",
    "FeedbackSource",
    "Frame",
    "JudgmentFile",
    "JudgmentWriter",
    "OwnVerdicts",
    "Row",
    "RowSource",
    "beside",
    "checked_columns",
    "label_notes",
    "parse_columns",
    "read_examples",
    "read_feedback",
    "read_judgments",
    "try_lock",
    "unlock",
]
