"""Reviewing in a terminal: one case at a time, the reviewer's own verdict before the judge's, keyboard only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from memalign.cli.output import label_text
from memalign.errors import InvalidValue

if TYPE_CHECKING:
    from memalign.io.review import ReviewCase
    from memalign.io.review_answers import ReviewAnswers
    from memalign.values import Value, ValueType

__all__ = ["Reviewer"]

_COMMANDS: tuple[Literal["back", "quit", "words"], ...] = ("back", "quit", "words")
_LISTED = 12  # labels that are numbered, so that one key is enough
_LETTERS = {"y": True, "t": True, "n": False, "f": False}

Move = Literal["next", "back", "quit"]


@dataclass(kw_only=True)
class Reviewer:
    """One sitting over the cases that have no answer yet.

    `ask` gives the line that a person types, without its end, and raises EOFError when there is none. `say` prints a
    line, `show` the texts of a case, and `heading` a line that stands out.
    """

    cases: Sequence[ReviewCase]
    answers: ReviewAnswers
    value_type: ValueType
    shown: bool
    ask: Callable[[str], str]
    say: Callable[[str], None]
    heading: Callable[[str], None]
    answered: int = 0
    skipped: int = 0

    def run(self) -> None:
        """Ask about one case after the other until all have had their turn, or the person quits."""
        from memalign.content import as_read

        waiting = [case for case in self.cases if self.answers.answer(case.example) is None]
        done = len(self.cases) - len(waiting)
        place = 0
        while place < len(waiting):
            case = waiting[place]
            self.heading(f"case {done + place + 1} of {len(self.cases)}: {case.example.id}")
            for name, value in case.example.content.items():
                self.heading(name)
                self.say(as_read(name, value))
            try:
                move = self._case(case)
            except EOFError:
                move = "quit"
            if move == "quit":
                return
            if move == "back" and place == 0:
                self.say("this is the first case of this sitting")
            place = max(0, place - 1) if move == "back" else place + 1

    @property
    def left(self) -> int:
        """How many cases have no answer."""
        return sum(self.answers.answer(case.example) is None for case in self.cases)

    def _case(self, case: ReviewCase) -> Move:
        if (earlier := self.answers.answer(case.example)) is not None:
            self.say(f"answered so far: {label_text(earlier.value)} {earlier.rationale or ''}".rstrip())
        if self.shown:
            self._reveal(case, None)
        value: Value | None = None
        while True:
            text = self.ask(f"your verdict ({self._choices()}): ").strip()
            if not text:
                self.skipped += earlier is None
                return "next"
            command = self._command(text)
            if command == "words":
                break
            if command is not None:
                return command
            try:
                value = self._verdict(text)
            except InvalidValue as error:
                self.say(str(error))
                continue
            break
        if not self.shown:
            self._reveal(case, value)
        words = self.ask("why, in your words (Enter for none): ").strip() or None
        if value is None and words is None:
            self.skipped += earlier is None
            return "next"
        self.answers.add(case.example, value=value, rationale=words)
        self.answered += earlier is None
        return "next"

    def _reveal(self, case: ReviewCase, value: Value | None) -> None:
        if case.judgment is None or case.judgment.value is None:
            return
        agrees = ""
        if value is not None:
            agrees = ", as you do" if self.value_type.agree(value, case.judgment.value) else ", and you do not"
        reason = f": {case.judgment.rationale}" if case.judgment.rationale else ""
        self.say(f"the judge says {label_text(case.judgment.value)}{agrees}{reason}")

    def _choices(self) -> str:
        labels = self.value_type.labels
        if self.value_type.kind == "bool":
            said = "y true, n false"
        elif 0 < len(labels) <= _LISTED and self.value_type.kind == "choice":
            said = ", ".join(f"{number} {label_text(label)}" for number, label in enumerate(labels, 1))
        else:
            said = self.value_type.allowed
        commands = ", ".join(f"{self._key(command)} {command}" for command in _COMMANDS)
        return f"{said}; Enter skips, {commands}"

    def _key(self, command: str) -> str:
        """The key of a command: its first letter, after a slash where that is a verdict."""
        return f"/{command[0]}" if self._is_verdict(command[0]) else command[0]

    def _command(self, text: str) -> Literal["back", "quit", "words"] | None:
        for command in _COMMANDS:
            if text.lower() in (self._key(command), f"/{command[0]}", f"/{command}"):
                return command
        return None

    def _verdict(self, text: str) -> Value:
        """The label of a number in the list, or the value as it was typed. Raises InvalidValue."""
        labels = self.value_type.labels
        if self.value_type.kind == "bool" and text.lower() in _LETTERS:
            return _LETTERS[text.lower()]
        try:
            return self.value_type.parse(text)
        except InvalidValue:
            numbered = 0 < len(labels) <= _LISTED and text.isdecimal() and 1 <= int(text) <= len(labels)
            if self.value_type.kind == "choice" and numbered:
                return labels[int(text) - 1]
            raise

    def _is_verdict(self, text: str) -> bool:
        if self.value_type.kind == "str":
            return True
        try:
            self.value_type.parse(text)
        except InvalidValue:
            return False
        return True
