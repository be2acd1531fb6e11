"""Judgment files: a JSON object on each line, written as judging goes, and resumed from.

Each line also names the `judge` that gave it, by a signature `NAME@SETTINGS-MEMORY-PROMPTS` of
hashes, and the `content_hash` of the example, so that a verdict of another judge, or on an example
that has changed since, is never taken for this one's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from memalign.content.json_values import decode_json
from memalign.errors import InputError
from memalign.io.files import atomic_write, beside, path_of, target_of, try_lock, unlock
from memalign.io.rows import reading
from memalign.types import Example, Judgment, json_line

__all__ = [
    "JudgmentFile",
    "JudgmentWriter",
    "OwnVerdicts",
    "difference",
    "is_judgment_file",
    "mark_for_people",
    "read_judgments",
]

_START = b'{"id":'
"""How every line of ours begins; by it a cut line is told from somebody else's text."""


class _Head(msgspec.Struct, frozen=True, kw_only=True):
    """Whose a line is: the example's id, the judge's signature, and the hash of what was judged."""

    id: str
    judge: str
    content_hash: str = ""
    ask: bool | None = None


class _Line(NamedTuple):
    """A line of a judgment file, read and as it is written."""

    head: _Head
    judgment: Judgment
    raw: bytes


class _Place(NamedTuple):
    """Where in a file a line begins, and how many bytes it has."""

    start: int
    length: int


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgmentFile:
    """A judgment file.

    Attributes:
        judge: The fingerprint of the judge that wrote it.
        judgments: By id, in the file's order.
        contents: The content hash of each example as it was judged, by id.
        passed: The ids whose verdicts pass without a person, as `mark_for_people` marked them.
    """

    judge: str
    judgments: Mapping[str, Judgment]
    contents: Mapping[str, str]
    passed: frozenset[str] = frozenset()

    def fits(self, example: Example) -> bool:
        """Return whether the example is still what was judged under its id."""
        return self.contents.get(example.id) in ("", None, example.content_hash)


_SIGNATURE = re.compile(r"(.*)@([0-9a-f]+)-([0-9a-f]+)-([0-9a-f]+)", re.DOTALL)
_SIGNED = (
    "its name",
    "its instructions, value type, model or parameters",
    "what it has learned",
    "the wording of memalign's prompts",
)


def difference(one: str, other: str) -> str:
    """Return in words what differs in two signatures of judges, or "" if nobody can tell.

    Args:
        one: A signature, `NAME@SETTINGS-MEMORY-PROMPTS`.
        other: Another one.
    """
    parts = _SIGNATURE.fullmatch(one)
    others = _SIGNATURE.fullmatch(other)
    if parts is None or others is None:
        return ""
    signed = zip(_SIGNED, parts.groups(), others.groups(), strict=True)
    return " and ".join(words for words, part, another in signed if part != another)


OwnVerdicts = Mapping[str, Judgment] | JudgmentFile
"""Judgments that a judge gave before, by the ids of the cases, or a file of them."""


def read_judgments(path: str | Path) -> JudgmentFile:
    """Read the judgments of a file that `memalign judge -o` wrote, those with an error included.

    A last line that a crash cut off is left out.

    Raises:
        InputError: The file is missing, empty or something else.
    """
    judge = ""
    judgments: dict[str, Judgment] = {}
    contents: dict[str, str] = {}
    passed: set[str] = set()
    for head, judgment, _ in _lines_of(Path(path)):
        judge = head.judge
        judgments[head.id] = judgment
        contents[head.id] = head.content_hash
        if head.ask is False:
            passed.add(head.id)
    if not judgments:
        raise InputError(f"{path} has no judgments")
    return JudgmentFile(
        judge=judge, judgments=judgments, contents=contents, passed=frozenset(passed)
    )


def mark_for_people(path: str | Path, below: float) -> int:
    """Mark each line of a judgment file with `ask`: true if a person must decide it.

    A verdict goes to people if it failed, or if its confidence is lower or not known. What experts
    or a rule decided passes.

    Args:
        path: The file, which is rewritten.
        below: The confidence, in (0, 1], below which people are asked.

    Returns:
        How many lines go to people.

    Raises:
        InputError: The file is missing or something else.
    """
    asked = 0
    target = target_of(path_of(path))
    with atomic_write(target) as file:
        for _, judgment, raw in _lines_of(target):
            sure = judgment.confidence is not None and judgment.confidence >= below
            ask = judgment.error is not None or (
                judgment.decided_by == "model" and not sure
            )
            asked += ask
            file.write(json_line(msgspec.json.decode(raw) | {"ask": ask}))
    return asked


def is_judgment_file(path: str | Path) -> bool:
    """Return whether a file is what `memalign judge -o` wrote."""
    try:
        with Path(path).open("rb") as file:
            msgspec.json.decode(file.readline(), type=_Head)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


def _lines_of(path: Path) -> Iterator[_Line]:
    """Yield the lines of a judgment file, without what a crash or a power cut left of the last one.

    Raises:
        InputError: It is another file, or cannot be read.
    """
    with reading(path), path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            try:
                fields = decode_json(raw)
                head = msgspec.convert(fields, _Head)
                yield _Line(head, msgspec.convert(fields, Judgment), raw)
            except (InputError, msgspec.ValidationError) as error:
                if isinstance(error, InputError) and _is_cut(raw) and not file.read(1):
                    return
                fault = (
                    f"is not a judgment ({error}); take it out, or name another file"
                )
                raise InputError(f"{path}, line {number}, {fault}") from None


