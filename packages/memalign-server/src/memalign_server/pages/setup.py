"""Set up, for owners: the question, the cases, the experts and erasing, one block open at a time.

Cases come from a file or from an MLflow experiment. MLflow's client sends the server's credentials to the tracking
server, reads files and databases that a URI names, and takes every experiment that these credentials open. So who
signed in cannot name a tracking URI: whoever runs the server does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, File, Form, Request, UploadFile
from fastapi.responses import RedirectResponse, Response, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import func, select

from memalign import Judge
from memalign.errors import InputError
from memalign.io import RowSource, read_feedback
from memalign.types import Feedback, as_json, json_line
from memalign_server.pages.content import label_of
from memalign_server.pages.rendering import error_text, link, render
from memalign_server.pages.uploads import SUFFIXES, Upload, read_upload
from memalign_server.pages.verdicts import question_of
from memalign_server.people.access import OWNER, Asking
from memalign_server.people.people import list_people
from memalign_server.problems import Problem, Refused
from memalign_server.review.cases import add_cases, list_cases, measuring_names, new_cases
from memalign_server.server import JUDGE, Here
from memalign_server.store.tables import queue, reviews
from memalign_server.work.jobs import Job

__all__ = ["Screen", "Setup", "router"]

router = APIRouter(prefix="/judges/{judge}", dependencies=[JUDGE, OWNER])

Block = Literal["question", "cases", "experts", "erase", ""]

INSTALL = 'pip install "mlflow>=3.11.1"'
MOST = 10_000
"""Traces that one pull may read."""
_AT_ONCE = 500
_NEWS = ("job", "added", "repeated", "guest", "personal_link", "matching", "mentions", "genuine")


@dataclass(frozen=True)
class Setup:
    """The screen of one judge, for the owner who asks."""

    request: Request
    judge: str
    server: Here
    person: Asking

    @property
    def latest(self) -> Judge:
        """The judge as it is now."""
        return self.server.judges.latest(self.judge).judge

    @property
    def fixed(self) -> bool:
        """Whether anybody has answered a case: from then on a judge keeps its kind of answer."""
        query = reviews.select().where(reviews.c.judge == self.judge, reviews.c.state == "answered").limit(1)
        with self.server.store.read() as connection:
            answered = connection.execute(query).first() is not None
        return answered or bool(self.latest.memory.cases)

    def start(self, kind: str, **arguments: Any) -> Job:
        """Ask for work on the judge."""
        return self.server.jobs.start(kind, self.judge, arguments, asked_by=self.person.name)

    def redirect(self, page: str = "setup", **query: object) -> Response:
        """Lead to a page of the judge."""
        return RedirectResponse(link(self.judge, page, **query), 303)

    def render(self, open: Block, **news: Any) -> Response:
        """The page with one block open; `news` is what the block shows beside what the server knows."""
        answered = reviews.c.judge == self.judge, reviews.c.state == "answered"
        people = select(reviews.c.person, func.count(), func.max(reviews.c.updated_at)).where(*answered)
        counts = select(
            func.count().label("total"),
            func.count(queue.c.judgment).label("judged"),
            select(func.count(reviews.c.case_id.distinct())).where(*answered).scalar_subquery().label("answered"),
        ).where(queue.c.judge == self.judge)
        with self.server.store.read() as connection:
            answers = {name: (n, at) for name, n, at in connection.execute(people.group_by(reviews.c.person))}
            cases, members = connection.execute(counts).one(), list_people(connection)
        context: dict[str, Any] = {
            "setup": self,
            "question": question_of(self.latest),
            "cases": cases,
            "suffixes": ",".join(SUFFIXES),
            "members": members,
            "answers": answers,
            "mlflow": find_spec("mlflow") is not None,
            "most": MOST,
            **dict.fromkeys(_NEWS),
        }
        return render(self.request, "setup.html", judge=self.judge, page="setup", open=open, **context | news)


Screen = Annotated[Setup, Depends()]
"""A parameter of a route: the screen of the judge that the path names."""


@router.get("/setup")
def setup_page(setup: Screen, open: Block = "", job: str = "", added: int = 0, repeated: int = 0) -> Response:
    """The four blocks; with a job what it brought."""
    return setup.render(open, job=setup.server.jobs.find(job), added=added, repeated=repeated)


# -- cases -------------------------------------------------------------------------------------------------------------


@router.post("/setup/cases")
def take_cases(
    setup: Screen,
    file: Annotated[UploadFile | None, File()] = None,
    column: Annotated[list[str] | None, Form()] = None,
    what: Annotated[Literal["show", "cases", "feedback", "judge"], Form()] = "show",
) -> Response:
    """Show what a file holds, put its cases in the queue, teach its feedback; or judge what is not judged yet."""
    if what == "judge":
        return setup.redirect(open="cases", job=setup.start("queue").id)
    if file is None or not file.filename:
        raise Refused("choose a file first")
    try:
        upload = read_upload(file.file, file.filename, setup.latest, column or ())
        if what == "show":
            return _preview(setup, upload)
    except InputError as error:
        if what != "show":
            raise
        problem = error_text(setup.request, error)
        return render(setup.request, "upload.html", judge=setup.judge, upload=None, problem=problem)
    if not upload.cases:
        raise Refused("no row of {name} can be used as it is", name=upload.name)
    if what == "feedback":
        feedback, _ = _teachable(setup, upload)
        if not feedback:
            raise Refused(
                "no row of {name} can be taught: each is without words, or measures the judge", name=upload.name
            )
        job = setup.start("align", feedback=list(map(as_json, feedback)), skip_invalid=True)
        return setup.redirect("learned", job=job.id)
    with setup.server.store.write() as connection:
        added, repeated = add_cases(connection, setup.judge, upload.cases)
    judging = setup.start("queue").id if added else None
    return setup.redirect(open="cases", job=judging, added=added, repeated=repeated)


def _preview(setup: Setup, upload: Upload) -> Response:
    with setup.server.store.read() as connection:
        new = len(new_cases(connection, setup.judge, upload.cases))
    feedback, silent = _teachable(setup, upload)
    labels = {field: label_of(field, setup.latest) for field in setup.latest.fields}
    counts = {"new": new, "labelled": len(feedback), "silent": silent}
    return render(setup.request, "upload.html", judge=setup.judge, upload=upload, labels=labels, **counts)


def _teachable(setup: Setup, upload: Upload) -> tuple[list[Feedback], int]:
    """A file's feedback, what is nobody's as the person's; and how many rows are left out: they measure the judge."""
    source = RowSource.of(upload.labelled, name=upload.name, source=setup.person.name)
    rows = read_feedback(source, value_type=setup.latest.value_type, skip_invalid=True).rows
    with setup.server.store.read() as connection:
        measuring = measuring_names(connection, setup.judge)
    teachable = [row for row in rows if measuring.isdisjoint((row.id, row.content_hash))]
    return teachable, len(rows) - len(teachable)


