"""What the demo shows: plain tables on a terminal, the same words in a log."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from memalign.align import AlignResult
from memalign.terminal import plain
from memalign.types import Feedback, Judgment, Usage

if TYPE_CHECKING:
    from memalign.demo.story import Act
    from memalign.models.catalogue import EmbeddedModel

__all__ = ["Screen"]


class Screen:
    """Everything the demo prints. With `quiet` it goes to stderr, so that stdout holds JSON alone."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._console = Console(stderr=quiet, highlight=False, markup=False, emoji=False)

    def say(self, text: str) -> None:
        """One line."""
        self._console.print(plain(text))

    def chapter(self, number: str, title: str) -> None:
        """A heading."""
        self._console.print()
        self._console.rule(Text(f"{number}. {title}", style="bold"), align="left", style="dim")

    def no_provider(self, model: EmbeddedModel) -> None:
        """Say that the embedded model is used, and what it is."""
        self.say(
            f"No provider's key is set, so the demo runs on the embedded model {model.name} ({model.licence}), in this "
            "process and without a network. It is a weak judge; set OPENAI_API_KEY or use --model for another one."
        )
        if not model.present:
            self.say(f"It is pulled once: {model.megabytes}, into {model.path.parent}")

    def opening(self, name: str, *, local: bool) -> None:
        """Say what is going to happen."""
        place = " on this machine" if local else ""
        self.say(f"A judge of a support bot's replies, on {name}{place}. Is a reply good enough to send?")

    @contextlib.contextmanager
    def progress(self, name: str) -> Iterator[Callable[[str, int, int], None]]:
        """A bar for one stage; gone when the stage is over."""
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[count]}"))
        with Progress(*columns, TimeElapsedColumn(), console=self._console, transient=True) as bars:
            task = bars.add_task(name, total=None, count="")

            def show(phase: str, done: int, total: int) -> None:
                bars.update(task, description=f"{name}: {phase}", completed=done, total=total, count=f"{done}/{total}")

            yield show

    @contextlib.contextmanager
    def download(self, model: EmbeddedModel) -> Iterator[Callable[[str, int, int], None]]:
        """A bar in megabytes."""
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[count]}"))
        with Progress(*columns, TimeElapsedColumn(), console=self._console, transient=True) as bars:
            task = bars.add_task(f"pull {model.name}", total=None, count="")

            def show(phase: str, done: int, total: int) -> None:
                count = f"{done // 1_000_000:,}/{total // 1_000_000:,} MB"
                bars.update(task, description=f"{model.name}: {phase}", completed=done, total=total, count=count)

            yield show

    def verdicts(self, rows: Sequence[Feedback], judgments: Sequence[Judgment]) -> None:
        """Each held-out case: the reply, the judge's verdict and reason, the expert's verdict."""
        table = _table("customer", "reply", "judge", "expert", "the judge's reason")
        for row, judgment in zip(rows, judgments, strict=True):
            table.add_row(
                str(row.inputs), str(row.outputs), _verdict(judgment, row), _word(row.value), _reason(judgment)
            )
        self._console.print(table)

    def feedback(self, rows: Sequence[Feedback], result: AlignResult) -> None:
        """Each piece of feedback: what the judge had said by itself, what the expert said, and its ledger state."""
        memory = result.judge.memory
        table = _table("feedback", "reply", "judge", "expert", "the expert's words", "state")
        for row in rows:
            case, annotation = memory.case(row.id), memory.annotation(row.key)
            pre_alignment = case.pre_alignment if case else None
            said = (
                Text("-")
                if pre_alignment is None
                else _mark(_word(pre_alignment.value), right=pre_alignment.value == row.value)
            )
            state = annotation.state if annotation else "-"
            table.add_row(str(row.key), str(row.outputs), said, _word(row.value), row.rationale or "-", state)
        self._console.print(table)
        self.say(str(result))

    def guidelines(self, result: AlignResult) -> None:
        """The guidelines in force, each with the feedback it came from."""
        memory = result.judge.memory
        table = _table("", "guideline learned", "from")
        for guideline in memory.semantic:
            table.add_row(guideline.id, plain(guideline.text), ", ".join(map(str, memory.sources_of(guideline))))
        self._console.print(table)

    def side_by_side(
        self,
        rows: Sequence[Feedback],
        before: Sequence[Judgment],
        after: Sequence[Judgment],
        *,
        headings: tuple[str, str] = ("before", "after"),
    ) -> None:
        """Verdicts before and after, against the expert's."""
        table = _table("", "reply", *headings, "expert", f"the reason {headings[1]}")
        for row, first, second in zip(rows, before, after, strict=True):
            table.add_row(
                row.id, str(row.outputs), _verdict(first, row), _verdict(second, row), _word(row.value), _reason(second)
            )
        self._console.print(table)

    def forgotten(self, result: AlignResult) -> None:
        """What went, what stays, and what still waits."""
        for guideline in result.forgotten:
            self.say(f"forgotten: {guideline.id} {guideline.text}")
        for key in result.removed:
            self.say(f"forgotten: the case and the words of {key}")
        for guideline in result.guidelines:
            self.say(f"derived again without it: {guideline.id} {guideline.text}")
        kept = ", ".join(guideline.id for guideline in result.judge.memory.semantic) or "none"
        self.say(f"kept, word for word, for they never saw it: {kept}")
        for key, reason in result.pending:
            self.say(f"pending: {key}: {reason}")

    def costs(self, acts: Sequence[Act]) -> None:
        """Calls, tokens, seconds and cost of each stage, and in all."""
        table = Table(box=None, pad_edge=False, header_style="dim")
        table.add_column("stage", no_wrap=True)
        for name in ("calls", "tokens in", "of them cached", "tokens out", "seconds", "cost"):
            table.add_column(name, justify="right")
        for act in acts:
            table.add_row(*_costs(act.name, act.usage, act.seconds))
        total = sum((act.usage for act in acts), Usage())
        table.add_row(*_costs("in all", total, sum(act.seconds for act in acts)), style="bold")
        self._console.print(table)

    def closing(self, *, before: int, after: int, of: int) -> None:
        """The result in one line, whatever it is."""
        self._console.print()
        self.say(f"Agreement with the expert on {of} cases it had not seen: {before} before, {after} after.")
        self.say("Five cases show how it works, not how well: `memalign evaluate` gives figures with intervals.")


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 1, 0))
    for heading in headings:
        narrow = heading in ("", "judge", "expert", "before", "after", "aligned", "state", "from", "feedback")
        table.add_column(heading, no_wrap=narrow and heading != "from", ratio=None if narrow else 1)
    return table


def _word(value: object) -> str:
    return {True: "send", False: "don't"}.get(value, str(value)) if isinstance(value, bool) else "-"


def _mark(word: str, *, right: bool) -> Text:
    return Text(word, style="green") if right else Text(f"{word} ✗", style="red")


def _verdict(judgment: Judgment, row: Feedback) -> Text:
    if judgment.error is not None:
        return Text("failed", style="red")
    return _mark(_word(judgment.value), right=judgment.value == row.value)


def _reason(judgment: Judgment) -> str:
    return plain(judgment.error or judgment.rationale or "-")


def _costs(name: str, usage: Usage, seconds: float) -> tuple[str, ...]:
    cost = "unknown" if usage.cost is None else f"${usage.cost:.4f}" if usage.cost else "$0"
    counts = (usage.calls, usage.input_tokens, usage.cached_tokens, usage.output_tokens)
    return (name, *(f"{count:,}" for count in counts), f"{seconds:.1f}", cost)
