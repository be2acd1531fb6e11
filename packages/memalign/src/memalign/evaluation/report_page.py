"""A page that an engineer sends to a manager: how far a judge agrees with people, where it errs, what it costs.

The page is gathered once, as parts with sentences, tables and cases; HTML and Markdown are two ways to write them.
"""

from __future__ import annotations

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
from memalign.evaluation.cases import (
    ScoredCase,
    annotations_by_case,
    estimate,
    labels_by_source,
    labels_of_several,
)
from memalign.evaluation.criteria import GateResult
from memalign.evaluation.feedback_review import agreement_of_people
from memalign.evaluation.intervals import share_interval
from memalign.evaluation.sentences import percent
from memalign.keys import first_spellings
from memalign.metrics import Estimate
from memalign.types import as_json
from memalign.values import Value, ValueType, value_text

if TYPE_CHECKING:
    from memalign.judge import Judge

__all__ = ["Report", "ReportedCase", "Section", "as_html", "as_markdown", "report"]

_LISTED = 12  # guidelines
_ERRORS, _EXAMPLES = 4, 3  # kinds of error on the page, and cases of each
_LONG = 400  # characters of a field
_VERDICTS = {
    "ahead": "It is better than",
    "behind": "It is worse than",
    "tied": "It does not clearly differ from",
}
_BRACKETS = "The figures in brackets are 95% intervals."
_KAPPA = "Kappa is the agreement beyond chance: 1 is perfect, 0 is chance."
_TAUGHT = "“Taught by” counts comments, and “applied” the cases to which the guideline applied."

Row = Sequence[str | Estimate]
"""The cells of a row; an estimate is a share, and drawn as a bar."""


@dataclass(frozen=True, slots=True)
class ReportedCase:
    """A case as a reader needs it: what was judged, both verdicts, and the words of everybody."""

    id: str
    label: str
    value: str
    content: dict[str, str]
    words: dict[str, str]


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
    judge: Judge,
    evaluation: Evaluation,
    *,
    against: str = "the other judge",
    gate: GateResult | None = None,
) -> Report:
    """Gather what `as_html` and `as_markdown` write of an evaluation. No model is asked.

    Args:
        judge: The judge that was measured.
        evaluation: The result of `evaluate(judge, labelled)`, with `against` for a second row.
        against: What the other judge is called.
        gate: What a gate decided on the same evaluation.

    Raises:
        InputError: No case has a verdict.
    """
    if not evaluation.n:
        error = next((case.error for case in evaluation.cases if case.error), "")
        raise InputError(f"no case has a verdict: {error}")
    cases = _reported_cases(evaluation)
    headline, *others = evaluation.sentences()
    return Report(
        title=f"{judge.name}: agreement with people",
        headline=headline,
        sections=(
            Section("In short", others),
            _task(judge, evaluation),
            _agreement(judge, evaluation, against),
            *_passing(evaluation),
            _where_it_errs(evaluation, cases),
            _guidelines(judge, evaluation),
            Section("What it costs", [_cost(evaluation)]),
            *(
                []
                if gate is None
                else [Section(f"The gate: {gate.outcome}", str(gate).splitlines()[1:])]
            ),
        ),
        cases=tuple(cases.values()),
        evaluation=evaluation,
    )


# -- the parts -------------------------------------------------------------------------------------------------------


def _passing(evaluation: Evaluation) -> list[Section]:
    """What passes without a person, where somebody asked for a promise."""
    if evaluation.promise is None or not evaluation.thresholds:
        return []
    rows: list[Row] = []
    for step in evaluation.thresholds:
        if step.n:
            left = f"{percent(1 - step.share)}"
            rows.append(
                [
                    step.label or "any verdict",
                    f"{step.at:g}",
                    percent(step.share),
                    step.agreement,
                    left,
                ]
            )
    head = ("", "confidence from", "passes", "people agree", "left for people")
    return [Section("What may pass without a person", (), head, rows)]


