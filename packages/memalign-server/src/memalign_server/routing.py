"""Routes that ask who is there before anything else: before a body is read, and before its faults are told."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, cast

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool

from memalign_server.people.access import ACCESS, Public
from memalign_server.people.identity import LOCAL, team_of
from memalign_server.people.roles import Person, Role
from memalign_server.problems import Problem
from memalign_server.server import Server

__all__ = ["GuardedRoute", "check_access", "guarded_router"]


class GuardedRoute(APIRoute):
    """A route that only those may use whom the table of access names; `request.state.person` is who asks."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The route's handler, behind the guard."""
        handle = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            server = cast("Server", request.app.state.server)
            request.state.person = await run_in_threadpool(_admitted, server, request, self.name)
            return await handle(request)

        return guarded


def guarded_router(**settings: Any) -> APIRouter:
    """A router whose routes are guarded. Every route's name must be in the table of access."""
    return APIRouter(route_class=GuardedRoute, **settings)


def check_access(routers: list[APIRouter]) -> None:
    """Raise RuntimeError for a route without a line in the table, a line without a route, and a route without a guard."""
    routes = [route for router in routers for route in router.routes]
    if bare := [route for route in routes if not isinstance(route, GuardedRoute)]:
        raise RuntimeError(f"routes without a guard: {bare}; make them with guarded_router")
    if wrong := {route.name for route in routes if isinstance(route, GuardedRoute)} ^ set(ACCESS):
        raise RuntimeError(f"people/access.py and the routes differ in: {sorted(wrong)}")


def _admitted(server: Server, request: Request, route: str) -> Person | None:
    """Who asks. Raises Problem: 401 for nobody known, 403 for somebody who may not, 404 for another team's judge."""
    needs = ACCESS[route]
    person = _person(server, request)
    if needs is Public.ANYONE:
        return person
    if person is None:
        raise Problem(
            401, "sign in, or send an API token as `Authorization: Bearer …`", headers={"www-authenticate": "Bearer"}
        )
    if isinstance(needs, Role):
        _check_role(server, request, person, needs)
    return person


def _check_role(server: Server, request: Request, person: Person, needs: Role) -> None:
    judge = request.path_params.get("judge")
    team = None
    if judge is not None:
        with server.store.read() as connection:
            team = team_of(connection, judge)
        if not person.may(Role.VIEWER, team):
            raise Problem(404, f"no judge {judge!r} of your teams")
    if not person.may(needs, team):
        raise Problem(403, f"this needs the role {needs.word}; an owner of the team can give it to you")


def _person(server: Server, request: Request) -> Person | None:
    del request
    return LOCAL if server.settings.local else None
