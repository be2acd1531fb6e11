"""Agreement of a judge with people, comparison of judges, a gate, a review of feedback, and what to label next."""

from memalign.evaluation.agreement import aevaluate, evaluate
from memalign.evaluation.bias_review import Remark
from memalign.evaluation.comparison import Comparison, compare
from memalign.evaluation.estimate import aestimate_evaluation, estimate_evaluation
from memalign.evaluation.evaluated import Disagreement, Evaluation, ScoredCase, same_value
from memalign.evaluation.evidence import MissingEvidence
from memalign.evaluation.feedback_review import ConflictingLabels, FeedbackReview, review_feedback
from memalign.evaluation.gate_criteria import Criterion, GateResult, agate, gate
from memalign.evaluation.gate_report import junit_xml, markdown
from memalign.evaluation.label_next import NextCase, NextCases, anext_cases, next_cases
from memalign.evaluation.report_data import areport, report
from memalign.evaluation.report_page import as_html, as_markdown
from memalign.evaluation.report_parts import Report

__all__ = [
    "Comparison",
    "ConflictingLabels",
    "Criterion",
    "Disagreement",
    "Evaluation",
    "FeedbackReview",
    "GateResult",
    "MissingEvidence",
    "NextCase",
    "NextCases",
    "Remark",
    "Report",
    "ScoredCase",
    "aestimate_evaluation",
    "aevaluate",
    "agate",
    "anext_cases",
    "areport",
    "as_html",
    "as_markdown",
    "compare",
    "estimate_evaluation",
    "evaluate",
    "gate",
    "junit_xml",
    "markdown",
    "next_cases",
    "report",
    "review_feedback",
    "same_value",
]
