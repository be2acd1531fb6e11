"""Judgment files: one JSON object a line, `id` and the Judgment's fields, written as judging goes and resumed from.

Each line also names the `judge` that gave it (a fingerprint) and the `content_hash` of the example, so that a verdict
of another judge, or on an example that has changed since, is never taken for this one's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, overload

import msgspec

from memalign.errors import InputError
from memalign.io.delimited import write_delimited
from memalign.io.files import atomic_write, beside, is_device, path_of, target_of, try_lock, unlock
from memalign.types import Example, Judgment, json_line
from memalign.values import value_text

__all__ = [
    "JudgmentFile",
    "JudgmentWriter",
    "Judgments",
    "OwnVerdicts",
    "is_judgment_file",
    "lines_beside",
    "read_judgments",
    "write_judgment_csv",
]

_START = b'{"id":'  # how every line of ours begins; by it a cut line is told from somebody else's text
_OTHER_KINDS = frozenset((".csv", ".tsv", ".xlsx", ".xls", ".parquet"))  # names that promise another format


class _Head(msgspec.Struct, frozen=True, kw_only=True):
    """Whose a line is: the example's id, the judge's signature, and the hash of the content that was judged."""

    id: str
    judge: str
    content_hash: str = ""


class _Line(NamedTuple):
    """A line: its head and judgment, where it begins, and its bytes."""

    head: _Head
    judgment: Judgment
    begin: int
    raw: bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgmentFile:
    """A judgment file.

    Attributes:
        judge: The fingerprint of the judge that wrote it.
        judgments: By id, in the file's order.
        contents: The content hash of each example as it was judged, by id.
    """

    judge: str
    judgments: Mapping[str, Judgment]
    contents: Mapping[str, str]

    def fits(self, example: Example) -> bool:
        """Whether the example is still what was judged under its id."""
        return self.contents.get(example.id) in ("", None, example.content_hash)


OwnVerdicts = Mapping[str, Judgment] | JudgmentFile
"""Judgments that a judge gave before, by the ids of the cases, or a file of them, as `read_judgments` reads it."""


def lines_beside(path: str | Path) -> Path:
    """The JSON lines of a file of judgments: those of `OUT.csv`, a sheet, are in `OUT.csv.jsonl` beside it."""
    path = Path(path)
    return path.with_name(f"{path.name}.jsonl") if path.suffix.lower() == ".csv" else path


def read_judgments(path: str | Path) -> JudgmentFile:
    """Read the judgments of a file that `JudgmentWriter` or `memalign judge -o` wrote, those with an error included.

    A last line that a crash cut off is left out.

    Args:
        path: The file of JSON lines, or the CSV that was made of it.

    Raises:
        InputError: The file is missing, empty or something else.
    """
    lines = list(_lines_of(lines_beside(path)))
    if not lines:
        raise InputError(f"{path} has no judgments")
    return JudgmentFile(
        judge=lines[-1].head.judge,
        judgments={line.head.id: line.judgment for line in lines},
        contents={line.head.id: line.head.content_hash for line in lines},
    )


def is_judgment_file(path: str | Path) -> bool:
    """Whether a file is what `memalign judge -o` wrote."""
    try:
        with lines_beside(path).open("rb") as file:
            msgspec.json.decode(file.readline(), type=_Head)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


def _lines_of(path: Path) -> Iterator[_Line]:
    """The lines of a judgment file, in its order; a cut last line is left out. Raises InputError for another file."""
    begin = 0
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                try:
                    head, judgment = msgspec.json.decode(raw, type=_Head), msgspec.json.decode(raw, type=Judgment)
                except (msgspec.DecodeError, UnicodeDecodeError) as error:
                    cut = not raw.endswith(b"\n") and raw.startswith(_START[: len(raw)])
                    if cut and not isinstance(error, msgspec.ValidationError):
                        return
                    fault = f"is not a judgment ({error}); name another output file"
                    raise InputError(f"{path}, line {number}, {fault}") from None
                yield _Line(head, judgment, begin, raw)
                begin += len(raw)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None


class JudgmentWriter(AbstractContextManager["JudgmentWriter"]):
    """Writes judgments as they come, one flushed line each, and takes up where an earlier run stopped.

    `id in writer` says whether an example has its judgment already: made by an earlier run of the same `judge` (a
    fingerprint), or written since. Opening an existing file removes lines with an error and a last line that a crash
    cut off. With `examples`, lines whose example has changed since are removed too, and closing puts the lines into the
    order of the examples, those of other ids at the end. Only the place of each line is kept in memory.
    """

    def __init__(self, path: str | Path, *, judge: str, examples: Mapping[str, str] | Iterable[Example] = ()) -> None:
        """Open `path` for writing, and find what an earlier run left there.

        Args:
            path: A `.jsonl` file.
            judge: The fingerprint of the judge.
            examples: What is judged, or the content hashes by id (`Examples.hashes`), in order.

        Raises:
            InputError: It was written by another judge or by another program, is being written by another run, or
                cannot be written; the file is left as it is.
        """
        if str(path) == "-" or path_of(path).suffix.lower() in _OTHER_KINDS:
            raise InputError(
                f"{path}: judgments are kept as JSON lines in a .jsonl file; `memalign judge` can also write a .csv"
            )
        self._path = target_of(Path(path))
        if is_device(self._path):
            raise InputError(f"{path} is not a regular file, and judgments have to be read again from it; name a file")
        self._judge = judge
        hashes = examples if isinstance(examples, Mapping) else {case.id: case.content_hash for case in examples}
        self._hashes: Mapping[str, str] = hashes
        self._begins: dict[str, int] = {}  # where the line of each id begins
        self._failed: set[str] = set()  # the ids whose line had an error
        try:
            # Two runs would take each other's lines away. The lock is beside the file, which is replaced at times.
            lock = try_lock(beside(self._path, "lock"))
            if lock is None:
                raise InputError(f"another run is writing {path}; wait for it, or name another output file")
            self._lock = lock
            try:
                beside(self._path, "part").unlink(missing_ok=True)  # a run that was killed may have left it
                if self._path.exists():
                    self._resume()
                self._file = self._path.open("ab")
            except BaseException:
                unlock(self._lock)
                raise
        except OSError as error:
            raise InputError(f"cannot write {path}: {error.strerror}") from None
        self._end = self._path.stat().st_size

    def __contains__(self, example_id: object) -> bool:
        return example_id in self._begins

    def failed(self, example_id: str) -> bool:
        """Whether an earlier run asked about the example and got an error."""
        return example_id in self._failed

    def write(self, example_id: str, judgment: Judgment) -> None:
        """Append one judgment and flush it. Raises InputError for an id that has its line, and on a full disk."""
        if example_id in self:
            raise InputError(f"{self._path} already has a judgment for {example_id!r}")
        head = {"id": example_id, "judge": self._judge, "content_hash": self._hashes.get(example_id, "")}
        line = json_line(head | msgspec.structs.asdict(judgment) | {"id": example_id})
        try:
            self._file.write(line)
            self._file.flush()
        except OSError as error:
            raise InputError(f"cannot write {self._path}: {error.strerror}; the judgments in it are kept") from None
        self._begins[example_id] = self._end
        self._end += len(line)

    def judgments(self, otherwise: Judgment) -> Judgments:
        """The judgments of the examples, in their order, read when they are asked for, once this writer is closed.

        An example without a line has the judgment `otherwise`.
        """
        return Judgments(self._path, tuple(self._hashes), self._begins, otherwise)

    def close(self) -> None:
        """Close the file and put its lines into the order of the examples."""
        if self._file.closed:
            return
        try:
            self._file.close()
            if any(begin > following for begin, following in pairwise(self._ordered().values())):
                self._rewrite()
        except OSError as error:
            raise InputError(f"cannot write {self._path}: {error.strerror}; the judgments in it are kept") from None
        finally:
            unlock(self._lock)

    def __exit__(self, *error: object) -> None:
        """Close the file, whatever happened in the block."""
        self.close()

    def _resume(self) -> None:
        """Find the lines that count, and take away the others."""
        clean, end = True, 0
        for line in _lines_of(self._path):
            if line.head.judge != self._judge:
                raise InputError(
                    f"{self._path} has judgments of judge {line.head.judge}, but this judge is {self._judge}; "
                    "name another output file, or delete that one"
                )
            name = line.head.id
            changed = line.head.content_hash not in ("", self._hashes.get(name, line.head.content_hash))
            counts = line.judgment.error is None and not changed
            clean = clean and counts and line.raw.endswith(b"\n") and name not in self._begins
            if line.judgment.error is not None:
                self._failed.add(name)
            self._begins.pop(name, None)
            if counts:
                self._begins[name] = line.begin
            end = line.begin + len(line.raw)
        if not clean or end != self._path.stat().st_size:
            self._rewrite()

    def _ordered(self) -> dict[str, int]:
        """Where lines begin, those of examples first and in their order."""
        begins = {name: self._begins[name] for name in self._hashes if name in self._begins}
        return begins | self._begins

    def _rewrite(self) -> None:
        """Keep only the lines that count, in order."""
        begins: dict[str, int] = {}
        with atomic_write(self._path) as new, self._path.open("rb") as old:
            for name, begin in self._ordered().items():
                begins[name] = new.tell()
                old.seek(begin)
                new.write(old.readline().rstrip(b"\r\n") + b"\n")
        self._begins.clear()  # in place: judgments that were given out point to these
        self._begins.update(begins)


class Judgments(Sequence[Judgment]):
    """The judgments of a run in the order of its examples, read from the file whenever one is asked for.

    Args:
        path: The file.
        ids: The ids of the examples.
        begins: Where in the file the line of an id begins.
        otherwise: The judgment of an example without a line.

    Raises:
        InputError: When a judgment is asked for, and the file is no longer what the run left.
    """

    def __init__(self, path: Path, ids: Sequence[str], begins: Mapping[str, int], otherwise: Judgment) -> None:
        self._path = path
        self._ids = ids
        self._begins = begins
        self._otherwise = otherwise

    def __len__(self) -> int:
        return len(self._ids)

    @overload
    def __getitem__(self, index: int) -> Judgment: ...
    @overload
    def __getitem__(self, index: slice) -> list[Judgment]: ...
    def __getitem__(self, index: int | slice) -> Judgment | list[Judgment]:
        if isinstance(index, slice):
            return list(self._at(range(*index.indices(len(self)))))
        return next(self._at((range(len(self))[index],)))

    def __iter__(self) -> Iterator[Judgment]:
        return self._at(range(len(self)))

    def __repr__(self) -> str:
        return f"<{len(self)} judgments in {self._path}>"

    def _at(self, places: Iterable[int]) -> Iterator[Judgment]:
        try:
            with self._path.open("rb") as file:
                for place in places:
                    yield self._read(file, place)
        except OSError as error:
            raise InputError(f"cannot read {self._path}: {error.strerror}") from None

    def _read(self, file: BinaryIO, place: int) -> Judgment:
        name = self._ids[place]
        if name not in self._begins:
            return msgspec.structs.replace(self._otherwise, id=name)
        file.seek(self._begins[name])
        try:
            judgment = msgspec.json.decode(file.readline(), type=Judgment)
        except (msgspec.DecodeError, UnicodeDecodeError):
            judgment = Judgment()
        if judgment.id != name:
            raise InputError(f"{self._path} has changed since these judgments were written; read it again")
        return judgment


def write_judgment_csv(judged: str | Path, path: str | Path) -> None:
    """Write the judgments of the file `judged` to `path`, in its order, as CSV for spreadsheets: a row a judgment.

    Lists are separated by spaces, notes by semicolons; what is None is an empty cell.

    Raises:
        InputError: A file cannot be read or written.
    """
    header = (
        *("id", "value", "confidence", "rationale", "error", "own_value", "decided_by", "guideline_ids", "example_ids"),
        *("notes", "model", "input_tokens", "output_tokens", "cost", "judge", "content_hash"),
    )

    def cells(line: _Line) -> Iterator[Any]:
        fields = {**msgspec.structs.asdict(line.judgment.usage), **msgspec.structs.asdict(line.judgment)}
        fields |= {"id": line.head.id, "judge": line.head.judge, "content_hash": line.head.content_hash}
        for name in header:
            value = fields[name]
            if isinstance(value, list | tuple):
                value = ("; " if name == "notes" else " ").join(value)
            yield value_text(value) if isinstance(value, bool | float) else value

    write_delimited(Path(path), header, (list(cells(line)) for line in _lines_of(Path(judged))))
