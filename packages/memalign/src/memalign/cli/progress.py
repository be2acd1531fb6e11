"""How far a run has come: bars or lines, and what a run over many items has cost and failed at so far."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from memalign.types import Usage

if TYPE_CHECKING:
    from rich.console import Console

    from memalign.types import Judgment

__all__ = ["FailureReasons", "RunProgress", "bars", "lines"]

Update = Callable[[str, int, int], None]
Detail = Callable[[int, int], str] | None

_PHASES = {
    "distil": "distil guidelines",
    "ask": "ask the checks about past cases",
    "locks": "check locked cases",
    "hub": "download from the hub",
    "wheels": "download from the package index",
}

_FRAME, _MINUTE = 0.1, 60.0  # seconds
_NAMED = 5  # ids of a reason for failures
_REASONS = 20
_KEPT = 1_000  # failures that --json lists


@contextmanager
def bars(console: Console, *, size: bool, detail: Detail, transient: bool) -> Iterator[Update]:
    """A bar for each phase, on a terminal."""
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    counter = DownloadColumn() if size else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), counter, TimeElapsedColumn())
    with Progress(*columns, TextColumn("{task.fields[detail]}"), console=console, transient=transient) as drawn:
        tasks: dict[str, Any] = {}
        last = 0.0

        def update(phase: str, done: int, total: int) -> None:
            nonlocal last
            phase = _PHASES.get(phase, phase)
            now = time.monotonic()
            if phase in tasks and done < total and now - last < _FRAME:
                return  # a hundred thousand items need no bar drawn for each
            last = now
            if phase not in tasks:
                for task in drawn.tasks:
                    # A phase that only told of its start is over now; an empty bar would say it failed.
                    drawn.update(task.id, visible=task.completed > 0)
                tasks[phase] = drawn.add_task(phase, total=total or None, detail="")
            more = detail(done, total) if detail is not None else ""
            drawn.update(tasks[phase], completed=done, total=total or None, detail=more)

        yield update


def lines(say: Callable[[str], None], *, size: bool, detail: Detail) -> Update:
    """A line at the start, at the end, at every tenth of a long phase, and once a minute: for a log."""
    last: dict[str, tuple[int, float]] = {}

    def update(phase: str, done: int, total: int) -> None:
        tenth = 10 * done // total if total else 0
        before, at = last.get(phase, (-1, 0.0))
        if (before == tenth or (0 < total < 20 and 0 < tenth < 10)) and time.monotonic() - at < _MINUTE:
            return
        last[phase] = (tenth, time.monotonic())
        amount = f"{done} of {total}" if total else f"{done}"
        if size:
            amount = f"{done / 1e6:,.0f} of {total / 1e6:,.0f} MB"
        say(
            f"{_PHASES.get(phase, phase)}: {amount}"
            + (f", {more}" if detail is not None and (more := detail(done, total)) else "")
        )

    return update


class FailureReasons:
    """Failures (or what `word` says) by their reason: a server that is down gives every item the same one."""

    def __init__(self, word: str = "failed") -> None:
        self._word = word
        self._ids: dict[str, tuple[int, list[str]]] = {}

    def add(self, example_id: str, error: str) -> None:
        """Count one failure. A reason may name its item: of a hundred thousand reasons, a few are enough."""
        reason = error if error in self._ids or len(self._ids) < _REASONS else "other reasons"
        count, ids = self._ids.get(reason, (0, []))
        self._ids[reason] = (count + 1, [*ids, example_id] if count < _NAMED else ids)

    def lines(self) -> list[str]:
        """A line for each reason, the most frequent first."""
        found = sorted(self._ids.items(), key=lambda pair: -pair[1][0])
        return [
            f"{self._word}: {', '.join(ids)}{f' and {count - _NAMED} more' if count > _NAMED else ''}: {reason}"
            for reason, (count, ids) in found
        ]


class RunProgress:
    """Counts judgments as they come (`note`), and says how it goes (`text`). However many there are, it stays small."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._first = 0.0  # when the first judgment came: before it a library is loaded
        self.judged = 0
        self.failed = 0
        self.usage = Usage()
        self.failures: list[tuple[str, str]] = []
        """Id and reason of the first failures."""
        self.reasons = FailureReasons()
        self.notes = FailureReasons("note")

    def note(self, example_id: str, judgment: Judgment) -> None:
        """Count a judgment of this run."""
        self._first = self._first if self.judged else self._clock()
        self.judged += 1
        self.usage += judgment.usage
        for text in judgment.notes:
            self.notes.add(example_id, text)
        if judgment.error is not None:
            self.failed += 1
            self.reasons.add(example_id, judgment.error)
            if len(self.failures) < _KEPT:
                self.failures.append((example_id, judgment.error))

    def text(self, done: int, total: int) -> str:
        """`61 a second, $0.42, 26 min left`; nothing before the second judgment."""
        seconds = self._clock() - self._first
        if self.judged < 2 or seconds <= 0:
            return ""
        rate = (self.judged - 1) / seconds
        speed = f"{rate:,.{0 if rate >= 10 else 1}f} a second" if rate >= 1 else f"{_duration(1 / rate)} each"
        cost = [] if not self.usage.cost else [f"${self.usage.cost:.2f}"]
        left = [f"{_duration((total - done) / rate)} left"] if total > done else []
        return ", ".join([speed, *cost, *left])


def _duration(seconds: float) -> str:
    """`40 s`, `26 min`, `3 h 20 min`."""
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
