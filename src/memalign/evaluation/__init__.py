"""Agreement of a judge with people, and whether one judge agrees better than another."""

from memalign.evaluation.agreement import Judging, aevaluate, evaluate
from memalign.evaluation.comparison import Comparison, compare
from memalign.evaluation.feedback import Checked, Conflicting, examine
from memalign.evaluation.findings import Finding
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
