"""What a reviewer has answered so far: a file of feedback, written answer by answer, so that nothing is lost."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

import msgspec

from memalign.errors import InputError, RowError
from memalign.io.atomic import atomic_write
from memalign.io.file_lock import lock_file
from memalign.io.rows import Row, file_lines, json_rows
from memalign.types import Example, Feedback, FeedbackKey, json_line
from memalign.values import Value, ValueType

__all__ = ["ReviewAnswers"]


class ReviewAnswers:
    """One person's answers in a JSONL file of feedback; the answers of others in it stay as they are.

    Every answer is in the file when `add` returns. Another answer to a case replaces the first. Raises InputError when
    the file is something else, cannot be written, or is being written by somebody else.
    """

    def __init__(self, path: str | Path, *, source: str, value_type: ValueType) -> None:
        self.path = Path(path)
        self.source = source
        self._beside = self.path.parent / f".{self.path.name}.lock"
        try:
            lock = lock_file(self._beside)
            if lock is None:
                raise InputError(f"{path} is being written by another review; wait for it, or name another file: --to")
            self._lock = lock
            try:
                self._rows = self._read(value_type)
            except BaseException:
                self.close()
                raise
        except OSError as error:
            raise InputError(f"{path} cannot be written: {error.strerror}") from None

    def __enter__(self) -> Self:
        """Give the answers; leaving the block lets others write them."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let others write the file."""
        self.close()

    def __len__(self) -> int:
        return sum(key.source == self.source for key in self._rows)

    def answer(self, example: Example) -> Feedback | None:
        """The answer to a case so far. Raises InputError when it was given to another text."""
        found = self._rows.get(FeedbackKey(example.id, self.source))
        if found is not None and found.content and found.content_hash != example.content_hash:
            raise InputError(
                f"{self.path} has an answer to {example.id!r} with another text; name another file: --to FILE"
            )
        return found

    def add(self, example: Example, *, value: Value | None, rationale: str | None) -> None:
        """Keep an answer: a verdict, words, or both."""
        made = Feedback(
            id=example.id,
            **example.content,
            value=value,
            rationale=rationale,
            source=self.source,
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        known = made.key in self._rows
        self._rows[made.key] = made
        try:
            if known:
                with atomic_write(self.path) as file:
                    file.writelines(map(_line, self._rows.values()))
            else:
                with self.path.open("ab") as file:
                    file.write(_line(made))
        except OSError as error:
            raise InputError(f"{self.path} cannot be written: {error.strerror}; what it holds is kept") from None

    def close(self) -> None:
        """Let others write the file; one without an answer goes."""
        if self.path.exists() and not self.path.stat().st_size:
            self.path.unlink()
        self._beside.unlink(missing_ok=True)
        self._lock.close()

    def _read(self, value_type: ValueType) -> dict[FeedbackKey, Feedback]:
        if not self.path.exists():
            self.path.open("ab").close()  # what cannot be written is said before the first question
            return {}
        found: dict[FeedbackKey, Feedback] = {}
        for row in json_rows(file_lines(self.path)):
            try:
                feedback = _feedback(row, value_type)
            except (msgspec.ValidationError, InputError) as error:
                raise InputError(f"{self.path} is no file of answers: {error}; name another file: --to FILE") from None
            found[feedback.key] = feedback
        with self.path.open("rb") as file:
            cut = not file.read().endswith((b"\n", b"")) if self.path.stat().st_size else False
        if cut:
            with self.path.open("ab") as file:
                file.write(b"\n")
        return found


def _feedback(row: Row | RowError, value_type: ValueType) -> Feedback:
    if isinstance(row, RowError):
        raise InputError(str(row))
    found = msgspec.convert(dict(replace(row).fields), Feedback)
    if found.value is not None:
        value_type.parse(found.value)
    return found


def _line(feedback: Feedback) -> bytes:
    return json_line({name: each for name, each in msgspec.structs.asdict(feedback).items() if each not in (None, {})})
