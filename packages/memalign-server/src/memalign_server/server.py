"""What one server holds, for the functions that answer requests."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Annotated, Final, cast

from fastapi import Depends, Request

from memalign.judge import Judge
from memalign.registry import Registry
from memalign_server.review.sharing import OpenCases
from memalign_server.settings import Settings
from memalign_server.store import Store
from memalign_server.store.judges import Newest, newest_version
from memalign_server.work.jobs import Jobs


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """The newest version of a judge."""

    judge: Judge
    newest: Newest

    @property
    def version(self) -> int:
        """The number of the version."""
        return self.newest.number


class Judges:
    """The newest versions of judges, each read from the registry once. Safe for several threads."""

    def __init__(self, registry: Registry, store: Store) -> None:
        self._registry = registry
        self._store = store
        self._lock = threading.Lock()
        self._loaded: dict[str, Loaded] = {}

    def latest(self, name: str) -> Loaded:
        """Return the newest version of a judge.

        Raises:
            JudgeNotFound: No judge has the name.
        """
        with self._store.read() as connection:
            newest = newest_version(connection, name)
        with self._lock:  # one request loads a new version, and the others wait for it
            # Of one judge one version is kept: an older one may hold what was erased since.
            loaded = self._loaded.get(name)
            if loaded is None or loaded.newest != newest:
                judge = self._registry.load(name, newest.number)
                loaded = Loaded(judge=judge, newest=newest)
                self._loaded[name] = loaded
            return loaded


@dataclass(frozen=True, kw_only=True)
class Server:
    """What one server holds.

    Attributes:
        settings: Its settings.
        registry: The registry of judges.
        store: Its own tables.
        jobs: Its long work.
        judges: The judges that it has loaded.
        opened: Who has which case open.
    """

    settings: Settings
    registry: Registry
    store: Store
    jobs: Jobs
    judges: Judges
    opened: OpenCases = field(default_factory=OpenCases)


def _server(request: Request) -> Server:
    return cast("Server", request.app.state.server)


Here = Annotated[Server, Depends(_server)]
"""A parameter of a route: the server. `def list_judges(server: Here)`."""


def _judge(judge: str, server: Here, request: Request) -> None:
    request.state.loaded = server.judges.latest(judge)


JUDGE: Final = Depends(_judge)
"""A dependency of routes that name a judge: 404 if there is none of the name.

The request's state keeps what was `loaded`, so that a page reads it once.
"""
