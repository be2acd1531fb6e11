"""Answers that a model was paid for and that no version holds yet: files beside the registry, one a running align.

A file is named after the registry's: `memalign.db-answers-3-0f9a…` is of judge number 3. Each line is a key, the hash of a
model and a request, and an answer. A line is written at once and whole, so that whoever is killed leaves all but the last.
The file goes when the version is committed. What a stopped align left is taken up by the next one that asks the same, and
goes with that. An erase, an unalign and a delete leave none of the judge's files.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Self

from memalign.errors import RegistryError

__all__ = ["KeptAnswers", "count_kept", "earlier_answers", "forget_kept"]

_OLDEST, _OLDEST_EMPTY = 30 * 86_400.0, 86_400.0  # seconds; what nobody took up by then goes


class KeptAnswers:
    """The answers of one running align; `taken_up` counts those that it found and need not pay for.

    Raises RegistryError where nothing can be written beside the registry. Use it as a context manager.
    """

    def __init__(self, registry: Path, judge: int) -> None:
        self._registry = registry
        self._earlier: dict[str, tuple[bytes, Path]] = {}
        for path in _files(registry, judge):
            if _is_old(path):
                _remove(path)
            else:
                self._earlier.update((key, (answer, path)) for key, answer in _answers(path))
        self._own: dict[str, bytes] = {}
        self._size = 0
        self._taken: set[str] = set()
        self._path = registry.with_name(f"{_prefix(registry, judge)}{secrets.token_hex(8)}")
        try:
            # From the first moment on for nobody else: answers may quote what was judged.
            self._file = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND, 0o600)
        except OSError as error:
            raise RegistryError(
                f"cannot keep answers beside the registry {registry}: {error.strerror}; nothing was asked or changed"
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)
        if not self._own:
            self._path.unlink(missing_ok=True)

    @property
    def taken_up(self) -> int:
        """How many answers of earlier, stopped runs were asked for here."""
        return len(self._taken)

    def find(self, key: str) -> bytes | None:
        """The answer of this key, paid for by this run or by an earlier one."""
        if key in self._own:
            return self._own[key]
        if key not in self._earlier:
            return None
        self._taken.add(key)
        return self._earlier[key][0]

    def keep(self, key: str, answer: bytes) -> None:
        """Keep an answer, one line of text. Raises RegistryError where the disk is full: nothing more is to be paid for."""
        line = b"%s %s\n" % (key.encode(), answer)
        try:
            written = os.write(self._file, line)
            if written < len(line):
                os.write(self._file, line[written:])  # raises: the disk took half of it
        except OSError as error:
            with suppress(OSError):  # what follows must not continue half a line
                os.ftruncate(self._file, self._size)
            raise RegistryError(
                f"cannot keep what was paid for in {self._path}: {error.strerror}. Nothing was committed; "
                f"{len(self._own)} answers are kept, and the same align takes them up when there is room"
            ) from error
        self._size += len(line)
        self._own[key] = answer

    def committed(self) -> None:
        """Remove what a version holds now: this run's answers, and the files of earlier ones that it took up."""
        for path in {self._path, *(self._earlier[key][1] for key in self._taken)}:
            _remove(path)


def earlier_answers(registry: Path, judge: int) -> dict[str, bytes]:
    """The answers that stopped or running aligns of a judge have kept, by key; nothing is written."""
    return {key: answer for path in _files(registry, judge) if not _is_old(path) for key, answer in _answers(path)}


def count_kept(registry: Path, judge: int) -> int:
    """How many answers stopped or running aligns of a judge have kept."""
    return len({key for path in _files(registry, judge) for key, _ in _answers(path)})


def forget_kept(registry: Path, judge: int) -> None:
    """Remove all kept answers of a judge, those of running aligns too: these go on, and keep nothing more."""
    for path in _files(registry, judge):
        _remove(path)


def _prefix(registry: Path, judge: int) -> str:
    return f"{registry.name}-answers-{judge}-"


def _files(registry: Path, judge: int) -> list[Path]:
    prefix = _prefix(registry, judge)
    return sorted(path for path in registry.parent.iterdir() if path.name.startswith(prefix))


def _answers(path: Path) -> Iterator[tuple[str, bytes]]:
    """Keys and answers of a file; none where it has just gone or is another user's. A line that was cut is no answer."""
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except (FileNotFoundError, PermissionError):
        return
    for line in lines:
        key, _, answer = line.partition(b" ")
        if answer:
            yield key.decode("ascii", "replace"), answer


def _is_old(path: Path) -> bool:
    with suppress(FileNotFoundError):
        found = path.stat()
        oldest = _OLDEST if found.st_size else _OLDEST_EMPTY
        return time.time() - found.st_mtime > oldest and os.access(path, os.W_OK)
    return False


def _remove(path: Path) -> None:
    """Overwrite a file and remove it, as the registry does with deleted rows. Raises RegistryError where it stays."""
    emptied = False
    try:
        with path.open("r+b") as file:
            file.write(bytes(path.stat().st_size))
            file.flush()
            os.fsync(file.fileno())
            file.truncate(0)
        emptied = True
        path.unlink()
    except FileNotFoundError:
        return
    except PermissionError as error:
        if emptied:
            return  # Windows removes no file that a running align has open
        try:
            path.unlink(missing_ok=True)  # another user's, in a folder of both
        except PermissionError:
            raise RegistryError(
                f"cannot remove {path}: {error.strerror}; it holds answers about judged texts"
            ) from error
