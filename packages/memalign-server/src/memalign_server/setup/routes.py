"""Set up, for owners: the question, the cases, the experts and erasing, one block open at a time.

Cases come from a file or from an MLflow experiment. MLflow's client sends the server's credentials
to the tracking server, reads files and databases that a URI names, and takes every experiment that
these credentials open. So people who signed in cannot name a tracking URI; only the person who runs
the server can.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, File, Form, Query, UploadFile
from fastapi.responses import Response
from pydantic import BaseModel, Field

from memalign import Judge
from memalign.errors import InputError
from memalign.types import Feedback
from memalign_server.pages.content import label_of
from memalign_server.pages.rendering import error_text
from memalign_server.pages.screens import JudgeScreen
from memalign_server.pages.texts import marked
from memalign_server.pages.verdicts import question_of
from memalign_server.people.access import LARGEST_BODY, OWNER
from memalign_server.people.service import list_people
from memalign_server.problems import Refused
from memalign_server.server import JUDGE
from memalign_server.setup.row_errors import reason_of
from memalign_server.setup.service import keep_said, open_provider
from memalign_server.setup.uploads import SUFFIXES, Upload, read_upload
from memalign_server.store.answers import activity_of, is_answered
from memalign_server.store.cases import (
    add_cases,
    answers_wanted,
    compare_cases,
    counts_of,
    set_answers_wanted,
)
from memalign_server.store.jobs import receipts_of

__all__ = ["Screen", "Setup", "router"]

router = APIRouter(prefix="/judges/{judge}", dependencies=[JUDGE, OWNER])

Block = Literal["question", "cases", "experts", "erase", ""]

MOST = 10_000
"""Traces that one pull may read."""
_NAMED = 5  # ids that a message names
_NAME = 60  # characters of each
_NEWS = (
    "job",
    "guest",
    "personal_link",
    "matching",
    "mentions",
    "others",
)


class UploadResult(BaseModel):
    """What became of a file, as the address of the page says it.

    Attributes:
        added: How many cases are new.
        repeated: How many others are there already, with the same content.
        changed: How many were left out, because their ids have other content.
        names: Some of these ids.
        apart: How many answers were given to other content under the ids of new cases.
        kept: How many answers came with the cases.
        dropped: How many answers were left out.
        batch: What was added, to be taken out again; "" for nothing.
    """

    added: int = 0
    repeated: int = 0
    changed: int = 0
    names: str = Field(default="", max_length=500)
    apart: int = 0
    kept: int = 0
    dropped: int = 0
    batch: str = ""


class Setup(JudgeScreen):
    """The screen of one judge, for the owner who asks."""

    @property
    def latest(self) -> Judge:
        """The judge as it is now."""
        return self.loaded.judge

    @property
    def fixed(self) -> bool:
        """Return whether a case was answered: from then on a judge keeps its kind of answer."""
        with self.read() as connection:
            answered = is_answered(connection, self.judge)
        return bool(answered or self.latest.memory.cases)

    @property
    def tracking(self) -> str | None:
        """Return the MLflow to read cases from; "" if the reader may name one, None without any."""
        if find_spec("mlflow") is None:
            return None
        free = "" if self.person.by == "open" else None
        return self.server.settings.mlflow or free

    def show(self, open: Block, **news: Any) -> Response:
        """Return the page with one block open.

        Args:
            open: The open block.
            news: What the block shows beside what the server knows.
        """
        with self.read() as connection:
            answers = activity_of(connection, self.judge)
            cases = counts_of(connection, self.judge)
            members = list_people(connection)
            wanted = answers_wanted(connection, self.judge)
            receipts = receipts_of(connection, self.judge) if open == "erase" else []
        context: dict[str, Any] = {
            "setup": self,
            "some_names": some_names,
            "marked": marked,
            "receipts": receipts,
            "question": question_of(self.latest),
            "cases": cases,
            "wanted": wanted,
            "suffixes": ",".join(SUFFIXES),
            "members": members,
            "answers": answers,
            "largest": LARGEST_BODY,
            "most": MOST,
            "arrived": UploadResult(),
            **dict.fromkeys(_NEWS),
        }
        return self.render("setup.html", page="setup", open=open, **context | news)


Screen = Annotated[Setup, Depends()]
"""A parameter of a route: the screen of the judge that the path names."""


@router.get("/setup")
def setup_page(
    setup: Screen,
    arrived: Annotated[UploadResult, Query()],
    open: Block = "",
    job: str = "",
) -> Response:
    """Show the four blocks; with a job what it brought."""
    open_provider(setup.latest.model_name)
    return setup.show(open, job=setup.server.jobs.find(job), arrived=arrived)


@router.post("/setup/cases")
def take_cases(
    setup: Screen,
    file: Annotated[UploadFile | None, File()] = None,
    column: Annotated[list[str] | None, Form()] = None,
    what: Annotated[Literal["show", "cases", "judge"], Form()] = "show",
    said: Annotated[bool, Form()] = True,
) -> Response:
    """Show what a file holds, or put its cases in the queue; or judge what is not judged yet."""
    if what == "judge":
        return setup.go("setup", open="cases", job=setup.start("queue").id)
    if file is None or not file.filename:
        raise Refused("choose a file first")
    if what == "show":
        return _shown(setup, file, column or (), said=said)
    upload = _read(setup, file, column or ())
    if not upload.cases:
        raise Refused("no row of {name} can be used as it is", name=upload.name)
    arrived = _put_in(setup, upload, upload.said if said else ())
    judging = setup.start("queue").id if arrived.added else None
    news = arrived.model_dump(exclude_defaults=True)
    return setup.go("setup", open="cases", job=judging, **news)


def _put_in(setup: Setup, upload: Upload, offered: Sequence[Feedback]) -> UploadResult:
    """Put a file's cases in the queue, with what people said of them."""
    judge = setup.latest
    with setup.write() as connection:
        arrival = add_cases(
            connection,
            setup.judge,
            upload.cases,
            memory=judge.memory,
            origin=upload.name,
        )
        kept = keep_said(
            connection,
            setup.judge,
            offered,
            by=setup.person.name,
            kind=judge.value_type,
        )
    return UploadResult(
        added=len(arrival.new),
        repeated=arrival.repeated,
        changed=len(arrival.changed),
        names=some_names(arrival.changed),
        apart=arrival.apart,
        kept=kept,
        dropped=len(offered) - kept,
        batch=arrival.batch if arrival.new else "",
    )


