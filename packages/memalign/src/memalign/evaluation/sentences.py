"""An evaluation in words: the sentences that the command, Python and the report say alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from memalign.evaluation.cases import ScoredCase, clusters, estimate, same_value
from memalign.evaluation.intervals import mean_interval, paired_interval
from memalign.metrics import Estimate, wilson_interval
from memalign.values import Value, ValueType, value_text

if TYPE_CHECKING:
    from memalign.evaluation.agreement import Evaluation, Repeated
    from memalign.evaluation.promise import Promise
    from memalign.evaluation.traffic import Share, Traffic

__all__ = ["fewest", "half_width", "percent", "plan_of", "sentences_of"]

_NAMED = 4  # labels in a sentence


def percent(figure: Estimate | float) -> str:
    """Write a share as people read it: `86 % [78 %, 92 %]`."""
    return f"{figure:.0%}".replace("%", " %")


def sentences_of(evaluation: Evaluation) -> list[str]:
    """Say the figures of an evaluation in plain sentences, the traffic and the promise included."""
    lines = _agreement(evaluation)
    for traffic in evaluation.traffic:
        where = "" if traffic.system is None else f"{traffic.system}: "
        lines += [where + line for line in _traffic(traffic)]
    if evaluation.promise is not None:
        lines += _promise(evaluation.promise)
    if evaluation.repeated is not None:
        lines += _repeated(evaluation.repeated)
    return lines


# -- agreement -------------------------------------------------------------------------------------------------------


def _agreement(evaluation: Evaluation) -> list[str]:
    cases = [case for case in evaluation.cases if case.value is not None]
    if not cases:
        return ["No case that counts has a verdict."]
    accuracy = evaluation.metrics["accuracy"]
    right = f"the judge is right in {percent(accuracy)}, n = {len(cases)}."
    kind = ValueType.of(evaluation.value_type)
    if kind.kind == "str":
        return [f"Of texts that people wrote, {right}"]
    constant, share = constant_label(kind, cases)
    sentence = (
        f"Always answering {value_text(constant)} would be right in {percent(share)}; {right}"
    )
    if (accuracy.value or 0) <= share:
        sentence += " So it is no better than that answer."
    if kind.numeric:
        return [sentence, _mean_error(cases)]
    return [_recalls(cases), sentence, _lean(cases)]


def constant_label(kind: ValueType, cases: Sequence[ScoredCase]) -> tuple[Value, float]:
    """Return the label that is right most often if it is always given, of floats the median, and how often that is."""
    labels = [case.label for case in cases]
    constant = Counter(labels).most_common(1)[0][0]
    if kind.kind == "float":
        constant = sorted(labels)[len(labels) // 2]
    right = [same_value(constant, label, kind.tolerance) for label in labels]
    return constant, sum(right) / len(right)


def _recalls(cases: Sequence[ScoredCase]) -> str:
    parts: list[str] = []
    for label, n in Counter(case.label for case in cases).most_common(_NAMED):
        given = sum(case.value == label for case in cases if case.label == label)
        name, figure = value_text(label), percent(given / n)
        words = f"of those they call {name}, it calls {figure} {name} (n = {n})"
        if not parts:
            words = (
                f"Of the cases that people call {name}, the judge calls {figure} {name} (n = {n})"
            )
        parts.append(words)
    return f"{'; '.join(parts)}."


def _lean(cases: Sequence[ScoredCase]) -> str:
    """Name the label that the judge gives too often, if that is more than chance."""
    said = Counter(case.value for case in cases)
    meant: Counter[Value | None] = Counter(case.label for case in cases)
    label = max(said, key=lambda value: said[value] - meant[value])
    changes = [(case.value == label) - (case.label == label) for case in cases]
    groups = clusters(cases)
    lean = estimate(sum(changes) / len(changes), groups, lambda: paired_interval(changes, groups))
    if lean.low is None or lean.low <= 0:
        return "It leans clearly to no label."
    return f"It leans to {value_text(label)}: it says so {said[label]:,} times, and people {meant[label]:,} times."


def _mean_error(cases: Sequence[ScoredCase]) -> str:
    errors = [float(case.value or 0) - float(case.label) for case in cases]
    groups = clusters(cases)
    lean = estimate(sum(errors) / len(errors), groups, lambda: mean_interval(errors, groups))
    words = "not clearly too high or too low"
    if lean.low is not None and lean.low > 0:
        words = "too high"
    if lean.high is not None and lean.high < 0:
        words = "too low"
    return f"On average its score is {lean:+.2g} from people's: {words}."


# -- what the figures are worth --------------------------------------------------------------------------------------


def _traffic(traffic: Traffic) -> list[str]:
    lines = [_share(share, traffic) for share in traffic.shares]
    for count, why in (
        (traffic.unscored, "without a verdict"),
        (traffic.taught, "that the judge was taught"),
    ):
        if count:
            lines.append(f"{count:,} rows {why} are left out.")
    return [*lines, *(f"Warning: {warning}." for warning in traffic.warnings)]


def _share(share: Share, traffic: Traffic) -> str:
    rows = f"{traffic.judged:,} judged rows"
    own = f"Of {rows}, {percent(share.judge)} are {share.label} as the judge says it"
    corrected, people = percent(share.corrected), percent(share.people)
    if share.label == "mean":
        own = f"The mean of {rows} is {share.judge:.2f} as the judge scores them"
        corrected, people = f"{share.corrected:.2f}", f"{share.people:.2f}"
    if share.refused:
        return f"{own}. That is not corrected: {share.refused}. People's labels alone: {people}."
    labels = f"{traffic.labelled:,} labelled cases"
    return f"{own}, and {corrected} corrected for its errors on {labels}. People's labels alone: {people}."


def _promise(promise: Promise) -> list[str]:
    least = f"{100 * promise.least:g} %"
    kept = promise.kept
    if kept is None:
        return [f"No threshold is proven to keep a promise of {least}: {promise.why}."]
    here = f"here {percent(kept.agreement)}, n = {kept.n}"
    proof = f"people agree with at least {least} of them, at 95 % confidence ({here})"
    if kept.share == 1:
        return [f"All verdicts may pass without a person: {proof}."]
    return [
        f"Verdicts with a confidence of {kept.at:g} or more may pass without a person: {proof}.",
        f"So {percent(kept.share)} of the verdicts pass, and {percent(1 - kept.share)} are left for people: "
        f"memalign judge … --ask-below {kept.at:g}",
    ]


def _repeated(repeated: Repeated) -> list[str]:
    if not repeated.n:
        return [f"No case could be judged again: {repeated.stopped or 'none has a verdict'}"]
    changed = f"{repeated.turned} of {repeated.n} cases: {percent(repeated.share)}."
    lines = [f"Asked {repeated.times} times, the judge changed its verdict on {changed}"]
    if repeated.stopped:
        lines.append(f"Not all could be judged again: {repeated.stopped}")
    return lines


# -- how many labels -------------------------------------------------------------------------------------------------


def plan_of(evaluation: Evaluation) -> list[str]:
    """Say what more labels would show."""
    n, accuracy = evaluation.n, evaluation.metrics["accuracy"]
    if accuracy.value is None or accuracy.low is None or accuracy.high is None:
        return ["There is no interval yet, so nothing can be planned from these cases."]
    share, half = accuracy.value, (accuracy.high - accuracy.low) / 2
    worth = (half / half_width(share, n)) ** 2  # above 1 where cases belong together
    lines = [f"With {n:,} cases agreement is known to ±{100 * half:.1f} points."]
    for words, goal in (("half of that", half / 2), ("±5 points", 0.05), ("±3 points", 0.03)):
        needed = round(worth * fewest(lambda n, goal=goal: half_width(share, n) <= goal))  # type: ignore[misc]
        if needed > n:
            lines.append(f"{needed - n:,} more labels: {words}.")
    return lines


def half_width(share: float, n: int) -> float:
    """Return half of Wilson's interval of a share, as a share: 0.06 for 0.9 of 100 cases."""
    low, high = wilson_interval(share * n, n) or (0.0, 1.0)
    return (high - low) / 2


def fewest(holds: Callable[[int], bool]) -> int:
    """Return the fewest cases, from 2 to a million, for which something holds that then holds for all more."""
    low, high = 2, 1_000_000
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return high
