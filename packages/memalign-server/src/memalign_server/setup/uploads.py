"""A file of cases: its columns, which of them is what, and the rows that can be used."""

from __future__ import annotations

import codecs
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from memalign import Judge
from memalign.content import column_form
from memalign.errors import InputError, InvalidRows, RegistryError, RowError
from memalign.io import Columns, Examples, Row, RowSource, read_feedback
from memalign.judge import named_parts
from memalign.types import CONTENT_FIELDS, Example, Feedback
from memalign_server.people.access import LARGEST_BODY
from memalign_server.problems import Refused

__all__ = ["SUFFIXES", "Upload", "clear_uploads", "read_upload", "upload_folder"]

SUFFIXES = (".csv", ".xlsx", ".jsonl", ".json", ".tsv")
_LABELS = ("value", "rationale", "source", "created_at")
_SIDES = ("A", "B")
_READ = ("id", "group", *CONTENT_FIELDS)
"""Columns that are read under these names, whatever is chosen."""
_NAMES: Mapping[str, tuple[str, ...]] = {
    "inputs": (
        "question",
        "customer",
        "request",
        "prompt",
        "input",
        "query",
        "user",
        "inquiry",
        "asked",
        "ask",
        "client",
        "pergunta",
        "cliente",
        "pedido",
        "pregunta",
        "peticion",
        "consulta",
        "frage",
        "kunde",
        "anfrage",
    ),
    "outputs": (
        "reply",
        "answer",
        "response",
        "output",
        "agent",
        "assistant",
        "completion",
        "bot",
        "generated",
        "resposta",
        "respuesta",
        "antwort",
        "atendente",
    ),
    "conversation": (
        "conversation",
        "messages",
        "chat",
        "dialog",
        "turns",
        "transcript",
        "conversa",
        "conversacion",
    ),
    "expectations": ("expect", "reference", "gold", "ideal", "correct", "truth"),
    "trace": ("trace", "steps", "spans"),
}
"""How the names of a field's columns begin, in the languages of the pages and in German."""
_KEYS = frozenset(
    [
        "id",
        "ids",
        "no",
        "nr",
        "number",
        "key",
        "uuid",
        "date",
        "time",
        "timestamp",
        "at",
        "index",
        "row",
        "ticket",
    ]
)
_DIGIT = re.compile(r"\d")
_KEY_LENGTH = 40  # characters
_LOOKED_AT = 50  # rows


@dataclass(frozen=True, kw_only=True)
class Upload:
    """A file as it was read with the columns that were chosen.

    Attributes:
        name: What its sender calls it.
        columns: The columns that it has.
        questions: The fields whose columns must be known; of a pair its sides, A and B.
        chosen: A column for each question; empty where none fits.
        cases: The cases of the rows that can be used; none as long as a column is to be chosen.
        bad: The rows that cannot be used, in order.
        labels: Columns that hold what people said already.
        said: What their rows say of the cases that can be used.
        unread: The rows that can be used, but not what they say.
        guessed: The encoding that was guessed, because the file is not UTF-8; "" for none.
    """

    name: str
    columns: Sequence[str]
    questions: Sequence[str]
    chosen: Sequence[str]
    cases: Sequence[Example] = ()
    bad: Sequence[RowError] = ()
    labels: Sequence[str] = ()
    said: Sequence[Feedback] = ()
    unread: Sequence[RowError] = ()
    guessed: str = ""

    @property
    def complete(self) -> bool:
        """Return whether every question has a column of its own."""
        return "" not in self.chosen and len(set(self.chosen)) == len(self.questions)

    @property
    def unused(self) -> list[str]:
        """Return the columns of which nothing is read."""
        read = {*self.chosen, *self.labels, *_READ}
        return [column for column in self.columns if column not in read]

    def text(self, case: Example, question: str) -> str:
        """Return what a case has for a question."""
        content = case.content
        source = content["outputs"] if question in _SIDES else content
        value = source[question]
        if isinstance(value, str):
            return value
        return json.dumps(value, ensure_ascii=False)


