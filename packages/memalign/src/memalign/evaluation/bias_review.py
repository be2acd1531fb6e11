"""What a reviewer of bias would ask of feedback, answered with numbers; never silent where the data are too few."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from math import sqrt
from statistics import NormalDist, fmean, median, pstdev
from typing import Any, Literal

from memalign.memory.directive_check import directive_in
from memalign.memory.label_policy import is_unknown
from memalign.metrics import wilson_interval
from memalign.types import UNKNOWN_SOURCE, Feedback, canonical_json
from memalign.values import Value, ValueType, value_text

__all__ = ["Remark", "ReviewedCase", "remarks"]

ENOUGH = 10
"""Labels below which a share says nothing."""

ONE_PERSON = 0.6
RARE = 0.1
_MEASURED = ("outputs", "conversation", "trace", "inputs")
"""Whose length may sway people: the first of these that the cases have."""


@dataclass(frozen=True, kw_only=True)
class ReviewedCase:
    """One content, all its annotations, and the label that counts (None: comments only)."""

    content: Mapping[str, Any]
    annotations: tuple[Feedback, ...]
    label: Value | None


@dataclass(frozen=True)
class Remark:
    """The answer to one question: `level` is fine, look (a person should), or unknown (too few data to say).

    `name` stays the same from version to version; `text` is the answer with its numbers, `figures` has them for programs.
    """

    name: str
    level: Literal["fine", "look", "unknown"]
    text: str
    figures: dict[str, Any] = field(default_factory=dict)


def remarks(
    cases: Sequence[ReviewedCase], *, labels: Mapping[str, int], value_type: ValueType | None
) -> tuple[Remark, ...]:
    """One remark a question, always in the same order; `labels` counts rows, labels that nobody gave among them."""
    rows = [row for case in cases for row in case.annotations]
    kind = _kind(value_type, [row.value for row in rows if row.value is not None])
    return (
        _one_person(rows),
        _sources_differ(rows, kind),
        _label_balance(labels, value_type, kind),
        _length(cases, kind, value_type),
        _directives(rows, value_type),
    )


def _kind(value_type: ValueType | None, values: Sequence[Value]) -> str:
    """The kind of the labels, guessed from them where no judge and no type say it."""
    if value_type is not None:
        return value_type.kind
    if all(isinstance(value, bool) for value in values):
        return "bool"
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return "int" if all(isinstance(value, int) for value in values) else "float"
    return "choice" if len(set(values)) <= 10 else "str"


# -- who speaks ------------------------------------------------------------------------------------------------------


def _one_person(rows: Sequence[Feedback]) -> Remark:
    name = "one_person"
    counts = Counter(UNKNOWN_SOURCE if is_unknown(row.source) else row.source for row in rows if row.value is not None)
    if not (n := counts.total()):
        return Remark(name, "unknown", "no row has a label", {"n": 0})
    source, most = counts.most_common(1)[0]
    share = most / n
    figures = {"source": source, "labels": most, "n": n, "share": share, "limit": ONE_PERSON}
    gave = f"{source} gave {most} of {n} labels ({share:.0%})"
    if n < ENOUGH:
        return Remark(name, "unknown", f"{gave}: too few to say whether one person's view would be learned", figures)
    if share < ONE_PERSON:
        return Remark(name, "fine", f"at most: {gave}", figures)
    if source == UNKNOWN_SOURCE:
        text = f"{most} of {n} labels ({share:.0%}) name no source: whether one person gave them cannot be told"
        return Remark(name, "look", text, figures)
    return Remark(name, "look", f"{gave}: the judge would learn mostly this person's view", figures)


def _sources_differ(rows: Sequence[Feedback], kind: str) -> Remark:
    name = "sources_differ"
    said: dict[str, list[Value]] = defaultdict(list)
    for row in rows:
        if row.value is not None:
            said[row.source].append(row.value)
    if kind == "str":
        text = "labels are free text: how sources differ in them cannot be counted"
        return Remark(name, "unknown", text, {"n": {source: len(values) for source, values in said.items()}})
    numeric = kind in ("int", "float")
    sources = {source: {"n": len(values), **_rates(values, numeric=numeric)} for source, values in said.items()}
    gap = _widest_gap(said, numeric=numeric)
    if gap is None:
        able = sum(len(values) >= ENOUGH for values in said.values())
        text = f"how sources differ cannot be told: {able} of {len(said)} gave {ENOUGH} labels or more"
        return Remark(name, "unknown", text, {"sources": sources})
    text = f"furthest apart: {gap.words(said)}"
    text += "; more than chance: did they see other cases, or mean other things?" if gap.significant else ""
    figures = {"sources": sources, "label": gap.label, "low": gap.low, "high": gap.high, "gap": gap.size}
    return Remark(name, "look" if gap.significant else "fine", text, {**figures, "differ": gap.significant})


# -- what is said ----------------------------------------------------------------------------------------------------


def _label_balance(labels: Mapping[str, int], value_type: ValueType | None, kind: str) -> Remark:
    name = "label_balance"
    counts = dict(labels)
    if value_type is not None and kind == "int" and 0 < len(value_type.labels) <= 10:
        counts = {value_text(label): labels.get(value_text(label), 0) for label in value_type.labels}
    n = sum(counts.values())
    if kind in ("str", "float") or len(counts) > 10:
        return Remark(name, "unknown", "labels have too many values to count one by one", {"n": n})
    limit = min(RARE, 0.5 / max(len(counts), 1))  # of ten labels each has a tenth when they are even
    figures: dict[str, Any] = {"counts": counts, "n": n, "limit": limit}
    if n < max(ENOUGH, 2 * len(counts)):
        return Remark(name, "unknown", f"{n} labels: too few to say whether one is missing or rare", figures)
    missing = [label for label, count in counts.items() if not count]
    rare = [label for label, count in counts.items() if 0 < count < limit * n]
    figures |= {"missing": missing, "rare": rare}
    parts = [f"nobody gave {', '.join(missing)}"] if missing else []
    parts += [f"{label} is rare: {counts[label]} of {n} ({counts[label] / n:.0%})" for label in rare]
    if len(counts) == 1 and value_type is None:
        parts.append(f"all {n} labels are {next(iter(counts))}")
    if parts:
        return Remark(name, "look", f"{'; '.join(parts)}: a judge hardly learns when to say it", figures)
    least = min(counts, key=lambda label: counts[label])
    text = f"every label is there; the rarest is {least}, {counts[least]} of {n} ({counts[least] / n:.0%})"
    return Remark(name, "fine", text, figures)


def _directives(rows: Sequence[Feedback], value_type: ValueType | None) -> Remark:
    """Comments that would be orders to the judge if a rule kept their words: perhaps meant, perhaps an attack."""
    comments = [row for row in rows if (row.rationale or "").strip()]
    found = {str(row.key): why for row in comments if (why := directive_in(row.rationale or "", value_type))}
    figures = {"keys": list(found), "n": len(comments)}
    if not comments:
        return Remark("directives", "unknown", "whether a comment gives orders cannot be said: none is there", figures)
    if not found:
        text = f"none of {len(comments)} comments gives the judge an order instead of a reason"
        return Remark("directives", "fine", text, figures)
    shown = "; ".join(f"{key}: {why}" for key, why in list(found.items())[:3])
    more = f"; {len(found) - 3} more" if len(found) > 3 else ""
    text = f"{len(found)} of {len(comments)} comments give the judge an order instead of a reason ({shown}{more})"
    return Remark("directives", "look", text, figures)


def _length(cases: Sequence[ReviewedCase], kind: str, value_type: ValueType | None) -> Remark:
    """Whether labels follow the length of what was judged (cf. length bias, arXiv 2404.04475)."""
    name = "label_and_length"
    labelled = [(case.content, case.label) for case in cases if case.label is not None]
    part = next((part for part in _MEASURED if any(part in content for content, _ in labelled)), None)
    if part is None or kind == "str":
        why = "no case has a label" if part is None else "labels are free text"
        return Remark(name, "unknown", f"label and length: {why}", {"n": 0})
    given = [(content[part], label) for content, label in labelled if part in content]
    if kind == "choice":
        choices = value_type.choices if value_type else tuple(sorted({str(label) for _, label in given}))
        if pairs := [pair for item, label in given if (pair := _pair(item, str(label), choices))]:
            return _longer_chosen(pairs, part)
    lengths = [len(item if isinstance(item, str) else canonical_json(item)) for item, _ in given]
    halves: dict[str, list[Value]] = {"the longer half": [], "the shorter half": []}
    middle = median(lengths)
    for (_, label), length in zip(given, lengths, strict=True):
        halves["the longer half" if length > middle else "the shorter half"].append(label)
    gap = _widest_gap(halves, numeric=kind in ("int", "float"))
    figures = {"field": part, "n": len(given)}
    if gap is None:
        return Remark(name, "unknown", f"label and length of {part}: {len(given)} labelled cases are too few", figures)
    text = f"label and length of {part}: {gap.words(halves)}"
    text += "; is longer better here, or only longer?" if gap.significant else ""
    figures |= {"label": gap.label, "high": gap.high, "gap": gap.size}
    return Remark(name, "look" if gap.significant else "fine", text, figures)


def _pair(item: Any, label: str, choices: Sequence[str]) -> tuple[int, int] | None:
    """Lengths of the chosen alternative and of the other, where an item holds two of them under the labels' names."""
    if not isinstance(item, Mapping):
        return None
    named = [choice for choice in choices if choice in item]
    if len(named) != 2 or label not in named:
        return None
    chosen, other = (len(str(item[each])) for each in sorted(named, key=lambda each: each != label))
    return chosen, other


