"""A page that an engineer sends to a manager: how far a judge agrees with people, where it errs, what it costs.

The page is gathered once, as parts with sentences, tables and cases; HTML and Markdown are two ways to write them.
"""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

from memalign.content import as_read
from memalign.errors import InputError
from memalign.evaluation.agreement import Evaluation, measure
from memalign.evaluation.cases import ScoredCase, annotations_by_case, estimate, labels_by_source, labels_of_several
from memalign.evaluation.comparison import compare
from memalign.evaluation.criteria import GateResult
from memalign.evaluation.feedback_review import agreement_of_people
from memalign.evaluation.intervals import share_interval
from memalign.metrics import Estimate
from memalign.types import as_json
from memalign.values import Value, ValueType, value_text

if TYPE_CHECKING:
    from memalign.judge import Judge

__all__ = ["Report", "ReportedCase", "Section", "as_html", "as_markdown", "report"]

_WIDTH = 0.05  # half of the interval that settles most questions
_FEWEST = 5  # cases of a part that is a row
_LISTED = 12  # rows of a table, or ids on a line
_ERRORS, _EXAMPLES = 4, 3  # kinds of error on the page, and cases of each
_MATRIX = 12  # labels from which on a table of all their pairs is no help
_LONG = 400  # characters of a field
_VERDICTS = {"ahead": "It is better than", "behind": "It is worse than", "tied": "It does not clearly differ from"}


@dataclass(frozen=True, slots=True)
class ReportedCase:
    """A case as a reader needs it: what was judged, both verdicts, and the words of everybody."""

    id: str
    label: str
    value: str
    content: dict[str, str]
    words: dict[str, str]


_BRACKETS = "The figures in brackets are 95% intervals. A row “always …” is a judge that looks at nothing."
_KAPPA = "Kappa is the agreement beyond chance: 1 is perfect, 0 is chance."
Row = Sequence[str | Estimate]
"""The cells of a row; an estimate is a share, and drawn as a bar."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page: words to quote as they are, sentences, a table, and cases under their titles."""

    title: str
    lines: Sequence[str] = ()
    head: Sequence[str] = ()
    rows: Sequence[Row] = ()
    quote: str = ""
    errors: Sequence[tuple[str, Sequence[ReportedCase]]] = ()


