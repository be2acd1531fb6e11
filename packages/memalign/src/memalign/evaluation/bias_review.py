"""What a reviewer of bias would ask of feedback, answered with numbers; never silent where the data are too few."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import atanh, sqrt, tanh
from statistics import NormalDist, fmean, pstdev
from typing import Any, Literal

from memalign.memory.directive_check import directive_in
from memalign.metrics import wilson_interval
from memalign.types import UNKNOWN_SOURCE, Feedback, canonical_json
from memalign.values import Value, ValueType, value_text

__all__ = ["Finding", "Heard", "findings"]

ENOUGH = 10
"""Labels below which a share or a correlation says nothing."""

ONE_PERSON = 0.6
RARE = 0.1
_MEASURED = ("outputs", "conversation", "trace", "inputs")
"""Whose length may sway people: the first of these that the cases have."""


@dataclass(frozen=True, kw_only=True)
class Heard:
    """One content, everything said of it, and the label that counts (None: comments only)."""

    content: Mapping[str, Any]
    annotations: tuple[Feedback, ...]
    label: Value | None


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The answer to one question: `level` is fine, look (a person should), or unknown (too few data to say).

    `name` stays the same from version to version; `text` is the answer with its numbers, `figures` has them for programs.
    """

    name: str
    level: Literal["fine", "look", "unknown"]
    text: str
    figures: dict[str, Any] = field(default_factory=dict)


