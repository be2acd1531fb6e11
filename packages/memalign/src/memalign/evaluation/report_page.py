"""A report of one page that anybody can read: how far a judge agrees with people on cases that nobody taught it."""

from __future__ import annotations

import json
import math
import re
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from memalign.errors import InputError
from memalign.evaluation.agreement import Evaluation, measure
from memalign.evaluation.cases import ScoredCase, annotations_by_case, labels_by_source, too_few_groups
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

LEAST = 0.05
"""A contribution below it speaks for nothing."""

_WIDTH = 0.05  # half of the interval that settles most questions
_BINS = 10
_LISTED = 12  # rows of a table, or ids on a line
_ERRORS, _EXAMPLES = 4, 3  # kinds of error on the page, and cases of each
_MATRIX = 12  # labels from which on a table of all their pairs is no help
_LONG = 400  # characters of a field
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
    judgments = [each for each in evaluation.judgments.values() if each.error is None]
    costs = [each.usage.cost for each in judgments if each.usage.cost is not None]
    clocked = [sum(each.usage.seconds.values()) for each in judgments]
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
    others = {} if evaluation.base is None or not evaluation.base.n else {against: evaluation.base.cases}
    constant = _constant(judge.value_type, [case.label for case in evaluation.cases])
    others[f"always {value_text(constant)}"] = tuple(
        replace(case, value=constant, own=None, error=None) for case in evaluation.cases
    )
    sides = [Side(name=judge.name, metrics=evaluation.metrics)]
    for name, cases in others.items():
        comparison = compare(cases, evaluation.cases)
        ahead, metrics = comparison.differences[comparison.metric], measure(judge.value_type, cases)
        sides.append(
            Side(name=name, metrics=metrics, ahead=ahead, verdict=comparison.verdict, metric=comparison.metric)
        )
    return tuple(sides)


def _constant(value_type: ValueType, labels: Sequence[Value]) -> Value:
    """The answer that is best for a judge that does not look: the commonest label, of `float` the median."""
    if value_type.kind == "float":
        return statistics.median(float(label) for label in labels)
    return Counter(labels).most_common(1)[0][0]


def _people(rows: Sequence[Feedback], value_type: ValueType) -> People | None:
    labels = [labels_by_source(annotations) for annotations in annotations_by_case(rows).values()]
    shared = [list(by_source.values()) for by_source in labels if len(by_source) > 1]
    if not shared:
        return None
    pairs = [
        (value_type.agree(one, other), str(case))
        for case, values in enumerate(shared)
        for one, other in combinations(values, 2)
    ]
    same, cases = [agreed for agreed, _ in pairs], [case for _, case in pairs]
    few = too_few_groups(cases)
    low, high = (None, None) if few else share_interval(same, cases) or (None, None)
    return People(
        cases=len(shared),
        pairs=len(pairs),
        same=Estimate(value=sum(same) / len(same), low=low, high=high, no_interval=few),
        alpha=agreement_of_people(shared, value_type),
    )


def _slices(evaluation: Evaluation, value_type: ValueType) -> tuple[Slice, ...]:
    """Parts of the cases by label, group and source; a source's cases have the labels that it gave itself."""
    by_source: dict[str, dict[str, Value]] = {}
    for row in evaluation.rows:
        if row.value is not None:
            by_source.setdefault(row.id, {})[row.source] = row.value
    of: dict[str, Callable[[ScoredCase], Mapping[str, ScoredCase]]] = {
        "label": lambda case: (
            {value_text(case.label): case} if value_type.closed and value_type.kind != "float" else {}
        ),
        "group": lambda case: {case.group: case} if case.group else {},
        "source": lambda case: {
            source: replace(case, label=label) for source, label in by_source.get(case.id, {}).items()
        },
    }
    metric = "mae" if value_type.kind == "float" else "accuracy"
    slices = []
    for kind, parts_of in of.items():
        parts: dict[str, list[ScoredCase]] = {}
        for case in evaluation.cases:
            for name, part in parts_of(case).items() if case.value is not None else ():
                parts.setdefault(name, []).append(part)
        ordered = sorted(parts.items(), key=lambda part: (-len(part[1]), part[0]))
        slices += [
            Slice(of=kind, name=name, n=len(cases), figure=measure(value_type, cases)[metric])
            for name, cases in ordered
            if len(parts) > 1
        ]
    return tuple(slices)


