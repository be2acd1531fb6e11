"""The demo: a judge of a shop's replies learns a rule from ten comments, and forgets one person's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import resources
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalign.cli.embedded_models import download
from memalign.cli.guidelines import guideline_table
from memalign.cli.options import Yes
from memalign.cli.output import counted, print_json, show, table, usage_text
from memalign.cli.progress import show_progress
from memalign.cli.recording import RecordedModel
from memalign.cli.session import DONE, FAILURES, Session
from memalign.errors import ConfigurationError, ModelError

if TYPE_CHECKING:
    from memalign.align import AlignResult
    from memalign.judge import Judge
    from memalign.models.base import ChatModel
    from memalign.types import Feedback, Judgment, Usage

INSTRUCTIONS = (
    "Is the shop's reply good enough to send?\nCustomer: {{ inputs }}\nReply: {{ outputs }}"
)
WITHDRAWN = "ana"
"""The person whose words are withdrawn at the end."""
EMBEDDED = "local:qwen2.5-coder-1.5b"
ROWS = 5
"""Rows of a table; the rest is counted."""
RECORDED = (
    "This is a recording: the answers below were given by hand, in a strong model's place. Everything "
    "else happens now, on this machine."
)
NEXT = (
    "The same on a model of yours, live:      memalign demo --model openai:/gpt-4.1-mini",
    f"The same on this machine, free, 1.1 GB:  memalign demo --model {EMBEDDED}",
)


@dataclass(frozen=True)
class Story:
    """What the demo tells: the judge before it is taught, the ten lessons, and the unseen replies."""

    judge: Judge
    lessons: Sequence[Feedback]
    unseen: Sequence[Feedback]

    def judged(self, judge: Judge, rows: Sequence[Feedback] | None = None) -> list[Judgment]:
        """Judge the unseen replies, or these of them."""
        chosen = self.unseen if rows is None else rows
        examples = [row.example for row in chosen if row.example]
        with show_progress() as progress:
            return list(judge.judge_many(examples, progress=progress))

    def right(self, judgments: Iterable[Judgment]) -> int:
        """Count the verdicts that are the experts'."""
        pairs = zip(judgments, self.unseen, strict=True)
        return sum(judgment.value == row.value for judgment, row in pairs)


def demo(
    session: Session,
    *,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="M",
            help="Run it live on this model. Without it the demo replays a recording, with no key, "
            "no download and no cost.",
        ),
    ] = None,
    yes: Yes = False,
) -> int:
    """See a judge learn a rule from ten comments, and forget one person's.

    Without --model it takes a few seconds: answers that were given by hand, in a strong model's place, are
    replayed, and all else happens on your machine. With --model it says first how many calls it
    will make and what they cost. The embedded model costs nothing and takes about two minutes
    after a download of 1.1 GB, for which the demo asks first.
    """
    tell = partial(show, stderr=session.json)  # so that with --json stdout has JSON alone
    chat = RecordedModel() if model is None else live_model(model, tell, yes=yes)
    story = story_on(chat)
    tell(*_opening(story, chat))
    before = _untaught(story, tell)
    learned = _taught(story, tell)
    after = _judged_again(story, learned, before, tell)
    forgot, last = _forgotten(story, learned, before, after, tell)
    usage = _total([*before, *after, *last], learned, forgot)
    tell(*_closing(chat, usage))
    if session.json:
        print_json(_report(story, chat, usage, before, after, last, learned, forgot))
    failed = any(judgment.error for judgment in (*before, *after, *last))
    return FAILURES if failed or learned.pending or forgot.pending else DONE


def story_on(chat: ChatModel) -> Story:
    """Return the demo's story with `chat` as the judge's model."""
    from memalign.judge import Judge

    judge = Judge(name="support", instructions=INSTRUCTIONS, feedback_value_type=bool, model=chat)
    return Story(judge, demo_rows("feedback.jsonl"), demo_rows("held_out.jsonl"))


def demo_rows(name: str) -> tuple[Feedback, ...]:
    """Read a file of the demo: `feedback.jsonl`, or `held_out.jsonl`, which it is not taught."""
    from memalign.io import read_feedback

    with resources.as_file(resources.files("memalign.cli") / "demo_data" / name) as path:
        return read_feedback(path).rows


