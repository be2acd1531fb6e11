"""Cases pulled from an MLflow experiment.

MLflow's client sends the server's credentials to the tracking server, reads files and databases that a URI names, and
takes every experiment that these credentials open. So who signed in cannot name a tracking URI: whoever runs the server
does. And only owners may pull, for an experiment may hold what their team was not shown.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Annotated

from fastapi import APIRouter, Form
from fastapi.responses import RedirectResponse, Response

from memalign_server.pages.rendering import link
from memalign_server.people.access import OWNER, Asking
from memalign_server.people.people import Person
from memalign_server.problems import Problem, Refused
from memalign_server.server import JUDGE, Here

__all__ = ["INSTALL", "MOST", "may_name_uri", "mlflow_is_there", "router"]

router = APIRouter(prefix="/judges/{judge}", dependencies=[JUDGE])

INSTALL = 'pip install "mlflow>=3.11.1"'
MOST = 10_000
"""Traces that one pull may read."""


def mlflow_is_there() -> bool:
    """Whether MLflow is installed beside the server."""
    return find_spec("mlflow") is not None


def may_name_uri(person: Person) -> bool:
    """Whether a person may name a tracking URI: on a server without accounts, which only its own machine reaches."""
    return person.by == "open"


@router.post("/pull", dependencies=[OWNER])
def pull_cases(
    judge: str,
    server: Here,
    person: Asking,
    experiment: Annotated[str, Form(max_length=500)] = "",
    uri: Annotated[str, Form(max_length=2000)] = "",
    filter: Annotated[str, Form(max_length=2000)] = "",  # the field's name
    most: Annotated[int, Form(ge=1, le=MOST)] = 500,
) -> Response:
    """Begin to read an experiment's traces into the queue, and to judge them."""
    server.judges.latest(judge)
    if not mlflow_is_there():
        raise Refused("MLflow is not installed beside this server. Run: {command}", command=INSTALL)
    if uri.strip() and not may_name_uri(person):
        raise Problem(403, "a tracking URI cannot be named here: the server's credentials would go there")
    chosen = uri.strip() or server.settings.mlflow
    if not chosen:
        raise Refused("name a tracking URI, such as http://localhost:5000; memalign serve --mlflow sets one for all")
    if not experiment.strip():
        raise Refused("name an experiment, or give its id")
    given = {"experiment": experiment.strip(), "uri": chosen, "filter": filter.strip() or None, "most": most}
    job = server.jobs.start("pull", judge, given, asked_by=person.name)
    return RedirectResponse(link(judge, "data", job=job.id), 303)
