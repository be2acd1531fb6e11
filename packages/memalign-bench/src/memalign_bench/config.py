"""What a benchmark run does, as a TOML file says it; the README has an example and a table of the keys."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from itertools import chain
from pathlib import Path

import msgspec

from memalign.errors import InputError
from memalign_bench.methods.base import Method
from memalign_bench.methods.baselines import BASELINES
from memalign_bench.methods.competitor import COMPETITORS, Competitor
from memalign_bench.methods.judges import JUDGES
from memalign_bench.old_names import keys_of_today
from memalign_bench.prices import Prices
from memalign_bench.raw import View, model_folder

__all__ = [
    "COMPETITORS",
    "METHODS",
    "OURS",
    "ZERO_SHOT",
    "Competitors",
    "Config",
    "check_spend_limit",
    "load_config",
    "views_of",
]

OURS: Mapping[str, Method] = {**BASELINES, **JUDGES}
"""The methods that live in this process, by their names."""
METHODS = (*OURS, *COMPETITORS)
ZERO_SHOT = "zero-shot"
STAGES = (0, 2, 5, 10, 20, 50)
"""The published ones; a run that names none has those below its `train`, and all of its `train`."""


def views_of(method: str) -> frozenset[View]:
    """How the method of that name can judge a case."""
    return Competitor.views if method in COMPETITORS else OURS[method].views


class Competitors(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the other optimizers live: an environment of their own."""

    python: str = ".competitors/bin/python"


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run, as its file says; `folder` is where that file lies, and paths are relative to it."""

    name: str
    models: tuple[str, ...]
    methods: tuple[str, ...]
    data: str = ""
    tasks: tuple[str, ...] = ()
    stages: tuple[int, ...] = STAGES
    seeds: tuple[int, ...] = (0,)
    seeds_of: dict[str, tuple[int, ...]] = {}
    train: int = 50
    test: int = 0
    seen: int = 0
    rows_at_once: int = 0
    spend_limit: float | None = None
    prices: Prices | None = None
    competitors: Competitors = Competitors()
    folder: Path = Path()

    def stages_of(self, method: str) -> tuple[int, ...]:
        """The stages at which the method is judged: the zero-shot judge learns nothing, all others need something to learn."""
        return tuple(stage for stage in self.stages if (stage == 0) == (method == ZERO_SHOT))

    def seeds_for(self, task: str) -> tuple[int, ...]:
        """The seeds of the task's splits."""
        return self.seeds_of.get(task, self.seeds)


def load_config(path: Path) -> Config:
    """The run that `path` describes. Raises InputError that names what is wrong and what there is."""
    try:
        raw = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise InputError(f"no file {path}: give the TOML file of a run; memalign-bench's README shows one") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path} is no TOML file: {error}") from None
    try:
        raw = keys_of_today(raw)
        config = msgspec.structs.replace(msgspec.convert(raw, Config), folder=path.parent)
    except (msgspec.ValidationError, InputError) as error:
        raise InputError(f"{path}: {error}; see the table of keys in memalign-bench's README") from None
    if "stages" not in raw:
        below = (stage for stage in STAGES if stage < config.train)
        config = msgspec.structs.replace(config, stages=(*below, config.train))
    return _checked(path, config)


def check_spend_limit(dollars: float, name: str) -> None:
    """Raises InputError, with the `name` under which it was given, for a spend limit that is none."""
    if not 0 < dollars < math.inf:  # no comparison is true of nan
        raise InputError(f"{name} is more than 0 dollars, not {dollars:g}; a run that names none has none")


def _checked(path: Path, config: Config) -> Config:
    if unknown := [method for method in config.methods if method not in METHODS]:
        raise InputError(f"{path}: no method {unknown[0]!r}; methods: {', '.join(METHODS)}")
    if unknown := [task for task in config.seeds_of if config.tasks and task not in config.tasks]:
        raise InputError(f"{path}: seeds_of names {unknown[0]!r}, which is not among the tasks")
    lists: dict[str, tuple[object, ...]] = {
        "models": config.models,
        "methods": config.methods,
        "stages": config.stages,
        "seeds": config.seeds,
        **{f"seeds_of {task}": seeds for task, seeds in config.seeds_of.items()},
    }
    for name, what in lists.items():
        if not what:
            raise InputError(f"{path}: {name} is empty")
        if len(set(what)) != len(what):
            raise InputError(f"{path}: {name} names one twice")
    folders: dict[str, str] = {}
    for model in config.models:
        if (other := folders.setdefault(model_folder(model), model)) != model:
            raise InputError(
                f"{path}: models {other} and {model} would share the folder {model_folder(model)!r} of raw judgments: run them "
                "apart, each with its own --out"
            )
    if config.train < 1 or config.test < 0 or config.seen < 0 or config.rows_at_once < 0:
        raise InputError(f"{path}: train is at least 1; test, seen and rows_at_once are at least 0")
    if any(seed < 0 for seed in chain(config.seeds, *config.seeds_of.values())):
        raise InputError(f"{path}: a seed is at least 0")
    if list(config.stages) != sorted(config.stages) or config.stages[0] < 0:
        raise InputError(f"{path}: stages grow, from 0 or more")
    if config.stages[-1] > config.train:
        raise InputError(
            f"{path}: stage {config.stages[-1]} needs more than the {config.train} cases that teach: raise train"
        )
    if config.seen > config.stages[-1]:
        raise InputError(f"{path}: seen = {config.seen}, and only {config.stages[-1]} cases teach")
    if config.spend_limit is not None:
        check_spend_limit(config.spend_limit, f"{path}: spend_limit")
    for name, price in msgspec.structs.asdict(config.prices).items() if config.prices is not None else ():
        if not 0 <= price < math.inf:
            raise InputError(f"{path}: the price of {name} is at least 0 dollars, not {price:g}")
    if not any(config.stages_of(method) for method in config.methods):
        raise InputError(
            f"{path}: nothing to do: stage 0 is the zero-shot judge's, all other methods need a stage above 0"
        )
    return config
