"""Judgments as a folder of parts, on an object store or a disk: JSON lines, or Parquet.

An object store appends nothing, so judgments are put there some thousand at a time: a part is there whole or not at all,
and is never written to again. Until a part is put its lines lie in a local journal, each flushed as it comes; the next run
on the same machine puts what a killed one left there. Another machine judges these again, and nothing else.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from itertools import compress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, BinaryIO, Self, overload

import msgspec
from msgspec.structs import replace

from memalign.errors import InputError
from memalign.io.atomic import atomic_write
from memalign.io.examples import Index
from memalign.io.file_lock import lock_file
from memalign.io.judged import Head, JudgmentWriter, judgment_line, line_of
from memalign.io.judgment_parquet import arrow, parquet_of
from memalign.io.locations import Location, is_url, location_of, store_errors
from memalign.types import Example, Judgment

__all__ = ["PartJudgments", "PartWriter", "judgment_writer"]

_LINES, _SECONDS = 5_000, 60.0  # a part is put when it has so many lines, or is so old
_BEHIND = 2  # parts that wait to be put before judging waits for them
_FAILED = "failed"  # the name of what holds the rows that failed last


def judgment_writer(
    out: str | Path, *, judge: str, examples: Index | Iterable[Example] = ()
) -> JudgmentWriter | PartWriter:
    """What writes judgments to `out`: a folder of parts for a URL, a name in .parquet or one that ends in a slash."""
    if is_url(out) or Path(out).suffix.lower() == ".parquet" or str(out).endswith("/") or Path(out).is_dir():
        return PartWriter(out, judge=judge, examples=examples)
    return JudgmentWriter(Path(out), judge=judge, examples=examples)


class PartWriter:
    """Writes judgments as parts of a folder, and takes up where an earlier run stopped; used like a JudgmentWriter.

    Parts are Parquet where the name ends in .parquet, else JSON lines, with columns of what is read most and the whole
    line in `judgment`. Rows that failed are no part: they lie in `failed`, which every run writes anew at its end, and the next run judges
    them again. On opening, lines of examples that have changed are taken out of their parts. Raises InputError when the
    folder holds judgments of another judge, something else, or is written to by another run on this machine.
    """

    def __init__(
        self, out: str | Path, *, judge: str, examples: Index | Iterable[Example] = (), journal: Path | None = None
    ) -> None:
        """`journal` is the local folder for lines that are not put yet; the cache of this machine by default."""
        self._root = _Folder(out)
        self._judge = judge
        self._index = examples if isinstance(examples, Index) else Index(examples)
        self._part_of = array("l", [-1]) * len(self._index)
        self._others: set[str] = set()
        self._failed_before: set[str] = set()
        self._failures: dict[str, bytes] = {}
        self._parts: list[str] = []
        self._journal = journal or _journal_of(self._root.name)
        try:
            self._journal.mkdir(parents=True, exist_ok=True)
            lock = lock_file(self._journal / ".lock")
        except OSError as error:
            raise InputError(
                f"{self._journal} cannot be written ({error.strerror}); XDG_CACHE_HOME names another cache folder"
            ) from None
        if lock is None:
            raise InputError(f"{out} is being written by another run; wait for it, or name another output folder")
        self._lock = lock
        self._uploads: deque[Future[None]] = deque()
        self._thread = ThreadPoolExecutor(1)
        self._file: BinaryIO | None = None
        self._lines, self._since, self._run = 0, 0.0, uuid.uuid4().hex[:8]
        try:
            self._root.make()
            for left in sorted(self._journal.glob("*.jsonl")):
                _check(left)
                self._put(left)
            self._take_up()
        except BaseException:
            self._release()
            raise

    def __contains__(self, example_id: object) -> bool:
        if not isinstance(example_id, str):
            return False
        place = self._index.place(example_id)
        there = example_id in self._others if place is None else self._part_of[place] >= 0
        return there or example_id in self._failures

    def failed(self, example_id: str) -> bool:
        """Whether an earlier run asked about the example and got an error."""
        return example_id in self._failed_before

    def write(self, example_id: str, judgment: Judgment) -> None:
        """Keep one judgment in the journal, and put the part when it is full. Raises InputError as a JudgmentWriter does."""
        if example_id in self:
            raise InputError(f"{example_id!r} has its judgment in {self._root.name} already")
        place = self._index.place(example_id)
        content_hash = "" if place is None else self._index.content_hash(place)
        line = judgment_line(example_id, judgment, judge=self._judge, content_hash=content_hash)
        if judgment.error is not None:
            self._failures[example_id] = line
            return
        try:
            if self._file is None:
                self._parts.append(f"part-{self._run}-{len(self._parts):06}")
                self._file = (self._journal / f"{self._parts[-1]}.jsonl").open("wb")
                self._since = time.monotonic()
            self._file.write(line)
            self._file.flush()
        except OSError as error:
            raise self._unwritten(error) from None
        if place is None:
            self._others.add(example_id)
        else:
            self._part_of[place] = len(self._parts) - 1
        self._lines += 1
        if self._lines >= _LINES or time.monotonic() - self._since > _SECONDS:
            self._end_part()
            while len(self._uploads) > _BEHIND or (self._uploads and self._uploads[0].done()):
                self._uploads.popleft().result()

    def judgments(self, otherwise: Judgment | None = None) -> PartJudgments:
        """The judgments of the examples, in their order, read part by part when they are asked for."""
        return PartJudgments(
            self._root,
            ids=self._index.ids(),
            part_of=self._part_of,
            parts=self._parts,
            failures=self._failures,
            otherwise=otherwise,
        )

    def close(self) -> None:
        """Put what is left, and the rows that failed."""
        if self._lock.closed:
            return
        try:
            self._end_part()
            while self._uploads:
                self._uploads.popleft().result()
            if self._failures:
                self._root.put(_FAILED, b"".join(self._failures.values()))
            else:
                self._root.remove(_FAILED)
        finally:
            self._release()

    def __enter__(self) -> Self:
        """Give the writer itself; leaving the block closes it, whatever happened."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Put what is left."""
        self.close()

    def _release(self) -> None:
        self._thread.shutdown()
        if self._file is not None:
            with suppress(OSError):  # of a disk that is full: the line that it cut is judged again
                self._file.close()
        self._lock.close()

    def _end_part(self) -> None:
        if self._file is None:
            return
        ended, self._file, self._lines = self._file, None, 0
        try:
            ended.close()
        except OSError as error:
            raise self._unwritten(error) from None
        self._uploads.append(self._thread.submit(self._put, Path(ended.name)))

    def _unwritten(self, error: OSError) -> InputError:
        return InputError(
            f"{self._journal} cannot be written: {error.strerror}; what is there is kept, and the same command goes on"
        )

    def _put(self, journal: Path) -> None:
        """Put one part, and only then let go of its lines. A last line that a crash cut off was never kept."""
        lines = journal.read_bytes()
        if whole := lines[: lines.rfind(b"\n") + 1]:
            try:
                self._root.put(journal.stem, whole)
            except InputError as error:
                raise InputError(
                    f"{error}; the judgments are kept in {journal}, and the same command puts them"
                ) from None
        journal.unlink()

    def _take_up(self) -> None:
        for name in self._root.names():
            heads = list(self._root.heads(name))
            if name == _FAILED:
                self._failed_before = {head.id for head in heads}
                continue
            if other := next((head.judge for head in heads if head.judge != self._judge), None):
                raise InputError(
                    f"{self._root.name} holds judgments of judge {other}, this one is {self._judge}; name another output "
                    "folder"
                )
            part = len(self._parts)
            self._parts.append(name)
            kept = [self._take(head, part) for head in heads]
            if not any(kept):
                self._root.remove(name)
            elif not all(kept):
                self._root.put(name, b"".join(compress(self._root.lines(name), kept)))

    def _take(self, head: Head, part: int) -> bool:
        """Whether a line stays: the first of its id, of an example that is as it was."""
        place = self._index.place(head.id)
        if place is None:
            new = head.id not in self._others
            self._others.add(head.id)
            return new
        judged = head.content_hash
        if self._part_of[place] >= 0 or (judged and judged != self._index.content_hash(place)):
            return False
        self._part_of[place] = part
        return True


