"""`memalign serve`: start the server."""

from __future__ import annotations

from typing import Annotated

import typer

from memalign.cli.common import DEFAULT_REGISTRY, DONE, RegistryUrl
from memalign.errors import ConfigurationError
from memalign_server.settings import Settings

__all__ = ["app"]

app = typer.Typer(rich_markup_mode=None, help="The page where experts teach judges, and the HTTP API under it.")


@app.callback(invoke_without_command=True)
def serve(
    host: Annotated[str, typer.Option(metavar="H", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="P", min=0, max=65535, help="The port.")] = 8321,
    registry: RegistryUrl = DEFAULT_REGISTRY,
    title: Annotated[str, typer.Option(metavar="TEXT", help="What the pages are called.")] = "memalign",
    public_url: Annotated[
        str | None,
        typer.Option(metavar="URL", envvar="MEMALIGN_PUBLIC_URL", help="How browsers reach it, behind a proxy."),
    ] = None,
) -> int:
    """Start the server, and stop it with Ctrl-C."""
    import uvicorn

    from memalign_server.app import create_app

    settings = Settings(registry=registry, host=host, port=port, title=title, public_url=public_url)
    if not settings.local:
        raise ConfigurationError("accounts are needed on an address that others can reach")
    application = create_app(settings)
    typer.echo(f"memalign is at http://{host}:{port} for everybody on this machine: there are no accounts", err=True)
    uvicorn.run(application, host=host, port=port, log_level="warning", server_header=False)
    return DONE
