"""Forgetting: unalign for a new version without some feedback, erase for all versions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from memalign.cli.align import run_and_report
from memalign.cli.history import diff_lines
from memalign.cli.options import Name, Yes
from memalign.cli.output import listed, show, top
from memalign.cli.progress import show_progress
from memalign.cli.session import DONE, FAILURES, Session, confirmed
from memalign.errors import UnknownKey

if TYPE_CHECKING:
    from memalign import Judge
    from memalign.registry import MemoryDiff
    from memalign.types import FeedbackKey

Keys = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY",
        help="Feedback as ID@SOURCE: t-17 is all feedback on that case, t-17@ana is ana's, and "
        "t-17@ana@example.org is ana@example.org's. Quote an id that contains an @: "
        "'\"mail@x\"@ana'.",
    ),
]
Source = Annotated[
    str | None,
    typer.Option(
        metavar="S",
        help="All feedback from one person. With KEY, only their feedback on those cases.",
    ),
]
Matching = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT",
        help="All feedback whose case, words or source contain TEXT, ignoring case. KEY and "
        "--source narrow it down. The command shows what goes and asks first.",
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="Show what would be forgotten without changing anything."
    ),
]

_LIMIT = 30  # lines


def unalign(
    session: Session,
    name: Name,
    keys: Keys = None,
    *,
    source: Source = None,
    matching: Matching = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    people_agree: Annotated[
        bool,
        typer.Option(
            "--people-agree",
            help="Also forget guidelines that people wrote or pinned after reading this feedback.",
        ),
    ] = False,
) -> int:
    """Withdraw feedback and everything learned from it.

    The judge forgets every guideline that was written with this feedback in view, and learns again
    from the feedback that remains. If no model answers, that feedback stays pending. A guideline
    that a person wrote or pinned stays, unless that person's own words are withdrawn. Older
    versions keep the feedback; `memalign erase` removes it from them too.
    """
    chosen: Sequence[str | FeedbackKey] = keys or ()
    if dry_run or matching is not None:
        number, judge = session.judge(name)
        going = _named(judge, chosen, source=source, matching=matching)
        changes = _changes(judge, going, people_agree=people_agree)
        lines = [f"to forget: {listed(going)}", *top(diff_lines(changes), _LIMIT)]
        if dry_run:
            data = {"judge": name, "version": number, "dry_run": True, "keys": going}
            session.give(data | {"changes": vars(changes)}, *lines)
            return DONE
        show(*lines, stderr=True)
        if not confirmed(f"Withdraw this feedback from {name}?", yes=yes):
            session.give({"done": False}, "nothing was changed")
            return DONE
        # What was shown goes, whatever holds the text by now.
        chosen = going
        source = None
    return run_and_report(
        session,
        name,
        lambda registry, progress: registry.unalign(
            name, *chosen, source=source, people_agree=people_agree, progress=progress
        ),
    )


def _named(
    judge: Judge,
    chosen: Sequence[str | FeedbackKey],
    *,
    source: str | None,
    matching: str | None,
) -> tuple[FeedbackKey, ...]:
    """Return the feedback that keys, a person and a text name; UnknownKey if there is none."""
    if matching is None:
        return judge.memory.keys(*chosen, source=source)
    going = judge.memory.matching(matching, source=source)
    if chosen:
        named = judge.memory.keys(*chosen, source=source)
        going = tuple(key for key in going if key in named)
    if not going:
        raise UnknownKey(f"no such feedback of {judge.name!r} holds this text")
    return going


def _changes(
    judge: Judge, going: Sequence[FeedbackKey], *, people_agree: bool
) -> MemoryDiff:
    """Return what forgetting changes at once, without a model."""
    from memalign.memory.forget import forget, without_disputed
    from memalign.registry.diff import compare

    after = without_disputed(forget(judge.memory, going, people_agree=people_agree))
    return compare(judge, judge.replace(memory=after))


def erase(
    session: Session,
    name: Name,
    keys: Keys = None,
    *,
    source: Source = None,
    matching: Matching = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> int:
    """Erase feedback everywhere, with a receipt.

    The command shows what goes, with wordings that people wrote or pinned, and asks first. Cases
    that taught nothing and only wait in a server's queue are erased too. The command then searches
    everything for the erased words, and with --source for the person's name in every spelling. If
    any are left, the receipt says where, and the command exits with 1. The receipt also names what
    memalign cannot reach: exported bundles, judgment files and providers' logs. The text of
    --matching is kept nowhere. Without a key, the command finishes an erase that was interrupted.
    """
    registry = session.registry()
    chosen = tuple(keys or ())
    if not chosen and source is None and matching is None and not dry_run:
        registry.compact()
        session.give(
            {"compacted": True}, "the registry is rewritten without what was deleted"
        )
        return DONE
    preview = registry.erase(
        name, chosen, source=source, matching=matching, dry_run=True
    )
    shown = [str(preview), *_wordings(session, name, preview.wordings)]
    if dry_run:
        session.give(preview.to_dict(), *shown)
        return DONE
    show(*shown, stderr=True)
    if not confirmed(
        f"Erase {preview.counts} from every version of {name} and every table, for good?",
        yes=yes,
    ):
        session.give({"done": False}, "nothing was changed")
        return DONE
    session.after_interrupt = (
        "run the same command again. If it finds nothing any more: "
        f"memalign erase {name}"
    )
    with show_progress() as progress:
        receipt = registry.erase(
            name, chosen, source=source, matching=matching, progress=progress
        )
    session.give(receipt.to_dict(), str(receipt))
    return DONE if receipt.complete and not receipt.pending else FAILURES


def _wordings(session: Session, name: str, ids: Sequence[str]) -> list[str]:
    """Return the wordings of people that go, each with whose it is.

    Only the newest version is looked at.
    """
    if not ids:
        return []
    lessons = session.judge(name)[1].memory.guidelines
    return [
        f"  {lesson.id} ({', '.join(sorted(lesson.people))}): {lesson.text}"
        for lesson in lessons
        if lesson.id in ids
    ]
