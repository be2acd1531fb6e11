"""How a route begins long work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request, Response

from memalign_server.api import shapes
from memalign_server.api.judges import latest
from memalign_server.people.judge_teams import check_models
from memalign_server.people.roles import Person
from memalign_server.server import Asking, Here, Server

__all__ = ["Begin", "Beginning"]


@dataclass(frozen=True, kw_only=True)
class Begin:
    """Begins work for one request; the answer then says where its job is."""

    request: Request
    answer: Response
    server: Server
    person: Person

    def __call__(self, kind: str, judge: str, arguments: Mapping[str, Any]) -> shapes.JobShown:
        """The job.

        Raises JudgeNotFound, and Problem for a model that the server's keys may not go to, before anything is queued.
        """
        latest(self.server, judge)
        check_models(self.server.settings, (arguments.get("model"), arguments.get("reflection_model")))
        job = self.server.jobs.start(kind, judge, arguments, asked_by=self.person.name)
        self.answer.headers["location"] = f"{self.request.url.path.rpartition('/')[0]}/jobs/{job.id}"
        return shapes.JobShown(**job.to_dict())


def _begin(request: Request, answer: Response, server: Here, person: Asking) -> Begin:
    return Begin(request=request, answer=answer, server=server, person=person)


Beginning = Annotated[Begin, Depends(_begin)]
"""A parameter of a route: `begin("align", judge, arguments)`."""