@dataclass(frozen=True, kw_only=True)
class Report:
    """All that a page shows.

    Attributes:
        title: Whose agreement it is.
        headline: The sentence to remember.
        sections: The parts, in the order in which a reader asks.
        cases: Every case with its texts; the page has some of them.
        evaluation: The figures.
    """

    title: str
    headline: str
    sections: tuple[Section, ...]
    cases: tuple[ReportedCase, ...]
    evaluation: Evaluation

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain JSON values."""
        names = ("title", "headline", "sections", "cases")
        plain = {name: as_json(getattr(self, name)) for name in names}
        return plain | {"evaluation": self.evaluation.to_dict()}


def report(
    judge: Judge, evaluation: Evaluation, *, against: str = "the other judge", gate: GateResult | None = None
) -> Report:
    """Gather what an evaluation shows. No model is asked.

    Args:
        judge: The judge that was measured.
        evaluation: What `evaluate(judge, labelled, unseen=True)` returned, with `against` for a second row.
        against: What the other judge is called.
        gate: What a gate decided on the same evaluation.

    Returns:
        The page, which `as_html` and `as_markdown` write.

    Raises:
        InputError: No case has a verdict.
    """
    if not evaluation.n:
        error = next((case.error for case in evaluation.cases if case.error), "")
        raise InputError(f"no case has a verdict: {error}")
    cases = _reported_cases(evaluation)
    return Report(
        title=f"{judge.name}: agreement with people",
        headline=_headline(evaluation),
        sections=(
            _task(judge, evaluation),
            _agreement(judge, evaluation, against),
            *([] if gate is None else [_gate(gate)]),
            _where_it_errs(evaluation, cases, against),
            *_by_part(judge.value_type, evaluation),
            _guidelines(judge, evaluation),
            Section("What it costs", [_cost(evaluation)]),
        ),
        cases=tuple(cases.values()),
        evaluation=evaluation,
    )


# -- the parts -------------------------------------------------------------------------------------------------------


def _headline(evaluation: Evaluation) -> str:
    if "accuracy" not in evaluation.metrics:
        figure = evaluation.metrics["ccc"]
        return f"Its scores agree with people's at {figure:.2f} (CCC, 1 is perfect), on {evaluation.n} cases."
    figure, right = evaluation.metrics["accuracy"], sum(bool(case.correct) for case in evaluation.cases)
    return f"It gives the people's label in {right} of {evaluation.n} cases: {figure:.0%}."


def _task(judge: Judge, evaluation: Evaluation) -> Section:
    memory = evaluation.memory_hash[:12] or "empty"
    lines = [f"It answers with {judge.value_type.allowed}. Model {evaluation.model}, memory {memory}."]
    counts = (
        (evaluation.taught, "more in its memory, which do not count"),
        (evaluation.unscored, "without a verdict"),
        (evaluation.unlabelled, "without a label that counts"),
    )
    others = ", ".join(f"{count} {words}" for count, words in counts if count)
    lines.append(f"It had learned from none of the {evaluation.n} cases{f'. Not among them: {others}' * bool(others)}.")
    return Section("What it judges", lines, quote=judge.instructions.strip())


def _agreement(judge: Judge, evaluation: Evaluation, against: str) -> Section:
    """The judge beside the other judge and one answer to every case, and how far people agree with each other."""
    names = list(evaluation.metrics)
    lines = [_BRACKETS, *([_KAPPA] if "kappa" in names else [])]
    rows: list[Row] = [[judge.name, *_figures(evaluation.metrics), ""]]
    for name, cases in _other_sides(judge.value_type, evaluation, against).items():
        comparison = compare(cases, evaluation.cases)
        ahead, metric = comparison.differences[comparison.metric], _words(comparison.metric)
        metrics = {"accuracy_own": Estimate(value=None)} | measure(judge.value_type, cases)
        rows.append([name, *_figures({n: metrics[n] for n in names}), _points(ahead)])
        if ahead.value is not None:
            lines.append(f"{_VERDICTS[comparison.verdict]} “{name}”: {_points(ahead)} ({metric}).")
    if shared := labels_of_several(annotations_by_case(evaluation.rows).values()):
        same, alpha = _agreement_of_pairs(shared, judge.value_type), agreement_of_people(shared, judge.value_type)
        rows.append(["people with each other", same, *[""] * len(names)])
        lines.append(f"Two people who label the same case agree in {same:.0%} of pairs, on {len(shared)} cases.")
        lines += [] if alpha is None else [f"Their alpha is {alpha:.2f} (1 is perfect, 0 is chance)."]
    figure = evaluation.metrics[names[0]]
    if figure.no_interval:
        lines.append(f"There is no interval, because {figure.no_interval}.")
    elif figure.low is not None and figure.high is not None:
        more = math.ceil(evaluation.n * (((figure.high - figure.low) / 2 / _WIDTH) ** 2 - 1))
        lines += [f"About {more:,} more labels would narrow the interval to 5 points either way."] if more > 0 else []
    head = ("", *map(_words, names), "ahead by")
    return Section("How often it agrees with people", lines, head, rows)


def _gate(gate: GateResult) -> Section:
    rows = [(criterion.outcome, criterion.demand, criterion.why) for criterion in gate.criteria]
    return Section(f"The gate: {gate.outcome}", head=("outcome", "criterion", "figure"), rows=rows)


def _agreement_of_pairs(shared: Sequence[Sequence[Value]], value_type: ValueType) -> Estimate:
    """The share of pairs of labels that agree; the pairs of one case count as one group."""
    cases = [str(number) for number, values in enumerate(shared) for _ in combinations(values, 2)]
    same = [value_type.agree(*pair) for values in shared for pair in combinations(values, 2)]
    return estimate(sum(same) / len(same), cases, lambda: share_interval(same, cases))


def _figures(metrics: dict[str, Estimate]) -> list[str | Estimate]:
    """The first figure to be drawn, the others in words, whose intervals are not broken over two lines."""
    first, *others = metrics.values()
    return [first, *(f"{figure:.2f}".replace(", ", ",\N{NO-BREAK SPACE}") for figure in others)]


def _other_sides(value_type: ValueType, evaluation: Evaluation, against: str) -> dict[str, tuple[ScoredCase, ...]]:
    """The other judge's cases, and those of the answer that is best for a judge that does not look."""
    labels = [case.label for case in evaluation.cases]
    constant: Value = Counter(labels).most_common(1)[0][0]
    if value_type.kind == "float":
        constant = statistics.median(map(float, labels))
    always = tuple(replace(case, value=constant, own=None, error=None) for case in evaluation.cases)
    base = evaluation.base
    sides = {} if base is None or not base.n else {against: base.cases}
    return sides | {f"always {value_text(constant)}": always}


