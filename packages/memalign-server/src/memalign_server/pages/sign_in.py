"""Signing in and out, and joining a team by an invitation's link."""

from __future__ import annotations

from typing import Annotated

from fastapi import Form, Request
from fastapi.responses import RedirectResponse, Response

from memalign.errors import InputError
from memalign_server.pages.rendering import render
from memalign_server.people import accounts
from memalign_server.people.directory import teams_named
from memalign_server.people.passwords import check_password, hashed
from memalign_server.people.roles import Person
from memalign_server.people.sessions import COOKIE, LONGEST, end_session, start_session
from memalign_server.people.throttle import begin_attempt, forget_attempts
from memalign_server.problems import Problem
from memalign_server.routing import address_of, guarded_router, set_cookie
from memalign_server.server import Here, Server

__all__ = ["router"]

router = guarded_router()


@router.get("/sign-in")
def sign_in_page(request: Request, back: str = "/") -> Response:
    """The form that asks who you are."""
    return render(request, "sign_in.html", back=_here(back), problem=None, name="")


@router.post("/sign-in")
def sign_in(
    request: Request,
    server: Here,
    name: Annotated[str, Form(max_length=200)],
    password: Annotated[str, Form(max_length=1000)],
    back: Annotated[str, Form()] = "/",
) -> Response:
    """Begin a session for the right name and password."""
    address = address_of(request)
    try:
        begin_attempt(server.store, name, address)
    except Problem as error:
        return render(
            request, "sign_in.html", status=error.status_code, back=_here(back), problem=str(error.detail), name=name
        )
    user = accounts.user_by_password(server.store, name, password)
    if user is None:
        return render(request, "sign_in.html", status=401, back=_here(back), problem="wrong", name=name)
    forget_attempts(server.store, name, address)
    return _signed_in(request, server, user, _here(back))


@router.post("/sign-out")
def sign_out(request: Request, server: Here) -> Response:
    """End the session of this browser."""
    if secret := request.cookies.get(COOKIE):
        with server.store.write() as connection:
            end_session(connection, secret)
    answer = RedirectResponse("/sign-in", 303)
    answer.delete_cookie(COOKIE, path="/")
    return answer


@router.get("/join/{secret}")
def join_page(request: Request, secret: str, server: Here) -> Response:
    """What an invitation is for, and the form of a new account."""
    return _join(request, secret, server, problem=None)


@router.post("/join/{secret}")
def join(
    request: Request,
    secret: str,
    server: Here,
    name: Annotated[str, Form(max_length=200)] = "",
    password: Annotated[str, Form(max_length=1000)] = "",
) -> Response:
    """Take an invitation up: with the account of this browser's session, else with a new one."""
    person: Person | None = request.state.person
    try:
        if person is not None and person.user is not None and person.by == "session":
            with server.store.write() as connection:
                accounts.accept(connection, secret, person.user)
            return RedirectResponse("/", 303)
        begin_attempt(server.store, "", address_of(request))
        check_password(password, name.strip())
        known = hashed(password)  # before the transaction: it takes its time on purpose
        with server.store.write() as connection:
            user = accounts.add_user(connection, name, password_hash=known)
            accounts.accept(connection, secret, user)
    except InputError as error:
        return _join(request, secret, server, problem=str(error), name=name)
    return _signed_in(request, server, user, "/")


def _join(request: Request, secret: str, server: Server, *, problem: str | None, name: str = "") -> Response:
    with server.store.read() as connection:
        found = accounts.find_invitation(connection, secret)
        team = None if found is None else teams_named(connection, (found.team,)).get(found.team, found.team)
    status = 404 if found is None else 422 if problem else 200
    return render(request, "join.html", status=status, invitation=found, team=team, problem=problem, name=name)


def _signed_in(request: Request, server: Server, user: str, to: str) -> Response:
    with server.store.write() as connection:
        secret = start_session(connection, user, instead_of=request.cookies.get(COOKIE))
    answer = RedirectResponse(to, 303)
    set_cookie(request, answer, COOKIE, secret, seconds=LONGEST)
    return answer


def _here(back: str) -> str:
    """An address of this server, whatever was asked for."""
    return back if back.startswith("/") and not back.startswith(("//", "/\\")) else "/"