def live_model(name: str, tell: Callable[[str], None], *, yes: bool) -> ChatModel:
    """Return the model of that name, and download an embedded one if the person agrees."""
    from memalign.models import resolve
    from memalign.models.catalogue import CATALOGUE

    embedded = CATALOGUE.get(name.removeprefix("local:")) if name.startswith("local:") else None
    if embedded is not None and not embedded.present:
        path = download(embedded, yes=yes, log=tell)
        if path is None:
            raise ConfigurationError(
                "nothing was downloaded. `memalign demo` without --model needs no model"
            )
    return resolve(name)


def estimate(story: Story) -> Usage:
    """Return what the demo will ask of the model: its stages run with made-up answers."""
    from memalign import aio
    from memalign.align import MemAlign
    from memalign.models.calls import Calls
    from memalign.models.dry_run import DryRun

    dry_run = DryRun(dimensions=256)
    calls = Calls(dry_run=dry_run)
    taught = aio.run(MemAlign().align(story.judge, story.lessons, calls=calls)).judge
    forgetful = aio.run(MemAlign().unalign(taught, source=WITHDRAWN, calls=calls)).judge
    for version in (story.judge, taught, forgetful):
        examples = [row.example for row in story.unseen if row.example]
        version.judge_many(examples, max_cost=calls)
    return dry_run.usage


# -- the screens -------------------------------------------------------------------------------


def _opening(story: Story, chat: ChatModel) -> Iterator[str]:
    """Say what answers, and what it will cost."""
    if isinstance(chat, RecordedModel):
        yield RECORDED
    elif chat.name.startswith("local:"):
        yield f"Live on {chat.name}, on this machine: free, in about two minutes."
    else:
        yield f"Live on {chat.name}: at most {usage_text(estimate(story))}."
    yield "A judge of a shop's replies to customers. Is a reply good enough to send?"


def _untaught(story: Story, tell: Callable[..., None]) -> list[Judgment]:
    """Show the judge before anybody has taught it."""
    tell("", "1. Nobody has taught the judge yet")
    judgments = story.judged(story.judge)
    if all(judgment.error for judgment in judgments):
        raise ModelError(
            f"the demo stops: its model answered none of {len(judgments)} calls: {judgments[0].error}"
        )
    wrong = [
        (row.inputs, row.outputs, _said(judgment), _word(row.value))
        for row, judgment in zip(story.unseen, judgments, strict=True)
        if judgment.value != row.value
    ]
    right = story.right(judgments)
    tell(
        table(
            ("customer", "reply", "judge", "experts"),
            wrong[:ROWS],
            title=_some(wrong, "wrong verdict"),
        ),
        f"right on {right} of {len(story.unseen)} replies that it will never be taught",
    )
    return judgments


def _taught(story: Story, tell: Callable[..., None]) -> AlignResult:
    """Teach the judge, and show some comments and what came of them."""
    tell("", f"2. Two experts review {len(story.lessons)} other replies and say why")
    shown = (*story.lessons[:3], *story.lessons[5:7])
    words = [(row.source, row.outputs, _word(row.value), row.rationale or "-") for row in shown]
    title = f"{len(shown)} of {len(story.lessons)} comments"
    tell(table(("expert", "reply", "send it?", "the expert's words"), words, title=title))
    with show_progress() as progress:
        learned = story.judge.align(story.lessons, progress=progress)
    memory = learned.judge.memory
    tell(guideline_table(learned.guidelines, memory, title="What the judge learned", limit=ROWS))
    return learned


def _judged_again(
    story: Story, learned: AlignResult, before: Sequence[Judgment], tell: Callable[..., None]
) -> list[Judgment]:
    """Judge the same unseen replies with the taught judge, and show what changed."""
    tell("", "3. The same judge, taught, on the same unseen replies")
    after = story.judged(learned.judge)
    changed = [
        (row.outputs, _said(earlier), _said(judgment), _word(row.value), judgment.rationale or "-")
        for row, earlier, judgment in zip(story.unseen, before, after, strict=True)
        if earlier.value != judgment.value
    ]
    columns = ("reply", "before", "now", "experts", "the reason now")
    by_rule = sum(judgment.decided_by == "rule" for judgment in after)
    tell(
        table(columns, changed[:ROWS], title=_some(changed, "changed verdict")),
        f"right on {story.right(after)} of {len(story.unseen)}, {story.right(before)} before; "
        f"{_fixed_and_broken(story, before, after)}",
    )
    if by_rule:
        tell(f"{by_rule} of them by a rule that code decides: no call, and the words are named.")
    return after


