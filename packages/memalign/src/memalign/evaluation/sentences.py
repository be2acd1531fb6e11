"""An evaluation in words: the sentences that the command, Python and the report say alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memalign.evaluation.planning import fewest, half_width
from memalign.metrics import Estimate
from memalign.values import ValueType, value_text

if TYPE_CHECKING:
    from memalign.evaluation.agreement import Evaluation, Repeated
    from memalign.evaluation.promise import Promise
    from memalign.evaluation.traffic import Share, Traffic

__all__ = ["first_lines", "percent", "plan_lines", "promise_lines", "repeat_lines", "traffic_lines"]

_NAMED = 4  # labels in a sentence


def percent(figure: Estimate | float) -> str:
    """Write a share as people read it: `86 % [78 %, 92 %]`."""
    return f"{figure:.0%}".replace("%", " %")


def first_lines(evaluation: Evaluation) -> list[str]:
    """Say in plain sentences how far the judge agrees with people."""
    if not evaluation.n:
        return ["No case that counts has a verdict."]
    kind, basics = ValueType.of(evaluation.value_type), evaluation.basics
    right = f"{percent(evaluation.metrics['accuracy'])}, n = {evaluation.n}"
    if kind.kind == "str":
        return [f"The judge writes what people write in {right}."]
    constant = f"Always answering {value_text(basics.constant)} would be right in {percent(basics.constant_share or 0)}"
    sentence = f"{constant}; the judge is right in {right}."
    accuracy = evaluation.metrics["accuracy"].value or 0
    if accuracy <= (basics.constant_share or 0):
        sentence += " So it is no better than that answer."
    if kind.numeric:
        return [sentence, _score_lean(basics.lean)]
    return [_recall_sentence(evaluation), sentence, _label_lean(evaluation)]


def _recall_sentence(evaluation: Evaluation) -> str:
    parts: list[str] = []
    for recall in evaluation.basics.recalls[:_NAMED]:
        label = value_text(recall.label)
        whom = "the cases that people call" if not parts else "those they call"
        says = "the judge calls" if not parts else "it calls"
        parts.append(f"of {whom} {label}, {says} {percent(recall.given / recall.n)} {label} (n = {recall.n})")
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def _label_lean(evaluation: Evaluation) -> str:
    basics = evaluation.basics
    if basics.leans_to is None:
        return "It leans clearly to no label."
    label = value_text(basics.leans_to)
    return f"It leans to {label}: it says so {basics.said:,} times, and people {basics.meant:,} times."


def _score_lean(lean: Estimate) -> str:
    if lean.value is None:
        return ""
    interval = "" if lean.low is None or lean.high is None else f" [{lean.low:+.2g}, {lean.high:+.2g}]"
    words = "so it is neither too high nor too low for certain"
    if lean.low is not None and lean.low > 0:
        words = "so it is too high"
    if lean.high is not None and lean.high < 0:
        words = "so it is too low"
    return f"On average its score is {lean.value:+.2g}{interval} from people's, {words}."


def traffic_lines(traffic: Traffic) -> list[str]:
    """Say what share of the traffic has each label, as the judge says it and corrected."""
    where = "" if traffic.system is None else f"{traffic.system}: "
    lines = []
    for share in traffic.shares:
        lines.append(where + _share_sentence(share, traffic))
    if traffic.unscored:
        lines.append(f"{where}{traffic.unscored:,} rows without a verdict are left out.")
    if traffic.taught:
        lines.append(f"{where}{traffic.taught:,} rows that the judge was taught are left out.")
    return lines + [f"{where}Warning: {warning}" for warning in traffic.warnings]


def _share_sentence(share: Share, traffic: Traffic) -> str:
    rows, labels = f"{traffic.judged:,} judged rows", f"{traffic.labelled:,} labelled cases"
    if share.label is None:
        own = f"The mean of {rows} is {share.judge:.2f} as the judge scores them"
        corrected, people = f"{share.corrected:.2f}", f"{share.people:.2f}"
    else:
        own = f"Of {rows}, {percent(share.judge)} are {share.name} as the judge says it"
        corrected, people = percent(share.corrected), percent(share.people)
    if share.refused:
        return f"{own}. That is not corrected: {share.refused}. People's labels alone: {people}."
    return f"{own}, and {corrected} corrected for its errors on {labels}. People's labels alone: {people}."


def promise_lines(promise: Promise) -> list[str]:
    """Say which verdicts may pass without a person, or why none may."""
    least = percent(promise.least)
    if promise.kept is None:
        return [f"No threshold is proven to keep a promise of {least}: {promise.why}."]
    kept = promise.kept
    return [
        f"Verdicts with a confidence of {kept.at:g} or more may pass without a person: people agree with at least "
        f"{least} of them, at 95 % confidence (here {percent(kept.agreement)}, n = {kept.n}).",
        f"So {percent(kept.share)} of the verdicts pass, and {percent(1 - kept.share)} are left for people: "
        f"memalign judge … --ask-below {kept.at:g}",
    ]


def plan_lines(evaluation: Evaluation) -> list[str]:
    """Say what more labels would show."""
    n, accuracy = evaluation.n, evaluation.metrics["accuracy"]
    if accuracy.value is None or accuracy.low is None or accuracy.high is None:
        return ["There is no interval yet, so nothing can be planned from these cases."]
    share, half = accuracy.value, (accuracy.high - accuracy.low) / 2
    effect = (half / half_width(share, n)) ** 2  # what groups cost
    lines = [f"With {n:,} cases agreement is known to ±{100 * half:.1f} points."]
    for words, goal in (("half of that", half / 2), ("±5 points", 0.05), ("±3 points", 0.03)):
        if goal < half:
            needed = round(effect * fewest(lambda n, goal=goal: half_width(share, n) <= goal))  # type: ignore[misc]
            lines.append(f"{max(needed - n, 1):,} more labels: {words}.")
    return lines


def repeat_lines(repeated: Repeated) -> list[str]:
    """Say how often verdicts turn when the judge is asked again."""
    if not repeated.n:
        return [f"No case could be judged again: {repeated.stopped}"]
    lines = [
        f"Asked {repeated.times} times, the judge changed its verdict on {repeated.turned} of {repeated.n} cases: "
        f"{percent(repeated.share)}."
    ]
    if repeated.stopped:
        lines.append(f"Not all could be judged again: {repeated.stopped}")
    return lines