class PartJudgments(Sequence[Judgment]):
    """The judgments of a run in the order of its examples, of which a few parts at a time are in memory."""

    def __init__(
        self,
        root: _Folder,
        *,
        ids: Sequence[str],
        part_of: array[int],
        parts: Sequence[str],
        failures: dict[str, bytes],
        otherwise: Judgment | None,
    ) -> None:
        """`part_of` has for each place the number of its part in `parts`, -1 for none."""
        self._root, self._ids, self._part_of, self._parts = root, ids, part_of, parts
        self._failures, self._otherwise = failures, otherwise
        self._read = lru_cache(maxsize=2)(self._part)

    def __len__(self) -> int:
        return len(self._part_of)

    @overload
    def __getitem__(self, index: int) -> Judgment: ...
    @overload
    def __getitem__(self, index: slice) -> list[Judgment]: ...
    def __getitem__(self, index: int | slice) -> Judgment | list[Judgment]:
        if isinstance(index, slice):
            return [self._at(place) for place in range(*index.indices(len(self)))]
        return self._at(range(len(self))[index])

    def _at(self, place: int) -> Judgment:
        name, part = self._ids[place], self._part_of[place]
        if part >= 0:
            return self._read(part)[name]
        if name in self._failures:
            return line_of(self._failures[name]).judgment
        return replace(self._otherwise or Judgment(error=f"{name} was not judged"), id=name)

    def _part(self, number: int) -> dict[str, Judgment]:
        return {(line := line_of(raw)).head.id: line.judgment for raw in self._root.lines(self._parts[number])}


