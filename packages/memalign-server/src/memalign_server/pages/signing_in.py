"""Signing in and out, and taking an invitation up."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Form, Path, Query, Request
from fastapi.responses import RedirectResponse, Response

from memalign.errors import InputError
from memalign_server.pages.rendering import render, speaking, told
from memalign_server.people import accounts
from memalign_server.people.forgery import VISITOR
from memalign_server.people.passwords import SHORTEST, check_password, hashed
from memalign_server.people.sessions import COOKIE, LONGEST, end_session, start_session
from memalign_server.people.throttle import begin_attempt, forget_attempts
from memalign_server.problems import Problem
from memalign_server.routing import address_of, guarded_router, set_cookie
from memalign_server.server import Here, Server

__all__ = ["enter", "inside", "router"]

router: APIRouter = guarded_router()

Back = Annotated[str, Query(max_length=2000)]
Secret = Annotated[str, Path(max_length=100)]
Word = Annotated[str, Form(max_length=1000)]


def inside(back: str) -> str:
    """Where to go after signing in: a page of this server, and of no other."""
    return back if back.startswith("/") and not back.startswith(("//", "/\\")) and back.isprintable() else "/"


def enter(request: Request, server: Server, user: str, back: str) -> Response:
    """The answer that signs somebody in: a new session, whatever the browser had before."""
    with server.store.write() as connection:
        session = start_session(connection, user, instead_of=request.cookies.get(COOKIE))
    answer = RedirectResponse(inside(back), 303)
    set_cookie(request, answer, COOKIE, session, seconds=LONGEST)
    answer.delete_cookie(VISITOR, path="/")
    return answer


@router.get("/sign-in")
def sign_in_page(request: Request, server: Here, back: Back = "/") -> Response:
    """Where to sign in."""
    return _sign_in(request, server, back)


@router.post("/sign-in")
def sign_in(request: Request, server: Here, name: Word, password: Word, back: Word = "/") -> Response:
    """Sign in by name and password. The same words for a wrong name and a wrong password."""
    address = address_of(request)
    begin_attempt(server.store, name, address)
    user = accounts.user_by_password(server.store, name, password)
    if user is None:
        wrong = speaking(request).say("The name or the password is wrong.")
        return _sign_in(request, server, back, wrong=wrong, name=name)
    forget_attempts(server.store, name, address)
    return enter(request, server, user, back)


def _sign_in(request: Request, server: Server, back: str, *, wrong: str = "", name: str = "") -> Response:
    context = {"back": inside(back), "openid": server.settings.openid, "wrong": wrong, "name": name}
    return render(request, "sign_in.html", status=401 if wrong else 200, page="sign-in", **context)


@router.post("/sign-out")
def sign_out(request: Request, server: Here) -> Response:
    """End the session here and in the database, so that a copy of the cookie is worth nothing."""
    session = request.cookies.get(COOKIE)
    if session:
        with server.store.write() as connection:
            end_session(connection, session)
    answer = RedirectResponse("/sign-in", 303)
    answer.delete_cookie(COOKIE, path="/")
    return answer


@router.get("/join/{secret}")
def join_page(request: Request, server: Here, secret: Secret) -> Response:
    """What an invitation is to, and the form that takes it up."""
    return _join(request, server, secret)


@router.post("/join/{secret}")
def join(request: Request, server: Here, secret: Secret, name: Word = "", password: Word = "") -> Response:
    """Take an invitation up: with a new account, or with the one that is signed in."""
    person = request.state.person
    if person is not None and person.user is not None:
        with server.store.write() as connection:
            accounts.accept(connection, secret, person.user)
        return RedirectResponse("/", 303)
    begin_attempt(server.store, "(join)", address_of(request))
    try:
        check_password(password, name)
        known = hashed(password)
        with server.store.write() as connection:
            user = accounts.add_user(connection, name, password_hash=known)
            accounts.accept(connection, secret, user)
    except InputError as error:
        return _join(request, server, secret, wrong=told(speaking(request), error), name=name)
    forget_attempts(server.store, "(join)", address_of(request))
    return enter(request, server, user, "/")


def _join(request: Request, server: Server, secret: str, *, wrong: str = "", name: str = "") -> Response:
    with server.store.read() as connection:
        found = accounts.find_invitation(connection, secret)
    if found is None:
        raise Problem(404, "this invitation is used or too old; ask for a new one")
    status = 422 if wrong else 200
    context = {"secret": quote(secret, safe=""), "role": found.role.word, "wrong": wrong, "name": name}
    return render(
        request, "join.html", status=status, page="join", shortest=SHORTEST, openid=server.settings.openid, **context
    )
