"""`memalign bench`, as a person at a terminal and a program meet it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench_support.world import CONFIG, answer, write_config, write_tasks
from tests.cli.conftest import Run
from tests.support.endpoint import Endpoint


@pytest.fixture
def config(tmp_path: Path) -> Path:
    write_tasks(tmp_path / "tasks")
    return write_config(tmp_path)


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    with Endpoint(answer) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        yield server


def test_a_dry_run_estimates_and_asks_nothing(memalign: Run, config: Path, judge: Endpoint) -> None:
    ran = memalign("bench", "run", config, "--dry-run")
    assert ran.code == 0
    assert "0 of 42 judgments are there" in ran.err
    for method in ("majority", "zero-shot", "nearest", "memalign", "all"):
        assert method in ran.out
    assert judge.requests == []
    assert not (config.parent / "raw").exists()


def test_a_run_that_costs_money_asks_first(memalign: Run, config: Path, judge: Endpoint) -> None:
    ran = memalign("bench", "run", config)
    assert ran.code == 2
    assert "--yes" in ran.err
    assert judge.requests == []


def test_a_run_and_its_report(memalign: Run, config: Path, judge: Endpoint) -> None:
    ran = memalign("bench", "run", config, "--yes", "--memo", config.parent / "memo")
    assert ran.code == 0, ran.err
    assert "42 judged, 0 of them failed" in ran.out
    again = memalign("bench", "run", config, "--yes", "--memo", config.parent / "memo")
    assert again.code == 0
    assert "nothing is missing" in again.err
    report = memalign("bench", "report", config)
    assert report.code == 0, report.err
    page = (config.parent / "report.html").read_text("utf-8")
    assert "tone" in page
    assert "<script" not in page
    assert (config.parent / "tables.md").exists()


def test_programs_get_one_json_document(memalign: Run, config: Path, judge: Endpoint) -> None:
    dry = memalign("bench", "run", config, "--dry-run", "--json").json
    assert (dry["done"], dry["total"], len(dry["left"])) == (0, 42, 4)
    done = memalign("bench", "run", config, "--yes", "--json", "--memo", config.parent / "memo").json
    assert done["outcome"]["judged"] == 42
    assert memalign("bench", "report", config, "--json").json["report"].endswith("report.html")


def test_a_run_at_its_limit_is_no_success(memalign: Run, config: Path, judge: Endpoint) -> None:
    ran = memalign("bench", "run", config, "--yes", "--spend-limit", "0.0002", "--memo", config.parent / "memo")
    assert ran.code == 1
    assert "the spend limit is $0.0002" in ran.out


@pytest.mark.slow
@pytest.mark.embedded
def test_another_embedded_engine_is_told(memalign: Run, tmp_path: Path) -> None:
    write_tasks(tmp_path / "tasks")
    run = tmp_path / "run.toml"
    run.write_text(
        'name = "own"\ndata = "tasks"\nmodels = ["local:qwen2.5-coder-0.5b"]\ntasks = ["tone"]\nmethods = ["zero-shot"]\n'
        "stages = [0]\ntrain = 2\ntest = 2\n",
        "utf-8",
    )
    ran = memalign("bench", "run", run, "--memo", tmp_path / "memo")
    assert ran.code == 0, ran.err
    assert "from here on" not in ran.err
    facts = tmp_path / "raw" / "tasks.json"
    (engine,) = json.loads(facts.read_text("utf-8"))["engines"]["local:qwen2.5-coder-0.5b"]
    assert engine.startswith("xllamacpp ")

    # On another machine: one case is missing there.
    facts.write_text(facts.read_text("utf-8").replace(engine, "xllamacpp of old"), "utf-8")
    lines = tmp_path / "raw" / "local-qwen2.5-coder-0.5b" / "tone" / "seed0" / "zero-shot@0.jsonl"
    lines.write_text(lines.read_text("utf-8").splitlines(keepends=True)[0], "utf-8")
    again = memalign("bench", "run", run, "--memo", tmp_path / "memo")
    assert f"judged by xllamacpp of old so far, by {engine} from here on" in " ".join(again.err.split())
    assert memalign("bench", "report", run).code == 0
    tables = (tmp_path / "tables.md").read_text("utf-8")
    assert "computed by xllamacpp of old and by xllamacpp" in tables
    assert "(judgments that name it: zero-shot 2)" in tables


@pytest.mark.parametrize("spend_limit", ["0", "nan", "inf"])
def test_an_impossible_spend_limit_is_refused_first(
    memalign: Run, config: Path, judge: Endpoint, spend_limit: str
) -> None:
    ran = memalign("bench", "run", config, "--yes", "--spend-limit", spend_limit, "--memo", config.parent / "memo")
    assert ran.code == 2
    assert "--spend-limit" in ran.err
    assert judge.requests == []


def test_an_unknown_cost_is_told_as_unknown(memalign: Run, config: Path, judge: Endpoint) -> None:
    config.write_text(CONFIG.partition("[prices]")[0].replace("stages = [0, 4, 8]", "stages = [0]"), "utf-8")
    ran = memalign("bench", "run", config, "--yes", "--memo", config.parent / "memo")
    assert "6 judged, 0 of them failed; cost not known" in ran.out
    again = memalign(
        "bench", "run", config, "--yes", "--json", "--memo", config.parent / "m", "--out", config.parent / "r"
    )
    assert again.json["outcome"]["cost"] is None


def test_a_file_instead_of_raw_judgments_is_named(memalign: Run, config: Path, judge: Endpoint) -> None:
    (config.parent / "raw").write_text("something else", "utf-8")
    for ran in (memalign("bench", "run", config, "--yes"), memalign("bench", "report", config)):
        assert ran.code == 2
        assert "raw" in ran.err
        assert "--out" in ran.err
    assert judge.requests == []


def test_an_unwritable_report_names_what_blocks_it(memalign: Run, config: Path) -> None:
    config.write_text(CONFIG.replace('"majority", "zero-shot", "nearest", "memalign"', '"majority"'), "utf-8")
    assert memalign("bench", "run", config).code == 0
    (config.parent / "report.html").mkdir()
    ran = memalign("bench", "report", config)
    assert ran.code == 2
    assert "report.html cannot be written" in ran.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nothing.toml"], "no file nothing.toml"),
        (["run.toml", "--data", "elsewhere"], "tasks.toml"),
        (["empty.toml"], "name"),
    ],
)
def test_wrong_use_is_one_line(
    memalign: Run, config: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], says: str
) -> None:
    monkeypatch.chdir(config.parent)
    (config.parent / "empty.toml").write_text("", "utf-8")
    ran = memalign("bench", "run", *arguments)
    assert ran.code == 2
    assert says in ran.err


def test_a_run_without_data_says_its_remedy(memalign: Run, config: Path) -> None:
    config.write_text(CONFIG.replace('data = "tasks"\n', ""), "utf-8")
    ran = memalign("bench", "run", config)
    assert ran.code == 2
    assert "--data" in ran.err


def test_a_report_without_judgments_says_what_to_run(memalign: Run, config: Path) -> None:
    ran = memalign("bench", "report", config)
    assert ran.code == 2
    assert "memalign bench run" in ran.err


def test_the_next_run_heals_a_servers_failures(
    memalign: Run, config: Path, judge: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_zero_shot = CONFIG.replace(
        'methods = ["majority", "zero-shot", "nearest", "memalign"]', 'methods = ["zero-shot"]'
    )
    config.write_text(only_zero_shot.replace("[0, 4, 8]", "[0]"), "utf-8")
    address = judge.base_url
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    down = memalign("bench", "run", config, "--yes", "--memo", config.parent / "memo")
    assert down.code == 1
    assert "6 of them failed" in down.out
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    up = memalign("bench", "run", config, "--yes", "--memo", config.parent / "memo")
    assert up.code == 0, up.err
    assert "6 judged, 0 of them failed" in up.out


def test_published_data_may_be_local_copies(memalign: Run, config: Path, tmp_path: Path) -> None:
    config.write_text(
        CONFIG.replace('data = "tasks"', 'data = "published"').replace('["tone"]', '["halubench"]'), "utf-8"
    )
    ran = memalign("bench", "run", config, "--dry-run", "--data", tmp_path / "tasks")
    assert ran.code == 2  # nothing is downloaded; the folder lacks the data set's file, and the error names it
    assert "halubench" in ran.err.lower()
    assert "tasks" in ran.err
