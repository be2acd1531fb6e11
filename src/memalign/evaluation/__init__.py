"""Agreement of a judge with people, and whether one judge agrees better than another."""

from memalign.evaluation.agreement import Judging, aevaluate, evaluate
from memalign.evaluation.comparison import Comparison, compare
from memalign.evaluation.result import Disagreement, Evaluation, ScoredCase

__all__ = [
    "Comparison",
    "Disagreement",
    "Evaluation",
    "Judging",
    "ScoredCase",
    "aevaluate",
    "compare",
    "evaluate",
]
