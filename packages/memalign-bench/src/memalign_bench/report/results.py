"""The raw judgments of a folder, as a report asks for them: which method said what of which case."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from memalign.errors import InputError
from memalign.evaluation import same_value
from memalign.types import Usage
from memalign_bench.config import METHODS, ZERO_SHOT
from memalign_bench.methods.baselines import BASELINES
from memalign_bench.methods.judges import JUDGES
from memalign_bench.prices import Prices
from memalign_bench.raw import Cell, Fit, Line, RawFolder, View, model_folder
from memalign_bench.report.facts import Facts, TaskFacts, read_facts

__all__ = ["VIEWS", "Judged", "Key", "Results", "load_results", "method_order"]

VIEWS: tuple[View, ...] = ("unseen", "seen", "left-out")
Key = tuple[str, int, str]
"""Task, seed and case: what two methods must have in common to be compared."""
T = TypeVar("T")
Spent = TypeVar("Spent", Line, Fit)


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """One case of one task and seed, and what was said of it."""

    task: str
    seed: int
    line: Line

    @property
    def key(self) -> Key:
        """What two methods must have in common to be compared."""
        return self.task, self.seed, self.line.id

    @property
    def cluster(self) -> tuple[str, str]:
        """What is resampled as a whole: the group, so that a case which several seeds drew counts as one piece of evidence."""
        return self.task, self.line.group

    @property
    def right(self) -> bool:
        """Whether the verdict is the people's label; a case without a verdict is not right (and should not be asked)."""
        return self.line.value is not None and same_value(self.line.value, self.line.label)


