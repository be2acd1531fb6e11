"""Runs of earlier versions, which named methods, keys and flags otherwise, are read and go on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench_support.runs import go
from bench_support.world import write_config
from memalign.errors import InputError
from memalign_bench.config import load_config
from memalign_bench.raw import RawFolder
from memalign_bench.report.page import TITLE, sections_of
from memalign_bench.report.results import load_results
from memalign_bench.report.tables import markdown
from tests.cli.conftest import Run
from tests.support.endpoint import Endpoint

RESULTS = Path(__file__).parents[1] / "results"
RUNS = sorted(path.parent.name for path in RESULTS.glob("*/raw"))
OLD_RUNS = [name for name in RUNS if name not in ("house_rules", "optimizers")]  # made under today's names


def rename(folder: Path, new: str, old: str) -> list[Path]:
    """The files of one method under its old name."""
    return [path.rename(path.with_name(path.name.replace(f"{new}@", f"{old}@"))) for path in folder.rglob(f"{new}@*")]


def test_the_kept_runs_are_those_that_are_tested():
    assert {"core", "examples", "feedback", "fresh", "models", "stages"} <= set(RUNS)


@pytest.mark.parametrize("name", OLD_RUNS)
def test_old_configuration_keys_are_still_read(name: str) -> None:
    text = (RESULTS / name / "run.toml").read_text("utf-8")
    assert "arms = [" in text
    config = load_config(RESULTS / name / "run.toml")
    assert "zero-shot" in config.methods
    assert len(config.methods) == len(re.findall(r'"[\w-]+"', text.partition("arms = [")[2].partition("]")[0]))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "fresh" else pytest.mark.slow) for name in RUNS]
)
def test_a_kept_run_gives_the_kept_tables(name: str) -> None:
    config = load_config(RESULTS / name / "run.toml")
    results = load_results(RESULTS / name / "raw", prices=config.prices)
    assert markdown(TITLE, sections_of(results)) == (RESULTS / name / "tables.md").read_text("utf-8")


def test_every_kept_raw_file_is_read() -> None:
    for name in RUNS:
        results = load_results(RESULTS / name / "raw")
        files = [path for path in (RESULTS / name / "raw").rglob("*@*.jsonl") if path.read_bytes().strip()]
        assert len(results.cells) == len(files)
        assert not {"bare", "guidelines-without-probe"} & {cell.method for cell in results.cells}


def test_a_run_goes_on_under_its_old_names(config: Path, endpoint: Endpoint) -> None:
    go(config, stages=(0, 4))
    assert rename(config.parent / "raw", "zero-shot", "bare")
    asked = len(endpoint.requests)
    outcome = go(config, stages=(0, 4))
    assert (outcome.judged, len(endpoint.requests)) == (0, asked)
    go(config, stages=(0, 4), test=10)
    assert not list((config.parent / "raw").rglob("zero-shot@*"))


def test_one_cell_under_two_names_is_refused(config: Path, endpoint: Endpoint) -> None:
    go(config, methods=("zero-shot",))
    (path, *_) = (config.parent / "raw").rglob("zero-shot@0.jsonl")
    path.with_name("bare@0.jsonl").write_bytes(path.read_bytes())
    with pytest.raises(InputError, match="one cell under two names"):
        list(RawFolder(config.parent / "raw").cells(["openai:test"]))


def test_a_key_under_both_names_is_refused(tmp_path: Path) -> None:
    path = write_config(tmp_path)
    path.write_text('arms = ["bare"]\n' + path.read_text("utf-8"), "utf-8")
    with pytest.raises(InputError, match="arms is the old name of methods"):
        load_config(path)


def test_old_flags_are_taken(memalign: Run, config: Path, endpoint: Endpoint) -> None:
    ran = memalign("bench", "run", config, "--yes", "--ceiling=0", "--memo", config.parent / "memo")
    assert ran.code == 2
    assert "--spend-limit is more than 0" in " ".join(ran.err.split())
    assert "--ceiling" not in memalign("bench", "run", "--help").out