def _task(judge: Judge, evaluation: Evaluation) -> Section:
    memory = evaluation.memory_hash[:12] or "empty"
    lines = [
        f"It answers with {judge.value_type.allowed}. Model {evaluation.model_text}, memory {memory}."
    ]
    counts = (
        (evaluation.taught, "that were taught and are left out of every figure"),
        (evaluation.unscored, "without a verdict"),
        (evaluation.unlabelled, "without a label that counts"),
    )
    others = ", ".join(f"{count} {words}" for count, words in counts if count)
    lines.append(
        f"It had learned from none of the {evaluation.n} cases{f'. Not among them: {others}' * bool(others)}."
    )
    return Section("What it judges", lines, quote=judge.instructions.strip())


def _agreement(judge: Judge, evaluation: Evaluation, against: str) -> Section:
    """The judge beside the other judge, by person, and how far people agree with each other."""
    kind, names, base = judge.value_type, list(evaluation.metrics), evaluation.base
    lines = [_BRACKETS, *([_KAPPA] if "kappa" in names else [])]
    rows: list[Row] = [[judge.name, *_figures(evaluation.metrics)]]
    if base is not None and (comparison := evaluation.comparison) is not None:
        rows.append([against, *_figures(base.metrics)])
        low, high = comparison.difference.low, comparison.difference.high
        interval = "" if low is None or high is None else f" [{100 * low:+.1f}, {100 * high:+.1f}]"
        points = f"{100 * (comparison.difference.value or 0):+.1f} points{interval}"
        lines.append(f"{_VERDICTS[comparison.verdict]} “{against}”: {points} of accuracy.")
    annotations = annotations_by_case(evaluation.rows)
    person = first_spellings(row.source for row in evaluation.rows)
    by_source: dict[str, list[ScoredCase]] = {}
    for case in evaluation.cases:
        for source, label in labels_by_source(annotations[case.id]).items():
            by_source.setdefault(person[source], []).append(replace(case, label=label))
    for source, cases in sorted(by_source.items()) if len(by_source) > 1 else ():
        rows.append([f"with {source} alone", *_figures(measure(kind, cases))])
    if shared := labels_of_several(annotations.values()):
        same, alpha = _agreement_of_pairs(shared, kind), agreement_of_people(shared, kind)
        rows.append(["people with each other", same, *[""] * (len(names) - 1)])
        lines.append(
            f"Two people who label the same case agree in {same:.0%} of pairs, on {len(shared)} cases."
        )
        lines += (
            [] if alpha is None else [f"Their alpha is {alpha:.2f} (1 is perfect, 0 is chance)."]
        )
    if (why := evaluation.metrics["accuracy"].no_interval) is not None:
        lines.append(f"There is no interval, because {why}.")
    head = ("", *("CCC" if name == "ccc" else name.replace("_", " ") for name in names))
    return Section("How often it agrees with people", lines, head, rows)


def _agreement_of_pairs(shared: Sequence[Sequence[Value]], value_type: ValueType) -> Estimate:
    """The share of pairs of labels that agree; the pairs of one case count as one group."""
    cases = [str(number) for number, values in enumerate(shared) for _ in combinations(values, 2)]
    same = [value_type.agree(*pair) for values in shared for pair in combinations(values, 2)]
    return estimate(sum(same) / len(same), cases, lambda: share_interval(same, cases))


def _figures(metrics: dict[str, Estimate]) -> list[str | Estimate]:
    """The first figure to be drawn, the others in words, whose intervals are not broken over two lines."""
    first, *others = metrics.values()
    return [first, *(f"{figure:.2f}".replace(", ", ",\N{NO-BREAK SPACE}") for figure in others)]


def _where_it_errs(evaluation: Evaluation, cases: dict[str, ReportedCase]) -> Section:
    """How labels and verdicts meet, and three cases of every kind of error, the commonest first."""
    names = [value_text(label) for label in evaluation.labels]
    head = ["people ↓ judge →", *names] if names else []
    rows = [
        [name, *map(str, counts)] for name, counts in zip(names, evaluation.confusion, strict=True)
    ]
    kinds: defaultdict[str, list[ReportedCase]] = defaultdict(list)
    for wrong in evaluation.disagreements:
        case = cases[wrong.id]
        kinds[
            f"People say {case.label}, the judge says {case.value}"
            if names
            else "The largest differences"
        ].append(case)
    errors = sorted(kinds.items(), key=lambda kind: -len(kind[1]))
    lines = [] if errors else ["On these cases it always gives the people's label."]
    if len(errors) > _ERRORS:
        lines.append(
            f"The {_ERRORS} most frequent errors are below; the JSON report has every case."
        )
    commonest = [(f"{title}: {len(alike)}", alike[:_EXAMPLES]) for title, alike in errors[:_ERRORS]]
    return Section("Where it errs", lines, head, rows, errors=commonest)


