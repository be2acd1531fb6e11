"""The application: what one server holds, and the routes that it answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

from fastapi import FastAPI
from starlette.middleware.sessions import SessionMiddleware
from starlette.staticfiles import StaticFiles

from memalign.errors import RegistryError
from memalign.models import ChatModel, EmbeddingModel
from memalign.registry import Registry
from memalign_server import api
from memalign_server.erase import routes as erase
from memalign_server.learned import routes as learned
from memalign_server.pages.errors import answer_error
from memalign_server.people import routes as people
from memalign_server.people.access import ANYBODY, TEAM, Identity, Json, SafeHeaders
from memalign_server.problems import PROBLEMS, RAISED, unreachable
from memalign_server.review import routes as review
from memalign_server.server import Here, Judges, Server
from memalign_server.settings import Settings
from memalign_server.setup import cases, question
from memalign_server.setup import routes as setup
from memalign_server.setup.service import open_provider
from memalign_server.setup.uploads import clear_uploads
from memalign_server.store import Store
from memalign_server.trust import routes as trust
from memalign_server.work.jobs import Jobs

_PAGES = (
    people.router,
    review.router,
    learned.router,
    trust.router,
    question.router,
    cases.router,
    setup.router,
    erase.router,
    people.experts,
)
_log = logging.getLogger("memalign_server")


def create_app(
    settings: Settings, *, models: Iterable[ChatModel | EmbeddingModel] = ()
) -> FastAPI:
    """Make the application of one server, which works on jobs from its start to its end.

    Its registry and its tables are created where they are not there.

    Args:
        settings: The server's settings.
        models: Models of your own, as for a Registry.

    Raises:
        RegistryError: The database cannot be opened.
        ConfigurationError: At the start, if another server works on the database.
    """
    registry = Registry(settings.registry, models=models)
    store = Store(registry.url)
    server = Server(
        settings=settings,
        registry=registry,
        store=store,
        jobs=Jobs(store, registry),
        judges=Judges(registry, store),
    )
    app = FastAPI(
        title="memalign",
        version="1",
        # These pages load scripts from another host; the description is at /api/v1/openapi.json.
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        default_response_class=Json,
        lifespan=_working,
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.server = server
    _add_routes(app)
    for kind in RAISED:
        app.add_exception_handler(kind, answer_error)
    _add_middleware(app, server)
    return app


@asynccontextmanager
async def _working(app: FastAPI) -> AsyncIterator[None]:
    """Work on jobs from the start of a server to its end."""
    server: Server = app.state.server
    with server.store.claimed():
        clear_uploads(server.store.place)
        await asyncio.to_thread(server.jobs.open)
        open_provider()
        try:
            yield
        finally:
            await asyncio.to_thread(server.jobs.close)


def _health(server: Here) -> dict[str, str]:
    try:
        server.store.check_health()
    except RegistryError as error:
        _log.error("the registry cannot be used: %s", error)
        raise unreachable() from None
    return {"status": "ok"}


def _add_routes(app: FastAPI) -> None:
    app.add_api_route("/health", _health, include_in_schema=False)
    app.include_router(people.doors, include_in_schema=False, dependencies=[ANYBODY])
    app.include_router(
        api.router, prefix=api.PREFIX, responses=PROBLEMS, dependencies=[TEAM]
    )
    for router in _PAGES:
        app.include_router(router, include_in_schema=False, dependencies=[TEAM])
    static = Path(__file__).parent / "static"
    app.mount("/static", StaticFiles(directory=static), name="static")


def _add_middleware(app: FastAPI, server: Server) -> None:
    """Add what every request goes through; the last one is the first that it meets."""
    settings = server.settings
    app.add_middleware(Identity, server=server)
    app.add_middleware(  # what must come back from an OpenID provider, for ten minutes
        SessionMiddleware,
        secret_key=server.store.secret.hex(),
        session_cookie="memalign_openid",
        max_age=600,
        https_only=settings.secure,
    )
    app.add_middleware(SafeHeaders, hosts=_hosts(settings), secure=settings.secure)


def _hosts(settings: Settings) -> frozenset[str] | None:
    """Return the names by which requests may call this server; None for any."""
    if settings.public_url is not None:
        return frozenset({(urlsplit(settings.public_url).hostname or "").lower()})
    if not settings.local:
        return None
    return frozenset({"localhost", "127.0.0.1", "[::1]", settings.host.lower()})
