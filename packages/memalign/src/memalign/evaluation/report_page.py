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
    rows_by_person,
)
from memalign.evaluation.criteria import GateResult
from memalign.evaluation.feedback_review import agreement_of_people
from memalign.evaluation.intervals import estimate_mean, share_interval
from memalign.evaluation.sentences import PASSING, passing_rows
from memalign.evaluation.wording import say, templates
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
        return {
            "title": self.title,
            "headline": self.headline,
            "sections": as_json(self.sections),
            "cases": as_json(self.cases),
            "evaluation": self.evaluation.to_dict(),
        }


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
    task = say("task", one=evaluation, allowed=judge.value_type.allowed)
    sections = [
        Section("In short", others),
        Section("What it judges", task, quote=judge.instructions.strip()),
        _agreement(judge, evaluation, against),
    ]
    if evaluation.promise is not None and evaluation.thresholds:
        rows = passing_rows(evaluation)
        sections.append(Section("What may pass without a person", (), PASSING, rows))
    sections += [
        _where_it_errs(evaluation, cases),
        _guidelines(judge, evaluation),
        Section("What it costs", _cost(evaluation)),
    ]
    if gate is not None:
        lines = str(gate).splitlines()[1:]
        sections.append(Section(f"The gate: {gate.outcome}", lines))
    return Report(
        title=f"{judge.name}: agreement with people",
        headline=headline,
        sections=tuple(sections),
        cases=tuple(cases.values()),
        evaluation=evaluation,
    )


# -- the parts ------------------------------------------------------------------------------------


def _agreement(judge: Judge, evaluation: Evaluation, against: str) -> Section:
    """Put the judge beside the other judge and each person, and people beside each other."""
    kind = judge.value_type
    metrics = evaluation.metrics
    rows: list[Row] = [[judge.name, *metrics.values()]]
    if evaluation.base is not None and evaluation.comparison is not None:
        rows.append([against, *evaluation.base.metrics.values()])
    by_person = _cases_by_person(evaluation)
    if len(by_person) > 1:
        for person in sorted(by_person):
            figures = measure(kind, by_person[person])
            rows.append([f"with {person} alone", *figures.values()])
    annotations = annotations_by_case(evaluation.rows)
    shared = labels_of_several(annotations.values())
    same = _agreement_of_pairs(shared, kind)
    if shared:
        empty = [""] * (len(metrics) - 1)
        rows.append(["people with each other", same, *empty])
    head = [""]
    for name in metrics:
        words = name.replace("ccc", "CCC")
        head.append(words.replace("_", " "))
    lines = say(
        "beside",
        one=evaluation,
        against=against,
        pairs=same,
        shared=len(shared),
        alpha=agreement_of_people(shared, kind),
    )
    return Section("How often it agrees with people", lines, head, rows)


def _cases_by_person(evaluation: Evaluation) -> dict[str, list[ScoredCase]]:
    """Return for each person the cases that they labelled, with their own labels."""
    annotations = annotations_by_case(evaluation.rows)
    spelled = first_spellings(row.source for row in evaluation.rows)
    found: dict[str, list[ScoredCase]] = {}
    for case in evaluation.cases:
        given = labels_by_source(annotations[case.id])
        for source, label in given.items():
            own = replace(case, label=label)
            person = spelled[source]
            cases = found.setdefault(person, [])
            cases.append(own)
    return found


def _agreement_of_pairs(shared: Sequence[Sequence[Value]], kind: ValueType) -> Estimate:
    """Estimate the share of pairs of labels that agree; the pairs of one case are one group."""
    same: list[bool] = []
    groups: list[str] = []
    for number, labels in enumerate(shared):
        group = str(number)
        for one, other in combinations(labels, 2):
            agree = kind.agree(one, other)
            same.append(agree)
            groups.append(group)
    return estimate_mean(same, groups, share_interval)


def _where_it_errs(
    evaluation: Evaluation, cases: Mapping[str, ReportedCase]
) -> Section:
    """Show how labels and verdicts meet, and three cases of each of the commonest errors."""
    names = [value_text(label) for label in evaluation.labels]
    rows = []
    for name, counts in zip(names, evaluation.confusion, strict=True):
        row = [str(count) for count in counts]
        rows.append([name, *row])
    kinds: dict[str, list[ReportedCase]] = {}
    for wrong in evaluation.disagreements:
        case = cases[wrong.id]
        title = "The largest differences"
        if rows:
            title = f"People say {case.label}, the judge says {case.value}"
        alike = kinds.setdefault(title, [])
        alike.append(case)
    commonest = sorted(kinds, key=lambda title: -len(kinds[title]))
    errors = []
    for title in commonest[:_ERRORS]:
        alike = kinds[title]
        error = (f"{title}: {len(alike)}", alike[:_EXAMPLES])
        errors.append(error)
    return Section(
        "Where it errs",
        lines=say("errors", kinds=len(kinds), listed=_ERRORS),
        head=["people ↓ judge →", *names],
        rows=rows,
        errors=errors,
    )


def _guidelines(judge: Judge, evaluation: Evaluation) -> Section:
    """List the guidelines with the people behind them, those that applied most often first."""
    memory = judge.memory
    applied = Counter[str]()
    for judgment in evaluation.judgments.values():
        applied.update(judgment.guideline_ids)
    used = sorted(memory.semantic, key=lambda guideline: -applied[guideline.id])
    rows = []
    for guideline in used[:_LISTED]:
        keys = memory.sources_of(guideline)
        people = rows_by_person(key.source for key in keys)
        named = [f"{name} ({n})" for name, n in people.most_common(_EXAMPLES)]
        row = [
            guideline.id,
            guideline.text,
            ", ".join(named),
            str(applied[guideline.id]),
        ]
        rows.append(row)
    return Section(
        "What people taught it",
        lines=say("guidelines", count=len(used), listed=_LISTED),
        head=("", "guideline", "taught by", "applied"),
        rows=rows,
    )


def _cost(evaluation: Evaluation) -> list[str]:
    """Say what 1,000 judgments cost, and how long half of them take."""
    costs = []
    seconds = []
    for judgment in evaluation.judgments.values():
        if judgment.error is None:
            usage = judgment.usage
            seconds.append(sum(usage.seconds.values()))
            if usage.cost is not None:
                costs.append(usage.cost)
    dollars = statistics.fmean(costs) if costs else None
    return say("cost", dollars=dollars, seconds=statistics.median(seconds))


def _reported_cases(evaluation: Evaluation) -> dict[str, ReportedCase]:
    annotations = annotations_by_case(evaluation.rows)
    cases = {}
    for case in evaluation.cases:
        rows = annotations[case.id]
        words = {row.source: row.rationale for row in rows if row.rationale}
        reason = case.error or case.rationale
        if reason:
            words["the judge"] = reason
        content = rows[0].content.items()
        cases[case.id] = ReportedCase(
            id=case.id,
            label=value_text(case.label),
            value="" if case.value is None else value_text(case.value),
            content={name: as_read(name, value) for name, value in content},
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
    template = templates(**options).get_template(name)
    return template.render(report=report, short=_short)


def _short(text: str) -> str:
    if len(text) <= _LONG:
        return text
    return f"{text[:_LONG]} … ({len(text) - _LONG:,} characters more)"


def _escaped(value: object) -> str:
    """Write a value as a line or a cell of Markdown, in which no character is markup."""
    return " ".join(re.sub(r"([\\`*_{}\[\]<>|#!~])", r"\\\1", str(value)).split())