def findings(heard: Sequence[Heard], *, labels: Mapping[str, int], value_type: ValueType | None) -> tuple[Finding, ...]:
    """One finding a question, always in the same order; `labels` counts rows, labels that nobody gave among them."""
    rows = [row for each in heard for row in each.annotations]
    kind = _kind(value_type, [row.value for row in rows if row.value is not None])
    return (
        _one_person(rows),
        _sources_differ(rows, kind),
        _label_balance(labels, value_type, kind),
        _length(heard, kind, value_type),
        _comments(rows),
        _words(rows),
        _two_annotations(heard),
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


def _one_person(rows: Sequence[Feedback]) -> Finding:
    counts = Counter(row.source for row in rows if row.value is not None)
    n = counts.total()
    if not n:
        return Finding(name="one_person", level="unknown", text="no row has a label", figures={"n": 0})
    source, most = counts.most_common(1)[0]
    share = most / n
    figures = {"source": source, "labels": most, "n": n, "share": share, "limit": ONE_PERSON}
    gave = f"{source} gave {most} of {n} labels ({share:.0%})"
    if n < ENOUGH:
        text = f"{gave}: too few to say whether one person's view would be learned"
        return Finding(name="one_person", level="unknown", text=text, figures=figures)
    if share < ONE_PERSON:
        return Finding(name="one_person", level="fine", text=f"at most: {gave}", figures=figures)
    if source == UNKNOWN_SOURCE:
        text = f"{most} of {n} labels ({share:.0%}) name no source: whether one person gave them cannot be told"
    else:
        text = f"{gave}: the judge would learn mostly this person's view"
    return Finding(name="one_person", level="look", text=text, figures=figures)


def _sources_differ(rows: Sequence[Feedback], kind: str) -> Finding:
    name = "sources_differ"
    said: dict[str, list[Value]] = defaultdict(list)
    for row in rows:
        if row.value is not None:
            said[row.source].append(row.value)
    if kind == "str":
        text = "labels are free text: how sources differ in them cannot be counted"
        return Finding(name=name, level="unknown", text=text, figures={"n": {s: len(v) for s, v in said.items()}})
    numeric = kind in ("int", "float")
    rates = {source: _mean(values) if numeric else _shares(values) for source, values in said.items()}
    sources = {s: {"n": len(said[s]), **(rate if numeric else {"shares": rate})} for s, rate in rates.items()}
    able = sorted(source for source, values in said.items() if len(values) >= ENOUGH)
    if len(able) < 2:
        text = f"how sources differ cannot be told: {len(able)} of {len(said)} gave {ENOUGH} labels or more"
        return Finding(name=name, level="unknown", text=text, figures={"sources": sources})
    labels = ["mean"] if numeric else sorted({value_text(value) for values in said.values() for value in values})
    # The label, and the two sources, that are furthest apart; their intervals say whether that may be chance.
    gap, label, low, high = max(
        (rates[b].get(each, 0.0) - rates[a].get(each, 0.0), each, a, b)
        for each in labels
        for a in able
        for b in able
        if a != b
    )
    apart = _interval(said[low], label, numeric=numeric)[1] < _interval(said[high], label, numeric=numeric)[0]
    figures = {"sources": sources, "label": label, "low": low, "high": high, "gap": gap, "differ": apart}
    shown = "{:.2f}" if numeric else "{:.0%}"
    each = ", ".join(f"{s} {shown.format(rates[s].get(label, 0.0))} of {len(said[s])}" for s in (high, low))
    text = f"furthest apart on {label!r}: {each}" if not numeric else f"furthest apart: mean {each}"
    if apart:
        text += "; more than chance: did they see other cases, or mean other things?"
    return Finding(name=name, level="look" if apart else "fine", text=text, figures=figures)


def _shares(values: Sequence[Value]) -> dict[str, float]:
    counts = Counter(value_text(value) for value in values)
    return {label: count / len(values) for label, count in sorted(counts.items())}


def _mean(values: Sequence[Value]) -> dict[str, float]:
    return {"mean": fmean(float(value) for value in values)}


def _interval(values: Sequence[Value], label: str, *, numeric: bool) -> tuple[float, float]:
    """The 95 % interval of one source's share of a label, or of their mean."""
    if numeric:
        numbers = [float(value) for value in values]
        half = NormalDist().inv_cdf(0.975) * pstdev(numbers) / sqrt(len(numbers) - 1)
        return fmean(numbers) - half, fmean(numbers) + half
    return wilson_interval(sum(value_text(value) == label for value in values), len(values)) or (0.0, 1.0)


def _two_annotations(heard: Sequence[Heard]) -> Finding:
    n = len(heard)
    several = sum(len({row.source for row in each.annotations}) > 1 for each in heard)
    figures = {"cases": several, "n": n, "share": several / n if n else None}
    text = f"{several} of {n} cases{f' ({several / n:.0%})' if n else ''} have two or more annotations"
    if n < ENOUGH:
        return Finding(
            name="two_annotations", level="unknown", text=f"{text}: too few cases to say more", figures=figures
        )
    if not several:
        text += ": nobody can say how far people agree; let two of them speak of some of the same cases"
    return Finding(name="two_annotations", level="fine" if several else "look", text=text, figures=figures)


# -- what is said ----------------------------------------------------------------------------------------------------


def _label_balance(labels: Mapping[str, int], value_type: ValueType | None, kind: str) -> Finding:
    name = "label_balance"
    counts = dict(labels)
    if value_type is not None and kind == "int" and 0 < len(value_type.labels) <= 10:
        counts = {value_text(label): labels.get(value_text(label), 0) for label in value_type.labels}
    n = sum(counts.values())
    if kind in ("str", "float") or len(counts) > 10:
        text = "labels have too many values to count one by one"
        return Finding(name=name, level="unknown", text=text, figures={"n": n})
    limit = min(RARE, 0.5 / max(len(counts), 1))  # of ten labels each has a tenth when they are even
    figures: dict[str, Any] = {"counts": counts, "n": n, "limit": limit}
    if n < max(ENOUGH, 2 * len(counts)):
        text = f"{n} labels: too few to say whether one is missing or rare"
        return Finding(name=name, level="unknown", text=text, figures=figures)
    missing = [label for label, count in counts.items() if not count]
    rare = [label for label, count in counts.items() if 0 < count < limit * n]
    figures |= {"missing": missing, "rare": rare}
    parts = [f"nobody gave {', '.join(missing)}"] if missing else []
    parts += [f"{label} is rare: {counts[label]} of {n} ({counts[label] / n:.0%})" for label in rare]
    if len(counts) == 1 and value_type is None:
        parts.append(f"all {n} labels are {next(iter(counts))}")
    if parts:
        text = f"{'; '.join(parts)}: from here a judge hardly learns when to say it"
        return Finding(name=name, level="look", text=text, figures=figures)
    least = min(counts, key=lambda label: counts[label])
    text = f"every label is there; the rarest is {least}, {counts[least]} of {n} ({counts[least] / n:.0%})"
    return Finding(name=name, level="fine", text=text, figures=figures)


def _comments(rows: Sequence[Feedback]) -> Finding:
    bare = sum(row.value is None for row in rows)
    figures = {"rows": bare, "n": len(rows), "share": bare / len(rows) if rows else None}
    text = f"{bare} of {len(rows)} rows are comments without a label"
    if bare:
        text += ": they teach rules, but nothing can be checked against them"
    level: Literal["fine", "look"] = "look" if bare else "fine"
    return Finding(name="comments_without_labels", level=level, text=text, figures=figures)


def _words(rows: Sequence[Feedback]) -> Finding:
    labelled = [row for row in rows if row.value is not None]
    mute = sum(not (row.rationale or "").strip() for row in labelled)
    n = len(labelled)
    figures = {"rows": mute, "n": n, "share": mute / n if n else None}
    text = f"{mute} of {n} labels come without words"
    if 2 * mute > n:
        text += ": where the judge is right already they teach as examples only"
    level: Literal["fine", "look", "unknown"] = "look" if 2 * mute > n else "fine" if n else "unknown"
    return Finding(name="labels_without_words", level=level, text=text, figures=figures)


def _directives(rows: Sequence[Feedback], value_type: ValueType | None) -> Finding:
    """Comments that would be orders to the judge if a rule kept their words: perhaps meant, perhaps an attack."""
    spoken = [row for row in rows if (row.rationale or "").strip()]
    found = {str(row.key): why for row in spoken if (why := directive_in(row.rationale or "", value_type))}
    figures = {"keys": list(found), "n": len(spoken)}
    if not spoken:
        return Finding(
            name="directives",
            level="unknown",
            text="whether a comment gives orders cannot be said: none is there",
            figures=figures,
        )
    if not found:
        text = f"none of {len(spoken)} comments gives the judge an order instead of a reason"
        return Finding(name="directives", level="fine", text=text, figures=figures)
    shown = "; ".join(f"{key}: {why}" for key, why in list(found.items())[:3])
    text = f"{len(found)} of {len(spoken)} comments give the judge an order instead of a reason ({shown}"
    text += f"; {len(found) - 3} more)" if len(found) > 3 else ")"
    return Finding(name="directives", level="look", text=text, figures=figures)


# -- what sways the labels -------------------------------------------------------------------------------------------


def _length(heard: Sequence[Heard], kind: str, value_type: ValueType | None) -> Finding:
    """Whether the label goes with the length of what was judged (cf. length bias, arXiv 2404.04475)."""
    name = "label_and_length"
    labelled = [(each.content, each.label) for each in heard if each.label is not None]
    measured = next((part for part in _MEASURED if any(part in content for content, _ in labelled)), None)
    if measured is None or kind == "str":
        why = "no case has a label" if measured is None else "labels are free text"
        return Finding(name=name, level="unknown", text=f"label and length: {why}", figures={"n": 0})
    cases = [(content[measured], label) for content, label in labelled if measured in content]
    choices = value_type.choices if value_type else tuple(sorted({str(label) for _, label in cases}))
    pairs = [pair for shown, label in cases if kind == "choice" and (pair := _pair(shown, str(label), choices))]
    if pairs:
        return _longer_chosen(pairs, measured)
    lengths = [len(shown if isinstance(shown, str) else canonical_json(shown)) for shown, _ in cases]
    n = len(cases)
    if kind == "choice":
        columns = {f"{label!r}": [float(str(given) == label) for _, given in cases] for label in choices}
    else:
        columns = {"": [float(label) for _, label in cases]}
    found = {label: r for label, column in columns.items() if (r := _spearman(column, lengths)) is not None}
    if n < ENOUGH or not found:
        why = f"{n} labelled cases are too few" if n < ENOUGH else "all labels or all lengths are the same"
        return Finding(name=name, level="unknown", text=f"label and length of {measured}: {why}", figures={"n": n})
    label, r = max(found.items(), key=lambda each: abs(each[1]))
    low, high = _around(r, n, questions=len(found))
    sways = low > 0 or high < 0
    which = f"{label} goes with" if label else "the label goes with"
    text = f"{which} the length of {measured}: " if sways else f"label and length of {measured}: "
    text += f"Spearman {r:+.2f} [{low:+.2f}, {high:+.2f}], n = {n}"
    text += "; is longer better here, or only longer?" if sways and r > 0 else ""
    figures = {"field": measured, "label": label.strip("'"), "spearman": r, "low": low, "high": high, "n": n}
    return Finding(name=name, level="look" if sways else "fine", text=text, figures=figures)


def _pair(shown: Any, label: str, choices: Sequence[str]) -> tuple[int, int] | None:
    """Lengths of the chosen alternative and of the other, where an item shows two of them under the labels' names."""
    if not isinstance(shown, Mapping):
        return None
    named = [choice for choice in choices if choice in shown]
    if len(named) != 2 or label not in named:
        return None
    chosen, other = (len(str(shown[each])) for each in sorted(named, key=lambda each: each != label))
    return chosen, other


def _longer_chosen(pairs: Sequence[tuple[int, int]], measured: str) -> Finding:
    name = "label_and_length"
    decided = [chosen > other for chosen, other in pairs if chosen != other]
    n, longer = len(decided), sum(decided)
    if n < ENOUGH:
        text = f"{n} comparisons of alternatives of different length are too few to say whether length sways people"
        return Finding(name=name, level="unknown", text=text, figures={"field": measured, "n": n})
    low, high = wilson_interval(longer, n) or (0.0, 1.0)
    sways = low > 0.5 or high < 0.5
    text = f"the longer alternative was chosen in {longer} of {n} ({longer / n:.0%} [{low:.0%}, {high:.0%}])"
    text += "; is longer better here, or only longer?" if low > 0.5 else ""
    figures = {"field": measured, "longer_chosen": longer / n, "low": low, "high": high, "n": n}
    return Finding(name=name, level="look" if sways else "fine", text=text, figures=figures)


def _spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Spearman's rank correlation, ties at their mean rank; None where a column has one value only."""
    a, b = _ranks(first), _ranks(second)
    mean = (len(a) + 1) / 2
    top = sum((x - mean) * (y - mean) for x, y in zip(a, b, strict=True))
    bottom = sqrt(sum((x - mean) ** 2 for x in a) * sum((y - mean) ** 2 for y in b))
    return top / bottom if bottom else None


def _ranks(values: Sequence[float]) -> list[float]:
    ends: dict[float, tuple[int, int]] = {}
    for rank, value in enumerate(sorted(values), 1):
        ends[value] = (ends.get(value, (rank, rank))[0], rank)
    return [sum(ends[value]) / 2 for value in values]


def _around(r: float, n: int, *, questions: int) -> tuple[float, float]:
    """A 95 % interval of a rank correlation (Bonett and Wright 2000), wider where the largest of several was taken."""
    z = NormalDist().inv_cdf(1 - 0.025 / questions)
    middle = atanh(max(-0.999, min(0.999, r)))
    half = z * sqrt((1 + r * r / 2) / (n - 3))
    return tanh(middle - half), tanh(middle + half)
