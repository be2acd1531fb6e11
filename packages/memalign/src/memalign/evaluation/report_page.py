"""A page that an engineer sends to a manager: how far a judge agrees with people, and at what cost.

The page is gathered once, as parts with sentences, tables and cases; two templates write it as HTML
and as Markdown.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

from memalign.content import as_read
from memalign.errors import InputError
from memalign.evaluation.agreement import Evaluation, measure
from memalign.evaluation.cases import (
    ScoredCase,
    annotations_by_case,
    labels_by_source,
    labels_of_several,
)
from memalign.evaluation.criteria import GateResult
from memalign.evaluation.feedback_review import agreement_of_people
from memalign.evaluation.intervals import estimate_mean, share_interval
from memalign.evaluation.sentences import PASSING, passing_rows
from memalign.keys import first_spellings
from memalign.metrics import Estimate
from memalign.types import as_json
from memalign.values import Value, ValueType, value_text

if TYPE_CHECKING:
    from memalign.judge import Judge

__all__ = ["Report", "ReportedCase", "Section", "as_html", "as_markdown", "report"]

_LISTED = 12  # guidelines
_ERRORS = 4  # kinds of error on the page
_EXAMPLES = 3  # cases of each
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
"""The cells of a row; a share is drawn as a bar."""


@dataclass(frozen=True, slots=True)
class ReportedCase:
    """A case as a reader needs it: what was judged, both verdicts, and the words of everybody."""

    id: str
    label: str
    value: str
    content: dict[str, str]
    words: dict[str, str]

    @property
    def texts(self) -> dict[str, str]:
        """The content and the words of everybody, by name."""
        return self.content | self.words


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page: words to quote, sentences, a table, and cases under their titles."""

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
        """Return all of it as plain JSON values."""
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
        errors = [case.error for case in evaluation.cases if case.error]
        raise InputError(f"no case has a verdict: {''.join(errors[:1])}")
    cases = _reported_cases(evaluation)
    headline, *others = evaluation.sentences()
    sections = [
        Section("In short", others),
        _task(judge, evaluation),
        _agreement(judge, evaluation, against),
    ]
    if evaluation.promise is not None and evaluation.thresholds:
        rows = passing_rows(evaluation)
        sections.append(Section("What may pass without a person", (), PASSING, rows))
    sections += [
        _where_it_errs(evaluation, cases),
        _guidelines(judge, evaluation),
        Section("What it costs", [_cost(evaluation)]),
    ]
    if gate is not None:
        sections.append(
            Section(f"The gate: {gate.outcome}", str(gate).splitlines()[1:])
        )
    return Report(
        title=f"{judge.name}: agreement with people",
        headline=headline,
        sections=tuple(sections),
        cases=tuple(cases.values()),
        evaluation=evaluation,
    )


# -- the parts ------------------------------------------------------------------------------------


def _task(judge: Judge, evaluation: Evaluation) -> Section:
    memory = evaluation.memory_hash[:12] or "empty"
    answers = f"It answers with {judge.value_type.allowed}."
    unseen = f"It had learned from none of the {evaluation.n} cases."
    counts = {
        "that were taught and are left out of every figure": evaluation.taught,
        "without a verdict": evaluation.unscored,
        "without a label that counts": evaluation.unlabelled,
    }
    others = [f"{count} {words}" for words, count in counts.items() if count]
    if others:
        unseen += f" Not among them: {', '.join(others)}."
    lines = [f"{answers} Model {evaluation.model_text}, memory {memory}.", unseen]
    return Section("What it judges", lines, quote=judge.instructions.strip())


def _agreement(judge: Judge, evaluation: Evaluation, against: str) -> Section:
    """Put the judge beside the other judge and each person, and people beside each other."""
    kind = judge.value_type
    names = list(evaluation.metrics)
    lines = [_BRACKETS]
    if "kappa" in names:
        lines.append(_KAPPA)
    rows: list[Row] = [[judge.name, *evaluation.metrics.values()]]
    comparison = evaluation.comparison
    if evaluation.base is not None and comparison is not None:
        rows.append([against, *evaluation.base.metrics.values()])
        shares = f"{comparison.difference:+.1%}"
        points = shares.replace("%", " points", 1).replace("%", "")
        lines.append(
            f"{_VERDICTS[comparison.verdict]} “{against}”: {points} of accuracy."
        )
    by_person = _cases_by_person(evaluation)
    if len(by_person) > 1:
        for person, cases in sorted(by_person.items()):
            rows.append([f"with {person} alone", *measure(kind, cases).values()])
    shared = labels_of_several(annotations_by_case(evaluation.rows).values())
    if shared:
        same = _agreement_of_pairs(shared, kind)
        rows.append(["people with each other", same, *[""] * (len(names) - 1)])
        pairs = f"agree in {same.value:.0%} of pairs, on {len(shared)} cases"
        lines.append(f"Two people who label the same case {pairs}.")
        alpha = agreement_of_people(shared, kind)
        if alpha is not None:
            lines.append(f"Their alpha is {alpha:.2f} (1 is perfect, 0 is chance).")
    few = evaluation.metrics["accuracy"].no_interval
    if few:
        lines.append(f"There is no interval, because {few}.")
    head = ["", *(name.replace("ccc", "CCC").replace("_", " ") for name in names)]
    return Section("How often it agrees with people", lines, head, rows)


