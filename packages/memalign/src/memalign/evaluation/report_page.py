"""A report as one page: HTML that needs no network and no script, or Markdown."""

from __future__ import annotations

from typing import NamedTuple

from memalign.evaluation.gate_report import markdown_cell
from memalign.evaluation.report_parts import Report, ReportedCase
from memalign.metrics import Estimate
from memalign.values import value_text

__all__ = ["as_html", "as_markdown"]

_PARTS = 30  # rows of a table
_WRONG, _RIGHT = 50, 5  # cases of a cell that are shown in full
_LONG = 1200  # characters of a field
_COLUMNS = ("exact_match", "balanced_accuracy", "kappa", "weighted_kappa", "ccc", "mae")


class _Cell(NamedTuple):
    anchor: str
    title: str
    cases: tuple[ReportedCase, ...]
    most: int


def as_html(found: Report) -> str:
    """The report as one HTML file."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    pages = Environment(
        loader=PackageLoader("memalign", "evaluation"), autoescape=True, undefined=StrictUndefined, trim_blocks=False
    )
    return (
        pages.get_template("report.html.jinja")
        .render(
            r=found,
            e=found.evaluation,
            headline=_headline(found),
            sentences=_sentences(found),
            metric=found.sides[-1].on,
            columns=[name for name in _COLUMNS if name in found.sides[0].metrics],
            names=[value_text(label) for label in found.evaluation.labels],
            cells=_cells(found),
            cost=_cost(found),
            most=_PARTS,
            number=_number,
            points=_points,
            words=_words,
            at=_at,
            short=_short,
        )
        .lstrip()
    )


def as_markdown(found: Report) -> str:
    """The report without its cases, as Markdown."""
    names = [name for name in _COLUMNS if name in found.sides[0].metrics]
    lines = [f"# {found.judge}: agreement with people", "", f"**{_headline(found)}**", "", *_sentences(found), ""]
    lines += _table(
        ["", *map(_words, names), "ahead"],
        [
            [
                markdown_cell(side.name),
                *(_figure(side.metrics.get(name)) for name in names),
                _points(side.ahead) if side.ahead else "",
            ]
            for side in found.sides
        ],
    )
    if found.people:
        lines += ["", f"People give the same label in {_figure(found.people.same)} of {found.people.pairs} pairs."]
    if found.slices:
        rows = [[each.of, markdown_cell(each.name), str(each.n), _figure(each.found)] for each in found.slices[:_PARTS]]
        lines += ["", "## By part", "", *_table(["", "", "cases", "right"], rows)]
    lines += ["", "## Would more labels help?", "", *_curve(found)]
    if found.guidelines:
        used = [
            [
                g.id,
                markdown_cell(g.text),
                f"{g.yes} / {g.no}",
                *map(str, (g.right, g.wrong, len(g.fixed), len(g.broken))),
            ]
            for g in found.guidelines
        ]
        heads = ["", "guideline", "yes / no", "towards", "away", "fixed", "broken"]
        lines += ["", "## Guidelines", "", *_table(heads, used)]
    if found.shares:
        shares = [[markdown_cell(each.label), _figure(each.people), _number(each.judge)] for each in found.shares]
        lines += ["", "## In the whole population", "", *_table(["label", "people would", "the judge does"], shares)]
    return "\n".join([*lines, "", _cost(found), ""])


def _curve(found: Report) -> list[str]:
    curve = found.curve
    if not curve.points:
        return [f"There is no learning curve: {curve.why_not}."]
    said = "Weights refitted on fewer of the taught labels, and tried on these cases; the guidelines are those of all."
    own = [] if curve.own is None else [f"The model's own verdicts come to {_number(curve.own)}."]
    rows = [
        [str(each.labels), _number(each.mean), f"{_number(each.least)} to {_number(each.most)}"]
        for each in curve.points
    ]
    return [
        " ".join([said, *own]),
        "",
        *_table(["labels", "CCC" if found.headline == "ccc" else "right", "draws"], rows),
    ]


def _headline(found: Report) -> str:
    figure, n = found.evaluation.metrics[found.headline], found.evaluation.n
    interval = "" if figure.low is None or figure.high is None else f" [{_number(figure.low)}, {_number(figure.high)}]"
    if found.headline == "ccc":
        return f"Its scores agree with people's at {_number(figure.value)}{interval} (CCC, 1 is perfect), on {n} cases."
    return f"It gives the people's label to {_percent(figure.value)}{_percents(figure)} of {n} cases."


def _sentences(found: Report) -> list[str]:
    said = []
    for side in found.sides[1:]:
        if side.ahead is None or side.ahead.value is None:
            continue
        what = {"ahead": "It is ahead of", "behind": "It is behind"}.get(
            side.verdict, "These cases do not tell it from"
        )
        said.append(f"{what} “{side.name}”: {_points(side.ahead)} ({_words(side.on)}).")
    if found.people and found.people.same.value is not None:
        said.append(f"People give the same label in {_percent(found.people.same.value)} of pairs.")
    if found.more:
        said.append(f"About {found.more:,} labels more would bring the interval to 5 points either way.")
    figure = found.evaluation.metrics[found.headline]
    if figure.no_interval:
        said.append(f"There is no interval: {figure.no_interval}.")
    return said


def _cells(found: Report) -> list[_Cell]:
    """The cases by people's label and verdict, the wrong ones first; of numbers those that differ most."""
    names = [value_text(label) for label in found.evaluation.labels]
    if not names:
        wrong = {each.id: place for place, each in enumerate(found.evaluation.disagreements)}
        cases = sorted((each for each in found.cases if each.id in wrong), key=lambda each: wrong[each.id])
        return [_Cell("c", "Where judge and people differ", tuple(cases), _WRONG)]
    cells = []
    for row, label in enumerate(names):
        for column, value in enumerate(names):
            cases = [each for each in found.cases if each.label == label and each.value == value]
            if cases:
                title = f"People say {label}, the judge says {value}"
                cells.append(
                    (row == column, _Cell(f"c{row}-{column}", title, tuple(cases), _RIGHT if row == column else _WRONG))
                )
    return [cell for _, cell in sorted(cells, key=lambda each: each[0])]


def _cost(found: Report) -> str:
    seconds = "" if found.seconds is None else f"A judgment takes {found.seconds:.2g} s in the median. "
    if found.dollars is None:
        return f"{seconds}What it costs is not known."
    return f"{seconds}1,000 cost ${1000 * found.dollars:.2g}."


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.2f}"


def _percent(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.0%}"


def _percents(figure: Estimate) -> str:
    return "" if figure.low is None or figure.high is None else f" [{figure.low:.0%}, {figure.high:.0%}]"


def _points(figure: Estimate) -> str:
    if figure.value is None:
        return "n/a"
    low, high = figure.low, figure.high
    interval = "" if low is None or high is None else f" [{100 * low:+.1f}, {100 * high:+.1f}]"
    return f"{100 * figure.value:+.1f} points{interval}"


def _words(name: str) -> str:
    return {"ccc": "CCC", "mae": "mean error"}.get(name, name.replace("_", " "))


def _at(value: float) -> float:
    return round(100 * min(1.0, max(0.0, value)), 1)


def _short(text: str) -> str:
    return text if len(text) <= _LONG else f"{text[:_LONG]} … ({len(text) - _LONG:,} characters more)"


def _figure(figure: Estimate | None) -> str:
    if figure is None or figure.value is None:
        return "n/a"
    interval = "" if figure.low is None or figure.high is None else f" [{figure.low:.2f}, {figure.high:.2f}]"
    return f"{figure.value:.2f}{interval}"


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]
