"""What is still to be done: every judgment of a run that its raw folder does not hold, in the order of doing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from memalign.errors import InputError
from memalign.evaluation import same_value
from memalign_bench.config import Config, views_of
from memalign_bench.raw import Cell, Line, RawFolder, View
from memalign_bench.tasks import Case, Split, Task, taught_digest

__all__ = ["Batch", "Plan", "content_mark", "make_plan"]


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Some cases of one cell that are judged together."""

    cell: Cell
    todo: tuple[tuple[Case, View], ...]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A run's tasks, how they are split by task and seed, and its cells in the order of doing."""

    config: Config
    tasks: dict[str, Task]
    splits: dict[tuple[str, int], Split]
    cells: tuple[Cell, ...]

    def todo(self, cell: Cell) -> list[tuple[Case, View]]:
        """Every case of the cell and how it is looked at: the tests, then those that taught, in the method's views."""
        split = self.splits[cell.task, cell.seed]
        wanted: list[tuple[Case, View]] = [(case, "unseen") for case in split.test]
        taught = split.train[: min(self.config.seen, cell.stage or self.config.seen)]
        again: tuple[View, ...] = ("seen", "left-out")
        return wanted + [(case, view) for view in again if view in views_of(cell.method) for case in taught]

    def taught(self, cell: Cell) -> tuple[Case, ...]:
        """The cases that teach the cell's judge, in order."""
        return self.splits[cell.task, cell.seed].train[: cell.stage]

    def knows(self, cell: Cell, raw: RawFolder) -> bool:
        """Whether what `raw` has of the cell was taught by the very cases that teach it in this plan."""
        fit = raw.fit(cell)
        return fit is not None and fit.taught == taught_digest(self.taught(cell))

    def done(self, cell: Cell, raw: RawFolder) -> set[tuple[str, View]]:
        """What `raw` has of the cell with the same teaching cases, label and content: it need not be judged again."""
        if not self.knows(cell, raw):
            return set()
        cases = {(case.id, view): case for case, view in self.todo(cell)}
        return {
            line.key
            for line in raw.lines(cell)
            if line.error is None and line.key in cases and _is_of(line, cases[line.key])
        }

    def misplaced(self, cell: Cell, raw: RawFolder) -> list[Line]:
        """What `raw` has of cases on the other side of the split, such as an unseen case that teaches now.

        Only a judge that nothing teaches can have such lines: any other is judged anew. Cases beyond a smaller `test`, and
        cases that this data lacks, are not misplaced.
        """
        if self.taught(cell):
            return []
        task = self.tasks[cell.task]
        split = task.split(seed=cell.seed, train=self.config.train)
        there = {case.id for case in task.cases}
        untested, untaught = (there - {case.id for case in side} for side in (split.test, split.train))
        return [line for line in raw.lines(cell) if line.id in (untested if line.view == "unseen" else untaught)]

    def batches(self, raw: RawFolder) -> Iterator[Batch]:
        """What is missing, in the order of doing: the same few cases by all cells before others."""
        wanted = {cell: self.todo(cell) for cell in self.cells}
        longest = max(map(len, wanted.values()))
        size = self.config.rows_at_once or longest
        done = {cell: self.done(cell, raw) for cell in self.cells}
        for start in range(0, longest, size):
            for cell in self.cells:
                part = wanted[cell][start : start + size]
                missing = tuple((case, view) for case, view in part if (case.id, view) not in done[cell])
                if missing:
                    yield Batch(cell=cell, todo=missing)

    def counts(self, raw: RawFolder) -> tuple[int, int]:
        """How many judgments are done, and how many there are."""
        total = sum(len(self.todo(cell)) for cell in self.cells)
        return total - sum(len(batch.todo) for batch in self.batches(raw)), total


def content_mark(case: Case) -> str:
    """The eight hex digits by which a line knows what it judged."""
    return case.example.content_hash[:8]


def _is_of(line: Line, case: Case) -> bool:
    return same_value(line.label, case.label) and line.content in ("", content_mark(case))


def make_plan(config: Config, tasks: Sequence[Task]) -> Plan:
    """All cells of a run over `tasks`.

    Raises InputError for a task that is too small to be split, for seeds of a task that is not among them, and for several
    seeds of a task that has one split.
    """
    there = [task.name for task in tasks]
    if unknown := [name for name in config.seeds_of if name not in there]:
        raise InputError(f"seeds_of names {unknown[0]!r}, which is not among the tasks: {', '.join(there)}")
    if ordered := [task.name for task in tasks if task.in_order and len(config.seeds_for(task.name)) > 1]:
        raise InputError(f"task {ordered[0]!r} has one split, in the order of its cases: give it one seed")
    splits = {
        (task.name, seed): task.split(seed=seed, train=config.train, test=config.test)
        for task in tasks
        for seed in config.seeds_for(task.name)
    }
    cells = tuple(
        Cell(model=model, task=task, seed=seed, method=method, stage=stage)
        for model in config.models
        for task, seed in splits
        for method in config.methods
        for stage in config.stages_of(method)
    )
    return Plan(config=config, tasks={task.name: task for task in tasks}, splits=splits, cells=cells)