def _longer_chosen(pairs: Sequence[tuple[int, int]], part: str) -> Remark:
    decided = [chosen > other for chosen, other in pairs if chosen != other]
    n, longer = len(decided), sum(decided)
    if n < ENOUGH:
        text = f"{n} comparisons of alternatives of different length are too few to say whether length sways people"
        return Remark("label_and_length", "unknown", text, {"field": part, "n": n})
    low, high = wilson_interval(longer, n) or (0.0, 1.0)
    text = f"the longer alternative was chosen in {longer} of {n} ({longer / n:.0%} [{low:.0%}, {high:.0%}])"
    text += "; is longer better here, or only longer?" if low > 0.5 else ""
    figures = {"field": part, "longer_chosen": longer / n, "low": low, "high": high, "n": n}
    return Remark("label_and_length", "look" if low > 0.5 or high < 0.5 else "fine", text, figures)


# -- groups that label differently -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Gap:
    """Two groups of labels, and the label whose share (or the mean) differs most between them."""

    label: str
    low: str
    high: str
    size: float
    significant: bool

    def words(self, groups: Mapping[str, Sequence[Value]]) -> str:
        """`'true': ana 90% of 20, ben 40% of 20`."""
        numeric = self.label == _MEAN
        sides = [(side, _rate(groups[side], self.label), len(groups[side])) for side in (self.high, self.low)]
        rates = ", ".join(
            f"{side} {rate:.2f} of {n}" if numeric else f"{side} {rate:.0%} of {n}" for side, rate, n in sides
        )
        return f"mean: {rates}" if numeric else f"{self.label!r}: {rates}"


