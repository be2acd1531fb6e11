"""Agreement of a judge with people, and whether one judge agrees better than another."""

from memalign.evaluation.agreement import Judging, aevaluate, evaluate
from memalign.evaluation.bias_review import Finding
from memalign.evaluation.comparison import Comparison, compare
from memalign.evaluation.feedback_review import Checked, Conflicting, examine
from memalign.evaluation.result import Disagreement, Evaluation, ScoredCase

__all__ = [
    "Checked",
    "Comparison",
    "Conflicting",
    "Disagreement",
    "Evaluation",
    "Finding",
    "Judging",
    "ScoredCase",
    "aevaluate",
    "compare",
    "evaluate",
    "examine",
]
