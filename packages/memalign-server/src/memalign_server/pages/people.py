"""One's own account, and the people of a team."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Form, Path, Request
from fastapi.responses import RedirectResponse, Response

from memalign_server.pages.rendering import render
from memalign_server.pages.signing_in import enter
from memalign_server.people import accounts, directory, tokens
from memalign_server.people.passwords import SHORTEST
from memalign_server.people.roles import Person, Role
from memalign_server.people.throttle import begin_attempt, forget_attempts
from memalign_server.problems import Problem
from memalign_server.routing import address_of, guarded_router
from memalign_server.server import Asking, Here, Server

__all__ = ["router"]

router: APIRouter = guarded_router()

TeamId = Annotated[str, Path(max_length=32)]
Id = Annotated[str, Path(max_length=32)]
Word = Annotated[str, Form(max_length=1000)]
RoleWord = Annotated[str, Form(pattern="^(viewer|reviewer|owner)$")]


def _user(person: Person) -> str:
    if person.user is None:
        raise Problem(409, "this server has no accounts")
    return person.user


@router.get("/account")
def account_page(request: Request, server: Here, person: Asking) -> Response:
    """One's password and API tokens."""
    return _account(request, server, person)


@router.post("/account/password")
def change_password(request: Request, server: Here, person: Asking, old: Word, new: Word) -> Response:
    """Another password; every other session of this person ends."""
    user = _user(person)
    begin_attempt(server.store, person.name, address_of(request))
    accounts.change_password(server.store, user, person.name, old=old, new=new)
    forget_attempts(server.store, person.name, address_of(request))
    return enter(request, server, user, "/account")


@router.post("/account/tokens")
def make_token_page(request: Request, server: Here, person: Asking, name: Word, role: RoleWord) -> Response:
    """A new API token; the page shows its secret this once."""
    if person.by == "token":
        raise Problem(403, "a token cannot make tokens: sign in")
    with server.store.write() as connection:
        _, secret = tokens.make_token(
            connection, _user(person), name=name.strip() or "API", role=Role.of(role), days=365
        )
    return _account(request, server, person, secret=secret)


@router.post("/account/tokens/{token}/revoke")
def revoke_token_page(server: Here, person: Asking, token: Id) -> Response:
    """Take a token away from programs."""
    with server.store.write() as connection:
        tokens.revoke_token(connection, _user(person), token)
    return RedirectResponse("/account", 303)


def _account(request: Request, server: Server, person: Person, *, secret: str = "") -> Response:
    with server.store.read() as connection:
        mine = tokens.tokens_of(connection, _user(person))
        teams = directory.teams_named(connection, person.teams())
    owned = {team: name for team, name in teams.items() if person.may(Role.OWNER, team)}
    context: dict[str, Any] = {"tokens": mine, "secret": secret, "owned": owned, "shortest": SHORTEST}
    return render(request, "account.html", page="account", **context)


@router.get("/teams/{team}")
def team_page(request: Request, server: Here, team: TeamId) -> Response:
    """Who is in a team, and who is invited."""
    return _team(request, server, team)


@router.post("/teams/{team}/invitations")
def invite_page(request: Request, server: Here, person: Asking, team: TeamId, role: RoleWord) -> Response:
    """A new invitation; the page shows its link this once."""
    with server.store.write() as connection:
        _, secret = accounts.invite(connection, team=team, role=Role.of(role), by=_user(person))
    here = (server.settings.public_url or str(request.base_url)).rstrip("/")
    return _team(request, server, team, link=f"{here}/join/{secret}")


@router.post("/teams/{team}/invitations/{invitation}/withdraw")
def withdraw_page(server: Here, team: TeamId, invitation: Id) -> Response:
    """Take an invitation back."""
    with server.store.write() as connection:
        directory.withdraw_invitation(connection, team, invitation)
    return RedirectResponse(f"/teams/{team}", 303)


@router.post("/teams/{team}/members/{user}")
def member_page(
    server: Here, team: TeamId, user: Id, role: Annotated[str, Form(pattern="^(viewer|reviewer|owner|none)$")]
) -> Response:
    """Give a member another role, or take them out of the team."""
    with server.store.write() as connection:
        if user not in {each.user for each in directory.members_of(connection, team)}:
            raise Problem(404, "no member '{user}' of this team", parts={"user": user})
        accounts.set_role(connection, user, team, None if role == "none" else Role.of(role))
    return RedirectResponse(f"/teams/{team}", 303)


def _team(request: Request, server: Server, team: str, *, link: str = "") -> Response:
    with server.store.read() as connection:
        name = directory.teams_named(connection, (team,)).get(team)
        members = directory.members_of(connection, team)
        invited = directory.open_invitations(connection, team)
    if name is None:
        raise Problem(404, "no team '{team}' of yours", parts={"team": team})
    context: dict[str, Any] = {
        "team": team,
        "name": name,
        "members": members,
        "invited": invited,
        "link": link,
    }
    return render(request, "team.html", page="team", **context)
