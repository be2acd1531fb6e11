"""Which team a new judge is of, and what a judge on a shared server may not hold."""

from __future__ import annotations

from sqlalchemy import delete, insert

from memalign_server.people.roles import Person, Role
from memalign_server.problems import Problem
from memalign_server.store import Store
from memalign_server.store.people_tables import team_judges

__all__ = ["check_model", "keep_team", "team_for"]


def team_for(person: Person) -> str:
    """The id of the team that a new judge is of. Raises Problem 422 where it is not clear."""
    owned = person.teams(Role.OWNER)
    if len(owned) != 1:
        raise Problem(422, "say whose the judge is: `team` is one of {teams}", parts={"teams": ", ".join(owned)})
    return owned[0]


def keep_team(store: Store, judge: str, team: str) -> None:
    """Note whose a judge is."""
    with store.write() as connection:
        connection.execute(delete(team_judges).where(team_judges.c.judge == judge))
        connection.execute(insert(team_judges).values(judge=judge, team=team))


def check_model(person: Person, name: str) -> None:
    """Raise Problem 422 for a model at an address of its own, unless the server is open to its machine alone.

    Requests go there with the server's keys. Whoever runs the server makes such judges, with `memalign create`.
    """
    if person.by != "open" and "://" in name:
        raise Problem(
            422,
            "nothing made here can name a model's address or headers: the server's keys would go there. "
            "Whoever runs the server can, with `memalign create`",
        )
