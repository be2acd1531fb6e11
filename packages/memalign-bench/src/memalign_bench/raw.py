"""Raw judgments: a line each without judged text, so that they can be published and resumed from.

A cell is one method of one task, seed, stage and model. Its lines lie in `<model>/<task>/seed<n>/<method>@<stage>.jsonl`,
and what learning took in `<method>@<stage>.fit.json` beside it.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Literal

import msgspec

from memalign.errors import InputError
from memalign.io.atomic import atomic_write
from memalign.types import json_line
from memalign.values import Value
from memalign_bench.old_names import method_of_today, older_names

__all__ = ["Cell", "Fit", "Line", "RawFolder", "View", "engine_mark", "model_folder", "writing"]

View = Literal["unseen", "seen", "left-out"]
"""How a case stands to memory: never met; met, with its own example in view; met, but it and all exposed to it hidden."""


class Cell(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """One method of one task, seed, stage (pieces of feedback that taught it) and model."""

    model: str
    task: str
    seed: int
    method: str
    stage: int

    @property
    def path(self) -> Path:
        """Where its lines lie inside the raw folder."""
        return Path(model_folder(self.model)) / self.task / f"seed{self.seed}" / f"{self.method}@{self.stage}.jsonl"

    def __str__(self) -> str:
        return f"{self.task} seed {self.seed} {self.method}@{self.stage}"


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One judgment: the case's id, group and label, the verdict or its error, and what it cost.

    `tokens_in` includes `cached`. `seconds` is the model's time, `cost` in US dollars (None: not known). `fit` names the state
    that judged: a cell never mixes two. `content` and `engine` begin the digests of what was judged and of what computed the
    verdict; empty where that was not kept.
    """

    id: str
    group: str
    label: Value
    content: str = ""
    value: Value | None = None
    error: str | None = None
    view: View = "unseen"
    calls: int = 1
    tokens_in: int = 0
    cached: int = 0
    tokens_out: int = 0
    seconds: float = 0.0
    cost: float | None = 0.0
    fit: str = ""
    engine: str = ""

    @property
    def key(self) -> tuple[str, View]:
        """What is judged once in a cell."""
        return self.id, self.view


class Fit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What learning took: model calls, tokens, cost, seconds; and what came out, in numbers.

    `id` is the fingerprint of the state that judges. `seconds` counts remembered calls with the time that they once took.
    `counts` are facts of the method's own, such as guidelines. `taught` is the digest of the cases that taught it.
    """

    id: str
    calls: int = 0
    tokens_in: int = 0
    cached: int = 0
    tokens_out: int = 0
    cost: float | None = 0.0
    seconds: float = 0.0
    counts: dict[str, int] = {}
    taught: str = ""


class RawFolder:
    """The lines and fits under one folder; appending is safe against a stop at any byte.

    Raises InputError for a path that is a file.
    """

    def __init__(self, folder: Path) -> None:
        if folder.exists() and not folder.is_dir():
            raise InputError(
                f"{folder} is a file, and raw judgments lie in a folder: move it away, or give another folder with --out"
            )
        self.folder = folder

    def path(self, cell: Cell) -> Path:
        """The file of the cell's lines: the one that an earlier version began under an old name, where there is one."""
        today = self.folder / cell.path
        before = (today.with_name(f"{name}@{cell.stage}.jsonl") for name in older_names(cell.method))
        return next((path for path in before if path.exists()), today)

    def lines(self, cell: Cell) -> list[Line]:
        """The cell's lines, the last one of each case and view; a last line that was cut off is not there.

        Raises InputError for a line in the middle that is not one of ours.
        """
        path = self.path(cell)
        if not path.exists():
            return []
        found: dict[tuple[str, View], Line] = {}
        raw = path.read_bytes().split(b"\n")
        for number, text in enumerate(raw, 1):
            if not text.strip():
                continue
            try:
                line = msgspec.json.decode(text, type=Line)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                if number == len(raw):  # stopped while writing: that case is judged again
                    continue
                raise InputError(
                    f"{path}, line {number}: {error}; delete that line, its case is judged again"
                ) from None
            found[line.key] = line
        return list(found.values())

    def append(self, cell: Cell, lines: Iterable[Line]) -> None:
        """Add lines at the end of the cell's file."""
        path = self.path(cell)
        with writing(path), path.open("a+b") as file:
            _drop_cut_line(file)
            file.writelines(map(json_line, lines))

    def replace(self, cell: Cell, lines: Iterable[Line]) -> None:
        """Write the cell's file anew, whole or not at all."""
        _write(self.path(cell), b"".join(map(json_line, lines)))

    def fit(self, cell: Cell) -> Fit | None:
        """What the cell's alignment took, or None. Raises InputError for a file that is not one of ours."""
        path = self._fit_path(cell)
        try:
            return msgspec.json.decode(path.read_bytes(), type=Fit)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InputError(f"{path}: {error}; delete that file, it is written again when its method learns") from None

    def write_fit(self, cell: Cell, fit: Fit) -> None:
        """Keep what the cell's alignment took, whole or not at all."""
        _write(self._fit_path(cell), msgspec.json.format(msgspec.json.encode(fit), indent=1) + b"\n")

    def cells(self, models: Iterable[str]) -> Iterator[Cell]:
        """Every cell of `models` that has lines, in the order of its path.

        Raises InputError for a file between them whose name is none of a cell.
        """
        for model in models:
            root = self.folder / model_folder(model)
            for path in sorted(root.glob("*/seed*/*@*.jsonl")):
                method, _, stage = path.stem.rpartition("@")
                seed = path.parent.name.removeprefix("seed")
                if not (seed.isdecimal() and stage.isdecimal()):
                    raise InputError(f"{path} is no cell's file, seed<n>/<method>@<stage>.jsonl: move it elsewhere")
                cell = Cell(
                    model=model,
                    task=path.parent.parent.name,
                    seed=int(seed),
                    method=method_of_today(method),
                    stage=int(stage),
                )
                if self.path(cell) != path:
                    raise InputError(f"{path} and {self.path(cell)} are one cell under two names: keep one of them")
                yield cell

    def _fit_path(self, cell: Cell) -> Path:
        return self.path(cell).with_suffix(".fit.json")


def engine_mark(engine: str | None) -> str:
    """The beginning of the digest by which lines name their engine; empty for none."""
    return hashlib.sha256(engine.encode()).hexdigest()[:8] if engine else ""


def model_folder(model: str) -> str:
    """The name of the folder that holds the model's cells."""
    return re.sub(r"[^\w.-]+", "-", model)


def _drop_cut_line(file: BinaryIO) -> None:
    """Remove a last line that a stop cut off: its case is judged again. A whole line without its line break gets one."""
    if file.seek(0, os.SEEK_END) == 0:
        return
    file.seek(-1, os.SEEK_END)
    if file.read(1) == b"\n":
        return
    file.seek(0)  # seldom: only then is the whole file read
    whole = file.read()
    start = whole.rfind(b"\n") + 1
    try:
        msgspec.json.decode(whole[start:], type=Line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        file.truncate(start)
    else:
        file.write(b"\n")


def _write(path: Path, content: bytes) -> None:
    with writing(path), atomic_write(path) as file:
        file.write(content)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Write `path` of a raw folder, in a folder that is made for it. Raises InputError for what the system refuses."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise InputError(
            f"{path} cannot be written: {error.strerror}; give another folder with --out, what this one holds is kept"
        ) from None
