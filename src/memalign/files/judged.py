"""Judgment files: one JSON object a line, `id` and the Judgment's fields, written as judging goes and resumed from.

Each line also names the `judge` that gave it (a fingerprint) and the `content_hash` of the example, so that a verdict
of another judge, or on an example that has changed since, is never taken for this one's.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from memalign.errors import InputError
from memalign.locks import try_lock
from memalign.records import Example, Judgment

__all__ = ["JudgmentFile", "JudgmentWriter", "read_judgments"]

_START = b'{"id":'  # how every line of ours begins; by it a cut line is told from somebody else's text


class _Head(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    judge: str
    content_hash: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgmentFile:
    """A judgment file: the fingerprint of the judge that wrote it, and its judgments by id, in the file's order."""

    judge: str
    judgments: Mapping[str, Judgment]


def read_judgments(path: str | Path) -> JudgmentFile:
    """The judgments of a file that `JudgmentWriter` wrote, those with an error included.

    A last line that a crash cut off is left out. Raises InputError when the file is missing, empty or something else.
    """
    judge, judgments = "", {}
    for _, head, judgment in _read(Path(path)):
        judge = head.judge
        judgments[head.id] = judgment
    if not judgments:
        raise InputError(f"{path} has no judgment")
    return JudgmentFile(judge=judge, judgments=judgments)


class JudgmentWriter:
    """Writes judgments as they come, one flushed line each, and takes up where an earlier run stopped.

    `done` has the judgments, by id, that an earlier run of the same `judge` (a fingerprint) made and that need not be
    made again. Opening an existing file removes lines with an error and a last line that a crash cut off. With
    `examples`, lines whose example has changed since are removed too, and closing leaves the lines in the order of the
    examples, those of other ids at the end. Raises InputError, and leaves the file as it is, when it was written by
    another judge or by another program, is being written by another run, or cannot be written.
    """

    def __init__(self, path: str | Path, *, judge: str, examples: Iterable[Example] = ()) -> None:
        """Open `path` for writing, and read what an earlier run left there."""
        self._path = Path(path)
        self._judge = judge
        self._hashes = {example.id: example.content_hash for example in examples}
        self._ids: list[str] = []
        self._written: set[str] = set()
        self._done: dict[str, Judgment] = {}
        # Beside the file, which is replaced at times. Two runs would take each other's lines away.
        self._beside = self._path.parent / f".{self._path.name}.lock"
        try:
            self._lock = self._beside.open("ab")
            if not try_lock(self._lock.fileno()):
                self._lock.close()
                raise InputError(f"{path} is being written by another run; wait for it, or name another output file")
            try:
                if self._path.exists():
                    self._take_up()
                self._file = self._path.open("ab")
            except BaseException:
                self._unlock()
                raise
        except OSError as error:
            raise InputError(f"{path} cannot be written: {error.strerror}") from None

    @classmethod
    def open(cls, path: str | Path, *, judge: str, examples: Iterable[Example] = ()) -> Self:
        """The same as the constructor, in the word that files use."""
        return cls(path, judge=judge, examples=examples)

    @property
    def done(self) -> Mapping[str, Judgment]:
        """The judgments, by id, that an earlier run of the same judge left here."""
        return self._done

    def write(self, example_id: str, judgment: Judgment) -> None:
        """Append one judgment and flush it. Raises InputError for an id that has its line already."""
        if example_id in self._written:
            raise InputError(f"{example_id!r} has its judgment in {self._path} already")
        head = {"id": example_id, "judge": self._judge, "content_hash": self._hashes.get(example_id, "")}
        self._file.write(_encoded(head | msgspec.structs.asdict(judgment)) + b"\n")
        self._file.flush()
        self._ids.append(example_id)
        self._written.add(example_id)

    def close(self) -> None:
        """Close the file and put its lines into the order of the examples."""
        if self._file.closed:
            return
        self._file.close()
        try:
            self._sort()
        finally:
            self._unlock()

    def _sort(self) -> None:
        place = {example_id: number for number, example_id in enumerate(self._hashes)}
        places = [place.get(example_id, len(place)) for example_id in self._ids]
        if places != sorted(places):
            lines = [(place.get(head.id, len(place)), line) for line, head, _ in _read(self._path)]
            self._replace([line for _, line in sorted(lines, key=lambda pair: pair[0])])

    def _unlock(self) -> None:
        with contextlib.suppress(OSError):  # Windows removes no open file; what is left there is empty
            self._beside.unlink(missing_ok=True)
        self._lock.close()

    def __enter__(self) -> Self:
        """Give the writer itself; leaving the block closes it, whatever happened."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the file."""
        self.close()

    def _take_up(self) -> None:
        kept: dict[str, bytes] = {}
        for line, head, judgment in _read(self._path):
            if head.judge != self._judge:
                raise InputError(
                    f"{self._path} holds judgments of judge {head.judge}, this one is {self._judge}; name another "
                    "output file, or delete that one to judge again"
                )
            kept.pop(head.id, None)
            self._done.pop(head.id, None)
            unchanged = not head.content_hash or self._hashes.get(head.id, head.content_hash) == head.content_hash
            if judgment.error is None and unchanged:
                kept[head.id] = line
                self._done[head.id] = judgment
        self._ids = list(kept)
        self._written = set(kept)
        if b"".join(kept.values()) != self._path.read_bytes():
            self._replace(kept.values())

    def _replace(self, lines: Iterable[bytes]) -> None:
        # Through a second file, so that a crash leaves the old lines or the new ones.
        fresh = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            fresh.write_bytes(b"".join(lines))
            fresh.replace(self._path)
        finally:
            fresh.unlink(missing_ok=True)


def _encoded(fields: dict[str, object]) -> bytes:
    try:
        return msgspec.json.encode(fields)
    except UnicodeEncodeError:
        # A model may end its rationale in half a surrogate pair; that must not cost the verdict.
        text = json.dumps(msgspec.to_builtins(fields), ensure_ascii=False)
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def _read(path: Path) -> Iterator[tuple[bytes, _Head, Judgment]]:
    """Each line (ending in a line break), its head and its judgment; a cut last line is left out."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    head = msgspec.json.decode(line, type=_Head)
                    judgment = msgspec.json.decode(line, type=Judgment)
                except (msgspec.DecodeError, UnicodeDecodeError) as error:
                    cut = not line.endswith(b"\n") and line.startswith(_START[: len(line)])
                    if cut and not isinstance(error, msgspec.ValidationError):
                        return
                    raise InputError(
                        f"{path}, line {number}, is not a judgment ({error}); name another output file"
                    ) from None
                yield line.rstrip(b"\r\n") + b"\n", head, judgment
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
