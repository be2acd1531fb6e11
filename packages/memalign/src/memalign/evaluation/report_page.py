"""A report of one page that anybody can read: how far a judge agrees with people on cases that nobody taught it."""

from __future__ import annotations

import json
import math
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from memalign.errors import InputError
from memalign.evaluation.agreement import Evaluation, measure
from memalign.evaluation.cases import ScoredCase, annotations_by_case, estimate, labels_by_source, labels_of_several
from memalign.evaluation.comparison import compare
from memalign.evaluation.criteria import GateResult
from memalign.evaluation.feedback_review import agreement_of_people
from memalign.evaluation.intervals import share_interval
from memalign.metrics import Estimate
from memalign.types import Feedback, Judgment
from memalign.values import Value, ValueType, value_text

if TYPE_CHECKING:
    from memalign.judge import Judge

__all__ = ["Report", "as_html", "as_markdown", "report"]

_LEAST = 0.05  # a contribution below it speaks for nothing
_WIDTH = 0.05  # half of the interval that settles most questions
_BINS = 10
_LISTED = 12  # rows of a table, or ids on a line
_ERRORS, _EXAMPLES = 4, 3  # kinds of error on the page, and cases of each
_MATRIX = 12  # labels from which on a table of all their pairs is no help
_LONG = 400  # characters of a field
_TONES = {"ahead": "good", "pass": "good", "behind": "bad", "worse": "bad"}
_COLUMNS = ("accuracy", "balanced_accuracy", "kappa", "weighted_kappa", "ccc", "mae")


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """A way to give verdicts, and the judge's figure less its own on the same cases (None for the judge itself).

    `metric` is what `ahead` and `verdict` are of: CCC for numbers, else accuracy.
    """

    name: str
    metrics: dict[str, Estimate]
    ahead: Estimate | None = None
    verdict: str = ""
    metric: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class People:
    """How far annotators agree with each other: the ceiling. `pairs` of labels on `cases` that two or more labelled."""

    cases: int
    pairs: int
    same: Estimate
    alpha: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Slice:
    """Part of the cases, and the accuracy on them; of `float` labels the mean error."""

    of: str
    name: str
    n: int
    figure: Estimate


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """Whether confidence is true: for each bin its mean confidence, the accuracy and the number of cases.

    `error` is the expected calibration error, the mean distance of the two, weighed by cases.
    """

    bins: tuple[tuple[float, float, int], ...]
    error: float
    n: int


