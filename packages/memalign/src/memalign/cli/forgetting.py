"""Forgetting: unalign for a new version without some feedback, erase for all versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalign.cli.align_report import report
from memalign.cli.common import (
    DEFAULT_REGISTRY,
    DONE,
    FAILURES,
    JsonOutput,
    Name,
    RegistryUrl,
    confirmed,
    interruptible,
    latest_of,
    open_registry,
)
from memalign.cli.guideline_words import by_people
from memalign.cli.learning import ReflectionModel, left_behind
from memalign.cli.output import Output, shorten
from memalign.errors import UnknownKey

if TYPE_CHECKING:
    from memalign.judge import Judge
    from memalign.types import FeedbackKey

Keys = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY", help="t-17 is all feedback on that case, t-17@ana is ana's.", show_default=False),
]
Source = Annotated[
    str | None, typer.Option(metavar="S", help="All feedback of one person; with keys, both must match.")
]
Matching = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT",
        help="All feedback whose case or words hold TEXT, in any spelling of case; with KEY or --source, all must match. "
        "Shows what it found and asks.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", metavar="", help="Say what would go, and do nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", metavar="", help="With --matching: do not ask.")]

_SHOWN = 30


def unalign(
    name: Name,
    keys: Keys = None,
    *,
    source: Source = None,
    matching: Matching = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    reflection_model: ReflectionModel = None,
    registry: RegistryUrl = DEFAULT_REGISTRY,
    json_output: JsonOutput = False,
) -> int:
    """Withdraw feedback: a new version without it and without all that came from it.

    What other feedback taught beside it is derived again; if no model answers, that is pending. Older versions keep
    the feedback: erase takes it out of them too.
    """
    from memalign.align import MemAlign

    opened, out = open_registry(registry), Output(json=json_output)
    before = latest_of(opened, name)
    chosen: tuple[str | FeedbackKey, ...] = tuple(keys or ())
    if dry_run or matching is not None:
        judge = opened.load(name, before)
        places = None if matching is None else judge.memory.matching(matching, source=source)
        if places is not None:
            chosen, source = _narrowed(name, places, chosen, source), None
        going = judge.memory.keys(*chosen, source=source)
        data, lines = _preview(judge, going, places)
        if dry_run:
            out.give({"judge": name, "version": before, "dry_run": True, **data}, *lines)
            return DONE
        if not _agreed(out, lines, f"Withdraw {_pieces(going)} from {name}?", yes=yes):
            return DONE
    optimizer = MemAlign(reflection_model=reflection_model)
    with interruptible(lambda: left_behind(opened, name, before)), out.progress() as progress:
        result = opened.unalign(name, *chosen, source=source, optimizer=optimizer, progress=progress)
    return report(result, out)


def erase(
    name: Name,
    keys: Keys = None,
    *,
    source: Source = None,
    matching: Matching = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    reflection_model: ReflectionModel = None,
    registry: RegistryUrl = DEFAULT_REGISTRY,
    json_output: JsonOutput = False,
) -> int:
    """Erase feedback from every version, for good, with a receipt.

    The receipt says what went, what was derived again, what was searched afterwards, and what cannot be reached:
    exported bundles, judgment files, providers' logs. With --matching the text itself is kept nowhere.
    """
    from memalign.align import MemAlign

    opened, out = open_registry(registry), Output(json=json_output)
    before = latest_of(opened, name)
    chosen: tuple[str | FeedbackKey, ...] = tuple(keys or ())
    lines: list[str] = []
    if matching is not None:
        found = opened.matching(name, matching)
        places = {key: fields for key, fields in found.items() if source in (None, key.source)}
        chosen, source = _narrowed(name, places, chosen, source), None
        going = opened.erase(name, chosen, dry_run=True)
        lines = _places({key: places.get(key, ()) for key in going.keys})
        lines += [str(going), *_also(opened.load(name, before), matching, gone=going.guidelines)]
        question = f"Erase {_pieces(going.keys)} from every version of {name}, for good?"
        if dry_run:
            out.give({**going.to_dict(), "places": {key: list(places.get(key, ())) for key in going.keys}}, *lines)
        if dry_run or not _agreed(out, lines, question, yes=yes):
            return DONE
    optimizer = MemAlign(reflection_model=reflection_model)
    with interruptible(lambda: left_behind(opened, name, before)), out.progress() as progress:
        receipt = opened.erase(name, chosen, source=source, dry_run=dry_run, optimizer=optimizer, progress=progress)
    out.give(receipt.to_dict(), str(receipt))
    return FAILURES if receipt.pending and not dry_run else DONE


# -- what would go ---------------------------------------------------------------------------------------------------


def _narrowed(
    name: str, places: Mapping[FeedbackKey, tuple[str, ...]], keys: tuple[str | FeedbackKey, ...], source: str | None
) -> tuple[FeedbackKey, ...]:
    """The keys that hold the text, of those that were named. Raises UnknownKey, without the text."""
    of = f" of source {source!r}" if source is not None else ""
    if not places:
        raise UnknownKey(f"no feedback of {name!r}{of} holds this text")
    from memalign.types import select_keys

    chosen = select_keys(places, keys)
    for selector, found in chosen.items():
        if not found:
            raise UnknownKey(f"feedback {str(selector)!r}{of} does not hold this text")
    named = {key for found in chosen.values() for key in found}
    return tuple(key for key in places if not keys or key in named)


def _preview(
    judge: Judge, keys: tuple[FeedbackKey, ...], places: Mapping[FeedbackKey, tuple[str, ...]] | None
) -> tuple[dict[str, Any], list[str]]:
    """What withdrawing these keys would take along, found without a model: JSON values, and lines for people."""
    from memalign.align.consolidate import consolidate
    from memalign.align.forget import forget
    from memalign.align.ingest import settle

    memory = judge.memory
    after = consolidate(settle(forget(memory, keys)))
    left = {guideline.id for guideline in after.guidelines}
    going = [guideline for guideline in memory.guidelines if guideline.id not in left]
    waits = [v.key for v in after.annotations() if v.state == "pending" and not _waiting(judge, v.key)]
    cases = [case.id for case in memory.cases if after.case(case.id) is None]
    locks = [name for name in memory.locks if name not in after.locks]
    data = {
        "keys": list(keys),
        "places": None if places is None else {key: list(places.get(key, ())) for key in keys},
        "cases": cases,
        "guidelines": going,
        "pending": waits,
        "locks": locks,
    }
    lines = _places({key: (places or {}).get(key, ()) for key in keys})
    if cases:
        lines.append(f"cases that nobody else spoke about: {_some(cases)}")
    lines += [f"goes with it: {g.id}  {shorten(g.text)}{f'  ({by})' if (by := by_people(g)) else ''}" for g in going]
    if waits:
        lines.append(f"to be derived again without it: {_some(waits)}")
    if locks:
        lines.append(f"no longer locked: {_some(locks)}")
    return data, lines


def _waiting(judge: Judge, key: FeedbackKey) -> bool:
    annotation = judge.memory.annotation(key)
    return annotation is not None and annotation.state == "pending"


def _places(keys: Mapping[FeedbackKey, tuple[str, ...]]) -> list[str]:
    """A line a piece of feedback, with the fields in which a text was found."""
    lines = [f"would go: {key}" + (f"  (in {', '.join(fields)})" if fields else "") for key, fields in keys.items()]
    more = len(lines) - _SHOWN
    return [*lines[:_SHOWN], f"and {more} more; --dry-run --json has all"] if more > 0 else lines


def _also(judge: Judge, text: str, *, gone: tuple[str, ...]) -> list[str]:
    """What holds the text and is no feedback, so that a person can look after it."""
    from memalign.memory.text_search import Finder

    finder = Finder(text)
    rules = [g.id for g in judge.memory.guidelines if g.id not in gone and finder.holds(g.text)]
    lines = [f"{_some(rules)} hold the text too and stay: memalign guideline {judge.name}"] if rules else []
    if finder.holds(judge.instructions):
        lines.append(f"the instructions hold the text too, and stay: memalign edit {judge.name} --instructions")
    return lines


def _agreed(out: Output, lines: list[str], question: str, *, yes: bool) -> bool:
    """Show what would go, and ask. Raises InputError where nobody is there to answer."""
    for line in lines:
        out.say(line)
    if confirmed(question, yes=yes):
        return True
    out.give({"done": False}, "nothing was done")
    return False


def _pieces(keys: tuple[FeedbackKey, ...]) -> str:
    return "1 piece of feedback" if len(keys) == 1 else f"{len(keys)} pieces of feedback"


def _some(names: Sequence[object]) -> str:
    shown = ", ".join(map(str, names[:_SHOWN]))
    return f"{shown} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else shown
