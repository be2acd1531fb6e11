"""The demo: a judge of a shop's replies learns a rule from ten comments, and unlearns it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import resources
from typing import TYPE_CHECKING, Annotated

import typer

from memalign.cli.embedded_models import download
from memalign.cli.options import Yes
from memalign.cli.output import counted, print_json, show, table, usage_text
from memalign.cli.progress import show_progress
from memalign.cli.recording import RecordedModel
from memalign.cli.session import DONE, FAILURES, Session
from memalign.errors import ConfigurationError, ModelError

if TYPE_CHECKING:
    from memalign.align import AlignResult
    from memalign.evaluation import Evaluation
    from memalign.judge import Judge
    from memalign.models.base import ChatModel
    from memalign.types import Feedback, Guideline, Usage

INSTRUCTIONS = (
    "Is the shop's reply good enough to send?\n"
    "Customer: {{ inputs }}\nReply: {{ outputs }}"
)
WITHDRAWN = "ana"
"""The person whose words are withdrawn at the end."""
EMBEDDED = "local:qwen2.5-coder-1.5b"
ROWS = 5
"""Rows of a table; the rest is counted."""
JUDGED_AGAIN = 3
"""Replies that are judged again after the withdrawal: a weak machine takes seconds for each."""
SHOWN_LESSONS = (0, 1, 2, 5, 6)
"""Three of one expert's comments and two of the other's."""
WORDS = {True: "send", False: "don't", None: "failed"}
RECORDED = (
    "This is a recording: the answers below were given by hand, in a strong model's place. "
    "Everything else happens now, on this machine."
)
NEXT = (
    "The same on a model of yours, live:      memalign demo --model openai:/gpt-4.1-mini",
    f"The same on this machine, free, 1.1 GB:  memalign demo --model {EMBEDDED}",
)


@dataclass(frozen=True)
class Story:
    """The demo's parts: the judge before it is taught, the ten lessons, and the unseen replies."""

    judge: Judge
    lessons: Sequence[Feedback]
    unseen: Sequence[Feedback]


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

    Without --model it takes a few seconds: answers that were given by hand, in a strong model's
    place, are replayed, and all else happens on your machine. With --model it says first how many
    calls it will make and what they cost. The embedded model costs nothing and takes about two
    minutes after a download of 1.1 GB, for which the demo asks first.
    """
    tell = partial(
        show, stderr=session.json
    )  # so that with --json stdout has JSON alone
    chat = RecordedModel() if model is None else live_model(model, tell, yes=yes)
    story = story_on(chat)
    tell(*_opening(story, chat))
    before = _untaught(story, tell)
    learned = _taught(story, tell)
    after = _judged_again(story, learned, before, tell)
    forgot, last = _forgotten(story, learned, before, after, tell)
    usage = before.usage + learned.usage + after.usage + forgot.usage + last.usage
    tell(*_closing(chat, usage))
    if session.json:
        agreement = {
            "n": len(story.unseen),
            "before": len(right(before)),
            "after": len(right(after)),
        }
        verdicts = {"before": before, "after": after, "withdrawn": last}
        report = {
            "model": chat.name,
            "recorded": isinstance(chat, RecordedModel),
            "agreement": agreement,
            "usage": usage,
            "verdicts": {
                name: list(side.judgments.values()) for name, side in verdicts.items()
            },
            "align": learned.to_dict(),
            "unalign": forgot.to_dict(),
        }
        print_json(report)
    failed = before.unscored or after.unscored or last.unscored
    return FAILURES if failed or learned.pending or forgot.pending else DONE


def story_on(chat: ChatModel) -> Story:
    """Return the demo's story with `chat` as the judge's model."""
    from memalign.judge import Judge

    judge = Judge(
        name="support", instructions=INSTRUCTIONS, feedback_value_type=bool, model=chat
    )
    return Story(judge, demo_rows("feedback.jsonl"), demo_rows("held_out.jsonl"))


def demo_rows(name: str) -> tuple[Feedback, ...]:
    """Read a file of the demo: `feedback.jsonl`, or `held_out.jsonl`, which it is not taught."""
    from memalign.io import read_feedback

    with resources.as_file(
        resources.files("memalign.cli") / "demo_data" / name
    ) as path:
        return read_feedback(path).rows


def evaluated(judge: Judge, rows: Sequence[Feedback]) -> Evaluation:
    """Judge unseen replies, and compare the verdicts with the experts' labels."""
    from memalign.evaluation import evaluate

    with show_progress() as progress:
        return evaluate(judge, rows, progress=progress)


def right(side: Evaluation) -> set[str]:
    """Return the ids of the cases on which the verdict is the experts'."""
    return {case.id for case in side.cases if case.correct}


def changed(story: Story, before: Evaluation, after: Evaluation) -> list[Feedback]:
    """Return the unseen replies that are right in one of two evaluations alone."""
    ids = right(before) ^ right(after)
    return [row for row in story.unseen if row.id in ids]


def shown_again(
    story: Story, before: Evaluation, after: Evaluation
) -> Sequence[Feedback]:
    """Return the replies that are judged again after the withdrawal: the first that changed."""
    return changed(story, before, after)[:JUDGED_AGAIN] or story.unseen[:JUDGED_AGAIN]


