"""What one server holds, for the functions that answer requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends, Request

from memalign.registry import Registry
from memalign_server.people.roles import Person, Role
from memalign_server.review.judges import Judges
from memalign_server.review.similar import Similar
from memalign_server.settings import Settings
from memalign_server.store import Store
from memalign_server.work.jobs import Jobs

__all__ = ["Asking", "Blind", "Here", "Owning", "Server"]


@dataclass(frozen=True, kw_only=True)
class Server:
    """One server: its settings, the registry of judges, its own tables, the jobs in them, and what pages keep of judges."""

    settings: Settings
    registry: Registry
    store: Store
    jobs: Jobs
    judges: Judges
    similar: Similar


def _server(request: Request) -> Server:
    return cast("Server", request.app.state.server)


def _person(request: Request) -> Person:
    return cast("Person", request.state.person)


def _owner(request: Request) -> bool:
    return _person(request).may(Role.OWNER, request.state.team)


def _asked(request: Request) -> str | None:
    person = _person(request)
    return person.name if person.may(Role.REVIEWER, request.state.team) else None


Here = Annotated[Server, Depends(_server)]
"""A parameter of a route: the server. `def list_judges(server: Here)`."""
Asking = Annotated[Person, Depends(_person)]
"""A parameter of a route: who asks. Routes that anyone may use have nobody."""
Owning = Annotated[bool, Depends(_owner)]
"""A parameter of a route: whether who asks is an owner in the team of the path's judge."""
Blind = Annotated[str | None, Depends(_asked)]
"""A parameter of a route: the name of somebody who may be asked to review, and must not see verdicts before; else None."""
