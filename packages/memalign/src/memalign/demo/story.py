"""The demo, stage by stage, on a real model: judge, align, judge again, unalign, judge a last time."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from memalign.align import AlignResult
from memalign.demo.show import Screen
from memalign.errors import MemalignError, ModelError
from memalign.io import read_feedback
from memalign.judge import Judge
from memalign.models import ChatModel, default_model_name, resolve
from memalign.types import Feedback, Judgment, Usage

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Act", "run_demo"]

INSTRUCTIONS = "Is the support bot's reply good enough to send?\nCustomer: {{ inputs }}\nReply: {{ outputs }}"
WITHDRAWN = "t-1"


@dataclass(frozen=True, kw_only=True)
class Act:
    """One stage of the demo: its judgments or its report, and what it cost."""

    name: str
    seconds: float
    usage: Usage
    judgments: tuple[Judgment, ...] = ()
    result: AlignResult | None = None


@dataclass(kw_only=True)
class _Story:
    """The demo while it runs."""

    model: ChatModel
    screen: Screen
    feedback: tuple[Feedback, ...]
    held_out: tuple[Feedback, ...]
    acts: list[Act] = field(default_factory=list)

    def judge_held_out(self, judge: Judge, name: str) -> tuple[Judgment, ...]:
        started = time.perf_counter()
        with self.screen.progress(name) as progress:
            examples = [row.example for row in self.held_out if row.example]
            judgments = tuple(judge.judge_many(examples, progress=progress))
        usage = sum((judgment.usage for judgment in judgments), Usage())
        self.acts.append(Act(name=name, seconds=time.perf_counter() - started, usage=usage, judgments=judgments))
        return judgments

    def learn(self, judge: Judge) -> AlignResult:
        with self.screen.progress("align") as progress:
            result = judge.align(self.feedback, progress=progress)
        self.acts.append(Act(name="align", seconds=result.seconds, usage=result.usage, result=result))
        return result

    def forget(self, judge: Judge) -> AlignResult:
        with self.screen.progress("unalign") as progress:
            result = judge.unalign(WITHDRAWN, progress=progress)
        self.acts.append(Act(name="unalign", seconds=result.seconds, usage=result.usage, result=result))
        return result

    def correct(self, judgments: Sequence[Judgment]) -> int:
        pairs = zip(judgments, self.held_out, strict=True)
        return sum(judgment.value == row.value for judgment, row in pairs)


def run_demo(*, model: str | None = None, json_output: bool = False) -> int:
    """Run the demo and return its exit code: 0 done, 1 when a model call failed on the way.

    `model` None takes the provider whose key is in the environment, else the embedded model, pulled when it is not
    there yet (it says what it downloads). Raises MemalignError before any work, ModelError where the model answers none
    of the first calls.
    """
    screen = Screen(quiet=json_output)
    story = _Story(
        model=resolve(model or default_model_name() or _embedded(screen)),
        screen=screen,
        feedback=_rows("feedback.jsonl"),
        held_out=_rows("held_out.jsonl"),
    )
    screen.opening(story.model.name, local=story.model.name.startswith("local:"))
    judge = Judge(name="support", instructions=INSTRUCTIONS, feedback_value_type=bool, model=story.model)

    screen.chapter("1", "The judge before it has learned anything")
    before = story.judge_held_out(judge, "judge, unaligned")
    if all(judgment.error for judgment in before):
        raise ModelError(f"the demo stops, for its model answered none of {len(before)} calls: {before[0].error}")
    screen.verdicts(story.held_out, before)

    screen.chapter("2", "Five pieces of feedback")
    result = story.learn(judge)
    screen.feedback(story.feedback, result)
    screen.guidelines(result)

    screen.chapter("3", "The same judge, aligned")
    after = story.judge_held_out(result.judge, "judge, aligned")
    screen.side_by_side(story.held_out, before, after)

    screen.chapter("4", f"{WITHDRAWN} is withdrawn")
    forgotten = story.forget(result.judge)
    screen.forgotten(forgotten)
    last = story.judge_held_out(forgotten.judge, "judge, after unalign")
    screen.side_by_side(story.held_out, after, last, headings=("aligned", f"without {WITHDRAWN}"))

    screen.chapter("5", "What it took")
    screen.costs(story.acts)
    screen.closing(before=story.correct(before), after=story.correct(after), of=len(story.held_out))
    if json_output:
        sys.stdout.write(json.dumps(_report(story, before, after, last)) + "\n")
    failed = any(judgment.error for judgment in (*before, *after, *last)) or bool(result.pending or forgotten.pending)
    return 1 if failed else 0


def _rows(name: str) -> tuple[Feedback, ...]:
    with resources.as_file(resources.files("memalign.demo") / name) as path:
        return read_feedback(Path(path)).rows


def _embedded(screen: Screen) -> str:
    """The embedded model's name, after pulling it if it is not there."""
    from memalign.models.catalogue import DEFAULT, find  # only without a provider
    from memalign.models.pull import pull

    model = find(DEFAULT)
    screen.no_provider(model)
    if not model.present:
        try:
            with screen.download(model) as progress:
                pull(model, progress=progress, log=screen.say)
        except MemalignError:
            screen.say("The demo needs a model: set OPENAI_API_KEY (or another provider's key), or try again online.")
            raise
    return f"local:{model.name}"


def _report(
    story: _Story, before: Sequence[Judgment], after: Sequence[Judgment], last: Sequence[Judgment]
) -> dict[str, Any]:
    """The whole demo as JSON values."""
    align, unalign = (act.result for act in story.acts if act.result is not None)
    return {
        "model": story.model.name,
        "held_out": [
            {
                "id": row.id,
                "expert": row.value,
                "unaligned": msgspec.to_builtins(first),
                "aligned": msgspec.to_builtins(second),
                "unalign": msgspec.to_builtins(third),
            }
            for row, first, second, third in zip(story.held_out, before, after, last, strict=True)
        ],
        "agreement": {
            "n": len(story.held_out),
            "unaligned": story.correct(before),
            "aligned": story.correct(after),
            "unalign": story.correct(last),
        },
        "align": align.to_dict(),
        "unalign": unalign.to_dict(),
        "stages": [
            {"name": act.name, "seconds": act.seconds, "usage": msgspec.to_builtins(act.usage)} for act in story.acts
        ],
    }