def live_model(name: str, tell: Callable[[str], None], *, yes: bool) -> ChatModel:
    """Return the model of that name, and download an embedded one if the person agrees."""
    from memalign.models import resolve
    from memalign.models.catalogue import CATALOGUE

    embedded = (
        CATALOGUE.get(name.removeprefix("local:"))
        if name.startswith("local:")
        else None
    )
    missing = embedded is not None and not embedded.present
    if (
        embedded is not None
        and missing
        and download(embedded, yes=yes, log=tell) is None
    ):
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
    unseen = [row.example for row in story.unseen if row.example]
    for version, shown in (
        (story.judge, unseen),
        (taught, unseen),
        (forgetful, unseen[:JUDGED_AGAIN]),
    ):
        version.judge_many(shown, max_cost=calls)
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
    question = "is a reply good enough to send (true) or not (false)?"
    yield f"A judge reads a shop's replies to customers: {question}"


def _untaught(story: Story, tell: Callable[..., None]) -> Evaluation:
    """Show the judge before anybody has taught it."""
    tell("", "1. Nobody has taught the judge yet")
    before = evaluated(story.judge, story.unseen)
    if before.n == 0:
        calls = f"its model answered none of {before.unscored} calls"
        raise ModelError(f"the demo stops: {calls}: {before.cases[0].error}")
    tell(
        f"right on {len(right(before))} of {len(story.unseen)} replies that it will never be taught"
    )
    return before


def _taught(story: Story, tell: Callable[..., None]) -> AlignResult:
    """Teach the judge, and show some comments and what came of them."""
    tell("", f"2. Two experts review {len(story.lessons)} other replies and say why")
    shown = [story.lessons[place] for place in SHOWN_LESSONS]
    words = [
        (row.source, row.outputs, _word(row.value), row.rationale) for row in shown
    ]
    title = f"{len(shown)} of {len(story.lessons)} comments"
    tell(
        table(("expert", "reply", "send it?", "the expert's words"), words, title=title)
    )
    with show_progress() as progress:
        learned = story.judge.align(story.lessons, progress=progress)
    rows = [
        (guideline.id, guideline.text, _teachers(guideline))
        for guideline in learned.guidelines
    ]
    title = "What the judge learned from all ten"
    tell(table(("id", "guideline", "from"), rows, title=title, limit=ROWS))
    return learned


def _judged_again(
    story: Story, learned: AlignResult, before: Evaluation, tell: Callable[..., None]
) -> Evaluation:
    """Judge the same unseen replies with the taught judge, and show what changed."""
    tell("", "3. The same judge, taught, on the same unseen replies")
    after = evaluated(learned.judge, story.unseen)
    rows = []
    for row in changed(story, before, after):
        now = after.judgments[row.id]
        then = before.judgments[row.id]
        rows.append((row.outputs, _word(then.value), _word(now.value), now.rationale))
    columns = ("reply", "before", "now", "the reason now")
    fixed = len(right(after) - right(before))
    broken = len(right(before) - right(after))
    tell(
        table(columns, rows, title="Changed verdicts", limit=ROWS),
        f"right on {len(right(after))} of {len(story.unseen)}, {len(right(before))} before; "
        f"{fixed} fixed, {broken} broken",
    )
    by_rule = sum(
        judgment.decided_by == "rule" for judgment in after.judgments.values()
    )
    if by_rule:
        tell(
            f"{counted(by_rule, 'verdict')} by code, which found the forbidden word; "
            "no model was asked."
        )
    return after


def _forgotten(
    story: Story,
    learned: AlignResult,
    before: Evaluation,
    after: Evaluation,
    tell: Callable[..., None],
) -> tuple[AlignResult, Evaluation]:
    """Withdraw one person's words, and judge the replies again that were shown last."""
    name = WITHDRAWN.capitalize()
    tell(
        "", f"4. {name} leaves and withdraws her words: what they taught goes with them"
    )
    with show_progress() as progress:
        forgot = learned.judge.unalign(source=WITHDRAWN, progress=progress)
    written = (
        f"; {len(forgot.guidelines)} written again from what the other expert said"
        if forgot.guidelines
        else ""
    )
    tell(
        f"{counted(len(forgot.removed), 'comment')} withdrawn, "
        f"{counted(len(forgot.forgotten), 'guideline')} gone{written}"
    )
    rows = shown_again(story, before, after)
    last = evaluated(forgot.judge, rows)
    back = 0
    for row in rows:
        now = last.judgments[row.id].value
        back += now is not None and now == before.judgments[row.id].value
    said = (
        f"{len(rows)} of the replies judged again: {counted(back, 'verdict')} as before "
        "the teaching."
    )
    if back == len(rows) and changed(story, before, after):
        said += " Her rule is forgotten."
    tell(said)
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


def _word(value: object) -> str:
    """Return a verdict or a label in the demo's words."""
    return WORDS[value if isinstance(value, bool) else None]


def _teachers(guideline: Guideline) -> str:
    """Return whose comments a guideline is made of, and how many."""
    names = Counter(key.source for key in guideline.supported_by)
    return ", ".join(f"{name}: {counted(n, 'comment')}" for name, n in names.items())