class _Folder:
    """A folder of objects, each put whole. `name` is how errors call it."""

    def __init__(self, out: str | Path) -> None:
        self._place: Location = location_of(out if is_url(out) else Path(out))
        self.name = str(self._place)
        self._suffix = ".parquet" if self._place.suffix.lower() == ".parquet" else ".jsonl"
        if isinstance(self._place, Path) and self._place.is_file():
            raise InputError(f"{out} is a file, and judgments are put into a folder of parts: name another")

    def make(self) -> None:
        """Make a local folder, so that one that cannot be written is found before anything is paid for."""
        if isinstance(self._place, Path):
            try:
                self._place.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(f"{self.name} cannot be written: {error.strerror}") from None

    def names(self) -> list[str]:
        """The names of what is there, without the suffix. Raises InputError for a folder that is not ours."""
        with store_errors(self.name):
            if isinstance(self._place, Path):
                found = [path.name for path in sorted(self._place.glob("[!.]*"))]
            else:
                self._place.fs.invalidate_cache()
                there = self._place.fs.find(self._place.path)
                found = sorted(name.rpartition("/")[2] for name in there)
        names = [name.removesuffix(self._suffix) for name in found if not name.startswith(("_", "."))]
        if strange := [name for name in names if not name.startswith("part-") and name != _FAILED]:
            raise InputError(f"{self.name} holds {strange[0]}, which is no part of ours; name another output folder")
        return names

    def put(self, name: str, lines: bytes) -> None:
        """Write JSON lines as an object, in the place of one of that name."""
        data = parquet_of(lines) if self._suffix == ".parquet" else lines
        with store_errors(self.name):
            if isinstance(self._place, Path):
                self._place.mkdir(parents=True, exist_ok=True)
                with atomic_write(self._place / f"{name}{self._suffix}") as file:
                    file.write(data)
            else:
                self._place.fs.pipe_file(self._path(name), data)

    def remove(self, name: str) -> None:
        """Remove an object, if it is there."""
        with store_errors(self.name):
            if isinstance(self._place, Path):
                (self._place / f"{name}{self._suffix}").unlink(missing_ok=True)
            elif self._place.fs.exists(self._path(name)):
                self._place.fs.rm_file(self._path(name))

    def heads(self, name: str) -> Iterator[Head]:
        """Whose the lines of an object are; of Parquet no other column is read."""
        if self._suffix == ".parquet":
            for row in self._table(name, ["id", "judge", "content_hash"]):
                yield Head(**row)
            return
        for raw in self.lines(name):
            try:
                yield msgspec.json.decode(raw, type=Head)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise InputError(f"{self.name}, {name}, is not of judgments ({error}); name another folder") from None

    def lines(self, name: str) -> Iterator[bytes]:
        """The JSON lines of an object."""
        if self._suffix == ".parquet":
            yield from (f"{row['judgment']}\n".encode() for row in self._table(name, ["judgment"]))
        else:
            with self._opened(name) as file:
                yield from file

    def _opened(self, name: str) -> IO[bytes]:
        with store_errors(self.name):
            if isinstance(self._place, Path):
                return (self._place / f"{name}{self._suffix}").open("rb")
            file: IO[bytes] = self._place.fs.open(self._path(name), "rb")
            return file

    def _table(self, name: str, columns: list[str]) -> list[dict[str, Any]]:
        pa, pq = arrow()
        try:
            with self._opened(name) as file:
                rows: list[dict[str, Any]] = pq.read_table(file, columns=columns).to_pylist()
                return rows
        except (pa.ArrowException, KeyError) as error:
            raise InputError(f"{self.name}, {name}, is not of judgments ({error}); name another folder") from None

    def _path(self, name: str) -> str:
        assert not isinstance(self._place, Path)  # asked of stores alone
        return f"{self._place.path.rstrip('/')}/{name}{self._suffix}"


def _check(journal: Path) -> None:
    """Raise InputError for lines that are not of judgments: no part may hold them. The last one may be cut."""
    for number, raw in enumerate(journal.read_bytes().splitlines(keepends=True), 1):
        try:
            if raw.endswith(b"\n"):
                line_of(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise InputError(
                f"{journal}, line {number}, is damaged ({error}): remove that line, and its case is judged again; the other "
                "lines are paid for"
            ) from None


def _journal_of(name: str) -> Path:
    from platformdirs import user_cache_path

    where = name if is_url(name) else str(Path(name).resolve())
    return user_cache_path("memalign") / "judged" / hashlib.sha256(where.encode()).hexdigest()[:16]