def _where_it_errs(evaluation: Evaluation, cases: dict[str, ReportedCase], against: str) -> Section:
    """How labels and verdicts meet, and the commonest errors with cases."""
    names = [value_text(label) for label in evaluation.labels]
    lines, head, rows = list[str](), list[str](), list[Row]()
    if evaluation.confusion and len(names) <= _MATRIX:
        head = ["people ↓ judge →", *names]
        rows += [[name, *map(str, counts)] for name, counts in zip(names, evaluation.confusion, strict=True)]
    errors = _errors([cases[case.id] for case in evaluation.disagreements], by_kind=0 < len(names) <= _MATRIX)
    if not errors:
        lines.append("On these cases it always gives the people's label.")
    if len(errors) > _ERRORS:
        lines.append(f"The {_ERRORS} most frequent errors are below; the JSON report has every case.")
    if evaluation.comparison is not None:
        ids = {"Fixed": evaluation.comparison.fixed, "Broken": evaluation.comparison.broken}
        lines += [
            f"{title} against “{against}”: {len(ids[title])} ({_first(ids[title], _LISTED)})."
            for title in ids
            if ids[title]
        ]
    return Section("Where it errs", lines, head, rows, errors=errors[:_ERRORS])


def _errors(wrong: Sequence[ReportedCase], *, by_kind: bool) -> list[tuple[str, list[ReportedCase]]]:
    """Three cases of every kind of error, the commonest first; of numbers the three that differ most."""
    if not by_kind:
        return [(f"{len(wrong)} cases with the largest differences", list(wrong[:_EXAMPLES]))] if wrong else []
    kinds: defaultdict[tuple[str, str], list[ReportedCase]] = defaultdict(list)
    for case in wrong:
        kinds[case.label, case.value].append(case)
    return [
        (f"People say {label}, the judge says {value}: {len(alike)}", alike[:_EXAMPLES])
        for (label, value), alike in sorted(kinds.items(), key=lambda kind: -len(kind[1]))
    ]


def _by_part(value_type: ValueType, evaluation: Evaluation) -> list[Section]:
    """The figure by label, group and source, where two of a kind have cases enough; a source's have its own labels."""
    annotations, score = annotations_by_case(evaluation.rows), value_type.kind == "float"
    parts: dict[str, dict[str, list[ScoredCase]]] = {"label": {}, "group": {}, "source": {}}
    for case in evaluation.cases:
        if case.value is None:
            continue
        if value_type.closed and not score:
            parts["label"].setdefault(value_text(case.label), []).append(case)
        if case.group:
            parts["group"].setdefault(case.group, []).append(case)
        for source, label in labels_by_source(annotations[case.id]).items():
            parts["source"].setdefault(source, []).append(replace(case, label=label))
    rows: list[Row] = []
    for kind, by_name in parts.items():
        for name, alike in sorted(by_name.items(), key=lambda part: (-len(part[1]), part[0])):
            if len(by_name) > 1 and len(alike) >= _FEWEST:
                metrics = measure(value_type, alike)
                figure = f"{metrics['mae']:.2f}" if score else metrics["accuracy"]
                rows.append([f"{kind} {name}", str(len(alike)), figure])
    lines = [f"{len(rows) - _LISTED} smaller parts are left out."] if len(rows) > _LISTED else []
    return [Section("By part", lines, ("", "cases", "mean error" if score else "right"), rows[:_LISTED])] * bool(rows)


def _guidelines(judge: Judge, evaluation: Evaluation) -> Section:
    """The guidelines with the people behind them, on how many cases they applied, and how often the judge was right."""
    title = "What people taught it"
    if not judge.memory.semantic:
        return Section(title, ["Nobody has taught it anything yet, so it has no guidelines."])
    applied, right = Counter[str](), Counter[str]()
    for case in evaluation.cases:
        if case.value is not None:
            judgment = evaluation.judgments[case.id]
            answered = [finding.guideline for finding in judgment.findings if finding.answer == "yes"]
            names = {name for name in (*judgment.guideline_ids, *answered) if name is not None}
            applied.update(names)
            right.update(names if case.correct else ())
    used = sorted(judge.memory.semantic, key=lambda guideline: -applied[guideline.id])
    sources = [Counter(key.source for key in judge.memory.sources_of(guideline)) for guideline in used]
    rows = [
        [
            guideline.id,
            guideline.text,
            ", ".join(f"{name} ({count})" for name, count in people.most_common(_EXAMPLES)),
            str(applied[guideline.id]),
            str(right[guideline.id]),
        ]
        for guideline, people in list(zip(used, sources, strict=True))[:_LISTED]
    ]
    lines = [
        "“Taught by” counts comments. “Applied” counts the cases to which the guideline applied, "
        "and “right” those among them on which the judge gave the people's label."
    ]
    if len(used) > _LISTED:
        lines.append(f"{len(used) - _LISTED} guidelines that applied less often are left out.")
    return Section(title, lines, ("", "guideline", "taught by", "applied", "right"), rows)


