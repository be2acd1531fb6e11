"""Forgetting: unalign for a new version without some feedback, erase for all versions."""

from __future__ import annotations

from typing import Annotated

import typer

from memalign.cli.common import (
    DEFAULT_REGISTRY,
    DONE,
    FAILURES,
    JsonOutput,
    Name,
    RegistryUrl,
    head_of,
    interruptible,
    open_registry,
)
from memalign.cli.learning import ReflectionModel, left_behind, report
from memalign.cli.output import Output

Keys = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY", help="t-17 is all feedback on that case, t-17@ana is ana's.", show_default=False),
]
Source = Annotated[
    str | None, typer.Option(metavar="S", help="All feedback of one person; with keys, both must match.")
]


def unalign(
    name: Name,
    keys: Keys = None,
    *,
    source: Source = None,
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
    before = head_of(opened, name)
    optimizer = MemAlign(reflection_model=reflection_model)
    with interruptible(lambda: left_behind(opened, name, before)), out.progress() as progress:
        result = opened.unalign(name, *(keys or ()), source=source, optimizer=optimizer, progress=progress)
    return report(result, out, version=head_of(opened, name), before=before)


def erase(
    name: Name,
    keys: Keys = None,
    *,
    source: Source = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", metavar="", help="Say what would go, and do nothing.")] = False,
    reflection_model: ReflectionModel = None,
    registry: RegistryUrl = DEFAULT_REGISTRY,
    json_output: JsonOutput = False,
) -> int:
    """Erase feedback from every version, for good, with a receipt.

    The receipt says what went, what was derived again, what was searched afterwards, and what cannot be reached:
    exported bundles, judgment files, providers' logs.
    """
    from memalign.align import MemAlign

    opened, out = open_registry(registry), Output(json=json_output)
    before = head_of(opened, name)
    optimizer = MemAlign(reflection_model=reflection_model)
    with interruptible(lambda: left_behind(opened, name, before)), out.progress() as progress:
        receipt = opened.erase(
            name, tuple(keys or ()), source=source, dry_run=dry_run, optimizer=optimizer, progress=progress
        )
    out.give(receipt.to_dict(), str(receipt))
    return FAILURES if receipt.pending and not dry_run else DONE
