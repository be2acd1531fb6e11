"""Routes that ask who is there before anything else: before a body is read, and before its faults are told."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, cast

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool

from memalign_server.people.access import ACCESS, Public
from memalign_server.people.asking import who_asks
from memalign_server.people.forgery import (
    FIELD,
    HEADER,
    SAFE,
    VISITOR,
    check_direct,
    check_origin,
    check_token,
    new_visitor,
    token_of,
)
from memalign_server.people.identity import team_of
from memalign_server.people.roles import Person, Role
from memalign_server.people.sessions import COOKIE
from memalign_server.problems import Problem
from memalign_server.server import Server

__all__ = ["NEEDS", "GuardedRoute", "address_of", "check_access", "guarded_router", "set_cookie"]

_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
NEEDS = {
    Role.VIEWER: "you are in no team; an owner of one can invite you",
    Role.REVIEWER: "this needs the role reviewer; an owner of the team can give it to you",
    Role.OWNER: "this needs the role owner; an owner of the team can give it to you",
}


class GuardedRoute(APIRoute):
    """A route that only those may use whom the table of access names.

    `request.state.person` is who asks, and `request.state.csrf` what a form must send back.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The route's handler, behind the guard."""
        handle = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            server = cast("Server", request.app.state.server)
            person, team = await run_in_threadpool(_admitted, server, request, self.name)
            request.state.person, request.state.team = person, team
            await _check_forgery(server, request, person)
            visitor = None
            if COOKIE not in request.cookies and VISITOR not in request.cookies:
                visitor = new_visitor()
            cookies = {**request.cookies, **({VISITOR: visitor} if visitor else {})}
            request.state.csrf = token_of(server.store.secret, cookies)
            answer = await handle(request)
            if visitor and answer.headers.get("content-type", "").startswith("text/html"):
                set_cookie(request, answer, VISITOR, visitor)
            return answer

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


def set_cookie(request: Request, answer: Response, name: str, value: str, *, seconds: int | None = None) -> None:
    """A cookie that no script reads and no other site sends; over TLS only where the request came by it."""
    server = cast("Server", request.app.state.server)
    secure = request.url.scheme == "https" or (server.settings.public_url or "").startswith("https://")
    answer.set_cookie(name, value, max_age=seconds, httponly=True, secure=secure, samesite="lax", path="/")


def address_of(request: Request) -> str:
    """The address that a request comes from; the proxy's, unless uvicorn was told to trust it."""
    return request.client.host if request.client else ""


def _admitted(server: Server, request: Request, route: str) -> tuple[Person | None, str | None]:
    """Who asks, and the team that it is about.

    Raises Problem: 401 for nobody known, 403 for somebody who may not, 404 for a judge that is another team's or not there.
    """
    needs = ACCESS[route]
    judge = request.path_params.get("judge")
    person = who_asks(server.store, server.settings, request.headers, request.cookies)
    if needs is Public.ANYONE:
        return person, None
    if person is not None and person.by == "open":
        check_direct(request.headers, request.scope.get("http_version", "1.1"))
    if person is None:
        raise Problem(
            401, "sign in, or send an API token as `Authorization: Bearer …`", headers={"www-authenticate": "Bearer"}
        )
    judge = request.path_params.get("judge")
    team = _team(server, request, person)
    if isinstance(needs, Role) and not person.may(needs, team) and (person.roles or judge is None):
        raise Problem(403, NEEDS[needs])
    if judge is not None and team is None:
        raise Problem(404, "no judge '{judge}' of your teams", parts={"judge": judge}, error="JudgeNotFound")
    return person, team


def _team(server: Server, request: Request, person: Person) -> str | None:
    """The team of the path, or of the judge in it; None where it names neither, or a judge that the person has not."""
    judge = request.path_params.get("judge")
    if judge is not None:
        with server.store.read() as connection:
            team = team_of(connection, judge)
        return team if team in person.roles else None
    team = cast("str | None", request.path_params.get("team"))
    if team is not None and not person.may(Role.VIEWER, team):
        raise Problem(404, "no team '{team}' of yours", parts={"team": team})
    return team


async def _check_forgery(server: Server, request: Request, person: Person | None) -> None:
    if request.method in SAFE or (person is not None and person.by == "token"):
        return
    check_origin(request.headers, server.settings.public_url)
    given = request.headers.get(HEADER)
    if given is None and request.headers.get("content-type", "").startswith(_FORMS):
        field = (await request.form()).get(FIELD)
        given = field if isinstance(field, str) else None
    check_token(server.store.secret, request.cookies, given)
