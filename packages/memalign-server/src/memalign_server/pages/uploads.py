"""A file of cases: its columns, which of them is what, and the rows that can be used."""

from __future__ import annotations

import re
import tempfile
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from memalign import Judge
from memalign.errors import InputError, InvalidRows, RowError
from memalign.io import Examples, RowSource
from memalign.io.rows import Row
from memalign.types import Example
from memalign_server.problems import Refused

__all__ = ["SUFFIXES", "Question", "Upload", "questions_of", "read_upload"]

SUFFIXES = (".csv", ".xlsx", ".jsonl", ".json", ".tsv")
_LABELS = ("value", "rationale", "source", "created_at")
_FIRST = 100  # rows that say which columns there are
_NAMES = {
    "inputs": "inputs input request question query prompt customer user ticket message",
    "outputs": "outputs output reply answer response completion agent assistant",
    "conversation": "conversation messages chat turns transcript dialogue",
    "expectations": "expectations expected reference truth gold",
    "trace": "trace spans steps",
}
"""Words in the names of columns that usually hold a field, the surest first."""


class Question(NamedTuple):
    """What a person is asked about a file: which column holds a field, or one side of it."""

    field: str
    side: str = ""


@dataclass(frozen=True, kw_only=True)
class Upload:
    """A file as it was read with the columns that were chosen.

    Attributes:
        name: What its sender calls it.
        columns: The columns that it has.
        questions: What must be known of them.
        chosen: A column for each question; empty where none fits.
        cases: The cases of the rows that can be used; none as long as a column is to be chosen.
        bad: The rows that cannot, in order.
        source: The usable rows by their fields, for `read_feedback`.
        labelled: How many rows hold a verdict or a comment.
    """

    name: str
    columns: tuple[str, ...]
    questions: Sequence[Question]
    chosen: tuple[str, ...]
    cases: tuple[Example, ...] = ()
    bad: tuple[RowError, ...] = ()
    source: RowSource = field(default_factory=lambda: RowSource.of(()))
    labelled: int = 0

    @property
    def complete(self) -> bool:
        """Whether every question has a column of its own."""
        return "" not in self.chosen and len(set(self.chosen)) == len(self.questions)


def questions_of(judge: Judge) -> list[Question]:
    """What must be known of a file: a column for each field that the judge reads, for a pair one for each side."""
    choices = judge.value_type.choices
    if "outputs" not in judge.fields or not {"A", "B"} <= set(choices):
        return [Question(name) for name in judge.fields]
    sides = [Question("outputs", side) for side in ("A", "B")]
    return [*(Question(name) for name in judge.fields if name != "outputs"), *sides]


def read_upload(file: BinaryIO, filename: str, judge: Judge, chosen: Sequence[str] = ()) -> Upload:
    """Read a file of cases; it is on disk only as long as that takes, under a name of ours.

    Args:
        file: Its bytes.
        filename: Its sender's name for it, which never becomes a path.
        judge: The judge whose fields are read.
        chosen: The column for each of `questions_of`; without them they are guessed.

    Raises:
        InputError: The file is of no kind that is read, is empty, or lacks a column that was chosen.
    """
    name = _readable(filename)
    suffix = Path(name).suffix.lower()
    if suffix not in SUFFIXES:
        raise Refused("{name}: a file is one of {allowed}", name=name, allowed=", ".join(SUFFIXES))
    with tempfile.TemporaryDirectory(prefix="memalign-") as folder:
        path = Path(folder) / f"upload{suffix}"
        path.write_bytes(file.read())
        try:
            return _read(RowSource.of(path), name, judge, chosen)
        except InvalidRows:  # has the name already
            raise
        except InputError as error:
            raise InputError(str(error).replace(str(path), name)) from None


def _read(source: RowSource, name: str, judge: Judge, chosen: Sequence[str]) -> Upload:
    columns: dict[str, Any] = {}
    first = list(islice(source.rows(), _FIRST))
    for row in reversed(first):
        if not isinstance(row, RowError):
            columns = {key: value for key, value in row.fields.items() if not (row.made_id and key == "id")} | columns
    if not columns:
        raise InvalidRows(name, [row for row in first if isinstance(row, RowError)])
    questions = questions_of(judge)
    if isinstance(columns.get(judge.columns.get("outputs", "outputs")), dict):  # both sides lie in one column
        questions = [question for question in questions if question.side != "B"]
    answers = list(chosen[: len(questions)]) or _guess(questions, columns, judge.columns)
    if "" in answers or len(set(answers)) < len(questions):
        return Upload(name=name, columns=tuple(columns), questions=questions, chosen=tuple(answers))
    pairs = list(zip(questions, answers, strict=True))
    names = {question.field: answer for question, answer in reversed(pairs)}
    other = {field: column for field, column in judge.columns.items() if field in _LABELS and column in columns}
    rows, bad = list[Row](), list[RowError]()
    for row in RowSource.of(source.items, columns={**other, **names}).rows():
        if isinstance(row, RowError):
            bad.append(row)
            continue
        fields = {key: value for key, value in row.fields.items() if not (row.made_id and key == "id")}
        places = {answer: fields.get(answer if question.side == "B" else question.field) for question, answer in pairs}
        if empty := [answer for answer, value in places.items() if _is_empty(value)]:
            bad.append(RowError(line=row.line, reason=f"nothing is in the column {', '.join(empty)}"))
            continue
        if questions[-1].side == "B":
            fields["outputs"] = {"A": fields["outputs"], "B": fields.pop(answers[-1])}
        rows.append(replace(row, fields=fields, made_id=False))
    cases = _cases(rows, bad, name)
    return Upload(
        name=name,
        columns=tuple(columns),
        questions=questions,
        chosen=tuple(answers),
        cases=cases,
        bad=tuple(sorted(bad, key=lambda error: error.line)),
        source=RowSource.of(rows, name=name),
        labelled=sum(
            not (_is_empty(row.fields.get("value")) and _is_empty(row.fields.get("rationale"))) for row in rows
        ),
    )


def _cases(rows: list[Row], bad: list[RowError], name: str) -> tuple[Example, ...]:
    """The cases of the rows; a row that is at fault moves to the `bad` ones."""
    while rows:
        try:
            return tuple(Examples.of(RowSource.of(rows, name=name)))
        except InvalidRows as error:
            bad += error.rows
            lines = {row.line for row in error.rows}
            rows[:] = [row for row in rows if row.line not in lines]
    return ()


def _guess(questions: Sequence[Question], columns: Iterable[str], remembered: Mapping[str, str]) -> list[str]:
    """The likeliest column for each question: by the judge's own names, by words in names, else in their order."""
    free, answers = [column for column in columns if column not in ("id", *_LABELS)], list[str]()
    for question in questions:
        own = remembered.get(question.field, question.field)
        words = [question.side.lower()] if question.side else _NAMES[question.field].split()
        likely = [own] if question.side != "B" else []
        likely += [column for word in words for column in free if word in re.split(r"[^a-z0-9]+", column.lower())]
        answers.append(next((column for column in likely if column in free and column not in answers), ""))
    rest = iter([column for column in free if column not in answers])
    return [answer or next(rest, "") for answer in answers]


def _is_empty(value: Any) -> bool:
    return value is None or value == [] or (isinstance(value, str) and not value.strip())


def _readable(name: str) -> str:
    """What errors call the person's file: its last part, without characters that nobody sees."""
    last = name.replace("\\", "/").rpartition("/")[2]
    return "".join(letter for letter in last if unicodedata.category(letter)[0] != "C")[:100] or "the file"