def upload_folder(place: str) -> Path:
    """Return the folder in which a server reads files, which is there then, and this user's alone.

    Args:
        place: The database that the server works on.

    Raises:
        RegistryError: Somebody else made a folder of this name.
    """
    name = hashlib.sha256(place.encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"memalign-uploads-{name}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    is_other = hasattr(os, "getuid") and found.st_uid != os.getuid()
    if is_other or not stat.S_ISDIR(found.st_mode):
        raise RegistryError(f"{folder} is not a folder of this server's; remove it")
    return folder


def clear_uploads(place: str) -> None:
    """Remove what a server that was killed has left of files that it was reading."""
    shutil.rmtree(upload_folder(place), ignore_errors=True)


def read_upload(
    file: BinaryIO,
    filename: str,
    judge: Judge,
    chosen: Sequence[str] = (),
    *,
    place: str = "",
) -> Upload:
    """Read a file of cases; it is on disk only as long as that takes, under a name of ours.

    Args:
        file: Its bytes.
        filename: Its sender's name for it, which never becomes a path.
        judge: The judge whose fields are read.
        chosen: The column for each question. Without them, or if they are of another file, the
            first choice.
        place: The database, whose next server removes what a killed one left.

    Raises:
        InputError: The file is of no kind that is read, or is empty.
    """
    name = re.split(r"[/\\]", filename)[-1][:100]
    rows, guessed = _read_rows(file, name, place)
    bad = [row for row in rows if isinstance(row, RowError)]
    written = [_as_written(row) for row in rows if isinstance(row, Row)]
    fields = [row.fields for row in written]
    columns = list(dict.fromkeys(chain.from_iterable(fields)))
    if not columns:
        raise InvalidRows(name, bad)
    questions = _questions(judge, fields[0])
    is_of_this_file = {"", *columns}.issuperset(chosen)
    if len(chosen) != len(questions) or not is_of_this_file:
        chosen = _first_choice(questions, columns, judge.columns, fields)
    free = [column for column in columns if column not in chosen]
    upload = Upload(
        name=name,
        columns=columns,
        questions=questions,
        chosen=chosen,
        labels=[column for column in free if column in _LABELS],
        guessed=guessed,
    )
    if not upload.complete:
        return upload
    return _with_cases(upload, written, bad, judge)


def _with_cases(
    upload: Upload, rows: Sequence[Row], bad: Sequence[RowError], judge: Judge
) -> Upload:
    """Return an upload with its rows' cases, what they say of them, and all bad rows in order."""
    filled, empty = _filled(rows, upload.questions, upload.chosen)
    cases, refused = _cases(filled, upload.name, judge)
    lines = {row.line for row in refused}
    usable = [row for row in filled if row.line not in lines]
    bad = sorted([*bad, *empty, *refused], key=lambda error: error.line)
    upload = replace(upload, cases=cases, bad=bad)
    saying = [row for row in usable if _says_something(row)] if upload.labels else []
    if not saying:
        return upload
    read = read_feedback(
        RowSource.of(saying),
        value_type=judge.value_type,
        fields=named_parts(judge.instructions),
        skip_invalid=True,
    )
    return replace(upload, said=read.rows, unread=read.invalid)


def _says_something(row: Row) -> bool:
    said = (row.fields.get("value"), row.fields.get("rationale"))
    return not all(map(_is_empty, said))


def _filled(
    rows: Sequence[Row], questions: Sequence[str], chosen: Sequence[str]
) -> tuple[list[Row], list[RowError]]:
    """Return the rows that have something in every chosen column, by the fields, and the others."""
    columns = dict(zip(questions, chosen, strict=True))
    filled = []
    bad = []
    for row in rows:
        empty = [column for column in chosen if _is_empty(row.fields.get(column))]
        if empty:
            reason = f"nothing is in {', '.join(empty)}"
            bad.append(RowError(line=row.line, reason=reason))
        else:
            fields = _by_fields(row.fields, columns)
            filled.append(replace(row, fields=fields))
    return filled, bad


def _read_rows(
    file: BinaryIO, name: str, place: str
) -> tuple[list[Row | RowError], str]:
    """Return the rows of a file, and the encoding that was guessed for it."""
    suffix = Path(name).suffix.lower()
    if suffix not in SUFFIXES:
        raise Refused(
            "{name}: a file is one of {allowed}", name=name, allowed=", ".join(SUFFIXES)
        )
    with tempfile.TemporaryDirectory(dir=upload_folder(place)) as folder:
        path = Path(folder) / f"upload{suffix}"
        data, guessed = _as_utf8(file.read(), suffix)
        path.write_bytes(data)
        _check_unpacked(path, name)
        try:
            return list(RowSource.of(path).rows()), guessed
        except InputError as error:
            raise InputError(str(error).replace(str(path), name)) from None


def _cases(
    rows: Sequence[Row], name: str, judge: Judge
) -> tuple[list[Example], list[RowError]]:
    """Return the cases of the rows that can be used together, and the rows that cannot."""
    fields = named_parts(judge.instructions)
    refused = list[RowError]()
    while rows:
        try:
            cases = Examples.of(RowSource.of(rows, name=name), fields=fields)
            return list(cases), refused
        except InvalidRows as error:  # without its rows the others can be used
            refused += error.rows
            lines = {row.line for row in error.rows}
            rows = [row for row in rows if row.line not in lines]
    return [], refused


def _check_unpacked(path: Path, name: str) -> None:
    """Raise InputError for a small file that unpacks to more than anybody may send unpacked."""
    if not zipfile.is_zipfile(path):
        return
    with zipfile.ZipFile(path) as parts:
        size = sum(part.file_size for part in parts.infolist())
    if size > LARGEST_BODY:
        raise Refused(
            "{name} unpacks to {n} MB; keep it under {most}, or save it as .csv",
            name=name,
            n=size >> 20,
            most=LARGEST_BODY >> 20,
        )


def _as_utf8(data: bytes, suffix: str) -> tuple[bytes, str]:
    """Return a text file as UTF-8, and the encoding that was guessed.

    UTF-16 is known by its mark; else the encoding is that of Excel.
    """
    if suffix == ".xlsx":
        return data, ""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace").encode(), ""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace").encode(), "Windows-1252"
    return data, ""