def _cost(evaluation: Evaluation) -> str:
    usages = [judgment.usage for judgment in evaluation.judgments.values() if judgment.error is None]
    costs = [usage.cost for usage in usages if usage.cost is not None]
    median = statistics.median(sum(usage.seconds.values()) for usage in usages)
    time = f"Half of the judgments take less than {max(median, 0.1):.1f} s. " if median else ""
    if not costs:
        return f"{time}Their cost is unknown."
    return f"{time}1,000 judgments cost ${1000 * statistics.fmean(costs):,.2f}."


def _reported_cases(evaluation: Evaluation) -> dict[str, ReportedCase]:
    annotations = annotations_by_case(evaluation.rows)
    cases = {}
    for case in evaluation.cases:
        content = annotations[case.id][0].content
        reason = case.error or evaluation.judgments[case.id].rationale
        words = {row.source: row.rationale for row in annotations[case.id] if row.rationale}
        cases[case.id] = ReportedCase(
            id=case.id,
            label=value_text(case.label),
            value="" if case.value is None else value_text(case.value),
            content={name: as_read(name, value) for name, value in content.items()},
            words=words | ({"the judge": reason} if reason else {}),
        )
    return cases


def _first(names: Sequence[str], most: int) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _points(figure: Estimate) -> str:
    if figure.value is None:
        return "n/a"
    low, high = figure.low, figure.high
    interval = "" if low is None or high is None else f" [{100 * low:+.1f},\N{NO-BREAK SPACE}{100 * high:+.1f}]"
    return f"{100 * figure.value:+.1f} points{interval}"


def _words(name: str) -> str:
    names = {"ccc": "CCC", "mae": "mean error", "accuracy_own": "accuracy of its model alone"}
    return names.get(name, name.replace("_", " "))


# -- the page ----------------------------------------------------------------------------------------------------------


def as_html(report: Report) -> str:
    """Write the report as one HTML file that needs no network and no script.

    Args:
        report: What `report` gathered.

    Returns:
        The page.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    pages = Environment(
        loader=PackageLoader("memalign", "evaluation"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    template = pages.get_template("report.html.jinja")
    return template.render(report=report, at=lambda value: round(100 * min(1.0, max(0.0, value)), 1), short=_short)


def as_markdown(report: Report) -> str:
    """Write the report as Markdown, with the same parts in the same order as `as_html`.

    Args:
        report: What `report` gathered.

    Returns:
        The text.
    """
    lines = [f"# {_escaped(report.title)}", "", f"**{_escaped(report.headline)}**"]
    for section in report.sections:
        lines += _markdown(section)
    return "\n".join([*lines, ""])


def _markdown(section: Section) -> list[str]:
    blocks = [[f"## {_escaped(section.title)}"], [f"> {_escaped(line)}" for line in section.quote.splitlines()]]
    blocks += [[_escaped(line)] for line in section.lines]
    if section.rows:
        texts = [[cell if isinstance(cell, str) else f"{cell:.2f}" for cell in row] for row in section.rows]
        head, *cells = [[_escaped(text) for text in row] for row in (section.head, *texts)]
        blocks.append([f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *cells)])
    for title, cases in section.errors:
        blocks.append([f"**{_escaped(title)}**"])
        for case in cases:
            fields = [*case.content.items(), *case.words.items()]
            texts_of_case = [f"  - {_escaped(name)}: {_escaped(_short(text))}" for name, text in fields]
            blocks.append([f"- {_escaped(case.id)}", *texts_of_case])
    return [line for block in blocks if block for line in ("", *block)]


def _short(text: str) -> str:
    return text if len(text) <= _LONG else f"{text[:_LONG]} … ({len(text) - _LONG:,} characters more)"


def _escaped(text: str) -> str:
    """Text from data as a line or a cell of Markdown, in which no character is markup."""
    return " ".join(re.sub(r"([\\`*_{}\[\]<>|#!~])", r"\\\1", text).split())
