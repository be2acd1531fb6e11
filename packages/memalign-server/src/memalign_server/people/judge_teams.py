"""Which team a new judge is of, and what a judge on a shared server may not hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlalchemy import delete, insert

from memalign import Judge
from memalign_server.people.roles import Person, Role
from memalign_server.problems import Problem
from memalign_server.settings import Settings
from memalign_server.store import Store
from memalign_server.store.people_tables import team_judges

__all__ = ["check_addresses", "check_models", "keep_team", "team_for"]


def team_for(person: Person, asked: str | None) -> str:
    """The id of the team that a new judge is of. Raises Problem: 403 where the person may not, 422 where it is not clear."""
    if asked is not None:
        if not person.may(Role.OWNER, asked):
            raise Problem(403, "making a judge needs the role owner in team '{team}'", parts={"team": asked})
        return asked
    mine = person.teams(Role.OWNER)
    if len(mine) != 1:
        raise Problem(422, "say whose the judge is: `team` is one of {teams}", parts={"teams": ", ".join(mine)})
    return mine[0]


def keep_team(store: Store, judge: str, team: str) -> None:
    """Note whose a judge is."""
    with store.write() as connection:
        connection.execute(delete(team_judges).where(team_judges.c.judge == judge))
        connection.execute(insert(team_judges).values(judge=judge, team=team))


def check_addresses(settings: Settings, judge: Judge) -> None:
    """Raise Problem 422 for a judge with models at addresses of its own, on a server that several people use.

    Requests go there with the server's keys, and headers may name variables of its environment. Whoever runs the server
    makes such judges, with `memalign create`.
    """
    names = [judge.model_name, judge.embedding_model_name, judge.parameters.get("reflection_model")]
    facts = judge.parameters.get("models") or {}
    named = [*facts, *(name for name in names if isinstance(name, str))]
    has_headers = any(isinstance(each, Mapping) and each.get("headers") for each in facts.values())
    check_models(settings, named, has_headers=has_headers)


def check_models(settings: Settings, names: Iterable[object], *, has_headers: bool = False) -> None:
    """Raise Problem 422 for models at addresses of their own, on a server that several people use."""
    if settings.local or not (has_headers or any("@http" in name for name in names if isinstance(name, str))):
        return
    raise Problem(
        422,
        "nothing made here can name a model's address or headers: the server's keys would go there. "
        "Whoever runs the server can, with `memalign create`",
    )
