"""What one server holds, for the functions that answer requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, cast

from fastapi import Depends, Request

from memalign.registry import Registry
from memalign_server.review.judges import Judges
from memalign_server.settings import Settings
from memalign_server.store import Store
from memalign_server.work.jobs import Jobs


@dataclass(frozen=True, kw_only=True)
class Server:
    """One server: its settings, the registry of judges, its own tables, its jobs, and the judges that it has loaded."""

    settings: Settings
    registry: Registry
    store: Store
    jobs: Jobs
    judges: Judges


def _server(request: Request) -> Server:
    return cast("Server", request.app.state.server)


Here = Annotated[Server, Depends(_server)]
"""A parameter of a route: the server. `def list_judges(server: Here)`."""


def _judge(judge: str, server: Here) -> None:
    server.judges.latest(judge)


JUDGE: Final = Depends(_judge)
"""A dependency of routes that name a judge: 404 if there is none of the name."""
