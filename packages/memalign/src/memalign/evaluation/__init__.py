"""Agreement of a judge with people, comparison of judges, a review of feedback, and what to label next."""

from memalign.evaluation.agreement import aevaluate, evaluate
from memalign.evaluation.bias_review import Remark
from memalign.evaluation.comparison import Comparison, compare
from memalign.evaluation.evaluated import Disagreement, Evaluation, ScoredCase, same_value
from memalign.evaluation.feedback_review import ConflictingLabels, FeedbackReview, review_feedback
from memalign.evaluation.label_next import NextCase, NextCases, anext_cases, next_cases

__all__ = [
    "Comparison",
    "ConflictingLabels",
    "Disagreement",
    "Evaluation",
    "FeedbackReview",
    "NextCase",
    "NextCases",
    "Remark",
    "ScoredCase",
    "aevaluate",
    "anext_cases",
    "compare",
    "evaluate",
    "next_cases",
    "review_feedback",
    "same_value",
]