def _guidelines(judge: Judge, evaluation: Evaluation) -> Section:
    """The guidelines with the people behind them, those that applied most often first."""
    title = "What people taught it"
    if not judge.memory.semantic:
        return Section(title, ["Nobody has taught it anything yet, so it has no guidelines."])
    applied = Counter(
        name for judgment in evaluation.judgments.values() for name in judgment.guideline_ids
    )
    used = sorted(judge.memory.semantic, key=lambda guideline: -applied[guideline.id])
    rows = []
    for guideline in used[:_LISTED]:
        keys = judge.memory.sources_of(guideline)
        person = first_spellings(key.source for key in keys)
        people = Counter(person[key.source] for key in keys).most_common(_EXAMPLES)
        taught_by = ", ".join(f"{name} ({count})" for name, count in people)
        rows.append([guideline.id, guideline.text, taught_by, str(applied[guideline.id])])
    rest = len(used) - _LISTED
    lines = [
        _TAUGHT,
        *([f"{rest} guidelines that applied less often are left out."] if rest > 0 else []),
    ]
    return Section(title, lines, ("", "guideline", "taught by", "applied"), rows)


def _cost(evaluation: Evaluation) -> str:
    usages = [
        judgment.usage for judgment in evaluation.judgments.values() if judgment.error is None
    ]
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
        reason = case.error or evaluation.judgments[case.id].rationale
        words = {row.source: row.rationale for row in annotations[case.id] if row.rationale}
        cases[case.id] = ReportedCase(
            id=case.id,
            label=value_text(case.label),
            value="" if case.value is None else value_text(case.value),
            content={
                name: as_read(name, value)
                for name, value in annotations[case.id][0].content.items()
            },
            words=words | ({"the judge": reason} if reason else {}),
        )
    return cases


# -- the page ----------------------------------------------------------------------------------------------------------


def as_html(report: Report) -> str:
    """Write the report as one HTML file that needs no network and no script.

    Args:
        report: What `report` gathered.

    Returns:
        The page.
    """
    from jinja2 import Environment, PackageLoader

    pages = Environment(
        loader=PackageLoader("memalign", "evaluation"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    template = pages.get_template("report.html.jinja")
    return template.render(
        report=report,
        at=lambda value: round(100 * min(1.0, max(0.0, value)), 1),
        short=_short,
        whole=_whole,
    )


def _whole(text: str) -> str:
    """Keep a number and its sign on one line."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%").replace(
        "n = ", "n\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}"
    )


def as_markdown(report: Report) -> str:
    """Write the report as Markdown, with the same parts in the same order as `as_html`.

    Args:
        report: What `report` gathered.

    Returns:
        The text.
    """
    blocks = [[f"# {_escaped(report.title)}"], [f"**{_escaped(report.headline)}**"]]
    for section in report.sections:
        blocks += [
            [f"## {_escaped(section.title)}"],
            [f"> {_escaped(line)}" for line in section.quote.splitlines()],
        ]
        blocks += [[_escaped(line)] for line in section.lines]
        if section.rows:
            texts = [
                [cell if isinstance(cell, str) else f"{cell:.2f}" for cell in row]
                for row in section.rows
            ]
            head, *cells = [[_escaped(text) for text in row] for row in (section.head, *texts)]
            blocks.append([f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *cells)])
        for title, cases in section.errors:
            blocks.append([f"**{_escaped(title)}**"])
            for case in cases:
                fields = (*case.content.items(), *case.words.items())
                parts = [f"  - {_escaped(name)}: {_escaped(_short(text))}" for name, text in fields]
                blocks.append([f"- {_escaped(case.id)}", *parts])
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _short(text: str) -> str:
    return (
        text if len(text) <= _LONG else f"{text[:_LONG]} … ({len(text) - _LONG:,} characters more)"
    )


def _escaped(text: str) -> str:
    """Text from data as a line or a cell of Markdown, in which no character is markup."""
    return " ".join(re.sub(r"([\\`*_{}\[\]<>|#!~])", r"\\\1", text).split())
