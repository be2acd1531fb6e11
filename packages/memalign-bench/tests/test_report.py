"""The page that a sceptic reads: whole by itself, the same every time, and silent about nothing."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from bench_support.synthetic import write_folder
from memalign_bench.raw import Cell, Line, RawFolder
from memalign_bench.report import TaskFacts, write_facts, write_report
from memalign_bench.report.primary import FIXED_WORDS

METHODS = ("majority", "regression-features", "zero-shot", "guidelines", "memalign", "memalign-labels", "mlflow")


@pytest.fixture(scope="module")
def raw(tmp_path_factory) -> Path:
    return write_folder(tmp_path_factory.mktemp("raw"), cases=20, stages=(0, 5, 50), seeds=(0,), methods=METHODS)


@pytest.fixture(scope="module")
def out(raw, tmp_path_factory) -> Path:
    return write_report(raw, tmp_path_factory.mktemp("out")).parent


@pytest.fixture(scope="module")
def page(out):
    return (out / "report.html").read_text("utf-8")


def plain(page: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", page).replace("&#34;", '"').replace("&#39;", "'").split())


def small(folder: Path, cells, *, values="bool") -> Path:
    for cell, lines in cells.items():
        RawFolder(folder).append(cell, lines)
    names = {cell.task for cell in cells}
    write_facts(folder, [TaskFacts(name=name, category="c", values=values) for name in names])
    return folder


def cell(method, stage, *, task="harbour", model="m"):
    return Cell(model=model, task=task, seed=0, method=method, stage=stage)


def test_the_page_needs_no_network_and_runs_nothing(page):
    assert "<script" not in page
    assert not re.search(r"""(?:src|href)\s*=\s*["'](?!#)""", page)
    assert "@import" not in page
    assert "url(http" not in page
    assert "default-src 'none'" in page


def test_the_fixed_comparison_comes_first_word_for_word(page):
    assert FIXED_WORDS in plain(page)
    assert page.index("The primary comparison") < page.index("Quality by task and method")
    assert "memalign against mlflow" in page
    assert "this is not the primary comparison" not in page


def test_every_part_with_something_to_show_appears(page):
    parts = (
        "primary", "missing", "quality", "baselines", "labels", "learning", "flips", "cost", "teaching", "ablation",
        "feedback", "run", "data", "errors", "totals", "limits", "commands",
    )  # fmt: skip
    assert re.findall(r'<section id="([\w-]+)">', page) == list(parts)  # one model: none are side by side
    for said in ("CC BY 4.0", "not stated", "memalign bench run invented.toml", "the model timed out", "Split by row"):
        assert said in page


def test_what_is_missing_is_said(page):
    text = plain(page)
    assert "local:tiny, mlflow: 44 of 60 cases judged so far" in text
    assert "local:tiny mlflow 50 unseen harbour_claims 0 4 of 20" in text


def test_the_same_judgments_give_the_same_bytes(tmp_path):
    lines = [Line(id=f"c{n}", group=f"g{n}", label=n % 2 == 0, value=n % 3 == 0, tokens_in=9) for n in range(8)]
    raw = small(
        tmp_path / "raw",
        {cell(method, stage): lines for method, stage in (("zero-shot", 0), ("guidelines", 50), ("memalign", 50))},
    )

    once, again = (write_report(raw, tmp_path / name).parent for name in ("once", "again"))

    files = sorted(path.name for path in once.iterdir())
    assert {"report.html", "tables.md", "quality-m.svg", "learning-m.svg", "ablation-m.svg"} <= set(files)
    assert files == sorted(path.name for path in again.iterdir())
    for name in files:
        assert (once / name).read_bytes() == (again / name).read_bytes(), name


def test_figures_are_whole_and_share_no_ids(out, page):
    drawn = {path.stem.removesuffix("-local-tiny") for path in out.glob("*.svg")}
    assert drawn == {"quality", "learning", "cost", "tokens", "latency", "ablation", "feedback"}
    for path in out.glob("*.svg"):
        ET.fromstring(path.read_text("utf-8"))
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert all(target in ids for target in re.findall(r"""(?:href="|url\()#([\w-]+)""", page))


