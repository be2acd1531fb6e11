"""Set up, for owners: the question, the cases, the experts and erasing, one block open at a time.

Cases come from a file or from an MLflow experiment. MLflow's client sends the server's credentials to the tracking
server, reads files and databases that a URI names, and takes every experiment that these credentials open. So who signed
in cannot name a tracking URI: whoever runs the server does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Annotated, Any, Literal

from fastapi import APIRouter, File, Form, Request, UploadFile
from fastapi.responses import RedirectResponse, Response, StreamingResponse
from sqlalchemy import Connection, func, select

from memalign import Judge
from memalign.errors import InputError
from memalign.io import read_feedback
from memalign.types import UNKNOWN_SOURCE, Feedback, as_json, json_line
from memalign_server.pages.content import label_of
from memalign_server.pages.question import KINDS, has_answers
from memalign_server.pages.rendering import link, render, speaking, told
from memalign_server.pages.uploads import SUFFIXES, Upload, read_upload
from memalign_server.people.access import OWNER, Asking
from memalign_server.people.people import Person, list_people
from memalign_server.problems import Problem, Refused
from memalign_server.review.cases import add_cases, list_cases, measuring_names, new_cases
from memalign_server.review.judges import question_of
from memalign_server.server import JUDGE, Here, Server
from memalign_server.store.tables import queue, reviews

__all__ = ["render_setup", "router"]

router = APIRouter(prefix="/judges/{judge}", dependencies=[JUDGE, OWNER])

Block = Literal["question", "cases", "experts", "erase", ""]

INSTALL = 'pip install "mlflow>=3.11.1"'
MOST = 10_000
"""Traces that one pull may read."""
_FIRST = 3  # rows that are shown before a file is added
_BAD = 5  # bad rows that are named
_AT_ONCE = 500


@router.get("/setup")
def setup_page(
    request: Request,
    judge: str,
    server: Here,
    person: Asking,
    open: Block = "",  # the query's name
    job: str | None = None,
    added: int = 0,
    repeated: int = 0,
) -> Response:
    """The four blocks; with a job what it brought."""
    begun = server.jobs.find(job) if job is not None else None
    news = {"job": begun if begun is not None and begun.judge == judge else None, "added": added, "repeated": repeated}
    return render_setup(request, server, judge, person, open, **news)


def render_setup(request: Request, server: Server, judge: str, person: Person, open: Block, **news: Any) -> Response:
    """The page with one block open; `news` is what the block shows beside what the server knows."""
    latest = server.judges.latest(judge).judge
    answers_of_judge = reviews.c.judge == judge, reviews.c.state == "answered"
    counts = select(reviews.c.person, func.count(), func.max(reviews.c.updated_at)).where(*answers_of_judge)
    total = select(func.count()).select_from(queue).where(queue.c.judge == judge)
    with server.store.read() as connection:
        answers = {name: (n, at) for name, n, at in connection.execute(counts.group_by(reviews.c.person))}
        cases = connection.execute(total).scalar_one()
        unjudged = connection.execute(total.where(queue.c.judgment.is_(None))).scalar_one()
        answered = connection.execute(
            select(func.count(reviews.c.case_id.distinct())).where(*answers_of_judge)
        ).scalar_one()
        members = list_people(connection)
    context: dict[str, Any] = {
        "question": question_of(latest),
        "kind": latest.value_type.spec,
        "kinds": KINDS,
        "fixed": has_answers(server, judge),
        "model": latest.model_name or "",
        "instructions": latest.instructions,
        "cases": cases,
        "answered": answered,
        "unjudged": unjudged,
        "suffixes": ",".join(SUFFIXES),
        "members": members,
        "answers": answers,
        "mlflow": find_spec("mlflow") is not None,
        "tracking": server.settings.mlflow,
        "names_uri": _may_name_uri(person),
        "most": MOST,
    }
    nothing = {
        "job": None,
        "added": 0,
        "repeated": 0,
        "guest": "",
        "personal_link": "",
        "mentions": None,
        "genuine": None,
    }
    return render(
        request, "setup.html", judge=judge, page="setup", open=open, **context, **nothing | {"matching": ""} | news
    )


# -- cases -------------------------------------------------------------------------------------------------------------


@router.post("/setup/cases")
def take_cases(
    request: Request,
    judge: str,
    server: Here,
    person: Asking,
    file: Annotated[UploadFile | None, File()] = None,
    column: Annotated[list[str] | None, Form()] = None,
    what: Annotated[Literal["show", "cases", "feedback", "judge"], Form()] = "show",
) -> Response:
    """Show what a file holds, put its cases in the queue, teach its feedback; or judge what is not judged yet."""
    if what == "judge":
        job = server.jobs.start("queue", judge, {}, asked_by=person.name)
        return RedirectResponse(link(judge, "setup", open="cases", job=job.id), 303)
    if file is None or not file.filename:
        raise Refused("choose a file first")
    latest = server.judges.latest(judge).judge
    try:
        upload = read_upload(file.file, file.filename, latest, column or ())
        if what == "show":
            return _preview(request, server, latest, upload)
    except InputError as error:
        if what != "show":
            raise
        return render(request, "upload.html", judge=judge, upload=None, problem=told(speaking(request), error))
    if not upload.cases:
        raise Refused("no row of {name} can be used as it is", name=upload.name)
    if what == "feedback":
        with server.store.read() as connection:
            rows, _ = _teachable(connection, latest, upload)
        lines = [_line(row, person.name) for row in rows]
        if not lines:
            raise Refused(
                "no row of {name} can be taught: each is without words, or measures the judge", name=upload.name
            )
        job = server.jobs.start("align", judge, {"feedback": lines, "skip_invalid": True}, asked_by=person.name)
        return RedirectResponse(link(judge, "learned", job=job.id), 303)
    with server.store.write() as connection:
        added = add_cases(connection, judge, upload.cases)
    counts = {"added": len(added.added), "repeated": added.known}
    job_id = server.jobs.start("queue", judge, {}, asked_by=person.name).id if added.added else None
    return RedirectResponse(link(judge, "setup", open="cases", job=job_id, **counts), 303)


def _preview(request: Request, server: Server, judge: Judge, upload: Upload) -> Response:
    with server.store.read() as connection:
        new = len(new_cases(connection, judge.name, upload.cases))
        feedback, silent = _teachable(connection, judge, upload)
    rows = [
        [_shown(case.content.get(field), side) for field, side in upload.questions] for case in upload.cases[:_FIRST]
    ]
    counts = {"new": new, "labelled": len(feedback), "silent": silent}
    labels = {field: label_of(field, judge) for field, _ in upload.questions}
    shown = {"upload": upload, "rows": rows, "labels": labels, "bad": upload.bad[:_BAD]}
    return render(request, "upload.html", judge=judge.name, **shown, **counts)


def _shown(value: Any, side: str) -> str:
    value = value.get(side) if side and isinstance(value, dict) else value
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _teachable(connection: Connection, judge: Judge, upload: Upload) -> tuple[list[Feedback], int]:
    """The feedback of a file that can be taught, and how many rows of it cannot because their case measures the judge."""
    if not upload.labelled:
        return [], 0
    rows = read_feedback(upload.source, value_type=judge.value_type, name=upload.name, skip_invalid=True).rows
    measuring = measuring_names(connection, judge.name)
    teachable = [row for row in rows if measuring.isdisjoint((row.id, row.content_hash))]
    return teachable, len(rows) - len(teachable)


def _line(row: Feedback, person: str) -> dict[str, Any]:
    """A row of feedback as an align takes it; one of nobody is the person's."""
    line = {key: value for key, value in as_json(row).items() if value is not None}
    return line if line.get("source", UNKNOWN_SOURCE) != UNKNOWN_SOURCE else {**line, "source": person}