def some_names(ids: Sequence[str]) -> str:
    """Return the first ids, with a mark if there are more."""
    names = ", ".join(case_id[:_NAME] for case_id in ids[:_NAMED])
    more = "…" if len(ids) > _NAMED else ""
    return f"{names}{more}"


def _read(setup: Setup, file: UploadFile, column: Sequence[str]) -> Upload:
    place = setup.server.store.place
    return read_upload(
        file.file, file.filename or "", setup.latest, column, place=place
    )


def _shown(
    setup: Setup, file: UploadFile, column: Sequence[str], *, said: bool
) -> Response:
    """Show what a file holds, or why it cannot be read."""
    try:
        upload = _read(setup, file, column)
        judge = setup.latest
        with setup.read() as connection:
            arrival = compare_cases(
                connection, setup.judge, upload.cases, memory=judge.memory
            )
    except InputError as error:
        problem = error_text(setup.request, error)
        return setup.render("upload.html", upload=None, problem=problem)
    return setup.render(
        "upload.html",
        upload=upload,
        labels={field: label_of(field, judge) for field in judge.fields},
        arrival=arrival,
        some_names=some_names,
        said=said,
        reason_of=reason_of,
    )


@router.post("/setup/answers")
def want_answers(setup: Screen, wanted: Annotated[int, Form()]) -> Response:
    """Set how many people answer each case."""
    with setup.write() as connection:
        set_answers_wanted(connection, setup.judge, wanted)
    return setup.go("setup", open="cases")


@router.post("/pull")
def pull_cases(
    setup: Screen,
    experiment: Annotated[str, Form(min_length=1, max_length=500)],
    uri: Annotated[str, Form(max_length=2000)] = "",
    most: Annotated[int, Form(ge=1, le=MOST)] = 500,
) -> Response:
    """Begin to read an experiment's traces into the queue, and to judge them."""
    place = uri.strip() if uri and setup.person.by == "open" else setup.tracking
    if setup.tracking is None or not place:
        raise Refused(
            "cases can be read from the MLflow that MLFLOW_TRACKING_URI names, "
            "where MLflow is installed"
        )
    job = setup.start("pull", experiment=experiment.strip(), uri=place, most=most)
    return setup.go("setup", open="cases", job=job.id)
