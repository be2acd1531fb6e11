"""Agreement of a judge with people, comparisons, a gate, feedback in review, and what to label."""

from memalign.evaluation.agreement import Evaluation
from memalign.evaluation.cases import ScoredCase
from memalign.evaluation.comparison import Comparison, compare
from memalign.evaluation.criteria import (
    Criterion,
    GateResult,
    check_criteria,
    gate,
    junit_xml,
)
from memalign.evaluation.evaluating import aevaluate, evaluate
from memalign.evaluation.feedback_review import (
    FeedbackReview,
    agreement_of_people,
    review_feedback,
)
from memalign.evaluation.label_next import (
    NextCase,
    NextCases,
    Usefulness,
    anext_cases,
    next_cases,
)
from memalign.evaluation.labelled import LabelledCases, knows
from memalign.evaluation.report_page import Report, as_html, as_markdown, report

__all__ = [
    "Comparison",
    "Criterion",
    "Evaluation",
    "FeedbackReview",
    "GateResult",
    "LabelledCases",
    "NextCase",
    "NextCases",
    "Report",
    "ScoredCase",
    "Usefulness",
    "aevaluate",
    "agreement_of_people",
    "anext_cases",
    "as_html",
    "as_markdown",
    "check_criteria",
    "compare",
    "evaluate",
    "gate",
    "junit_xml",
    "knows",
    "next_cases",
    "report",
    "review_feedback",
]