def _forgotten(
    story: Story,
    learned: AlignResult,
    before: Sequence[Judgment],
    after: Sequence[Judgment],
    tell: Callable[..., None],
) -> tuple[AlignResult, list[Judgment]]:
    """Withdraw one person's words, and judge again where teaching had changed a verdict."""
    name = WITHDRAWN.capitalize()
    tell("", f"4. {name} leaves and withdraws her words: what they taught goes with them")
    with show_progress() as progress:
        forgot = learned.judge.unalign(source=WITHDRAWN, progress=progress)
    verdicts = zip(story.unseen, before, after, strict=True)
    rows = [row for row, earlier, later in verdicts if earlier.value != later.value]
    last = story.judged(forgot.judge, rows)
    wrong = sum(judgment.value != row.value for judgment, row in zip(last, rows, strict=True))
    gone = counted(len(forgot.forgotten), "guideline")
    tell(
        f"{counted(len(forgot.removed), 'comment')} withdrawn, {gone} gone",
        f"of {counted(len(rows), 'verdict')} that had changed, {wrong} "
        f"{'is' if wrong == 1 else 'are'} wrong again: her rule is forgotten",
    )
    return forgot, last


def _closing(chat: ChatModel, usage: Usage) -> Iterator[str]:
    """Say what it took and what it shows."""
    yield ""
    if isinstance(chat, RecordedModel):
        yield f"{counted(chat.replayed, 'recorded answer')} replayed; no model was called."
    else:
        yield usage_text(usage)
    yield "One story shows how it works, not how well: `memalign evaluate` measures your judge."
    if chat.name.startswith("local:"):
        yield "A small model learns rules that words decide; others need a larger model."
    yield from NEXT


# -- words and figures -------------------------------------------------------------------------


def _said(judgment: Judgment) -> str:
    """Return the verdict in the demo's words."""
    return "failed" if judgment.error else _word(judgment.value)


def _word(value: object) -> str:
    """Return a label in the demo's words."""
    if not isinstance(value, bool):
        return "-"
    return "send" if value else "don't"


def _some(rows: Sequence[object], noun: str) -> str:
    """Return a table's title, which counts the rows that are left out."""
    total = counted(len(rows), noun)
    return total if len(rows) <= ROWS else f"{ROWS} of {total}"


def _fixed_and_broken(story: Story, before: Sequence[Judgment], after: Sequence[Judgment]) -> str:
    """Return how many verdicts teaching put right and how many it spoilt."""
    fixed = 0
    broken = 0
    for row, earlier, later in zip(story.unseen, before, after, strict=True):
        fixed += later.value == row.value != earlier.value
        broken += earlier.value == row.value != later.value
    return f"{fixed} fixed, {broken} broken"


def _total(judgments: Sequence[Judgment], learned: AlignResult, forgot: AlignResult) -> Usage:
    """Return what all stages took."""
    usage = learned.usage + forgot.usage
    for judgment in judgments:
        usage += judgment.usage
    return usage


def _report(
    story: Story,
    chat: ChatModel,
    usage: Usage,
    before: Sequence[Judgment],
    after: Sequence[Judgment],
    last: Sequence[Judgment],
    learned: AlignResult,
    forgot: AlignResult,
) -> dict[str, Any]:
    """Return all stages as JSON has them."""
    right = {"before": story.right(before), "after": story.right(after)}
    return {
        "model": chat.name,
        "recorded": isinstance(chat, RecordedModel),
        "agreement": {"n": len(story.unseen), **right},
        "usage": usage,
        "verdicts": {"before": before, "after": after, "withdrawn": last},
        "align": learned.to_dict(),
        "unalign": forgot.to_dict(),
    }