@dataclass(frozen=True, kw_only=True, slots=True)
class GuidelineUse:
    """What one guideline did: on how many cases it applied, and which way it pulled.

    `right` and `wrong` count cases where it pulled towards people's label, or away from it: by its contribution, or by
    the value that a chat model says it means.
    """

    id: str
    text: str
    taught_by: tuple[str, ...]
    cases: int
    right: int
    wrong: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportedCase:
    """A case as a reader needs it: what was judged, both verdicts, and the reasons."""

    id: str
    label: str
    value: str
    correct: bool | None
    content: dict[str, str]
    rationale: str
    people: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Report:
    """All that an evaluation shows of a judge.

    Attributes:
        judge: Its name.
        model: What answered.
        instructions: The judge's.
        headline: The metric that stands first: accuracy, of `float` ccc.
        evaluation: The figures.
        sides: The judge, the judge it is compared with, and one answer to every case.
        people: How far people agree with each other; None where no case has two labels.
        slices: The accuracy by label, group and source.
        calibration: Whether confidence is true; None where there is none.
        guidelines: What each guideline did.
        cases: Every case with its texts.
        more: Labels that would bring the interval of the headline to 5 points either way; 0 where it is there.
        seconds: The median of a judgment, None where it is not known.
        dollars: The mean of a judgment, None where it is not known.
        gate: The criteria and their outcome, where there are any.
    """

    judge: str
    model: str
    instructions: str
    headline: str
    evaluation: Evaluation
    sides: tuple[Side, ...]
    people: People | None
    slices: tuple[Slice, ...]
    calibration: Calibration | None
    guidelines: tuple[GuidelineUse, ...]
    cases: tuple[ReportedCase, ...]
    more: int | None
    seconds: float | None
    dollars: float | None
    gate: GateResult | None = None

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain JSON values."""
        own = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "evaluation"}
        return {**msgspec.to_builtins(own), "evaluation": self.evaluation.to_dict()}


def report(
    judge: Judge, evaluation: Evaluation, *, against: str = "the other judge", gate: GateResult | None = None
) -> Report:
    """Gather what an evaluation shows. Nothing is asked.

    Args:
        judge: The judge that was measured.
        evaluation: What `evaluate(judge, labelled, unseen=True)` gave, with `against` for a second column.
        against: What the other judge is called.
        gate: What a gate decided on the same evaluation.

    Returns:
        Plain values, which `as_html` and `as_markdown` write as a page.

    Raises:
        InputError: No case has a verdict.
    """
    if not evaluation.n:
        first = next((case.error for case in evaluation.cases if case.error), "")
        raise InputError(f"no case has a verdict: {first}")
    headline = "ccc" if judge.value_type.kind == "float" else "accuracy"
    usages = [judgment.usage for judgment in evaluation.judgments.values() if judgment.error is None]
    costs = [usage.cost for usage in usages if usage.cost is not None]
    clocked = [sum(usage.seconds.values()) for usage in usages]
    return Report(
        judge=judge.name,
        model=evaluation.model,
        instructions=judge.instructions,
        headline=headline,
        evaluation=evaluation,
        sides=_sides(judge, evaluation, against),
        people=_people(evaluation.rows, judge.value_type),
        slices=_slices(evaluation, judge.value_type),
        calibration=_calibration(evaluation),
        guidelines=_guidelines(judge, evaluation),
        cases=_cases(evaluation),
        more=_more(evaluation.metrics[headline], evaluation.n),
        seconds=statistics.median(clocked) if any(clocked) else None,
        dollars=statistics.fmean(costs) if costs else None,
        gate=gate,
    )


# -- what is gathered ------------------------------------------------------------------------------------------------


def _sides(judge: Judge, evaluation: Evaluation, against: str) -> tuple[Side, ...]:
    labels = [case.label for case in evaluation.cases]
    # The answer that is best for a judge that does not look.
    constant: Value = Counter(labels).most_common(1)[0][0]
    if judge.value_type.kind == "float":
        constant = statistics.median(map(float, labels))
    always = tuple(replace(case, value=constant, own=None, error=None) for case in evaluation.cases)
    others = {f"always {value_text(constant)}": always}
    if evaluation.base is not None and evaluation.base.n:
        others = {against: evaluation.base.cases} | others
    sides = [Side(name=judge.name, metrics=evaluation.metrics)]
    for name, cases in others.items():
        comparison, metrics = compare(cases, evaluation.cases), measure(judge.value_type, cases)
        ahead, metric = comparison.differences[comparison.metric], comparison.metric
        sides.append(Side(name=name, metrics=metrics, ahead=ahead, verdict=comparison.verdict, metric=metric))
    return tuple(sides)


def _people(rows: Sequence[Feedback], value_type: ValueType) -> People | None:
    shared = labels_of_several(annotations_by_case(rows).values())
    if not shared:
        return None
    pairs = [(value_type.agree(*pair), str(case)) for case, values in enumerate(shared)
             for pair in combinations(values, 2)]  # fmt: skip
    same, cases = [agreed for agreed, _ in pairs], [case for _, case in pairs]
    return People(
        cases=len(shared),
        pairs=len(pairs),
        same=estimate(sum(same) / len(same), cases, lambda: share_interval(same, cases)),
        alpha=agreement_of_people(shared, value_type),
    )


def _slices(evaluation: Evaluation, value_type: ValueType) -> tuple[Slice, ...]:
    """Parts of the cases by label, group and source; a source's cases have the labels that it gave itself."""
    annotations, score = annotations_by_case(evaluation.rows), value_type.kind == "float"
    kinds: dict[str, defaultdict[str, list[ScoredCase]]] = {
        kind: defaultdict(list) for kind in ("label", "group", "source")
    }
    for case in evaluation.cases:
        if case.value is None:
            continue
        if value_type.closed and not score:
            kinds["label"][value_text(case.label)].append(case)
        if case.group:
            kinds["group"][case.group].append(case)
        for source, label in labels_by_source(annotations[case.id]).items():
            kinds["source"][source].append(replace(case, label=label))
    return tuple(
        Slice(of=kind, name=name, n=len(cases), figure=measure(value_type, cases)["mae" if score else "accuracy"])
        for kind, parts in kinds.items()
        for name, cases in sorted(parts.items(), key=lambda part: (-len(part[1]), part[0]))
        if len(parts) > 1
    )


