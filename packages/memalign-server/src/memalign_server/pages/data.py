"""In and out: files of cases and feedback in, everything out."""

from __future__ import annotations

import json
import tempfile
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, File, Form, Request, UploadFile
from fastapi.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from sqlalchemy import func, select

from memalign.errors import InputError, InvalidRows
from memalign.io import Examples, RowSource, read_feedback
from memalign.types import as_json, json_line
from memalign_server.pages.pulling import INSTALL, MOST, may_name_uri, mlflow_is_there
from memalign_server.pages.rendering import link, render
from memalign_server.people.access import Asking
from memalign_server.people.people import Person
from memalign_server.problems import Problem, Refused
from memalign_server.review.blind import hidden_from
from memalign_server.review.cases import add_cases
from memalign_server.server import JUDGE, Here, Server
from memalign_server.store.tables import queue

__all__ = ["router"]

router = APIRouter(prefix="/judges/{judge}", dependencies=[JUDGE])

_SUFFIXES = (".jsonl", ".json", ".csv", ".tsv", ".xlsx")
_AT_ONCE = 500


@router.get("/data")
def data_page(
    request: Request,
    judge: str,
    server: Here,
    person: Asking,
    job: str | None = None,
    added: int = 0,
    known: int = 0,
) -> Response:
    """What can be put in and taken out, and how far the judging of new cases is."""
    server.judges.latest(judge)
    found = server.jobs.find(job) if job is not None else None
    waiting = select(func.count()).select_from(queue).where(queue.c.judge == judge, queue.c.judgment.is_(None))
    with server.store.read() as connection:
        unjudged = connection.execute(waiting).scalar_one()
    if found is not None and found.judge != judge:
        found = None
    return render(
        request,
        "data.html",
        judge=judge,
        page="data",
        job=found,
        added=added,
        known=known,
        unjudged=unjudged,
        mlflow=mlflow_is_there(),
        install=INSTALL,
        tracking=server.settings.mlflow,
        names_uri=may_name_uri(person),
        most=MOST,
    )


@router.post("/data")
def upload(
    judge: str,
    server: Here,
    person: Asking,
    file: Annotated[UploadFile | None, File()] = None,
    what: Annotated[str, Form()] = "cases",
) -> Response:
    """Take a file: cases go into the queue and are judged, feedback is aligned."""
    loaded = server.judges.latest(judge)
    if what == "judge":
        job = server.jobs.start("queue", judge, {}, asked_by=person.name)
        return RedirectResponse(link(judge, "data", job=job.id), 303)
    if file is None or not file.filename:
        raise Refused("choose a file first")
    suffix = Path(file.filename).suffix.lower()
    if suffix not in _SUFFIXES:
        raise Refused("{name}: a file is one of {allowed}", name=_shown(file.filename), allowed=", ".join(_SUFFIXES))
    with _kept(file, suffix) as given:
        if what == "feedback":
            rows = read_feedback(given, value_type=loaded.judge.value_type, columns=loaded.judge.columns).rows
            said = [{key: value for key, value in as_json(row).items() if value is not None} for row in rows]
            said = _spoken_by(person, said)
            job = server.jobs.start("align", judge, {"feedback": said, "skip_invalid": True}, asked_by=person.name)
            return RedirectResponse(link(judge, "changed", job=job.id), 303)
        examples = list(Examples.of(given, columns=loaded.judge.columns, fields=loaded.judge.fields))
    with server.store.write() as connection:
        added = add_cases(connection, judge, examples)
    if not added.added:
        return RedirectResponse(link(judge, "data", known=added.known), 303)
    job = server.jobs.start("queue", judge, {}, asked_by=person.name)
    return RedirectResponse(link(judge, "data", job=job.id, added=len(added.added), known=added.known), 303)


@router.get("/download/{name}")
def download(judge: str, name: str, server: Here, person: Asking) -> Response:
    """A file with everything of one kind; a reviewer's is without what they may not know yet."""
    loaded = server.judges.latest(judge)
    asked = None if person.owner else person.name
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    if name == "judge.json":
        if not person.owner:
            raise Problem(403, "a judge's file holds everybody's answers: an owner can take it out")
        return JSONResponse(server.registry.export(judge), headers=headers)
    if name == "feedback.jsonl":
        memory = loaded.judge.memory
        with server.store.read() as connection:
            hidden = hidden_from(connection, judge, asked, [each.id for each in memory.cases])
        lines = (
            json_line(_row(case.example.content, each))
            for case in memory.cases
            for each in case.annotations
            if case.id not in hidden or each.source == person.name
        )
        return StreamingResponse(lines, media_type="application/jsonl", headers=headers)
    if name == "cases.jsonl":
        return StreamingResponse(_cases(server, judge, asked), media_type="application/jsonl", headers=headers)
    raise Refused(
        "there is no download '{name}'; there are {allowed}",
        name=name,
        allowed="feedback.jsonl, cases.jsonl, judge.json",
    )


def _spoken_by(person: Person, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows, those of nobody as the person's. Raises InputError where a reviewer speaks for somebody else."""
    named = [{**row, "source": person.name} if row.get("source") in (None, "unknown") else row for row in rows]
    others = sorted({str(row["source"]) for row in named} - {person.name})
    if others and not person.owner:
        raise Refused(
            "you speak as '{you}' alone; feedback of '{other}' needs an owner",
            you=person.name,
            other=others[0],
        )
    return named


@contextmanager
def _kept(file: UploadFile, suffix: str) -> Iterator[RowSource]:
    """An upload as rows, in a file for as long as it is read; errors call it by the person's own name for it.

    That name never becomes a path.
    """
    shown = _shown(file.filename or "")
    with tempfile.TemporaryDirectory(prefix="memalign-") as folder:
        path = Path(folder) / f"upload{suffix}"
        path.write_bytes(file.file.read())
        try:
            yield replace(RowSource.of(path), name=shown)
        except InvalidRows:
            raise
        except InputError as error:
            raise InputError(str(error).replace(str(path), shown)) from None


def _shown(name: str) -> str:
    """What errors call the person's file: its last part, without characters that nobody sees."""
    last = name.replace("\\", "/").rpartition("/")[2]
    return "".join(each for each in last if unicodedata.category(each)[0] != "C")[:100] or "the file"


def _row(content: dict[str, Any], said: Any) -> dict[str, Any]:
    own = {"value": said.value, "rationale": said.rationale, "source": said.source, "created_at": said.created_at}
    return {"id": said.id, **content, **{name: value for name, value in own.items() if value is not None}}


def _cases(server: Server, judge: str, asked: str | None) -> Iterator[bytes]:
    last = 0
    while True:
        query = select(queue).where(queue.c.judge == judge, queue.c.number > last).order_by(queue.c.number)
        with server.store.read() as connection:
            rows = connection.execute(query.limit(_AT_ONCE)).all()
            hidden = hidden_from(connection, judge, asked, [row.case_id for row in rows])
        for row in rows:
            judgment = None if row.judgment is None or row.case_id in hidden else json.loads(row.judgment)
            example = {name: value for name, value in json.loads(row.example).items() if value not in (None, {})}
            yield json_line({**example, "judgment": judgment, "version": row.version})
        if len(rows) < _AT_ONCE:
            return
        last = rows[-1].number