_MEAN = "(mean)"  # in the place of a label, for numbers


def _widest_gap(groups: Mapping[str, Sequence[Value]], *, numeric: bool) -> _Gap | None:
    """The widest gap between two groups with enough labels; their 95 % intervals say whether it may be chance."""
    able = sorted(name for name, values in groups.items() if len(values) >= ENOUGH)
    if len(able) < 2:
        return None
    labels = [_MEAN] if numeric else sorted({value_text(value) for values in groups.values() for value in values})
    size, label, low, high = max(
        (_rate(groups[b], label) - _rate(groups[a], label), label, a, b)
        for label in labels
        for a, b in permutations(able, 2)
    )
    significant = _interval(groups[low], label)[1] < _interval(groups[high], label)[0]
    return _Gap(label=label, low=low, high=high, size=size, significant=significant)


def _rates(values: Sequence[Value], *, numeric: bool) -> dict[str, Any]:
    if numeric:
        return {"mean": _rate(values, _MEAN)}
    return {"shares": {label: _rate(values, label) for label in sorted(map(value_text, set(values)))}}


def _rate(values: Sequence[Value], label: str) -> float:
    """The share of a label among `values`, or their mean."""
    return fmean(float(value) if label == _MEAN else value_text(value) == label for value in values)


def _interval(values: Sequence[Value], label: str) -> tuple[float, float]:
    """The 95 % interval of that."""
    if label != _MEAN:
        return wilson_interval(sum(value_text(value) == label for value in values), len(values)) or (0.0, 1.0)
    numbers = [float(value) for value in values]
    half = NormalDist().inv_cdf(0.975) * pstdev(numbers) / sqrt(len(numbers) - 1)
    return fmean(numbers) - half, fmean(numbers) + half
