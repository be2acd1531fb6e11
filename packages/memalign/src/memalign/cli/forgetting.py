"""Forgetting: unalign for a new version without some feedback, erase for all versions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalign.cli.align import changed_since, run_and_report
from memalign.cli.guidelines import by_people
from memalign.cli.options import Name, Yes
from memalign.cli.output import counted, listed, say, shorten
from memalign.cli.progress import show_progress
from memalign.cli.session import DONE, FAILURES, Session, confirmed
from memalign.errors import UnknownKey

if TYPE_CHECKING:
    from memalign.judge import Judge
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
    typer.Option(metavar="S", help="All feedback from one person. With KEY, only their feedback on those cases."),
]
Matching = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT",
        help="All feedback whose case or words contain TEXT, ignoring case. KEY and --source narrow "
        "it down. The command shows what matches and asks first.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be forgotten without changing anything.")]

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
            "--people-agree", help="Also forget guidelines that people wrote or pinned after reading this feedback."
        ),
    ] = False,
) -> int:
    """Withdraw feedback and everything learned from it.

    The judge forgets every guideline that was written with this feedback in view, and learns again from the feedback
    that remains. If no model answers, that feedback stays pending. A guideline that a person wrote or pinned stays,
    unless that person's own words are withdrawn. Older versions keep the feedback; `memalign erase` removes it from
    them too.
    """
    chosen: tuple[str | FeedbackKey, ...] = tuple(keys or ())
    if dry_run or matching is not None:
        number, judge = session.judge(name)
        places: Mapping[FeedbackKey, tuple[str, ...]] = {}
        if matching is None:
            going = judge.memory.keys(*chosen, source=source)
        else:
            places = judge.memory.matching(matching, source=source)
            named = judge.memory.keys(*chosen, source=source) if chosen else tuple(places)
            chosen = going = tuple(key for key in places if key in named)
            if not going:
                person = f" of source {source!r}" if source is not None else ""
                raise UnknownKey(f"no such feedback of {name!r}{person} holds this text")
            source = None
        data, lines = _preview(judge, going, places, people_agree=people_agree)
        if dry_run:
            session.give({"judge": name, "version": number, "dry_run": True, **data}, *lines)
            return DONE
        pieces = f"{counted(len(going), 'piece')} of feedback"
        if not _agreed(session, lines, f"Withdraw {pieces} from {name}?", yes=yes):
            return DONE
    options: dict[str, Any] = {"source": source, "people_agree": people_agree}
    return run_and_report(
        session, name, lambda registry, progress: registry.unalign(name, *chosen, progress=progress, **options)
    )


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

    Cases that taught nothing and only wait in a server's queue are erased too. The command then searches everything
    for the erased words. If any are left, the receipt says where, and the command exits with 1. The receipt also names
    what memalign cannot reach: exported bundles, judgment files and providers' logs. The text of --matching is kept
    nowhere. Without a key, the command finishes an erase that was interrupted.
    """
    from memalign.types import FeedbackKey

    registry = session.registry()
    before = registry.history(name)[-1].number
    chosen: tuple[str | FeedbackKey, ...] = tuple(keys or ())
    if not chosen and source is None and matching is None and not dry_run:
        session.give({"compacted": True}, f"rewritten: {registry.compact() or 'the file'}")
        return DONE
    if dry_run or matching is not None:
        preview = registry.erase(name, chosen, source=source, matching=matching, dry_run=True)
        lines, places = [str(preview)], dict[FeedbackKey, tuple[str, ...]]()
        if matching is not None:
            latest = registry.load(name, before)
            fields = latest.memory.matching(matching)
            places = {key: fields[key] for key in preview.keys if key in fields}
            lines = [*_places(places), *lines, *_instructions_with(latest, matching)]
        if dry_run:
            session.give({**preview.to_dict(), "places": places}, *lines)
            return DONE
        question = f"Erase {preview.counts} from every version of {name} and every table, for good?"
        if not _agreed(session, lines, question, yes=yes):
            return DONE
    session.consequence = partial(changed_since, registry, name, before)
    with show_progress() as progress:
        receipt = registry.erase(name, chosen, source=source, matching=matching, progress=progress)
    session.give(receipt.to_dict(), str(receipt))
    return DONE if receipt.complete and not receipt.pending else FAILURES


# -- what would go ---------------------------------------------------------------------------------------------------


def _preview(
    judge: Judge,
    keys: tuple[FeedbackKey, ...],
    places: Mapping[FeedbackKey, tuple[str, ...]],
    *,
    people_agree: bool,
) -> tuple[dict[str, Any], list[str]]:
    """What withdrawing these keys would take along, found without a model: JSON values, and lines for people."""
    from memalign.align.annotations import without_disputed
    from memalign.align.forget import forget

    memory = judge.memory
    after = without_disputed(forget(memory, keys, people_agree=people_agree))
    remaining = {rule.id for rule in after.guidelines}
    going = [rule for rule in memory.guidelines if rule.id not in remaining]
    waiting = {annotation.key for annotation in memory.pending}
    lists: dict[str, list[Any]] = {
        "cases": [case.id for case in memory.cases if after.case(case.id) is None],
        "pending": [annotation.key for annotation in after.pending if annotation.key not in waiting],
        "locks": [name for name in memory.locks if name not in after.locks],
    }
    words = {
        "cases": "cases without other feedback",
        "pending": "to be learned again without this feedback",
        "locks": "no longer locked",
    }
    places = {key: places.get(key, ()) for key in keys}
    lines = _places(places)
    for rule in going:
        by = f"  ({by_people(rule)})" if by_people(rule) else ""
        lines.append(f"forgotten with it: {rule.id}  {shorten(rule.text)}{by}")
    lines += [f"{words[name]}: {listed(items)}" for name, items in lists.items() if items]
    return {"keys": list(keys), "places": places, "guidelines": going, **lists}, lines


def _places(keys: Mapping[FeedbackKey, tuple[str, ...]]) -> list[str]:
    """A line a piece of feedback, with the fields in which a text was found."""
    lines = [f"to forget: {key}" + (f"  (in {', '.join(fields)})" if fields else "") for key, fields in keys.items()]
    more = len(lines) - _LIMIT
    return [*lines[:_LIMIT], f"and {more} more; to list all: --dry-run --json"] if more > 0 else lines


def _instructions_with(judge: Judge, text: str) -> list[str]:
    """That the judge's instructions hold the text, which no erasure changes."""
    from memalign.memory.text_search import Finder

    if not Finder(text).holds(judge.instructions):
        return []
    return [
        "the judge's instructions contain the text too and stay as they are; to change them: "
        f"memalign edit {judge.name} --instructions TEXT"
    ]


def _agreed(session: Session, lines: list[str], question: str, *, yes: bool) -> bool:
    """Show what would go, and ask. Raises InputError where nobody is there to answer."""
    for line in lines:
        say(line)
    if confirmed(question, yes=yes):
        return True
    session.give({"done": False}, "nothing was changed")
    return False
