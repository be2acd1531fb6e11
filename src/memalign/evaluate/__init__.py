"""Agreement of a judge with people, and whether one judge agrees better than another."""

from memalign.evaluate.agreement import Judging, aevaluate, evaluate
from memalign.evaluate.compare import Comparison, compare
from memalign.evaluate.result import Disagreement, Evaluation, ScoredCase

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