def _calibration(evaluation: Evaluation) -> Calibration | None:
    bins: defaultdict[int, list[tuple[float, bool]]] = defaultdict(list)
    for case in evaluation.cases:
        if case.value is not None and (confidence := evaluation.judgments[case.id].confidence) is not None:
            bins[min(int(confidence * _BINS), _BINS - 1)].append((confidence, bool(case.correct)))
    if not bins or any(isinstance(case.label, float) for case in evaluation.cases):
        return None
    rows = tuple(
        (statistics.fmean(confidence for confidence, _ in pairs), statistics.fmean(r for _, r in pairs), len(pairs))
        for _, pairs in sorted(bins.items())
    )
    n = sum(count for _, _, count in rows)
    return Calibration(bins=rows, error=sum(abs(mean - share) * count for mean, share, count in rows) / n, n=n)


def _guidelines(judge: Judge, evaluation: Evaluation) -> tuple[GuidelineUse, ...]:
    counts = Counter[tuple[str, str]]()
    for case in evaluation.cases:
        if case.value is None:
            continue
        judgment = evaluation.judgments[case.id]
        answered = (finding.guideline for finding in judgment.findings if finding.answer == "yes" and finding.guideline)
        counts.update((name, "cases") for name in {*judgment.guideline_ids, *answered})
        pulls = _pulls(judge.value_type, case.value, case.label, judgment)
        counts.update((name, "right" if towards else "wrong") for name, towards in pulls.items())
    return tuple(
        GuidelineUse(
            id=guideline.id,
            text=guideline.text,
            taught_by=tuple(map(str, judge.memory.sources_of(guideline))),
            **{name: counts[guideline.id, name] for name in ("cases", "right", "wrong")},
        )
        for guideline in judge.memory.semantic
    )


def _pulls(kind: ValueType, value: Value, label: Value, judgment: Judgment) -> dict[str, bool]:
    """Whether each guideline that pulled did so towards people's label.

    Of `float` that is so where without the pull the score, to which contributions add up, would be further away.
    """
    sums: defaultdict[str, float] = defaultdict(float)
    pulls: dict[str, bool] = {}
    for finding in judgment.findings:
        if finding.guideline is None:
            continue
        if finding.contribution is not None:
            sums[finding.guideline] += finding.contribution
        elif finding.value is not None:
            pulls[finding.guideline] = kind.agree(finding.value, label)
    for name, pull in sums.items():
        if abs(pull) < _LEAST:
            continue
        if kind.kind == "float":
            pulls[name] = abs(float(value) - pull - float(label)) > abs(float(value) - float(label))
        else:
            pulls[name] = (pull > 0) == kind.agree(value, label)
    return pulls


def _cases(evaluation: Evaluation) -> tuple[ReportedCase, ...]:
    annotations = annotations_by_case(evaluation.rows)
    return tuple(
        ReportedCase(
            id=case.id,
            label=value_text(case.label),
            value="" if case.value is None else value_text(case.value),
            correct=case.correct,
            content={
                name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
                for name, value in annotations[case.id][0].content.items()
            },
            rationale=case.error or evaluation.judgments[case.id].rationale or "",
            people={row.source: row.rationale for row in annotations[case.id] if row.rationale},
        )
        for case in evaluation.cases
    )


def _more(figure: Estimate, n: int) -> int | None:
    if figure.low is None or figure.high is None:
        return None
    half = (figure.high - figure.low) / 2
    return max(0, math.ceil(n * (half / _WIDTH) ** 2) - n)


# -- the page, which HTML and Markdown write from one structure ------------------------------------------------------


class Cell(NamedTuple):
    """A cell that is good or bad news."""

    text: str
    tone: str


Row = Sequence[str | Cell | Estimate]
"""The cells of a row; an estimate is drawn as a bar."""


class Section(NamedTuple):
    """A part of the page: paragraphs, a table, words to quote as they are, and cases under their titles."""

    title: str
    lines: Sequence[str] = ()
    head: Sequence[str] = ()
    rows: Sequence[Row] = ()
    quote: str = ""
    errors: Sequence[tuple[str, Sequence[ReportedCase]]] = ()
    parts: Sequence[Section] = ()