def _is_cut(raw: bytes) -> bool:
    """Return whether a broken line begins as ours do and has no end.

    A power cut leaves zeros after it. A line that is whole is not cut, whatever is wrong with it.
    """
    written = raw.rstrip(b"\0")
    with suppress(ValueError, RecursionError):
        json.loads(written)
        return False
    begun = written[: len(_START)] == _START[: len(written)]
    unfinished = len(written) < len(raw) or not raw.endswith(b"\n")
    return begun and unfinished


class JudgmentWriter(AbstractContextManager["JudgmentWriter"]):
    """Writes judgments as they come, and takes up where an earlier run stopped.

    `id in writer` says whether an example has its judgment already: made by an earlier run of the
    same `judge` (a fingerprint), or written since. Opening an existing file removes lines with an
    error and a last line that a crash cut off. With `examples`, lines whose example has changed
    since are removed too, and closing puts the lines into the order of the examples, those of other
    ids at the end.

    Args:
        path: The file, whose name ends in `.jsonl` or `.ndjson`.
        judge: The fingerprint of the judge.
        examples: What is judged, or the content hashes by id, in order.

    Raises:
        InputError: Another judge or program wrote the file, another run is writing it, or it cannot
            be written; it is left as it is.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        judge: str,
        examples: Mapping[str, str] | Iterable[Example] = (),
    ) -> None:
        self._path = target_of(path_of(path))
        if self._path.suffix.lower() not in (".jsonl", ".ndjson"):
            raise InputError(
                f"{path}: judgments are kept as JSON lines, so that a run can resume; "
                "name a .jsonl file"
            )
        self._judge = judge
        if isinstance(examples, Mapping):
            self._hashes: Mapping[str, str] = examples
        else:
            self._hashes = {example.id: example.content_hash for example in examples}
        self._places: dict[str, _Place] = {}
        self._end = 0
        with self._writing():
            # Two runs would take each other's lines away. The lock is beside the file, which is
            # replaced at times.
            lock = try_lock(beside(self._path, "lock"))
            if lock is None:
                raise InputError(
                    f"another run is writing {path}; wait for it, or name another output file"
                )
            self._lock = lock
            try:
                if self._path.exists():
                    self._resume()
                self._file = self._path.open("ab")
            except BaseException:
                unlock(self._lock)
                raise

    def __contains__(self, example_id: object) -> bool:
        return example_id in self._places

    def write(self, example_id: str, judgment: Judgment) -> None:
        """Append one judgment and flush it.

        Raises:
            InputError: The id has its line, or the disk is full.
        """
        if example_id in self:
            raise InputError(f"{self._path} already has a judgment for {example_id!r}")
        head = {
            "id": example_id,
            "judge": self._judge,
            "content_hash": self._hashes.get(example_id, ""),
        }
        line = json_line(head | msgspec.structs.asdict(judgment) | {"id": example_id})
        with self._writing():
            self._file.write(line)
            self._file.flush()
        self._places[example_id] = _Place(self._end, len(line))
        self._end += len(line)

    def judgments(self, otherwise: Judgment) -> list[Judgment]:
        """Return the judgments of the examples, in their order, read from the file.

        Args:
            otherwise: The judgment of an example that has no line.
        """
        found: list[Judgment] = []
        with self._path.open("rb") as file:
            for name in self._hashes:
                if name in self._places:
                    found.append(
                        msgspec.json.decode(self._line(file, name), type=Judgment)
                    )
                else:
                    found.append(msgspec.structs.replace(otherwise, id=name))
        return found

    def close(self) -> None:
        """Close the file and put its lines into the order of the examples."""
        if self._file.closed:
            return
        try:
            with self._writing():
                self._file.close()
                of_examples = [name for name in self._hashes if name in self._places]
                every = (*of_examples, *self._places)
                ordered = list(dict.fromkeys(every))
                if ordered != list(self._places):
                    self._rewrite(ordered)
        finally:
            unlock(self._lock)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Name the file that cannot be written."""
        try:
            yield
        except OSError as error:
            reason = f"{error.strerror}; the judgments in it are kept"
            raise InputError(f"cannot write {self._path}: {reason}") from None

    def __exit__(self, *error: object) -> None:
        """Close the file, whatever happened in the block."""
        self.close()

    def _resume(self) -> None:
        """Keep the lines that count, and take away the others."""
        start = 0
        for head, judgment, raw in _lines_of(self._path):
            if head.judge != self._judge:
                judges = f"judge {head.judge}, but this judge is {self._judge}"
                changed = difference(head.judge, self._judge)
                if changed:
                    judges += f", which differs in {changed}"
                raise InputError(
                    f"{self._path} has judgments of {judges}; name another output file, or delete "
                    "that one"
                )
            self._places.pop(head.id, None)
            place = _Place(start, len(raw))
            start += place.length
            now = self._hashes.get(head.id, head.content_hash)
            if judgment.error is None and head.content_hash in ("", now):
                self._places[head.id] = place
        self._rewrite(list(self._places))

    def _line(self, file: BinaryIO, name: str) -> bytes:
        place = self._places[name]
        file.seek(place.start)
        return file.read(place.length).rstrip(b"\r\n") + b"\n"

    def _rewrite(self, names: Iterable[str]) -> None:
        """Write the file again with the lines of these ids, in this order."""
        places: dict[str, _Place] = {}
        end = 0
        with self._path.open("rb") as old, atomic_write(self._path) as file:
            for name in names:
                line = self._line(old, name)
                file.write(line)
                places[name] = _Place(end, len(line))
                end += len(line)
        self._places = places
        self._end = end
