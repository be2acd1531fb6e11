"""A study: what a model answered to every question about every item of some tasks, kept as numbers without any text.

`<folder>/<task>/task.json` says what the task is, and of each question which rows it came from and what they expect.
`<folder>/<task>/P.jsonl` has a line for each item of the pool that teaches, `S.jsonl` for the items kept for the end.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from memalign.errors import InputError
from memalign.values import Value, ValueType

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["FORMAT", "Asked", "Item", "Part", "Question", "Study", "TaskHeader", "packed", "read_studies", "read_study"]

FORMAT = 1
HEADER = "task.json"
Part = Literal["P", "S"]


class Asked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One labelled row that a question was written from: the item's id, and the answer that the comment expects there.

    `answer` speaks for `value`; without a value it speaks for the side of a pair that is asked about.
    """

    item: str
    answer: Literal["yes", "no"]
    value: Value | None = None


class Question(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question without its words: the first hex digits of their SHA-256, and the rows that it came from.

    `near` (questions,): the squared likeness to every question of the task, in its order, by the in-process embedder.
    """

    hash: str
    rows: tuple[Asked, ...]
    near: tuple[float, ...]


class TaskHeader(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a task is. `sides` are the two labels that name the sides of every item, empty where an item has none."""

    format: int
    name: str
    values: str
    model: str
    sides: tuple[str, ...] = ()
    licence: str = ""
    questions: tuple[Question, ...]


class Item(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One item. `margins` (sides or 1, questions): log p(yes)/p(no). `plain` (2,): length and likeness to the reference.

    `verdict` (labels,): the log-probability of each label after a rationale, without memory; None where none was asked.
    `vector`: the embedding for neighbours, `packed`.
    """

    id: str
    group: str
    label: Value
    margins: tuple[tuple[float, ...], ...]
    plain: tuple[float, float]
    verdict: tuple[float, ...] | None = None
    vector: str


class Study(msgspec.Struct, frozen=True, kw_only=True):
    """A task with the items of the parts that were read; `taught` of them, the first ones, are the pool."""

    header: TaskHeader
    items: tuple[Item, ...]
    taught: int

    @property
    def value_type(self) -> ValueType:
        """The values in their parsed form."""
        return ValueType.of(self.header.values)

    @property
    def judged(self) -> bool:
        """Whether every item has a verdict."""
        return all(item.verdict is not None for item in self.items)

    def vectors(self) -> NDArray[np.float64]:
        """The embeddings, (items, dimensions)."""
        import numpy as np

        raw = [np.frombuffer(base64.b64decode(item.vector), dtype="<f2") for item in self.items]
        return np.stack(raw).astype(np.float64)


def packed(vector: NDArray[np.float32]) -> str:
    """A vector as base64 of little-endian half floats."""
    return base64.b64encode(vector.astype("<f2").tobytes()).decode("ascii")


def read_studies(folder: Path, part: Part = "P") -> tuple[Study, ...]:
    """Every task of the folder, by name; those without items of `part` are left out.

    Raises InputError for a folder without any, and as `read_study`.
    """
    there = sorted(path.parent for path in folder.glob(f"*/{HEADER}"))
    if not there:
        raise InputError(f"no study in {folder}: it has a folder with {HEADER} for each task")
    found = tuple(read_study(each, part) for each in there if (each / f"{part}.jsonl").exists())
    if not found:
        raise InputError(f"no task in {folder} has items of part {part} ({part}.jsonl)")
    return found


def read_study(folder: Path, part: Part = "P") -> Study:
    """One task: the pool, and the items of part S too where that is asked for; no other file is opened.

    Raises InputError for what is missing or damaged, with the file and its line.
    """
    path = folder / HEADER
    try:
        header = msgspec.json.decode(path.read_bytes(), type=TaskHeader)
        value_type = ValueType.of(header.values)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, InputError) as error:
        raise InputError(f"{path}: {error}") from None
    if header.format != FORMAT:
        raise InputError(f"{path}: format {header.format}, and this version reads {FORMAT}")
    if len({question.hash for question in header.questions}) < len(header.questions):
        raise InputError(f"{path}: one question is there twice")
    if odd := [question.hash for question in header.questions if len(question.near) != len(header.questions)]:
        raise InputError(
            f"{path}: question {odd[0]} has not one likeness to each of the {len(header.questions)} questions"
        )
    pool = _items(folder / "P.jsonl", header, value_type)
    rest = _items(folder / "S.jsonl", header, value_type) if part == "S" else []
    if both := {item.id for item in pool} & {item.id for item in rest}:
        raise InputError(f"{folder}: item {min(both)!r} is in both parts")
    if len({len(item.vector) for item in (*pool, *rest)}) > 1:
        raise InputError(f"{folder}: vectors of different lengths")
    return Study(header=header, items=(*pool, *rest), taught=len(pool))


def _items(path: Path, header: TaskHeader, value_type: ValueType) -> list[Item]:
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    found: dict[str, Item] = {}
    for number, line in enumerate(lines, 1):
        try:
            item = msgspec.json.decode(line, type=Item)
            base64.b64decode(item.vector, validate=True)
        except (ValueError, msgspec.DecodeError) as error:
            raise InputError(f"{path}, line {number}: {error}") from None
        if wrong := _wrong(item, header, value_type) or ("it is there twice" if item.id in found else ""):
            raise InputError(f"{path}, line {number}, item {item.id!r}: {wrong}")
        found[item.id] = item
    if not found:
        raise InputError(f"{path} has no items")
    return list(found.values())


def _wrong(item: Item, header: TaskHeader, value_type: ValueType) -> str:
    """What does not fit the task; empty where all does."""
    if item.label not in value_type.labels:
        return f"label {item.label!r} is none of the task's"
    if len(item.margins) != (2 if header.sides else 1):
        return f"{len(item.margins)} rows of margins for {len(header.sides)} sides"
    if any(len(row) != len(header.questions) for row in item.margins):
        return f"{len(item.margins[0])} margins for {len(header.questions)} questions"
    if item.verdict is not None and len(item.verdict) != len(value_type.labels):
        return f"{len(item.verdict)} log-probabilities for {len(value_type.labels)} labels"
    return ""
