"""The report: one page that needs nothing else, its tables in Markdown, and its figures."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from memalign.errors import InputError
from memalign_bench.prices import Prices
from memalign_bench.report.comparisons import (
    ablation_section,
    baselines_section,
    feedback_section,
    models_section,
    primary_section,
)
from memalign_bench.report.costs import (
    commands_section,
    cost_section,
    data_section,
    limits_section,
    teaching_section,
    totals_section,
)
from memalign_bench.report.figures import Drawing, draw
from memalign_bench.report.quality import (
    errors_section,
    flips_section,
    label_section,
    learning_section,
    missing_section,
    quality_section,
    run_section,
)
from memalign_bench.report.results import Results, load_results
from memalign_bench.report.tables import Section, markdown

__all__ = ["PARTS", "TITLE", "sections_of", "write_report"]

TITLE = "memalign: benchmark report"

PARTS = (
    primary_section,
    missing_section,
    quality_section,
    baselines_section,
    label_section,
    learning_section,
    flips_section,
    cost_section,
    teaching_section,
    ablation_section,
    feedback_section,
    models_section,
    run_section,
    data_section,
    errors_section,
    totals_section,
    limits_section,
    commands_section,
)


def write_report(folder: Path, out: Path, *, prices: Prices | None = None) -> Path:
    """Write the report of the raw judgments in `folder` into the folder `out`; the page's path.

    `report.html` has no scripts and fetches nothing. `tables.md` and the figures as SVG lie beside it. The same judgments
    give the same bytes. With `prices` all costs are by them. Raises InputError for a folder without judgments or without
    `tasks.json`, and for what cannot be written.
    """
    results = load_results(folder, prices=prices)
    sections = sections_of(results)
    page = out / "report.html"
    try:
        out.mkdir(parents=True, exist_ok=True)
        drawings = draw(results, out)
        (out / "tables.md").write_text(markdown(TITLE, sections), "utf-8")
        page.write_text(_rendered(sections, drawings), "utf-8")
    except OSError as error:
        where = error.filename or out
        raise InputError(
            f"{where} cannot be written: {error.strerror}; move away what stands there, or report where you may write"
        ) from None
    return page


def sections_of(results: Results) -> list[Section]:
    """The parts of the report that have anything to show, and the primary comparison always."""
    return [section for part in PARTS if not (section := part(results)).empty or section.id == "primary"]


def _rendered(sections: list[Section], drawings: tuple[Drawing, ...]) -> str:
    from jinja2 import Environment, StrictUndefined

    # Everything is escaped; the figures alone are markup, which matplotlib wrote and in which it escapes what is text.
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string((resources.files(__package__) / "report.html.jinja").read_text("utf-8"))
    figures = {
        section.id: [drawing for name in section.figures for drawing in drawings if drawing.figure == name]
        for section in sections
    }
    return template.render(title=TITLE, sections=sections, figures=figures) + "\n"
