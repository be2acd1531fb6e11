"""What holds a text, or what a person of that name said: found, shown with ticks, and chosen."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from memalign.content import texts_in
from memalign.errors import UnknownKey
from memalign.judge import Judge
from memalign.keys import name_key, same_person
from memalign.memory import Finder
from memalign.registry import LESSONS, Receipt, Registry, Selection
from memalign.types import FeedbackKey
from memalign_server.pages.texts import is_word_in, places
from memalign_server.store import Store
from memalign_server.store.answers import all_answers, people_who_answered
from memalign_server.store.cases import cases_of
from memalign_server.store.team import list_people

__all__ = ["Mention", "Search"]

_LINE = 72  # characters that are shown of each


@dataclass(frozen=True, kw_only=True)
class Mention:
    """A case, comment or learned sentence that holds a text, or a member who has it for a name.

    Attributes:
        kind: What it is; `note` where only notes of work mention the text.
        name: The id of the case, sentence or member, or the key of the comment.
        noun: What the library calls a sentence, such as a guideline.
        taught: Whether the judge has learned the case.
        whose: The person who wrote it; empty for the one who asks.
        line: What is shown of its words; empty where only an earlier state has them.
        apart: Whether it is a case that does not hold the text: nobody says anything else of it.
        inside: Whether it holds the text in longer words alone, such as "Ana" in "Analysis".
        wordless: Whether it is an answer without words; then `line` is of its case.
    """

    kind: Literal["case", "comment", "sentence", "member", "note"]
    name: str = ""
    noun: str = ""
    taught: bool = False
    whose: str = ""
    line: str = ""
    apart: bool = False
    inside: bool = False
    wordless: bool = False

    @property
    def tick(self) -> str:
        """Return the value that its tick sends."""
        return f"{self.kind}:{self.name}"


@dataclass(frozen=True)
class Search:
    """A text that somebody looks for in a judge, its queue and the team."""

    registry: Registry
    store: Store
    judge: Judge
    text: str
    reader: str

    @cached_property
    def finder(self) -> Finder:
        """Return the text as it is looked for."""
        return Finder(self.text)

    @cached_property
    def sources(self) -> list[str]:
        """Return the people of this name who said something."""
        with self.store.read() as connection:
            names = set(people_who_answered(connection, self.judge.name))
        for note in self.judge.memory.annotations():
            names.add(note.source)
        found = [name for name in names if same_person(name, self.text)]
        return sorted(found)

    @cached_property
    def mentions(self) -> list[Mention]:
        """Return everything that goes with the text, or with a person of that name."""
        found = list(self._members())
        receipt = self._receipt
        if receipt is None:
            return found
        found += self._cases(receipt.cases)
        found += self._comments(receipt.keys)
        found += self._sentences(receipt.lessons)
        return found or [Mention(kind="note")]

    @cached_property
    def _receipt(self) -> Receipt | None:
        """Return what an erasure of the text, and of each person of the name, would take."""
        people = [Selection(source=name) for name in self.sources]
        return self._dry_run(Selection(matching=self.text), *people)

    def _dry_run(
        self, *selections: Selection, keep: Collection[str] = ()
    ) -> Receipt | None:
        with suppress(UnknownKey):
            return self.registry.erase(
                self.judge.name, also=selections, keep=keep, dry_run=True
            )
        return None

    @cached_property
    def _holding(self) -> frozenset[str]:
        """Return the cases that hold the text themselves: they go although others may be kept."""
        if self._receipt is None:
            return frozenset()
        text = Selection(matching=self.text)
        receipt = self._dry_run(text, keep=self._receipt.cases)
        return frozenset(receipt.cases if receipt else ())

    def _members(self) -> Iterator[Mention]:
        with self.store.read() as connection:
            members = list_people(connection)
        for member in members:
            if member.name_key == name_key(self.text):
                yield Mention(kind="member", name=member.id, line=member.name)

    def _cases(self, ids: Sequence[str]) -> Iterator[Mention]:
        for case_id, texts in self._texts_of(ids).items():
            holds = case_id in self._holding
            yield Mention(
                kind="case",
                name=case_id,
                taught=self.judge.memory.case(case_id) is not None,
                line=self._line(texts),
                apart=not holds,
                inside=holds and self._is_inside(texts),
            )

    def _texts_of(self, case_ids: Sequence[str]) -> dict[str, list[str]]:
        """Return what each case holds, its reply first; nothing of one that is here no more."""
        examples = {}
        for case_id in case_ids:
            learned = self.judge.memory.case(case_id)
            if learned is not None:
                examples[case_id] = learned.example
        with self.store.read() as connection:
            for case in cases_of(connection, self.judge.name, case_ids):
                examples[case.case_id] = case.example
        texts = dict[str, list[str]]()
        for case_id in case_ids:
            held = texts.setdefault(case_id, [])
            example = examples.get(case_id)
            if example is not None:
                held += texts_in(example.outputs)
                held += texts_in(example.content)
                held.append(case_id)
        return texts

    def _comments(self, keys: Collection[FeedbackKey]) -> Iterator[Mention]:
        words = self._words()
        silent = set()
        for key in keys:
            if key in words and not any(words[key]):
                silent.add(key)
        cases = self._texts_of(sorted({key.id for key in silent}))
        for key in sorted(keys):
            comments = words.get(key, [])
            of_person = key.source in self.sources
            goes = of_person or any(map(self.finder.holds, comments))
            if key.id in self._holding and not goes:
                continue  # it goes with its case
            line = self._comment_line(comments)
            if key in silent:
                line = self._line(cases[key.id])
            whose = key.source
            if same_person(whose, self.reader):
                whose = ""
            yield Mention(
                kind="comment",
                name=str(key),
                whose=whose,
                line=line,
                inside=not of_person and self._is_inside(comments),
                wordless=key in silent,
            )

    def _words(self) -> Mapping[FeedbackKey, list[str]]:
        """Return what was said of each case by whom.

        It was said in memory, on the page, or typed and not yet said.
        """
        words = defaultdict[FeedbackKey, list[str]](list)
        for note in self.judge.memory.annotations():
            words[note.key].append(note.rationale or "")
        with self.store.read() as connection:
            answers = all_answers(connection, self.judge.name)
        for answer in answers:
            key = FeedbackKey(answer.case_id, answer.person)
            said = filter(None, (answer.rationale, answer.draft))
            words[key].extend(said)
        return words

    def _sentences(self, ids: Collection[str]) -> Iterator[Mention]:
        memory = self.judge.memory
        for kind in LESSONS.values():
            for rule in getattr(memory, kind.field):
                going = rule.id in ids
                if not going or not self.finder.holds(rule.text):
                    continue
                people = rule.people
                if not people:
                    people = {key.source for key in memory.sources_of(rule)}
                yield Mention(
                    kind="sentence",
                    noun=kind.noun,
                    name=rule.id,
                    whose=", ".join(sorted(people)),
                    line=self._line([rule.text]),
                    inside=self._is_inside([rule.text]),
                )

    def _is_inside(self, texts: Sequence[str]) -> bool:
        """Return whether some text holds what is looked for, and each one in longer words alone."""
        inside = False
        for text in filter(self.finder.holds, texts):
            if is_word_in(text, self.text):
                return False
            inside = True
        return inside

    def _comment_line(self, texts: Sequence[str]) -> str:
        """Return the line of a comment, and behind it those that the same tick takes.

        They are of the same person, on other texts that the case's id had.
        """
        lines = {self._line(texts): None}
        for text in filter(None, texts):
            line = self._line([text])
            lines[line] = None
        return " · ".join(lines)

    def _line(self, texts: Sequence[str]) -> str:
        """Return the beginning of the first text that holds it.

        If that is far in, the line begins a little before it.
        """
        first = next(iter(texts), "")
        first = next(filter(self.finder.holds, texts), first)
        text = " ".join(first.split())
        start = 0
        for at, _ in places(text, self.text):
            if at > _LINE // 2:
                before = at - _LINE // 3
                start = text.rfind(" ", 0, before) + 1
            break
        end = start + _LINE
        line = text[start:end]
        if start:
            line = f"…{line}"
        if end < len(text):
            line += "…"
        return line
