"""An evaluation in words, which the command, Python and the report say alike."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from memalign.evaluation.cases import Cases, clusters, same_value, with_verdict
from memalign.evaluation.intervals import estimate_mean, mean_interval, paired_interval
from memalign.metrics import Estimate, wilson_interval
from memalign.values import Value, ValueType, value_text

if TYPE_CHECKING:
    from memalign.evaluation.agreement import Evaluation, Repeated
    from memalign.evaluation.promise import Promise
    from memalign.evaluation.traffic import Share, Traffic

__all__ = [
    "PASSING",
    "fewest",
    "half_width",
    "passing_rows",
    "percent",
    "plan_of",
    "sentences_of",
    "table_of",
]

PASSING = ("verdict", "confidence from", "passes", "people agree", "left for people")
"""The head of the table of what may pass without a person."""

_NAMED = 4  # labels in a sentence
_LISTED_IDS = 10
_MOST = 1_000_000  # labels in a plan


def percent(figure: Estimate | float) -> str:
    """Write a share as people read it: `86 % [78 %, 92 %]`."""
    return f"{figure:.0%}".replace("%", " %")


def sentences_of(evaluation: Evaluation) -> list[str]:
    """Say the figures of an evaluation in plain sentences, the traffic and the promise included."""
    lines = _agreement(evaluation)
    for traffic in evaluation.traffic:
        where = f"{traffic.system}: " if traffic.system else ""
        lines += [where + line for line in _traffic(traffic)]
    if evaluation.promise is not None:
        lines += _promise(evaluation.promise)
    if evaluation.repeated is not None:
        lines += _repeated(evaluation.repeated)
    return lines


def table_of(evaluation: Evaluation) -> list[str]:
    """Write the figures of an evaluation, one on a line."""
    one = evaluation
    model = one.model_text or "a model that gave no verdict"
    total = one.n + one.unscored + one.unlabelled
    counts = f"{one.unscored} unscored (no verdict), {one.unlabelled} without a label"
    lines = [
        f"{one.judge} ({one.value_type}) on {model}, memory {one.memory_hash[:12] or 'empty'}",
        f"n = {one.n} of {total} cases; {counts}",
    ]
    if one.taught:
        named = ", ".join(one.taught_ids[:_LISTED_IDS])
        if one.taught > _LISTED_IDS:
            named += f" and {one.taught - _LISTED_IDS} more"
        taught = f"{one.taught} of {total + one.taught} cases were taught"
        lines.append(f"{taught} and are left out of every figure: {named}")
    if one.taught_accuracy is not None:
        lines.append(
            f"taught cases alone: accuracy {one.taught_accuracy}, n = {one.taught}"
        )
    if one.metrics["accuracy"].no_interval:
        lines.append(one.metrics["accuracy"].no_interval)
    lines += [
        f"{name.replace('_', ' ')} {figure}" for name, figure in one.metrics.items()
    ]
    names = [value_text(label) for label in one.labels]
    for name, row in zip(names, one.confusion, strict=True):
        said = [
            f"{count} {label}" for label, count in zip(names, row, strict=True) if count
        ]
        if said:
            lines.append(f"people say {name}, the judge says: {', '.join(said)}")
    return lines


# -- agreement ------------------------------------------------------------------------------------


def _agreement(evaluation: Evaluation) -> list[str]:
    cases = with_verdict(evaluation.cases)
    if not cases:
        return ["No case that counts has a verdict."]
    accuracy = evaluation.metrics["accuracy"]
    right = f"the judge is right in {percent(accuracy)}, n = {len(cases)}."
    kind = ValueType.of(evaluation.value_type)
    if kind.kind == "str":
        return [f"Of texts that people wrote, {right}"]
    constant, share = constant_label(kind, cases)
    always = (
        f"Always answering {value_text(constant)} would be right in {percent(share)}"
    )
    sentence = f"{always}; {right}"
    if (accuracy.value or 0) <= share:
        sentence += " So it is no better than that answer."
    if kind.numeric:
        return [sentence, _mean_error(cases)]
    return [_recalls(cases), sentence, _lean(cases)]


def constant_label(kind: ValueType, cases: Cases) -> tuple[Value, float]:
    """Return the label that is right most often if it is always given, and how often that is.

    Args:
        kind: What the judge answers; of floats the label is the median.
        cases: Labelled cases.
    """
    labels = [case.label for case in cases]
    constant = Counter(labels).most_common(1)[0][0]
    if kind.kind == "float":
        constant = sorted(labels)[len(labels) // 2]
    right = [same_value(constant, label, kind.tolerance) for label in labels]
    return constant, sum(right) / len(right)


def _recalls(cases: Cases) -> str:
    parts: list[str] = []
    for label, n in Counter(case.label for case in cases).most_common(_NAMED):
        given = sum(case.label == case.value == label for case in cases)
        name = value_text(label)
        figure = f"{percent(given / n)} {name} (n = {n})"
        if parts:
            parts.append(f"of those they call {name}, it calls {figure}")
        else:
            parts.append(
                f"Of the cases that people call {name}, the judge calls {figure}"
            )
    return f"{'; '.join(parts)}."


def _lean(cases: Cases) -> str:
    """Name the label that the judge gives too often, if that is more than chance."""
    said = Counter(case.value for case in cases)
    meant: Counter[Value | None] = Counter(case.label for case in cases)
    label = max(said, key=lambda value: said[value] - meant[value])
    changes = [(case.value == label) - (case.label == label) for case in cases]
    lean = estimate_mean(changes, clusters(cases), paired_interval)
    if (lean.low or 0) <= 0:
        return "It is not shown to lean to any label."
    counts = f"it says so {said[label]:,} times, and people {meant[label]:,} times"
    return f"It leans to {value_text(label)}: {counts}."


def _mean_error(cases: Cases) -> str:
    errors = [float(case.value or 0) - float(case.label) for case in cases]
    lean = estimate_mean(errors, clusters(cases), mean_interval)
    words = "not clearly too high or too low"
    if (lean.low or 0) > 0:
        words = "too high"
    elif (lean.high or 0) < 0:
        words = "too low"
    return f"On average its score is {lean:+.2g} from people's: {words}."


# -- what the figures are worth -------------------------------------------------------------------


def _traffic(traffic: Traffic) -> list[str]:
    lines = [_share(share, traffic) for share in traffic.shares]
    if traffic.unscored:
        lines.append(f"{traffic.unscored:,} rows without a verdict are left out.")
    if traffic.taught:
        lines.append(f"{traffic.taught:,} rows that the judge was taught are left out.")
    return lines + [f"Warning: {warning}." for warning in traffic.warnings]


def _share(share: Share, traffic: Traffic) -> str:
    rows = f"{traffic.judged:,} judged rows"
    if share.label == "mean":
        own = f"The mean of {rows} is {share.judge:.2f} as the judge scores them"
        corrected, people = f"{share.corrected}", f"{share.people}"
    else:
        own = (
            f"Of {rows}, {percent(share.judge)} are {share.label} as the judge says it"
        )
        corrected, people = percent(share.corrected), percent(share.people)
    alone = f"People's labels alone: {people}."
    if share.refused:
        return f"{own}. That is not corrected: {share.refused}. {alone}"
    errors = f"its errors on {traffic.labelled:,} labelled cases"
    return f"{own}, and {corrected} corrected for {errors}. {alone}"


def _promise(promise: Promise) -> list[str]:
    least = f"{100 * promise.least:g} %"
    kept = promise.kept
    if kept is None:
        return [f"No threshold is proven to keep a promise of {least}: {promise.why}."]
    here = f"here {percent(kept.agreement)}, n = {kept.n}"
    proof = f"people agree with at least {least} of them, at 95 % confidence ({here})"
    if kept.share == 1:
        return [f"All verdicts may pass without a person: {proof}."]
    shares = (
        f"{percent(kept.share)} of the verdicts pass, and {percent(1 - kept.share)}"
    )
    return [
        f"Verdicts with a confidence of {kept.at:g} or more may pass without a person: {proof}.",
        f"So {shares} are left for people: memalign judge … --ask-below {kept.at:g}",
    ]


def passing_rows(evaluation: Evaluation) -> list[list[str | Estimate]]:
    """Return the rows of the table of what may pass without a person; the agreement is a figure."""
    rows: list[list[str | Estimate]] = []
    for step in evaluation.thresholds:
        left = percent(1 - step.share)
        rows.append(
            [
                step.label or "any",
                f"{step.at:g}",
                percent(step.share),
                step.agreement,
                left,
            ]
        )
    return rows


def _repeated(repeated: Repeated) -> list[str]:
    if not repeated.n:
        return [
            f"No case could be judged again: {repeated.stopped or 'none has a verdict'}"
        ]
    changed = f"{repeated.turned} of {repeated.n} cases: {percent(repeated.share)}."
    lines = [
        f"Asked {repeated.times} times, the judge changed its verdict on {changed}"
    ]
    if repeated.stopped:
        lines.append(f"Not all could be judged again: {repeated.stopped}")
    return lines


# -- how many labels ------------------------------------------------------------------------------


def plan_of(evaluation: Evaluation) -> list[str]:
    """Say what more labels would show."""
    n = evaluation.n
    accuracy = evaluation.metrics["accuracy"]
    if accuracy.value is None or accuracy.low is None or accuracy.high is None:
        return ["There is no interval yet, so nothing can be planned from these cases."]
    share = accuracy.value
    half = (accuracy.high - accuracy.low) / 2
    worth = (half / half_width(share, n)) ** 2  # above 1 where cases belong together
    lines = [f"With {n:,} cases agreement is known to ±{100 * half:.1f} points."]
    for words, goal in (
        ("half of that", half / 2),
        ("±5 points", 0.05),
        ("±3 points", 0.03),
    ):
        needed = fewest(partial(_reaches, share, goal))
        more = round(worth * needed) - n
        if more > 0:
            lines.append(f"{more:,} more labels: {words}.")
    return lines


def _reaches(share: float, goal: float, n: int) -> bool:
    return half_width(share, n) <= goal


def half_width(share: float, n: int) -> float:
    """Return half of Wilson's interval of a share, as a share: 0.06 for 0.9 of 100 cases."""
    low, high = wilson_interval(share * n, n) or (0.0, 1.0)
    return (high - low) / 2


def fewest(holds: Callable[[int], bool]) -> int:
    """Return the fewest cases, from 2 to a million, from which on something holds."""
    return bisect_left(range(_MOST), True, lo=2, key=holds)