class Pull(BaseModel):
    """Which traces to read."""

    model_config = ConfigDict(str_strip_whitespace=True)
    experiment: str = Field("", max_length=500)
    uri: str = Field("", max_length=2000)
    filter: str = Field("", max_length=2000)
    most: int = Field(500, ge=1, le=MOST)


@router.post("/pull")
def pull_cases(setup: Screen, pull: Annotated[Pull, Form()]) -> Response:
    """Begin to read an experiment's traces into the queue, and to judge them."""
    if find_spec("mlflow") is None:
        raise Refused("MLflow is not installed beside this server. Run: {command}", command=INSTALL)
    if pull.uri and setup.person.by != "open":
        raise Problem(403, "a tracking URI cannot be named here: the server's credentials would go there")
    uri = pull.uri or setup.server.settings.mlflow
    if not uri:
        raise Refused(
            "name a tracking URI, such as http://localhost:5000; the variable MLFLOW_TRACKING_URI sets one for all"
        )
    if not pull.experiment:
        raise Refused("name an experiment, or give its id")
    job = setup.start("pull", **pull.model_dump() | {"uri": uri, "filter": pull.filter or None})
    return setup.redirect(open="cases", job=job.id)


# -- all of it out, and the end ----------------------------------------------------------------------------------------


@router.get("/download/{name}")
def download(setup: Screen, name: str) -> Response:
    """A file with everything of one kind."""
    files = {"judge.json": _judge, "feedback.jsonl": _feedback, "cases.jsonl": _cases}
    if name not in files:
        raise Refused("there is no download '{name}'; there are {allowed}", name=name, allowed=", ".join(files))
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(map(json_line, files[name](setup)), media_type="application/jsonl", headers=headers)


def _judge(setup: Setup) -> Iterator[dict[str, Any]]:
    yield setup.server.registry.export(setup.judge)


def _feedback(setup: Setup) -> Iterator[dict[str, Any]]:
    for case in setup.latest.memory.cases:
        for annotation in case.annotations:
            own = {name: getattr(annotation, name) for name in ("value", "rationale", "source", "created_at")}
            fields = {"id": case.id, **case.example.content, **own}
            yield {name: value for name, value in fields.items() if value is not None}


def _cases(setup: Setup) -> Iterator[dict[str, Any]]:
    last: int | None = 0
    while last is not None:
        with setup.server.store.read() as connection:
            cases = list_cases(connection, setup.judge, "", after=last, limit=_AT_ONCE)
        for case in cases:
            judgment = None if case.judgment is None else case.judgment.to_dict()
            example = {name: value for name, value in case.example.to_dict().items() if value not in (None, {})}
            yield {**example, "judgment": judgment, "version": case.version}
        last = cases[-1].number if len(cases) == _AT_ONCE else None


@router.post("/delete")
def delete_judge_page(setup: Screen, name: Annotated[str, Form(max_length=200)] = "") -> Response:
    """Delete a judge with all that belongs to it, once its name is typed."""
    if name.strip() != setup.judge:
        raise Refused("type the judge's name to delete it: '{judge}'", judge=setup.judge)
    setup.server.registry.delete(setup.judge)
    return RedirectResponse("/", 303)