def _calibration(evaluation: Evaluation) -> Calibration | None:
    confident = [
        (confidence, bool(case.correct))
        for case in evaluation.cases
        if case.value is not None and (confidence := evaluation.judgments[case.id].confidence) is not None
    ]
    if not confident or any(isinstance(case.label, float) for case in evaluation.cases):
        return None
    bins: dict[int, list[tuple[float, bool]]] = {}
    for confidence, right in confident:
        bins.setdefault(min(int(confidence * _BINS), _BINS - 1), []).append((confidence, right))
    rows = tuple(
        (statistics.fmean(confidence for confidence, _ in pairs), statistics.fmean(r for _, r in pairs), len(pairs))
        for _, pairs in sorted(bins.items())
    )
    error = sum(abs(mean - share) * n for mean, share, n in rows) / len(confident)
    return Calibration(bins=rows, error=error, n=len(confident))


def _guidelines(judge: Judge, evaluation: Evaluation) -> tuple[GuidelineUse, ...]:
    counts: dict[str, Counter[str]] = {guideline.id: Counter() for guideline in judge.memory.semantic}
    for case in evaluation.cases:
        if case.value is None:
            continue
        judgment = evaluation.judgments[case.id]
        for name, towards in _pulls(judge.value_type, case, judgment).items():
            counts.setdefault(name, Counter())["right" if towards else "wrong"] += 1
        answered = (finding.guideline for finding in judgment.findings if finding.answer == "yes" and finding.guideline)
        for name in {*judgment.guideline_ids, *answered}:
            counts.setdefault(name, Counter())["cases"] += 1
    return tuple(
        GuidelineUse(
            id=guideline.id,
            text=guideline.text,
            taught_by=tuple(map(str, judge.memory.sources_of(guideline))),
            **{name: counts[guideline.id][name] for name in ("cases", "right", "wrong")},
        )
        for guideline in judge.memory.semantic
    )


def _pulls(kind: ValueType, case: ScoredCase, judgment: Judgment) -> dict[str, bool]:
    """Whether each guideline that pulled did so towards people's label."""
    sums: dict[str, float] = {}
    pulls: dict[str, bool] = {}
    for finding in judgment.findings:
        if finding.guideline is None:
            continue
        if finding.contribution is not None:
            sums[finding.guideline] = sums.get(finding.guideline, 0.0) + finding.contribution
        elif finding.value is not None:
            pulls[finding.guideline] = kind.agree(finding.value, case.label)
    return pulls | {name: _towards(kind, case, pull) for name, pull in sums.items() if abs(pull) >= LEAST}


def _towards(kind: ValueType, case: ScoredCase, pull: float) -> bool:
    """Whether the pull is towards people's label: of `float`, whether without it the score would be further away."""
    value = case.value  # contributions add up to this one
    if value is None:
        return False
    if kind.kind == "float":
        return abs(float(value) - pull - float(case.label)) > abs(float(value) - float(case.label))
    return (pull > 0) == kind.agree(value, case.label)


