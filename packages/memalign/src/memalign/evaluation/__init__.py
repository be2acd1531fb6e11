"""Agreement of a judge with people, whether one judge agrees better than another, and a review of feedback."""

from memalign.evaluation.agreement import aevaluate, evaluate
from memalign.evaluation.bias_review import Remark
from memalign.evaluation.comparison import Comparison, compare
from memalign.evaluation.evaluated import Disagreement, Evaluation, ScoredCase, same_value
from memalign.evaluation.feedback_review import ConflictingLabels, FeedbackReview, review_feedback

__all__ = [
    "Comparison",
    "ConflictingLabels",
    "Disagreement",
    "Evaluation",
    "FeedbackReview",
    "Remark",
    "ScoredCase",
    "aevaluate",
    "compare",
    "evaluate",
    "review_feedback",
    "same_value",
]
