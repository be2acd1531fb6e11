"""Roles, and a person as a request knows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import Literal

__all__ = ["Person", "Role"]


class Role(IntEnum):
    """What somebody may do in a team; each may do what those below may."""

    VIEWER = 1
    """Reads: judges, cases, guidelines, reports."""
    REVIEWER = 2
    """Judges and gives feedback, which a judge learns."""
    OWNER = 3
    """Changes and deletes judges, erases, invites."""

    @property
    def word(self) -> str:
        """`viewer`, `reviewer` or `owner`."""
        return self.name.lower()

    @classmethod
    def of(cls, word: str) -> Role:
        """The role of a word. Raises KeyError for another one."""
        return cls[word.upper()]


@dataclass(frozen=True, kw_only=True)
class Person:
    """Who makes a request: their name, which is the source of their feedback, and their role in each team, by its id.

    `user` is None on a server without accounts, where everybody is the one local person. `by` says how they are known.
    A `token` narrows the roles to its own.
    """

    name: str
    user: str | None = None
    roles: Mapping[str, Role] = field(default_factory=lambda: MappingProxyType({}))
    by: Literal["open", "session", "token"] = "open"

    def may(self, role: Role, team: str | None = None) -> bool:
        """Whether the person has at least `role` in `team`; in any team, without one."""
        there = self.roles.values() if team is None else (self.roles.get(team, 0),)
        return any(each >= role for each in there)

    def teams(self, role: Role = Role.VIEWER) -> tuple[str, ...]:
        """The ids of the teams in which the person has at least `role`."""
        return tuple(team for team, each in self.roles.items() if each >= role)