def _cases(evaluation: Evaluation) -> tuple[ReportedCase, ...]:
    content: dict[str, dict[str, str]] = {}
    words: dict[str, dict[str, str]] = {}
    for row in evaluation.rows:
        shown = {
            name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
            for name, value in row.content.items()
        }
        content.setdefault(row.id, shown)
        if row.rationale:
            words.setdefault(row.id, {})[row.source] = row.rationale
    return tuple(
        ReportedCase(
            id=case.id,
            label=value_text(case.label),
            value="" if case.value is None else value_text(case.value),
            correct=case.correct,
            content=content.get(case.id, {}),
            rationale=case.error or evaluation.judgments[case.id].rationale or "",
            people=words.get(case.id, {}),
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
    """A cell of a table: its text, whether it is good or bad news, and a share to draw."""

    text: str
    tone: str = ""
    bar: Estimate | None = None


class Section(NamedTuple):
    """A part of the page: paragraphs, a table, words to quote as they are, and cases under their titles."""

    title: str
    lines: Sequence[str] = ()
    head: Sequence[str] = ()
    rows: Sequence[Sequence[Cell]] = ()
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
    page = pages.get_template("report.html.jinja").render(
        title=_title(report),
        headline=_headline(report),
        sections=_sections(report),
        at=lambda value: round(100 * min(1.0, max(0.0, value)), 1),
        number=_number,
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
    lines = [f"# {_escaped(_title(report))}", "", f"**{_escaped(_headline(report))}**"]
    for section in _sections(report):
        lines += _markdown(section, "##")
    return "\n".join([*lines, ""])


def _markdown(section: Section, level: str) -> list[str]:
    lines = ["", f"{level} {_escaped(section.title)}", ""]
    lines += [f"> {_escaped(line)}" for line in section.quote.splitlines()]
    for line in section.lines:
        lines += [*([""] if lines[-1] else []), _escaped(line)]
    if section.rows:
        cells = [[_escaped(cell.text) for cell in row] for row in section.rows]
        table = (list(map(_escaped, section.head)), ["---"] * len(section.head), *cells)
        lines += [*([""] if lines[-1] else []), *(f"| {' | '.join(row)} |" for row in table)]
    for title, cases in section.errors:
        lines += ["", f"**{_escaped(title)}**", ""]
        for case in cases:
            words = case.people | ({"the judge": case.rationale} if case.rationale else {})
            fields = [*case.content.items(), *words.items()]
            lines += [
                f"- {_escaped(case.id)}",
                *(f"  - {_escaped(name)}: {_escaped(_short(text))}" for name, text in fields),
            ]
    for part in section.parts:
        lines += _markdown(part, f"{level}#")
    return lines


def _sections(report: Report) -> list[Section]:
    gate = report.gate
    criteria = gate and Section(f"The gate: {gate.outcome}", head=("", "criterion", "figure"), rows=_gate_rows(gate))
    return [
        Section("What it judges", [_cases_line(report)], quote=report.instructions.strip()),
        Section(
            "How often it agrees with people",
            _sentences(report),
            head=("", *map(_words, _metrics(report)), "", "ahead"),
            rows=_side_rows(report),
            parts=[criteria] if criteria else [],
        ),
        _where_it_errs(report),
        _lessons(report),
        Section("What it costs", [_cost(report)]),
    ]


def _title(report: Report) -> str:
    return f"{report.judge}: agreement with people"


def _cases_line(report: Report) -> str:
    measured = report.evaluation
    line = f"Model {report.model}, memory {measured.memory_hash[:12] or 'empty'}. "
    line += f"{measured.n} cases that the judge has not learned from."
    counts = (
        (measured.taught, "more in its memory, which do not count"),
        (measured.unscored, "without a verdict"),
        (measured.unlabelled, "without a label that counts"),
    )
    rest = ", ".join(f"{count} {words}" for count, words in counts if count)
    return f"{line} Not among them: {rest}." if rest else line


def _headline(report: Report) -> str:
    figure, n = report.evaluation.metrics[report.headline], report.evaluation.n
    if report.headline == "ccc":
        return f"Its scores agree with people's at {_figure(figure)} (CCC, 1 is perfect), on {n} cases."
    interval = "" if figure.low is None or figure.high is None else f" [{figure.low:.0%}, {figure.high:.0%}]"
    return f"It gives the people's label to {_percent(figure.value)}{interval} of {n} cases."


def _sentences(report: Report) -> list[str]:
    sentences = ["Intervals, in brackets, are at 95 %."]
    for side in report.sides[1:]:
        if side.ahead is None or side.ahead.value is None:
            continue
        verdict = {"ahead": "It is ahead of", "behind": "It is behind"}.get(
            side.verdict, "These cases do not tell it from"
        )
        sentences.append(f"{verdict} “{side.name}”: {_points(side.ahead)} ({_words(side.metric)}).")
    if report.people and report.people.same.value is not None:
        sentences.append(f"People give the same label in {_percent(report.people.same.value)} of pairs.")
    if report.more:
        sentences.append(f"About {report.more:,} labels more would bring the interval to 5 points either way.")
    if reason := report.evaluation.metrics[report.headline].no_interval:
        sentences.append(f"There is no interval: {reason}.")
    if report.calibration:
        sentences.append(
            f"Its confidence and the share right differ by {_number(report.calibration.error)} on average."
        )
    sentences.append(f"“Ahead” is the judge's {_words(report.sides[-1].metric)} less the other's.")
    return sentences


def _metrics(report: Report) -> list[str]:
    return [name for name in _COLUMNS if name in report.sides[0].metrics]


def _side_rows(report: Report) -> list[list[Cell]]:
    names = _metrics(report)
    rows = []
    for side in report.sides:
        figures = [Cell(_figure(side.metrics.get(name))) for name in names]
        tone = {"ahead": "good", "behind": "bad"}.get(side.verdict, "")
        ahead = Cell(_points(side.ahead), tone) if side.ahead else Cell("")
        rows.append([Cell(side.name), *figures, Cell("", bar=side.metrics.get(report.headline)), ahead])
    if report.people:
        alpha = "" if report.people.alpha is None else f"; alpha {_number(report.people.alpha)}"
        same = Cell(f"{_figure(report.people.same)} of {report.people.pairs} pairs{alpha}")
        rest = [Cell("")] * (len(names) - 1)
        rows.append([Cell("people with each other"), same, *rest, Cell("", bar=report.people.same), Cell("")])
    return rows


def _gate_rows(gate: GateResult) -> list[list[Cell]]:
    tones = {"pass": "good", "worse": "bad"}
    return [
        [Cell(criterion.outcome, tones.get(criterion.outcome, "")), Cell(criterion.demand), Cell(criterion.why)]
        for criterion in gate.criteria
    ]


def _where_it_errs(report: Report) -> Section:
    """How labels and verdicts meet, the commonest errors with cases, and the parts of the cases."""
    measured = report.evaluation
    names = [value_text(label) for label in measured.labels]
    lines, head, rows = [], [], list[list[Cell]]()
    if measured.confusion and len(names) <= _MATRIX:
        head = ["people ↓ judge →", *names]
        for row, counts in enumerate(measured.confusion):
            cells = [Cell(str(n), "bad" if n and column != row else "") for column, n in enumerate(counts)]
            rows.append([Cell(names[row]), *cells])
    errors = _errors(report)
    if not errors:
        lines.append("On these cases it gives the people's label every time.")
    if len(errors) > _ERRORS:
        lines.append(f"The {_ERRORS} commonest errors are below; the JSON report has every case.")
    comparison = measured.comparison
    for title, ids in () if comparison is None else (("Fixed", comparison.fixed), ("Broken", comparison.broken)):
        if ids:
            more = f" and {len(ids) - _LISTED} more" if len(ids) > _LISTED else ""
            lines.append(f"{title} against “{report.sides[1].name}”: {', '.join(ids[:_LISTED])}{more}.")
    return Section("Where judge and people differ", lines, head, rows, errors=errors[:_ERRORS], parts=_parts(report))


def _parts(report: Report) -> list[Section]:
    if not report.slices:
        return []
    score = report.headline == "ccc"
    rows = [
        [
            Cell(part.of),
            Cell(part.name),
            Cell(str(part.n)),
            Cell(_figure(part.figure)),
            Cell("", bar=None if score else part.figure),
        ]
        for part in report.slices[:_LISTED]
    ]
    more = len(report.slices) - _LISTED
    lines = [f"{more} smaller parts are in the JSON report."] if more > 0 else []
    return [Section("By part", lines, ("", "", "cases", "mean error" if score else "right", ""), rows)]


def _errors(report: Report) -> list[tuple[str, list[ReportedCase]]]:
    """Three cases of each kind of error, the commonest first; of numbers the three that differ most."""
    places = {case.id: place for place, case in enumerate(report.evaluation.disagreements)}
    wrong = sorted((case for case in report.cases if case.id in places), key=lambda case: places[case.id])
    if not report.evaluation.labels or len(report.evaluation.labels) > _MATRIX:
        return [(f"{len(wrong)} cases, those that differ most", wrong[:_EXAMPLES])] if wrong else []
    kinds: dict[tuple[str, str], list[ReportedCase]] = {}
    for case in wrong:
        kinds.setdefault((case.label, case.value), []).append(case)
    return [
        (f"People say {label}, the judge says {value}: {len(cases)}", cases[:_EXAMPLES])
        for (label, value), cases in sorted(kinds.items(), key=lambda kind: -len(kind[1]))
    ]


def _lessons(report: Report) -> Section:
    if not report.guidelines:
        return Section("What people taught it", ["Nobody has taught it anything: it has no guidelines."])
    used = sorted(report.guidelines, key=lambda guideline: -guideline.cases)
    rows = []
    for guideline in used[:_LISTED]:
        sources = ", ".join(guideline.taught_by[:3])
        more = f" and {len(guideline.taught_by) - 3} more" if len(guideline.taught_by) > 3 else ""
        counts = (guideline.cases, guideline.right, guideline.wrong)
        rows.append([Cell(guideline.id), Cell(guideline.text), Cell(sources + more), *(Cell(str(n)) for n in counts)])
    lines = ["“Towards” and “away” count cases where a guideline pulled to the people's label, or from it."]
    if len(used) > _LISTED:
        lines.append(f"{len(used) - _LISTED} guidelines that applied more rarely are in the JSON report.")
    return Section("What people taught it", lines, ("", "guideline", "taught by", "cases", "towards", "away"), rows)


def _cost(report: Report) -> str:
    seconds = "" if report.seconds is None else f"A judgment takes {report.seconds:.2g} s in the median. "
    if report.dollars is None:
        return f"{seconds}What it costs is not known."
    return f"{seconds}1,000 cost ${1000 * report.dollars:.2f}."


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.2f}"


def _percent(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.0%}"


def _points(figure: Estimate) -> str:
    if figure.value is None:
        return "n/a"
    low, high = figure.low, figure.high
    interval = "" if low is None or high is None else f" [{100 * low:+.1f}, {100 * high:+.1f}]"
    return f"{100 * figure.value:+.1f} points{interval}"


def _words(name: str) -> str:
    return {"ccc": "CCC", "mae": "mean error"}.get(name, name.replace("_", " "))


def _figure(figure: Estimate | None) -> str:
    if figure is None or figure.value is None:
        return "n/a"
    interval = "" if figure.low is None or figure.high is None else f" [{figure.low:.2f}, {figure.high:.2f}]"
    return f"{figure.value:.2f}{interval}"


def _short(text: str) -> str:
    return text if len(text) <= _LONG else f"{text[:_LONG]} … ({len(text) - _LONG:,} characters more)"


def _escaped(text: str) -> str:
    """Text from data as a line or a cell of Markdown, in which no character is markup."""
    return " ".join(re.sub(r"([\\`*_{}\[\]<>|#!~])", r"\\\1", text).split())
