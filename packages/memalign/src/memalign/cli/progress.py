"""How far a run has come, and what it has cost and failed at so far."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from memalign.cli.output import open_console, say

if TYPE_CHECKING:
    from rich.console import Console

    from memalign.types import Judgment

Progress = Callable[[str, int, int], None]
"""Called with the phase, how much of it is done, and the total, which is 0 where it is not known."""

_PHASES = {
    "distil": "distil guidelines",
    "ask": "answer the checks for past cases",
    "locks": "check locked cases",
}
_MINUTE = 60.0  # seconds
_NAMED = 5  # ids of one reason for failures
_REASONS = 20


@contextmanager
def show_progress(*, detail: Callable[[int, int], str] | None = None) -> Iterator[Progress]:
    """Show how far a run has come: by bars on a terminal, by a line now and then elsewhere.

    Args:
        detail: Says more of a phase, given what is done and the total.
    """
    console = open_console(stderr=True)
    more = detail or (lambda done, total: "")
    if not console.is_terminal:
        yield _lines(detail=more)
        return
    with _bars(console, detail=more) as update:
        yield update


@contextmanager
def _bars(console: Console, *, detail: Callable[[int, int], str]) -> Iterator[Progress]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TextColumn("{task.fields[detail]}"), console=console) as drawn:
        tasks: dict[str, Any] = {}

        def update(phase: str, done: int, total: int) -> None:
            if phase not in tasks:
                for task in drawn.tasks:
                    # A phase that only told of its start is over now; an empty bar would say it failed.
                    drawn.update(task.id, visible=task.completed > 0)
                tasks[phase] = drawn.add_task(_PHASES.get(phase, phase), total=total or None, detail="")
            drawn.update(tasks[phase], completed=done, total=total or None, detail=detail(done, total))

        yield update


def _lines(*, detail: Callable[[int, int], str]) -> Progress:
    """Say a line at every tenth of a phase, and once a minute."""
    last: dict[str, tuple[int, float]] = {}

    def update(phase: str, done: int, total: int) -> None:
        tenth = 10 * done // total if total else 0
        before, at = last.get(phase, (-1, 0.0))
        if before == tenth and time.monotonic() - at < _MINUTE:
            return
        last[phase] = (tenth, time.monotonic())
        amount = f"{done} of {total}" if total else f"{done}"
        say(", ".join(filter(None, (f"{_PHASES.get(phase, phase)}: {amount}", detail(done, total)))))

    return update


class Reasons:
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
        return [
            f"{self._word}: {', '.join(ids)}{f' and {count - _NAMED} more' if count > _NAMED else ''}: {reason}"
            for reason, (count, ids) in sorted(self._ids.items(), key=lambda pair: -pair[1][0])
        ]


def say_failures(failures: Iterable[tuple[str, str]]) -> None:
    """Say, reason by reason, which ids failed."""
    reasons = Reasons()
    for example_id, error in failures:
        reasons.add(example_id, error)
    for line in reasons.lines():
        say(line)


class RunProgress:
    """Counts the judgments of a run as they come.

    Attributes:
        judged: The judgments so far, those that failed included.
        usage: What they took.
        notes: The judgments' notes by their text.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        from memalign.types import Usage  # it loads msgspec, which help can do without

        self._clock = clock
        self._first = 0.0  # when the first judgment came: before it a library is loaded
        self.judged = 0
        self.usage = Usage()
        self.notes = Reasons("note")

    def note(self, example_id: str, judgment: Judgment) -> None:
        """Count a judgment of this run."""
        self._first = self._first if self.judged else self._clock()
        self.judged += 1
        self.usage += judgment.usage
        for text in judgment.notes:
            self.notes.add(example_id, text)

    def text(self, done: int, total: int) -> str:
        """Write `61 a second, $0.42, 26 min left`; nothing before the second judgment."""
        seconds = self._clock() - self._first
        if self.judged < 2 or seconds <= 0:
            return ""
        rate = (self.judged - 1) / seconds
        speed = f"{rate:,.{0 if rate >= 10 else 1}f} a second" if rate >= 1 else f"{_duration(1 / rate)} each"
        cost = f"${self.usage.cost:.2f}" if self.usage.cost else ""
        remaining = f"{_duration((total - done) / rate)} left" if total > done else ""
        return ", ".join(filter(None, (speed, cost, remaining)))


def _duration(seconds: float) -> str:
    """Write `40 s`, `26 min`, `3 h 20 min`."""
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
