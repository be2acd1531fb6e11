"""`memalign serve`: start the server, or make its first owner."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import Annotated

import typer

from memalign.errors import ConfigurationError
from memalign_server.settings import OpenIdProvider, Settings, read_secret_files

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_NO_MODEL = (
    "no model is chosen: set a provider's key, such as OPENAI_API_KEY, or MEMALIGN_MODEL, "
    "and start again; until then judges need a model by name"
)


@app.command()
def serve(
    host: Annotated[
        str, typer.Option(metavar="H", help="The address to listen on.")
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            metavar="P", min=0, max=65535, help="The port; 0 picks a free one."
        ),
    ] = 8321,
    registry: Annotated[
        str,
        typer.Option(
            metavar="URL",
            envvar="MEMALIGN_REGISTRY",
            help="A file, or a URL of SQLite or PostgreSQL.",
        ),
    ] = "sqlite:///memalign.db",
    public_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            envvar="MEMALIGN_PUBLIC_URL",
            help="Its address behind a proxy.",
        ),
    ] = None,
    add_owner: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Only print a link for this owner."),
    ] = None,
) -> int:
    """Serve the experts' review pages and an HTTP API. Ctrl-C stops the server.

    By default, only this machine can reach the server, and everybody on it can use the pages. On
    any other address, people have to sign in: --add-owner prints a link for the first owner, who
    then invites the others.

    Programs use the token in MEMALIGN_API_TOKEN. Cases can come from the MLflow server in
    MLFLOW_TRACKING_URI. For OpenID Connect, set MEMALIGN_OPENID_ISSUER, _CLIENT, _CLIENT_SECRET,
    and _OWNERS or _REVIEWERS: e-mail addresses, or @example.org for a whole domain, with commas
    between. To read a secret from a file, add _FILE to the name.
    """
    read_secret_files()
    settings = Settings(
        registry=registry,
        host=host,
        public_url=public_url,
        openid=OpenIdProvider.of_environment(),
        api_token=os.environ.get("MEMALIGN_API_TOKEN") or None,
        mlflow=os.environ.get("MLFLOW_TRACKING_URI") or None,
    )
    if add_owner is not None:
        return _add_owner(settings, port, add_owner)
    return _run(settings, port)


def _add_owner(settings: Settings, port: int, name: str) -> int:
    from memalign_server.people.routes import link_address
    from memalign_server.people.service import owner_link
    from memalign_server.store import Store

    with Store(settings.registry).write() as connection:
        secret = owner_link(connection, name)
    _say(
        f"{name} now owns {settings.registry}. Start the server; "
        "this link works once, within a week:"
    )
    typer.echo(link_address(settings, _address(settings, port), secret))
    return 0


def _say(text: str) -> None:
    typer.echo(text, err=True)


def _address(settings: Settings, port: int) -> str:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return settings.public_url or f"http://{host}:{port}"


def _run(settings: Settings, port: int) -> int:
    import uvicorn

    from memalign.models import default_model_name
    from memalign_server.app import create_app
    from memalign_server.people.service import list_people

    application = create_app(settings)
    store = application.state.server.store
    with store.claimed(), store.read() as connection:
        closed = settings.openid is not None or bool(list_people(connection))
    if not settings.local and not closed:
        raise ConfigurationError(
            f"others can reach {settings.public_url or settings.host}, so add an owner: "
            "memalign serve --add-owner NAME"
        )
    listening = _listening(settings.host, port)
    _, port, *_ = listening.getsockname()
    whom = "open to everybody on this machine until the team has a member"
    if closed:
        whom = "for the members of the team"
    _say(f"memalign is at {_address(settings, port)}, {whom}")
    if default_model_name() is None:
        _say(_NO_MODEL)
    config = uvicorn.Config(
        application,
        log_level="warning",
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=5,
    )
    with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C is how a server is stopped
        uvicorn.Server(config).run(sockets=[listening])
    return 0


def _listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens there.

    Raises:
        ConfigurationError: It cannot.
    """
    with contextlib.ExitStack() as unless_it_listens:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            family, kind, protocol, _, place = found[0]
            # With its protocol asyncio knows it for TCP, and sends parts of an answer without a
            # wait of 40 ms.
            listening = socket.socket(family, kind, protocol)
            unless_it_listens.enter_context(listening)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(place)
            # Whoever reads the address below may connect: the first requests wait.
            listening.listen(2048)
        except OSError as error:
            raise ConfigurationError(
                f"cannot listen on {host} port {port}: {error.strerror}; "
                "to use a free port: memalign serve --port 0"
            ) from None
        unless_it_listens.pop_all()
        return listening
