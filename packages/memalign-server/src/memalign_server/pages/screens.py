"""What every screen of a judge knows: who asks, in which language, and the judge as it is now."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

from fastapi import Form, Request
from fastapi.responses import RedirectResponse, Response

from memalign.values import ValueType
from memalign_server.learned.conflicts import conflicts_of
from memalign_server.pages.languages import Language
from memalign_server.pages.rendering import link, render, speaking
from memalign_server.people.access import Asking, is_part
from memalign_server.server import Here, Loaded
from memalign_server.store import Transaction
from memalign_server.work.jobs import Job

__all__ = ["JudgeScreen", "Text"]

Text = Annotated[str, Form()]
"""A field of a form."""


@dataclass(frozen=True)
class JudgeScreen:
    """The screen of one judge, for the person who asks."""

    request: Request
    judge: str
    server: Here
    person: Asking

    @property
    def name(self) -> str:
        """The person's name."""
        return self.person.name

    @property
    def language(self) -> Language:
        """The language of whoever asks."""
        return speaking(self.request)

    @property
    def is_part(self) -> bool:
        """Return whether a script asks, for a part of the page."""
        return is_part(self.request)

    @cached_property
    def loaded(self) -> Loaded:
        """The newest version of the judge when the request came."""
        known = getattr(self.request.state, "loaded", None)
        return known or self.server.judges.latest(self.judge)

    @cached_property
    def working(self) -> list[Job]:
        """The jobs of the judge that are under way."""
        return self.server.jobs.recent(self.judge, active=True)

    @property
    def kind(self) -> ValueType:
        """The type of verdicts."""
        return self.loaded.judge.value_type

    def read(self) -> AbstractContextManager[Transaction]:
        """Open a transaction in which everything is read in one state."""
        _ = self.loaded  # the judge is read in a transaction of its own
        return self.server.store.read()

    def write(self) -> AbstractContextManager[Transaction]:
        """Open a transaction that is kept whole or not at all."""
        _ = self.loaded
        return self.server.store.write()

    def start(self, kind: str, **arguments: Any) -> Job:
        """Ask for work on the judge."""
        return self.server.jobs.start(kind, self.judge, arguments, asked_by=self.name)

    def go(self, page: str, **query: object) -> Response:
        """Send a browser on to a page of the judge."""
        return RedirectResponse(link(self.judge, page, **query), 303)

    def has_conflict(self) -> bool:
        """Return whether comments that contradict each other wait for this person's choice."""
        memory = self.loaded.judge.memory
        return bool(conflicts_of(memory, self.name, is_owner=self.person.owner))

    def render(self, template: str, *, status: int = 200, **parts: Any) -> Response:
        """Return a page of the judge, or a part of one."""
        shown = {"judge": self.judge, "has_conflict": self.has_conflict, **parts}
        return render(self.request, template, status=status, **shown)