def test_the_tables_for_the_docs_are_tables(out):
    tables: list[list[str]] = [[]]
    for line in (out / "tables.md").read_text("utf-8").splitlines():
        if line.startswith("| "):
            tables[-1].append(re.sub(r"\\\|", "", line))
        elif tables[-1]:
            tables.append([])
    assert len([table for table in tables if table]) > 20
    for table in tables:
        assert len({row.count("|") for row in table}) <= 1, table


def test_names_and_labels_may_hold_anything(tmp_path):
    bad = "<script>alert(1)</script>"
    odd = f'{bad}|$x_{{1}}$ ](javascript:alert(1))|\u65e5\u672c "quoted" --> id="x"|`rm`*'
    task, labels = "a <b> & $c$", odd.split("|")
    lines = [Line(id=f'"{n}<i>', group=bad, label=labels[n % 4], value=labels[n % 3]) for n in range(12)]
    failed = Line(id="f", group="g", label=labels[0], error=f"{bad}\n| ![]({bad})")
    cells = {cell("zero-shot", 0, task=task): [*lines, failed], cell(f"memalign {bad[:8]}", 50, task=task): lines}

    page = write_report(small(tmp_path / "raw", cells, values=odd), tmp_path / "out").read_text("utf-8")

    assert "<script" not in page
    assert "&lt;script&gt;" in page
    for path in (tmp_path / "out").glob("*.svg"):
        ET.fromstring(path.read_text("utf-8"))
    said = (tmp_path / "out" / "tables.md").read_text("utf-8")
    assert "<script" not in said
    assert "](javascript" not in said


def test_a_figure_without_data_is_not_drawn(tmp_path):
    lines = [Line(id=f"c{n}", group=f"g{n}", label=n % 2 == 0, value=n % 3 == 0) for n in range(8)]
    cells = {cell("zero-shot", 0): lines, cell("memalign", 20): lines[:6]}

    page = write_report(small(tmp_path / "raw", cells), tmp_path / "out").read_text("utf-8")

    assert {path.stem for path in (tmp_path / "out").glob("*.svg")} == {"quality-m", "learning-m"}
    text = plain(page)
    assert "m, memalign against zero-shot: this is not the primary comparison, which is at 50 rows" in text
    assert "m, memalign against mlflow: missing, nothing of mlflow is judged." in text
    assert "m, memalign: 6 of 8 cases judged so far" in text


def test_baselines_alone_are_reported_without_a_judge(tmp_path):
    lines = [Line(id=f"c{n}", group=f"g{n}", label=True, value=n % 3 == 0, calls=0) for n in range(8)]

    page = write_report(small(tmp_path / "raw", {cell("majority", 50): lines}), tmp_path / "out").read_text("utf-8")

    assert "What was run" in page
    assert not list((tmp_path / "out").glob("*.svg"))


def test_fractions_have_costs_and_no_comparison(tmp_path):
    lines = [Line(id=f"c{n}", group=f"g{n}", label=n / 8, value=n / 9, tokens_in=700) for n in range(8)]
    cells = {cell("zero-shot", 0): lines, cell("memalign", 50): lines}

    text = plain(write_report(small(tmp_path / "raw", cells, values="float:0..1"), tmp_path / "out").read_text("utf-8"))

    assert "m, memalign against zero-shot: missing, verdicts that may be any fraction have no exact match." in text
    assert "Judging, m, stage 50, unseen" in text
    assert "700" in text


def test_several_models_stand_side_by_side(tmp_path):
    lines = [Line(id=f"c{n}", group=f"g{n}", label=n % 2 == 0, value=n % 3 == 0) for n in range(8)]
    cells = {
        cell(method, stage, model=model): lines
        for method, stage in (("zero-shot", 0), ("memalign", 50))
        for model in "mn"
    }

    page = write_report(small(tmp_path / "raw", cells), tmp_path / "out").read_text("utf-8")

    assert '<section id="models">' in page
