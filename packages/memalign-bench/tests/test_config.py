"""A run's configuration: what is wrong with it is said before anything is asked."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench_support.world import CONFIG
from memalign.errors import InputError
from memalign_bench.config import METHODS, Config, load_config


def test_only_the_zero_shot_judge_has_stage_nought(config: Path) -> None:
    loaded = load_config(config)
    assert loaded.stages_of("zero-shot") == (0,)
    assert loaded.stages_of("memalign") == (4, 8)
    assert loaded.folder == config.parent


@pytest.mark.parametrize(
    ("train", "stages"),
    [(8, (0, 2, 5, 8)), (2, (0, 2)), (50, (0, 2, 5, 10, 20, 50)), (200, (0, 2, 5, 10, 20, 50, 200))],
)
def test_a_run_takes_stages_its_cases_allow(config: Path, train: int, stages: tuple[int, ...]) -> None:
    config.write_text(CONFIG.replace("stages = [0, 4, 8]", "").replace("train = 8", f"train = {train}"), "utf-8")
    assert load_config(config).stages == stages


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"memalign"]', '"memalgin"]', "no method 'memalgin'; methods: majority"),
        ("stages = [0, 4, 8]", "stages = [0, 8, 4]", "stages grow"),
        ("stages = [0, 4, 8]", "stages = [0, 4, 80]", "stage 80 needs more than the 8"),
        ("train = 8", "train = 0", "at least 1"),
        ("test = 6", "seen = 9", "only 8 cases teach"),
        ('models = ["openai:test"]', "models = []", "models is empty"),
        ("test = 6", "tests = 6", "tests"),
        ("cached = 0.1", "", "cached"),
        ("test = 6", "spend_limit = 0", "spend_limit is more than 0"),
        ("test = 6", "spend_limit = nan", "spend_limit is more than 0"),
        ("test = 6", "spend_limit = inf", "spend_limit is more than 0"),
        ("input = 1.0", "input = -1.0", "price of input"),
        ("cached = 0.1", "cached = nan", "price of cached"),
        ("output = 2.0", "output = inf", "price of output"),
        ("test = 6", "seeds = []", "seeds is empty"),
        ("test = 6", "seeds = [-1]", "a seed is at least 0"),
        ("[prices]", "[seeds_of]\ntone = []\n[prices]", "seeds_of tone is empty"),
        ("[prices]", "[seeds_of]\ntone = [-2]\n[prices]", "a seed is at least 0"),
        ("test = 6", 'methods = ["zero-shot"]', "TOML"),
        ("[prices]", "[seeds_of]\nbetter = [1]\n[prices]", "seeds_of names 'better'"),
        ("stages = [0, 4, 8]", "stages = [0, 0, 8]", "names one twice"),
        ('models = ["openai:test"]', 'models = ["openai:a/b", "openai:a-b"]', "would share the folder 'openai-a-b'"),
    ],
)
def test_a_wrong_configuration_says_what_is_wrong(config: Path, old: str, new: str, says: str) -> None:
    config.write_text(CONFIG.replace(old, new), "utf-8")
    with pytest.raises(InputError, match=says):
        load_config(config)


def test_a_configuration_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no file"):
        load_config(tmp_path / "nothing.toml")


def test_the_readme_names_every_key_and_every_method(tmp_path: Path) -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text("utf-8")
    named = set(re.findall(r"`\[?([\w-]+)\]?`", readme))
    assert {name for name in Config.__struct_fields__ if name != "folder"} <= named
    assert {name for name in METHODS if "-without-" not in name} <= named
    run = re.findall(r"^```toml\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)[0]
    (tmp_path / "run.toml").write_text(run, "utf-8")
    assert load_config(tmp_path / "run.toml").seeds_for("replies") == (0, 1, 2)
