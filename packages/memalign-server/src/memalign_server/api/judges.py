"""Judges and their versions."""

from __future__ import annotations

from typing import Any

from memalign.cli.judges import described
from memalign_server.people.identity import team_of
from memalign_server.routing import guarded_router
from memalign_server.server import Asking, Here

__all__ = ["router"]

router = guarded_router(prefix="/judges", tags=["judges"])


@router.get("")
def list_judges(server: Here, person: Asking) -> dict[str, Any]:
    """The judges of your teams."""
    found = server.registry.list()
    with server.store.read() as connection:
        mine = [each.to_dict() for each in found if team_of(connection, each.name) in person.roles]
    return {"judges": mine}


@router.get("/{judge}")
def show_judge(judge: str, server: Here, version: int | None = None) -> dict[str, Any]:
    """A judge's settings, its guidelines with their sources, and what is pending."""
    number = version or server.registry.history(judge)[-1].number
    return described(server.registry.load(judge, number), version=number)
