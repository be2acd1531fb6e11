"""People: who is in one's teams, invitations, one's API tokens and password."""

from __future__ import annotations

from typing import Annotated

from fastapi import Form, Request
from fastapi.responses import RedirectResponse, Response

from memalign.errors import InputError
from memalign_server.pages.rendering import render
from memalign_server.people import accounts, directory, tokens
from memalign_server.people.roles import Person, Role
from memalign_server.problems import Problem
from memalign_server.routing import guarded_router
from memalign_server.server import Asking, Here, Server

__all__ = ["router"]

router = guarded_router()

_TOKEN_DAYS = 365


@router.get("/people")
def people_page(request: Request, server: Here, person: Asking) -> Response:
    """The members of one's teams, and one's own account."""
    return _page(request, server, person)


@router.post("/people/invite")
def invite_person(
    request: Request, server: Here, person: Asking, team: Annotated[str, Form()], role: Annotated[str, Form()]
) -> Response:
    """Make an invitation and show its link, once."""
    _own(person, team)
    with server.store.write() as connection:
        _, secret = accounts.invite(connection, team=team, role=_role(role), by=person.user)
    public = server.settings.public_url or str(request.base_url)
    return _page(request, server, person, invited=f"{public.rstrip('/')}/join/{secret}")


@router.post("/people/role")
def change_role(
    server: Here,
    person: Asking,
    team: Annotated[str, Form()],
    user: Annotated[str, Form()],
    role: Annotated[str, Form()],
) -> Response:
    """Give somebody another role in a team, or take them out of it (`none`)."""
    _own(person, team)
    with server.store.write() as connection:
        accounts.set_role(connection, user, team, None if role == "none" else _role(role))
    return RedirectResponse("/people", 303)


@router.post("/people/uninvite")
def uninvite_person(
    server: Here, person: Asking, team: Annotated[str, Form()], invitation: Annotated[str, Form()]
) -> Response:
    """Take an invitation back."""
    _own(person, team)
    with server.store.write() as connection:
        directory.withdraw_invitation(connection, team, invitation)
    return RedirectResponse("/people", 303)


@router.post("/people/token")
def add_token(
    request: Request,
    server: Here,
    person: Asking,
    name: Annotated[str, Form(max_length=200)],
    role: Annotated[str, Form()],
) -> Response:
    """Make an API token and show it, once."""
    if person.by != "session" or person.user is None:
        raise Problem(403, "sign in to make a token")
    if not name.strip():
        raise InputError("give the token a name: where is it used?")
    with server.store.write() as connection:
        _, secret = tokens.make_token(connection, person.user, name=name.strip(), role=_role(role), days=_TOKEN_DAYS)
    return _page(request, server, person, token=secret)


@router.post("/people/token/revoke")
def drop_token(server: Here, person: Asking, token: Annotated[str, Form()]) -> Response:
    """Take a token away from programs, at once."""
    with server.store.write() as connection:
        tokens.revoke_token(connection, person.user or "", token)
    return RedirectResponse("/people", 303)


@router.post("/people/password")
def new_password(
    server: Here,
    person: Asking,
    old: Annotated[str, Form(max_length=1000)],
    new: Annotated[str, Form(max_length=1000)],
) -> Response:
    """Change one's password; every session ends, and one signs in again."""
    if person.user is None:
        raise InputError("this server has no accounts")
    accounts.change_password(server.store, person.user, person.name, old=old, new=new)
    return RedirectResponse("/sign-in", 303)


def _page(
    request: Request, server: Server, person: Person, *, invited: str | None = None, token: str | None = None
) -> Response:
    with server.store.read() as connection:
        names = directory.teams_named(connection, person.teams())
        teams = [
            {
                "id": team,
                "name": name,
                "owner": person.may(Role.OWNER, team),
                "members": directory.members_of(connection, team),
                "invitations": directory.open_invitations(connection, team) if person.may(Role.OWNER, team) else [],
            }
            for team, name in names.items()
        ]
        mine = tokens.tokens_of(connection, person.user) if person.user is not None else []
    return render(
        request, "people.html", page="people", teams=teams, tokens=mine, invited=invited, token=token,
        roles=[each.word for each in Role],
    )  # fmt: skip


def _own(person: Person, team: str) -> None:
    if not person.may(Role.OWNER, team):
        raise Problem(403, "this needs the role owner in the team")


def _role(word: str) -> Role:
    try:
        return Role.of(word)
    except KeyError:
        raise InputError(f"role {word!r} is none of {', '.join(each.word for each in Role)}") from None
