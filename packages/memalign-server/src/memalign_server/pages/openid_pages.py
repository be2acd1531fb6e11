"""To an OpenID Connect provider, and back."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from memalign_server.pages.signing_in import enter, inside
from memalign_server.people.openid import COOKIE, Claims, OpenId, opened, sealed, user_of
from memalign_server.problems import Problem
from memalign_server.routing import guarded_router, set_cookie
from memalign_server.server import Here, Server

__all__ = ["router"]

router: APIRouter = guarded_router()

_PATIENCE = 600


def _provider(server: Server) -> OpenId:
    if server.settings.openid is None:
        raise Problem(404, "this server knows no OpenID provider")
    return OpenId(server.settings.openid)


def _callback(request: Request, server: Server) -> str:
    return f"{(server.settings.public_url or str(request.base_url)).rstrip('/')}/openid/callback"


@router.get("/openid/start")
async def openid_start(
    request: Request,
    server: Here,
    back: Annotated[str, Query(max_length=2000)] = "/",
    invitation: Annotated[str | None, Query(max_length=100)] = None,
) -> Response:
    """Send the browser to the provider; an invitation goes along and is taken up on the way back."""
    kept = {"back": inside(back), "invitation": invitation}
    answer, brought = await _provider(server).send_away(request, _callback(request, server), kept)
    set_cookie(request, answer, COOKIE, sealed(server.store.secret, brought), seconds=_PATIENCE)
    return answer


@router.get("/openid/callback")
async def openid_callback(request: Request, server: Here) -> Response:
    """Take back whom the provider vouches for, and sign them in."""
    brought = opened(server.store.secret, request.cookies.get(COOKIE))
    back, invitation = brought.pop("back", "/"), brought.pop("invitation", None)
    claims = await _provider(server).take_back(request, brought)
    answer = await run_in_threadpool(_entered, request, server, claims, back, invitation)
    answer.delete_cookie(COOKIE, path="/")
    return answer


def _entered(request: Request, server: Server, claims: Claims, back: str, invitation: str | None) -> Response:
    with server.store.write() as connection:
        user = user_of(connection, claims, invitation)
    return enter(request, server, user, back)