def as_html(report: Report) -> str:
    """The report as one HTML file that needs no network and no script.

    Args:
        report: What `report` gathered.

    Returns:
        The page.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    pages = Environment(loader=PackageLoader("memalign", "evaluation"), autoescape=True, undefined=StrictUndefined)
    title, headline, sections = _page(report)
    page = pages.get_template("report.html.jinja").render(
        title=title,
        headline=headline,
        sections=sections,
        at=lambda value: round(100 * min(1.0, max(0.0, value)), 1),
        short=_short,
    )
    return page.lstrip()


def as_markdown(report: Report) -> str:
    """The report as Markdown, with the same parts in the same order as `as_html` has.

    Args:
        report: What `report` gathered.

    Returns:
        The text.
    """
    title, headline, sections = _page(report)
    lines = [f"# {_escaped(title)}", "", f"**{_escaped(headline)}**"]
    for section in sections:
        lines += _markdown(section, "##")
    return "\n".join([*lines, ""])


def _markdown(section: Section, level: str) -> list[str]:
    lines = ["", f"{level} {_escaped(section.title)}", ""]
    lines += [f"> {_escaped(line)}" for line in section.quote.splitlines()]
    for line in section.lines:
        lines += [*([""] if lines[-1] else []), _escaped(line)]
    if section.rows:
        texts = [["" if isinstance(cell, Estimate) else cell if isinstance(cell, str) else cell.text for cell in row]
                 for row in section.rows]  # fmt: skip
        head, *cells = [[_escaped(text) for text in row] for row in (section.head, *texts)]
        table = (head, ["---"] * len(head), *cells)
        lines += [*([""] if lines[-1] else []), *(f"| {' | '.join(row)} |" for row in table)]
    for title, cases in section.errors:
        lines += ["", f"**{_escaped(title)}**", ""]
        for case in cases:
            words = case.people | ({"the judge": case.rationale} if case.rationale else {})
            fields = [*case.content.items(), *words.items()]
            lines.append(f"- {_escaped(case.id)}")
            lines += [f"  - {_escaped(name)}: {_escaped(_short(text))}" for name, text in fields]
    for part in section.parts:
        lines += _markdown(part, f"{level}#")
    return lines


def _page(report: Report) -> tuple[str, str, list[Section]]:
    """The title, the sentence below it, and the parts."""
    measured, figure = report.evaluation, report.evaluation.metrics[report.headline]
    headline = f"It gives the people's label to {figure:.0%} of {measured.n} cases."
    if report.headline == "ccc":
        headline = f"Its scores agree with people's at {figure:.2f} (CCC, 1 is perfect), on {measured.n} cases."
    line = f"Model {report.model}, memory {measured.memory_hash[:12] or 'empty'}. "
    line += f"{measured.n} cases that the judge has not learned from."
    counts = (
        (measured.taught, "more in its memory, which do not count"),
        (measured.unscored, "without a verdict"),
        (measured.unlabelled, "without a label that counts"),
    )
    if any(count for count, _ in counts):
        line += f" Not among them: {', '.join(f'{count} {words}' for count, words in counts if count)}."
    cost = "" if report.seconds is None else f"A judgment takes {report.seconds:.2g} s in the median. "
    cost += "What it costs is not known." if report.dollars is None else f"1,000 cost ${1000 * report.dollars:.2f}."
    sections = [
        Section("What it judges", [line], quote=report.instructions.strip()),
        _agreement(report),
        _where_it_errs(report),
        _lessons(report),
        Section("What it costs", [cost]),
    ]
    return f"{report.judge}: agreement with people", headline, sections


def _agreement(report: Report) -> Section:
    names = [name for name in _COLUMNS if name in report.evaluation.metrics]
    rows: list[Row] = []
    for side in report.sides:
        ahead = Cell(_points(side.ahead), _TONES.get(side.verdict, "")) if side.ahead else ""
        figures = [f"{side.metrics[name]:.2f}" for name in names]
        rows.append([side.name, *figures, side.metrics[report.headline], ahead])
    if people := report.people:
        alpha = "" if people.alpha is None else f"; alpha {people.alpha:.2f}"
        same = f"{people.same:.2f} of {people.pairs} pairs{alpha}"
        rows.append(["people with each other", same, *[""] * (len(names) - 1), people.same, ""])
    parts = []
    if gate := report.gate:
        criteria: list[Row] = [
            [Cell(each.outcome, _TONES.get(each.outcome, "")), each.demand, each.why] for each in gate.criteria
        ]
        parts.append(Section(f"The gate: {gate.outcome}", head=("", "criterion", "figure"), rows=criteria))
    head = ("", *map(_words, names), "", "ahead")
    return Section("How often it agrees with people", _sentences(report), head, rows, parts=parts)


def _sentences(report: Report) -> list[str]:
    sentences = ["Intervals, in brackets, are at 95 %."]
    verdicts = {"ahead": "It is ahead of", "behind": "It is behind", "tied": "These cases do not tell it from"}
    for side in report.sides[1:]:
        if side.ahead is not None and side.ahead.value is not None:
            points = f"{_points(side.ahead)} ({_words(side.metric)})"
            sentences.append(f"{verdicts[side.verdict]} “{side.name}”: {points}.")
    if report.people and report.people.same.value is not None:
        sentences.append(f"People give the same label in {report.people.same.value:.0%} of pairs.")
    if report.more:
        sentences.append(f"About {report.more:,} labels more would bring the interval to 5 points either way.")
    if reason := report.evaluation.metrics[report.headline].no_interval:
        sentences.append(f"There is no interval: {reason}.")
    if report.calibration:
        sentences.append(f"Its confidence and the share right differ by {report.calibration.error:.2f} on average.")
    sentences.append(f"“Ahead” is the judge's {_words(report.sides[-1].metric)} less the other's.")
    return sentences


def _where_it_errs(report: Report) -> Section:
    """How labels and verdicts meet, the commonest errors with cases, and the parts of the cases."""
    measured = report.evaluation
    names = [value_text(label) for label in measured.labels]
    lines, head, rows = list[str](), list[str](), list[Row]()
    if measured.confusion and len(names) <= _MATRIX:
        head = ["people ↓ judge →", *names]
        for name, counts in zip(names, measured.confusion, strict=True):
            cells = (
                Cell(str(n), "bad" if n and judged != name else "") for n, judged in zip(counts, names, strict=True)
            )
            rows.append([name, *cells])
    errors = _errors(report)
    if not errors:
        lines.append("On these cases it gives the people's label every time.")
    if len(errors) > _ERRORS:
        lines.append(f"The {_ERRORS} commonest errors are below; the JSON report has every case.")
    if comparison := measured.comparison:
        for title, ids in (("Fixed", comparison.fixed), ("Broken", comparison.broken)):
            if ids:
                lines.append(f"{title} against “{report.sides[1].name}”: {_first(ids, _LISTED)}.")
    parts = [_by_part(report)] if report.slices else []
    return Section("Where judge and people differ", lines, head, rows, errors=errors[:_ERRORS], parts=parts)


def _by_part(report: Report) -> Section:
    score, more = report.headline == "ccc", len(report.slices) - _LISTED
    rows = [
        [part.of, part.name, str(part.n), f"{part.figure:.2f}", "" if score else part.figure]
        for part in report.slices[:_LISTED]
    ]
    lines = [f"{more} smaller parts are in the JSON report."] if more > 0 else []
    return Section("By part", lines, ("", "", "cases", "mean error" if score else "right", ""), rows)


def _errors(report: Report) -> list[tuple[str, list[ReportedCase]]]:
    """Three cases of each kind of error, the commonest first; of numbers the three that differ most."""
    cases = {case.id: case for case in report.cases}
    wrong = [cases[case.id] for case in report.evaluation.disagreements]
    if not report.evaluation.labels or len(report.evaluation.labels) > _MATRIX:
        return [(f"{len(wrong)} cases, those that differ most", wrong[:_EXAMPLES])] if wrong else []
    kinds: defaultdict[tuple[str, str], list[ReportedCase]] = defaultdict(list)
    for case in wrong:
        kinds[case.label, case.value].append(case)
    return [
        (f"People say {label}, the judge says {value}: {len(cases)}", cases[:_EXAMPLES])
        for (label, value), cases in sorted(kinds.items(), key=lambda kind: -len(kind[1]))
    ]


def _lessons(report: Report) -> Section:
    if not report.guidelines:
        return Section("What people taught it", ["Nobody has taught it anything: it has no guidelines."])
    used = sorted(report.guidelines, key=lambda guideline: -guideline.cases)
    rows = [
        [use.id, use.text, _first(use.taught_by, 3), str(use.cases), str(use.right), str(use.wrong)]
        for use in used[:_LISTED]
    ]
    lines = ["“Towards” and “away” count cases where a guideline pulled to the people's label, or from it."]
    if len(used) > _LISTED:
        lines.append(f"{len(used) - _LISTED} guidelines that applied more rarely are in the JSON report.")
    return Section("What people taught it", lines, ("", "guideline", "taught by", "cases", "towards", "away"), rows)


def _first(names: Sequence[str], most: int) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _points(figure: Estimate) -> str:
    if figure.value is None:
        return "n/a"
    low, high = figure.low, figure.high
    interval = "" if low is None or high is None else f" [{100 * low:+.1f}, {100 * high:+.1f}]"
    return f"{100 * figure.value:+.1f} points{interval}"


def _words(name: str) -> str:
    return {"ccc": "CCC", "mae": "mean error"}.get(name, name.replace("_", " "))


def _short(text: str) -> str:
    return text if len(text) <= _LONG else f"{text[:_LONG]} … ({len(text) - _LONG:,} characters more)"


def _escaped(text: str) -> str:
    """Text from data as a line or a cell of Markdown, in which no character is markup."""
    return " ".join(re.sub(r"([\\`*_{}\[\]<>|#!~])", r"\\\1", text).split())