@dataclass(frozen=True, kw_only=True)
class Results:
    """Every cell of a raw folder, with the facts of its tasks.

    Some cells stand in for others. Zero-shot learns nothing: its lines at stage 0 hold for every stage, and stage 0 of a
    judge that comes to its verdict the same way is zero-shot. Baselines hold for every model.
    """

    facts: Facts
    cells: Mapping[Cell, tuple[Line, ...]]
    fits: Mapping[Cell, Fit]
    found: dict[Hashable, Any] = field(default_factory=dict, repr=False, compare=False)

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` gives, made once for a key: tables and figures ask for the same intervals."""
        if key not in self.found:
            self.found[key] = make()
        made: T = self.found[key]
        return made

    @property
    def models(self) -> tuple[str, ...]:
        """The judge models: those of which something other than a baseline was judged."""
        return tuple(dict.fromkeys(cell.model for cell in self.cells if cell.method not in BASELINES))

    def tasks(self, model: str) -> tuple[TaskFacts, ...]:
        """The tasks that the model judged, in the order of their names."""
        names = {cell.task for cell in self.cells if cell.model == model}
        return tuple(self.facts.tasks[name] for name in sorted(names))

    def methods(self, model: str) -> tuple[str, ...]:
        """The model's methods that are judges, in the order of a report."""
        names = {cell.method for cell in self.cells if cell.model == model and cell.method not in BASELINES}
        return tuple(sorted(names, key=method_order))

    def stages(self, model: str, method: str, *, view: View = "unseen") -> tuple[int, ...]:
        """The stages at which the method judged anything in the view, and 0 where the zero-shot judge stands in for it."""
        own = {
            cell.stage
            for cell, lines in self.cells.items()
            if (cell.model, cell.method) == (model, method) and any(line.view == view for line in lines)
        }
        starts = _starts_zero_shot(method) and own and view == "unseen" and ZERO_SHOT in self.methods(model)
        return tuple(sorted(own | {0} if starts else own))

    def seeds(self, model: str, task: str) -> tuple[int, ...]:
        """The seeds of which the model judged the task."""
        return tuple(sorted({cell.seed for cell in self.cells if (cell.model, cell.task) == (model, task)}))

    def cell(self, model: str, task: str, seed: int, method: str, stage: int) -> Cell | None:
        """The cell that holds the method's verdicts at the stage, be it one that stands in for it."""
        exact = Cell(model=model, task=task, seed=seed, method=method, stage=stage)
        if exact in self.cells:
            return exact
        if method == ZERO_SHOT or (stage == 0 and _starts_zero_shot(method)):
            zero_shot = Cell(model=model, task=task, seed=seed, method=ZERO_SHOT, stage=0)
            return zero_shot if zero_shot in self.cells else None
        if method in BASELINES:
            alike = (Cell(model=name, task=task, seed=seed, method=method, stage=stage) for name in self._all_models())
            return max((cell for cell in alike if cell in self.cells), key=lambda c: len(self.cells[c]), default=None)
        return None

    def lines(
        self, model: str, tasks: Iterable[str], method: str, stage: int, *, view: View = "unseen"
    ) -> Iterator[tuple[Cell, Line]]:
        """The method's lines at the stage over the tasks and all their seeds, failed ones too."""
        for task in tasks:
            for seed in self.seeds(model, task):
                cell = self.cell(model, task, seed, method, stage)
                if cell is not None:
                    yield from ((cell, line) for line in self.cells[cell] if line.view == view)

    def judged(
        self, model: str, tasks: Iterable[str], method: str, stage: int, *, view: View = "unseen"
    ) -> dict[Key, Judged]:
        """The method's verdicts at the stage, by task, seed and case; failed judgments are not among them."""
        found = (
            Judged(task=cell.task, seed=cell.seed, line=line)
            for cell, line in self.lines(model, tasks, method, stage, view=view)
            if line.value is not None
        )
        return {judged.key: judged for judged in found}

    def known(self, model: str, tasks: Iterable[str], *, view: View = "unseen", stage: int | None = None) -> set[Key]:
        """Every case that any method of the model was asked about in the view; `stage` for views whose cases grow with it."""
        wanted = set(tasks)
        return {
            (cell.task, cell.seed, line.id)
            for cell, lines in self.cells.items()
            if cell.model == model and cell.task in wanted and (view == "unseen" or stage in (None, cell.stage))
            for line in lines
            if line.view == view
        }

    def fits_of(self, model: str, tasks: Iterable[str], method: str, stage: int) -> list[Fit]:
        """What learning took at the stage, one for each task and seed."""
        wanted = set(tasks)
        return [
            fit
            for cell, fit in self.fits.items()
            if (cell.model, cell.method, cell.stage) == (model, method, stage) and cell.task in wanted
        ]

    def _all_models(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(cell.model for cell in self.cells))


def load_results(folder: Path, *, prices: Prices | None = None) -> Results:
    """Everything in a raw folder; with `prices` all costs are by them, whatever was asked for when the calls were made.

    Raises InputError when it holds no judgments, a task that `tasks.json` does not describe, a case with two labels, or
    methods that different cases taught: they would then not have been measured against the same thing.
    """
    facts = read_facts(folder)
    names = {model_folder(model): model for model in facts.models}
    found = sorted(path.name for path in folder.iterdir() if path.is_dir())
    raw = RawFolder(folder)
    cells = {cell: _in_order(raw.lines(cell)) for cell in raw.cells([names.get(slug, slug) for slug in found])}
    cells = {cell: lines for cell, lines in cells.items() if lines}
    if not cells:
        raise InputError(f"{folder} holds no judgments: run `memalign bench run` first")
    if strange := sorted({cell.task for cell in cells} - set(facts.tasks)):
        raise InputError(
            f"{folder / 'tasks.json'} says nothing about task {strange[0]!r}; `memalign bench run` with that task adds it"
        )
    _check_labels(raw, cells)
    # A state that learned is worth showing before it has judged anything, so fits of empty cells would count too; but
    # only cells with lines are listed, and learning without judging is no result.
    fits = {cell: fit for cell in cells if (fit := raw.fit(cell)) is not None}
    _check_taught(raw, fits)
    if prices is not None:
        cells = {cell: tuple(_priced(line, prices) for line in lines) for cell, lines in cells.items()}
        fits = {cell: _priced(fit, prices) for cell, fit in fits.items()}
    return Results(facts=facts, cells=cells, fits=fits)


def method_order(method: str) -> tuple[int, str]:
    """Where a report lists the method: baselines, judges, other optimizers; names that it does not know come last."""
    return (METHODS.index(method), "") if method in METHODS else (len(METHODS), method)


def _starts_zero_shot(method: str) -> bool:
    """Whether the method without anything learned is the zero-shot judge: not where it comes to its verdict in another way."""
    return method in JUDGES and "verdict" not in dict(JUDGES[method].parameters)


def _priced(spent: Spent, prices: Prices) -> Spent:
    if not spent.tokens_in and not spent.tokens_out:  # no call, or one whose tokens nobody counted: that has no price
        return spent
    usage = Usage(input_tokens=spent.tokens_in, cached_tokens=spent.cached, output_tokens=spent.tokens_out)
    return msgspec.structs.replace(spent, cost=prices.of(usage))


def _in_order(lines: Iterable[Line]) -> tuple[Line, ...]:
    """By case, so that a figure does not depend on who was judged first."""
    return tuple(sorted(lines, key=lambda line: (line.id, line.view)))


def _check_labels(raw: RawFolder, cells: Mapping[Cell, tuple[Line, ...]]) -> None:
    labels: dict[tuple[str, str], tuple[Line, Cell]] = {}
    for cell, lines in cells.items():
        for line in lines:
            first, where = labels.setdefault((cell.task, line.id), (line, cell))
            if not same_value(first.label, line.label) or first.group != line.group:
                raise InputError(
                    f"{line.id!r} has label {line.label!r} and group {line.group!r} in {raw.path(cell)}, but "
                    f"{first.label!r} and {first.group!r} in {raw.path(where)}: the two were not measured against "
                    "the same data; delete the older file and run again"
                )


def _check_taught(raw: RawFolder, fits: Mapping[Cell, Fit]) -> None:
    teachers: dict[tuple[str, int, int], tuple[Fit, Cell]] = {}
    for cell, fit in fits.items():
        if cell.stage == 0 or not fit.taught:
            continue
        first, where = teachers.setdefault((cell.task, cell.seed, cell.stage), (fit, cell))
        if first.taught != fit.taught:
            raise InputError(
                f"{raw.path(cell)} was taught by other cases than {raw.path(where)}: the data or `train` changed "
                "between them; `memalign bench run` judges anew what is older of the methods in its configuration, others are to be deleted"
            )
