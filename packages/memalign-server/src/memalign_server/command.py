"""`memalign serve`: start the server, or make its first owner."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import Annotated

import typer

from memalign.errors import ConfigurationError
from memalign_server.secret_files import read_secret_files
from memalign_server.settings import OpenIdProvider, Settings

__all__ = ["app"]

SECRET_VARIABLE = "MEMALIGN_OPENID_CLIENT_SECRET"
TOKEN_VARIABLE = "MEMALIGN_API_TOKEN"

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def serve(
    host: Annotated[str, typer.Option(metavar="H", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="P", min=0, max=65535, help="The port; 0 takes a free one.")] = 8321,
    registry: Annotated[
        str, typer.Option(metavar="URL", envvar="MEMALIGN_REGISTRY", help="Where judges are kept.")
    ] = "sqlite:///memalign.db",
    title: Annotated[str, typer.Option(metavar="TEXT", help="What the pages are called.")] = "memalign",
    public_url: Annotated[
        str | None,
        typer.Option(metavar="URL", envvar="MEMALIGN_PUBLIC_URL", help="How browsers reach it, behind a proxy."),
    ] = None,
    add_owner: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Print a personal link for an owner of this name, and start nothing."),
    ] = None,
    openid_issuer: Annotated[
        str | None,
        typer.Option(metavar="URL", envvar="MEMALIGN_OPENID_ISSUER", help="Sign in by this OpenID provider too."),
    ] = None,
    openid_client: Annotated[
        str | None,
        typer.Option(metavar="ID", envvar="MEMALIGN_OPENID_CLIENT_ID", help="What the provider knows this server by."),
    ] = None,
    openid_owners: Annotated[
        str,
        typer.Option(
            metavar="LIST", envvar="MEMALIGN_OPENID_OWNERS", help="Who signs in by it as an owner: addresses."
        ),
    ] = "",
    openid_reviewers: Annotated[
        str,
        typer.Option(metavar="LIST", envvar="MEMALIGN_OPENID_REVIEWERS", help="Who signs in by it as a reviewer."),
    ] = "",
    mlflow: Annotated[
        str | None,
        typer.Option(metavar="URI", envvar="MLFLOW_TRACKING_URI", help="The MLflow that cases are pulled from."),
    ] = None,
) -> int:
    """Start the page where experts teach judges, and the HTTP API under it. Ctrl-C stops it.

    On this machine's own address it is open to everybody here. On any other address it needs people: --add-owner prints
    the link of the first owner, who adds the others. --openid-owners and --openid-reviewers list e-mail addresses with
    commas between them; @example.org stands for all of a domain. MEMALIGN_OPENID_CLIENT_SECRET is the provider's secret,
    MEMALIGN_API_TOKEN the token of programs. Each secret may be in a file, named by its variable with _FILE behind it.
    """
    read_secret_files()
    settings = Settings(
        registry=registry,
        host=host,
        port=port,
        title=title,
        public_url=public_url,
        openid=_provider(openid_issuer, openid_client, openid_owners, openid_reviewers),
        api_token=os.environ.get(TOKEN_VARIABLE) or None,
        mlflow=mlflow,
    )
    if add_owner is not None:
        return _add_owner(settings, add_owner)
    return _run(settings)


def _provider(issuer: str | None, client: str | None, owners: str, reviewers: str) -> OpenIdProvider | None:
    if issuer is None and client is None:
        return None
    secret = os.environ.get(SECRET_VARIABLE)
    if issuer is None or client is None or not secret:
        raise ConfigurationError(f"OpenID Connect needs --openid-issuer, --openid-client and {SECRET_VARIABLE}")
    return OpenIdProvider(
        issuer=issuer, client_id=client, client_secret=secret, owners=_entries(owners), reviewers=_entries(reviewers)
    )


def _entries(text: str) -> frozenset[str]:
    """The entries of a list: addresses in small letters, subjects as they are."""
    entries = (entry.strip() for entry in text.split(","))
    return frozenset(entry.casefold() if "@" in entry else entry for entry in entries if entry)


def _add_owner(settings: Settings, name: str) -> int:
    from memalign_server.pages.people import link_address
    from memalign_server.people.people import owner_link
    from memalign_server.store import Store

    with Store(settings.registry).write() as connection:
        secret = owner_link(connection, name)
    typer.echo(
        f"{name} owns {settings.registry}. Start the server and open this link within a week; it works once:", err=True
    )
    typer.echo(link_address(settings, _address(settings, settings.port), secret))
    return 0


def _address(settings: Settings, port: int) -> str:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return settings.public_url or f"http://{host}:{port}"


def _run(settings: Settings) -> int:
    import uvicorn

    from memalign_server.app import create_app
    from memalign_server.people.people import has_people

    application = create_app(settings)
    with application.state.server.store.read() as connection:
        closed = settings.openid is not None or has_people(connection)
    if not settings.local and not closed:
        raise ConfigurationError(
            f"others can reach {settings.public_url or settings.host}, and the team has nobody. Add the first owner: "
            "memalign serve --add-owner NAME"
        )
    listening = _listening(settings.host, settings.port)
    whom = "for the people of the team" if closed else "open to everybody on this machine: the team has nobody yet"
    typer.echo(f"memalign is at {_address(settings, listening.getsockname()[1])}, {whom}", err=True)
    config = uvicorn.Config(
        application, log_level="warning", server_header=False, date_header=False, timeout_graceful_shutdown=5
    )
    with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C is how a server is stopped
        uvicorn.Server(config).run(sockets=[listening])
    return 0


def _listening(host: str, port: int) -> socket.socket:
    """A socket that listens there. Raises ConfigurationError."""
    with contextlib.ExitStack() as unless_it_listens:
        try:
            ((family, kind, protocol, _, place), *_) = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            # Only with its protocol asyncio knows it for TCP, and sends each part of an answer at once: else they wait
            # for 40 ms.
            listening = unless_it_listens.enter_context(socket.socket(family, kind, protocol))
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(place)
            listening.listen(2048)  # whoever reads the address below may connect: the first requests wait
        except OSError as error:
            raise ConfigurationError(
                f"cannot listen on {host} port {port}: {error.strerror}; --port 0 takes a free one"
            ) from None
        unless_it_listens.pop_all()
        return listening