def _may_name_uri(person: Person) -> bool:
    """Whether a person may name a tracking URI: on a server without accounts, which only its own machine reaches."""
    return person.by == "open"


@router.post("/pull")
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
    if find_spec("mlflow") is None:
        raise Refused("MLflow is not installed beside this server. Run: {command}", command=INSTALL)
    if uri.strip() and not _may_name_uri(person):
        raise Problem(403, "a tracking URI cannot be named here: the server's credentials would go there")
    chosen = uri.strip() or server.settings.mlflow
    if not chosen:
        raise Refused(
            "name a tracking URI, such as http://localhost:5000; the variable MLFLOW_TRACKING_URI sets one for all"
        )
    if not experiment.strip():
        raise Refused("name an experiment, or give its id")
    arguments = {"experiment": experiment.strip(), "uri": chosen, "filter": filter.strip() or None, "most": most}
    job = server.jobs.start("pull", judge, arguments, asked_by=person.name)
    return RedirectResponse(link(judge, "setup", open="cases", job=job.id), 303)


# -- all of it out, and the end ----------------------------------------------------------------------------------------


@router.get("/download/{name}")
def download(judge: str, name: str, server: Here) -> Response:
    """A file with everything of one kind."""
    files: dict[str, Callable[[], Iterator[dict[str, Any]]]] = {
        "judge.json": lambda: iter([server.registry.export(judge)]),
        "feedback.jsonl": lambda: _feedback(server.judges.latest(judge).judge),
        "cases.jsonl": lambda: _cases(server, judge),
    }
    if name not in files:
        raise Refused("there is no download '{name}'; there are {allowed}", name=name, allowed=", ".join(files))
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(map(json_line, files[name]()), media_type="application/jsonl", headers=headers)


def _feedback(judge: Judge) -> Iterator[dict[str, Any]]:
    for case in judge.memory.cases:
        for annotation in case.annotations:
            own = {name: getattr(annotation, name) for name in ("value", "rationale", "source", "created_at")}
            yield {"id": case.id, **case.example.content, **{name: own[name] for name in own if own[name] is not None}}


def _cases(server: Server, judge: str) -> Iterator[dict[str, Any]]:
    last: int | None = 0
    while last is not None:
        with server.store.read() as connection:
            cases = list_cases(connection, judge, "", after=last, limit=_AT_ONCE)
        for case in cases:
            judgment = None if case.judgment is None else case.judgment.to_dict()
            example = {name: value for name, value in case.example.to_dict().items() if value not in (None, {})}
            yield {**example, "judgment": judgment, "version": case.version}
        last = cases[-1].number if len(cases) == _AT_ONCE else None


@router.post("/delete")
def delete_judge_page(judge: str, server: Here, name: Annotated[str, Form(max_length=200)] = "") -> Response:
    """Delete a judge with all that belongs to it, once its name is typed."""
    if name.strip() != judge:
        raise Refused("type the judge's name to delete it: '{judge}'", judge=judge)
    server.registry.delete(judge)
    return RedirectResponse("/", 303)