def _by_fields(row: Mapping[str, Any], chosen: Mapping[str, str]) -> dict[str, Any]:
    """Return a row by its fields, with its id and what else it has; a pair's sides are outputs."""
    columns = dict(chosen)
    rest = dict(row)
    sides = {}
    for side in _SIDES:
        if side in chosen:
            sides[side] = rest.pop(columns.pop(side))
    fields = Columns(columns).renamed(rest)
    if sides:
        fields["outputs"] = sides
    return fields


def _questions(judge: Judge, row: Mapping[str, Any]) -> list[str]:
    """Return the fields that the judge reads.

    For a pair these are the sides of the outputs, unless both are in one column.
    """
    pair = "outputs" in judge.fields and set(_SIDES) <= set(judge.value_type.choices)
    if not pair or isinstance(row.get(judge.columns.get("outputs", "outputs")), dict):
        return list(judge.fields)
    return [*(field for field in judge.fields if field != "outputs"), *_SIDES]


def _first_choice(
    questions: Sequence[str],
    columns: Iterable[str],
    remembered: Mapping[str, str],
    rows: Sequence[Mapping[str, Any]],
) -> list[str]:
    """Return a column for each question, for the person to change, or "" where none fits.

    The judge's own names come first, then names that mean the field, then the other columns with
    texts in their order.
    """
    free = [column for column in columns if column not in ("id", *_LABELS)]
    chosen = dict[str, str]()
    for question in questions:
        name = remembered.get(question, question)
        fitting = [name]
        if name not in free:
            fitting = [column for column in free if _means(column, question)]
        left = (column for column in fitting if column not in chosen.values())
        chosen[question] = next(left, "")
    taken = set(chosen.values())
    rest = (
        column for column in free if column not in taken and not _is_key(column, rows)
    )
    return [chosen[question] or next(rest, "") for question in questions]


def _means(column: str, question: str) -> bool:
    words = column_form(column).split("_")
    if words[-1] in _KEYS:
        return False
    beginnings = _NAMES.get(question, ())
    return any(word.startswith(beginnings) for word in words)


def _is_key(column: str, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a column holds keys, dates or numbers, by its name or by what it holds."""
    values = [row[column] for row in rows[:_LOOKED_AT] if row.get(column) is not None]
    written = [value for value in values if isinstance(value, str)]
    if len(written) < len(values):  # numbers, lists
        return all(isinstance(value, int | float) for value in values)
    texts = [text for text in written if text.strip()]
    is_short = all(
        len(text) <= _KEY_LENGTH and len(text.split()) == 1 for text in texts
    )
    if not texts or not is_short:
        return False
    is_unique = len(set(texts)) == len(texts) > 1
    if is_unique and all(map(_DIGIT.search, texts)):
        return True
    return not _KEYS.isdisjoint(column_form(column).split("_"))


def _as_written(row: Row) -> Row:
    """Return the row without an id that was made for it."""
    fields = dict(row.fields)
    if row.made_id:
        del fields["id"]
    return replace(row, fields=fields, made_id=False)


def _is_empty(value: Any) -> bool:
    if isinstance(value, str):
        return not value.strip()
    return value in (None, [])
