"""People: who you are, API tokens, teams, members, invitations."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, ConfigDict, Field

from memalign_server.api.shapes import RoleName
from memalign_server.people import accounts, directory, tokens
from memalign_server.people.invitation_links import link_of
from memalign_server.people.roles import Person, Role
from memalign_server.problems import Problem
from memalign_server.routing import guarded_router
from memalign_server.server import Asking, Here

__all__ = ["router"]

router: APIRouter = guarded_router(tags=["people"])

TeamId = Annotated[str, Path(max_length=32, description="A team's id.")]
Id = Annotated[str, Path(max_length=32)]


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid")


class TeamShown(BaseModel):
    """One of your teams, and your role in it."""

    id: str
    name: str
    role: RoleName


class Me(BaseModel):
    """Who asks: the name is the source of your feedback. `by` is open, session or token."""

    name: str
    by: str
    teams: list[TeamShown]


class TokenGiven(_Shape):
    """A token for a program. It can do no more than `role`, and no more than you."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    role: RoleName = "reviewer"
    days: Annotated[float, Field(gt=0, le=3650)] | None = 365


class TokenShown(BaseModel):
    """One token. `secret` is there once: in the answer that made it."""

    id: str
    name: str
    role: RoleName
    created_at: str
    expires_at: str | None
    used_at: str | None
    secret: str | None = None


class TeamGiven(_Shape):
    """A new team; you are its first owner."""

    name: Annotated[str, Field(min_length=1, max_length=200)]


class MemberShown(BaseModel):
    """Somebody in a team."""

    user: str
    name: str
    role: RoleName


class RoleGiven(_Shape):
    """A role in a team."""

    role: RoleName


class InvitationShown(BaseModel):
    """An invitation. `link` is there once: in the answer that made it."""

    id: str
    role: RoleName
    expires_at: str
    link: str | None = None


def _user(person: Person) -> str:
    if person.user is None:
        raise Problem(409, "this server has no accounts: `memalign serve --add-owner NAME` makes the first one")
    return person.user


@router.get("/me")
def show_me(server: Here, person: Asking) -> Me:
    """Who you are, and your role in each of your teams."""
    with server.store.read() as connection:
        names = directory.teams_named(connection, person.teams())
    shown = [TeamShown(id=team, name=name, role=person.roles[team].word) for team, name in names.items()]  # type: ignore[arg-type]  # a role's word
    return Me(name=person.name, by=person.by, teams=shown)


@router.get("/tokens")
def list_tokens(server: Here, person: Asking) -> list[TokenShown]:
    """Your API tokens, the newest first; never their secrets."""
    with server.store.read() as connection:
        return [TokenShown(**vars(each)) for each in tokens.tokens_of(connection, _user(person))]


@router.post("/tokens", status_code=201)
def make_token(given: TokenGiven, server: Here, person: Asking) -> TokenShown:
    """Make an API token. A token cannot make another one."""
    if person.by == "token":
        raise Problem(403, "a token cannot make tokens: sign in")
    with server.store.write() as connection:
        made, secret = tokens.make_token(
            connection, _user(person), name=given.name, role=Role.of(given.role), days=given.days
        )
    return TokenShown(**vars(made), secret=secret)


@router.delete("/tokens/{token}", status_code=204)
def revoke_token(token: Id, server: Here, person: Asking) -> None:
    """Take a token away from programs, at once."""
    with server.store.write() as connection:
        if not tokens.revoke_token(connection, _user(person), token):
            raise Problem(404, f"no token {token!r} of yours")


@router.post("/teams", status_code=201)
def make_team(given: TeamGiven, server: Here, person: Asking) -> TeamShown:
    """Make a team; you are its first owner."""
    with server.store.write() as connection:
        team = directory.add_team(connection, given.name, _user(person))
    return TeamShown(id=team, name=given.name, role="owner")


@router.get("/teams/{team}/members")
def list_members(team: TeamId, server: Here) -> list[MemberShown]:
    """Everybody in a team."""
    with server.store.read() as connection:
        return [MemberShown(**vars(each)) for each in directory.members_of(connection, team)]


@router.put("/teams/{team}/members/{user}")
def set_member(team: TeamId, user: Id, given: RoleGiven, server: Here) -> list[MemberShown]:
    """Give a member another role. A team keeps one owner at least."""
    with server.store.write() as connection:
        _check_member(directory.members_of(connection, team), user)
        accounts.set_role(connection, user, team, Role.of(given.role))
        return [MemberShown(**vars(each)) for each in directory.members_of(connection, team)]


@router.delete("/teams/{team}/members/{user}", status_code=204)
def remove_member(team: TeamId, user: Id, server: Here) -> None:
    """Take somebody out of a team. Their feedback stays; `memalign erase --source` takes it away."""
    with server.store.write() as connection:
        _check_member(directory.members_of(connection, team), user)
        accounts.set_role(connection, user, team, None)


def _check_member(members: list[directory.Member], user: str) -> None:
    if user not in {each.user for each in members}:
        raise Problem(404, f"no member {user!r} of this team; invite them")


@router.get("/teams/{team}/invitations")
def list_invitations(team: TeamId, server: Here) -> list[InvitationShown]:
    """Invitations that nobody has taken up; never their links."""
    with server.store.read() as connection:
        found = directory.open_invitations(connection, team)
    return [InvitationShown(id=each.id, role=each.role, expires_at=each.expires_at) for each in found]  # type: ignore[arg-type]  # a role's word


@router.post("/teams/{team}/invitations", status_code=201)
def invite_to_team(team: TeamId, given: RoleGiven, request: Request, server: Here, person: Asking) -> InvitationShown:
    """Make a link by which one person joins a team, within a week. Send it to them yourself."""
    by = _user(person)
    with server.store.write() as connection:
        made, secret = accounts.invite(connection, team=team, role=Role.of(given.role), by=by)
    link = link_of(str(request.base_url), server.settings.public_url, secret)
    return InvitationShown(id=made.id, role=given.role, expires_at=made.expires_at, link=link)


@router.delete("/teams/{team}/invitations/{invitation}", status_code=204)
def withdraw_invitation(team: TeamId, invitation: Id, server: Here) -> None:
    """Take an invitation back."""
    with server.store.write() as connection:
        if not directory.withdraw_invitation(connection, team, invitation):
            raise Problem(404, f"no open invitation {invitation!r}")
