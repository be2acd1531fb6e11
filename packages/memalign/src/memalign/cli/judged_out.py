"""Where `memalign judge` puts its judgments: a file of JSON lines, a CSV beside one, or stdout."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from memalign.errors import InputError

if TYPE_CHECKING:
    from memalign.io import Examples
    from memalign.types import Judgment

__all__ = ["Destination", "LinesOnStdout", "kept_in"]


@dataclass(frozen=True, kw_only=True)
class Destination:
    """What `-o` names.

    `lines` is the file of JSON lines that a run resumes from, None without one; `sheet` the CSV that is made of it.
    """

    lines: Path | str | None = None
    sheet: Path | None = None
    stdout: bool = False

    @classmethod
    def of(cls, given: str | None) -> Destination:
        """Raises InputError for a CSV that no run of ours made: it may be what is to be judged."""
        if given is None or given == "-":
            return cls(stdout=given is not None)
        out = Path(given)
        if out.suffix.lower() != ".csv":
            return cls(lines=given)
        lines = out.with_name(f"{out.name}.jsonl")
        if out.exists() and not lines.exists():
            raise InputError(f"{out} is there, and no judgments beside it ({lines.name}): name another output file")
        return cls(lines=lines, sheet=out)

    def write_sheet(self) -> None:
        """Make the CSV, where one is asked for and there is a judgment to put in it."""
        from memalign.io.judgments import write_judgment_csv

        if (
            self.sheet is not None
            and isinstance(self.lines, Path)
            and self.lines.exists()
            and self.lines.stat().st_size
        ):
            write_judgment_csv(self.lines, self.sheet)

    def __str__(self) -> str:
        if self.sheet is not None and isinstance(self.lines, Path):
            return f"{self.sheet} (resumed from {self.lines.name})"
        return "stdout" if self.stdout else str(self.lines or "")


@dataclass
class LinesOnStdout:
    """Writes judgments to stdout as the lines of a judgment file, in the order of the examples, as soon as each is its turn."""

    source: Examples
    judge: str
    write: Callable[[bytes], object] = field(default_factory=lambda: sys.stdout.buffer.write)
    _waiting: dict[str, bytes] = field(default_factory=dict)
    _ids: deque[str] = field(init=False)

    def __post_init__(self) -> None:
        self._ids = deque(self.source.hashes)

    def add(self, example_id: str, judgment: Judgment) -> None:
        """One judgment, whenever it comes."""
        from memalign.io.judgments import judgment_line

        content_hash = self.source.hashes[example_id]
        self._waiting[example_id] = judgment_line(example_id, judgment, judge=self.judge, content_hash=content_hash)
        while self._ids and self._ids[0] in self._waiting:
            self.write(self._waiting.pop(self._ids.popleft()))
        sys.stdout.flush()

    def finish(self) -> None:
        """What still waits for a judgment that will not come."""
        for example_id in self._ids:
            self.write(self._waiting.pop(example_id, b""))
        sys.stdout.flush()


def kept_in(out: Path | str | None, metavar: str) -> str:
    """What an interrupted run leaves."""
    if out is None:
        return f"no judgment was kept (-o {metavar} keeps them as they come)"
    return f"finished judgments are in {out}, and the same command resumes there"
