"""The registry as a whole: copying judges to another one, and wiping what deleted rows left."""

from __future__ import annotations

from typing import Annotated

import typer

from memalign.cli.common import DONE, JsonOutput, Session, UnusedRegistryUrl, with_session
from memalign.cli.output import counted

Url = "a file's path, sqlite:///FILE or postgresql+psycopg://USER@HOST/DATABASE"


def copy(
    source: Annotated[str, typer.Argument(metavar="FROM", help=f"The registry to copy: {Url}.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="The registry to copy to; made where there is none.")],
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Judges; the default is all.")] = None,
    *,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace judges of the same name, with all their versions.")
    ] = False,
    registry: UnusedRegistryUrl = "",  # noqa: ARG001  # every command takes it
    json_output: JsonOutput = False,
) -> int:
    """Copy judges, with all versions, to another registry.

    Such as from a file to PostgreSQL. All or nothing is copied. Erased feedback stays erased, and receipts can be verified there too. The registry that is
    copied stays as it is.
    """
    from memalign.registry import Registry

    session = Session(json=json_output)
    copied = Registry(source, create=False).copy_to(Registry(target), names or (), overwrite=overwrite)
    lines = [
        f"{'replaced' if each.replaced else 'copied'} {each.name}: {counted(each.versions, 'version')}, "
        f"{counted(each.rows, 'row')}, {each.erasures} erased feedback remembered"
        for each in copied
    ]
    session.give({"copied": [each.to_dict() for each in copied]}, *lines or ["no judges to copy"])
    return DONE


def compact(session: Session) -> int:
    """Wipe what deleted rows left, when an erase was stopped.

    An erase does it by itself. Run it where an erase was killed or says that it could not. It rewrites the registry's file,
    or its tables on PostgreSQL, and waits for others who still read.
    """
    rewritten = session.registry().compact()
    session.give({"compacted": True}, f"rewritten: {rewritten or 'the file'}")
    return DONE


app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="The registry as a whole.")
app.command("copy", epilog="Example: memalign registry copy memalign.db postgresql+psycopg://ana@db/memalign")(copy)
app.command("compact", epilog="Example: memalign registry compact")(with_session(compact))