def _cases_by_person(evaluation: Evaluation) -> dict[str, list[ScoredCase]]:
    """Return for each person the cases that they labelled, with their own labels."""
    annotations = annotations_by_case(evaluation.rows)
    spelled = first_spellings(row.source for row in evaluation.rows)
    found: dict[str, list[ScoredCase]] = {}
    for case in evaluation.cases:
        for source, label in labels_by_source(annotations[case.id]).items():
            found.setdefault(spelled[source], []).append(replace(case, label=label))
    return found


def _agreement_of_pairs(shared: Sequence[Sequence[Value]], kind: ValueType) -> Estimate:
    """Estimate the share of pairs of labels that agree; the pairs of one case are one group."""
    same: list[bool] = []
    groups: list[str] = []
    for number, labels in enumerate(shared):
        for one, other in combinations(labels, 2):
            same.append(kind.agree(one, other))
            groups.append(str(number))
    return estimate_mean(same, groups, share_interval)


def _where_it_errs(
    evaluation: Evaluation, cases: Mapping[str, ReportedCase]
) -> Section:
    """Show how labels and verdicts meet, and three cases of each of the commonest errors."""
    names = [value_text(label) for label in evaluation.labels]
    rows = [
        [name, *map(str, counts)]
        for name, counts in zip(names, evaluation.confusion, strict=True)
    ]
    kinds: dict[str, list[ReportedCase]] = {}
    for wrong in evaluation.disagreements:
        case = cases[wrong.id]
        title = "The largest differences"
        if names:
            title = f"People say {case.label}, the judge says {case.value}"
        kinds.setdefault(title, []).append(case)
    errors = sorted(kinds.items(), key=lambda kind: -len(kind[1]))
    lines = []
    if not errors:
        lines.append("On these cases it always gives the people's label.")
    if len(errors) > _ERRORS:
        every = "the JSON report has every case"
        lines.append(f"The {_ERRORS} most frequent errors are below; {every}.")
    shown = [
        (f"{title}: {len(alike)}", alike[:_EXAMPLES])
        for title, alike in errors[:_ERRORS]
    ]
    head = ["people ↓ judge →", *names]
    return Section("Where it errs", lines, head, rows, errors=shown)


def _guidelines(judge: Judge, evaluation: Evaluation) -> Section:
    """List the guidelines with the people behind them, those that applied most often first."""
    title = "What people taught it"
    memory = judge.memory
    if not memory.semantic:
        return Section(
            title, ["Nobody has taught it anything yet, so it has no guidelines."]
        )
    applied = Counter[str]()
    for judgment in evaluation.judgments.values():
        applied.update(judgment.guideline_ids)
    used = sorted(memory.semantic, key=lambda guideline: -applied[guideline.id])
    rows = []
    for guideline in used[:_LISTED]:
        sources = [key.source for key in memory.sources_of(guideline)]
        spelled = first_spellings(sources)
        people = Counter(spelled[source] for source in sources).most_common(_EXAMPLES)
        taught_by = ", ".join(f"{name} ({count})" for name, count in people)
        rows.append(
            [guideline.id, guideline.text, taught_by, str(applied[guideline.id])]
        )
    lines = [_TAUGHT]
    if len(used) > _LISTED:
        lines.append(
            f"{len(used) - _LISTED} guidelines that applied less often are left out."
        )
    return Section(title, lines, ("", "guideline", "taught by", "applied"), rows)


def _cost(evaluation: Evaluation) -> str:
    judgments = evaluation.judgments.values()
    usages = [judgment.usage for judgment in judgments if judgment.error is None]
    costs = [usage.cost for usage in usages if usage.cost is not None]
    cost = "Their cost is unknown."
    if costs:
        cost = f"1,000 judgments cost ${1000 * statistics.fmean(costs):,.2f}."
    median = statistics.median(sum(usage.seconds.values()) for usage in usages)
    if not median:
        return cost
    return f"Half of the judgments take less than {max(median, 0.1):.1f} s. {cost}"


def _reported_cases(evaluation: Evaluation) -> dict[str, ReportedCase]:
    annotations = annotations_by_case(evaluation.rows)
    cases = {}
    for case in evaluation.cases:
        rows = annotations[case.id]
        words = {row.source: row.rationale for row in rows if row.rationale}
        reason = case.error or case.rationale
        if reason:
            words["the judge"] = reason
        cases[case.id] = ReportedCase(
            id=case.id,
            label=value_text(case.label),
            value="" if case.value is None else value_text(case.value),
            content={
                name: as_read(name, value) for name, value in rows[0].content.items()
            },
            words=words,
        )
    return cases


# -- the page -------------------------------------------------------------------------------------


def as_html(report: Report) -> str:
    """Write the report as one HTML file that needs no network and no script.

    Args:
        report: What `report` gathered.

    Returns:
        The page.
    """
    return _written("report.html.jinja", report, autoescape=True)


def as_markdown(report: Report) -> str:
    """Write the report as Markdown, with the same parts in the same order as `as_html`.

    Args:
        report: What `report` gathered.

    Returns:
        The text.
    """
    return _written("report.md.jinja", report, finalize=_escaped)


def _written(name: str, report: Report, **options: Any) -> str:
    from jinja2 import Environment, PackageLoader

    loader = PackageLoader("memalign", "evaluation")
    pages = Environment(loader=loader, trim_blocks=True, lstrip_blocks=True, **options)
    return pages.get_template(name).render(report=report, short=_short)


def _short(text: str) -> str:
    if len(text) <= _LONG:
        return text
    return f"{text[:_LONG]} … ({len(text) - _LONG:,} characters more)"


def _escaped(value: object) -> str:
    """Write a value as a line or a cell of Markdown, in which no character is markup."""
    return " ".join(re.sub(r"([\\`*_{}\[\]<>|#!~])", r"\\\1", str(value)).split())
