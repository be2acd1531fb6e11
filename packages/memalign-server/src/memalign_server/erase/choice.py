"""What goes of the mentions that a search found, by their ticks: what has none stays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from memalign.keys import same_person
from memalign.registry import Receipt
from memalign.types import FeedbackKey
from memalign_server.erase.mentions import Mention, Search
from memalign_server.erase.service import planned
from memalign_server.problems import Refused
from memalign_server.work.judging import Work

__all__ = ["MOST", "Choice"]

MOST = 100
"""Mentions with a tick of their own; the others of a group have one together."""
_REST = {False: "rest", True: "rest-apart"}


@dataclass(frozen=True)
class Choice:
    """What is ticked of the mentions of a search.

    Attributes:
        search: What was looked for.
        ticks: What the ticks sent.
        whole: Whether everything that holds the text goes, whatever the ticks.
    """

    search: Search
    ticks: Collection[str]
    whole: bool = False

    @cached_property
    def counts(self) -> Counter[str]:
        """Return how many cases, comments, sentences and members would go.

        Raises:
            InputError: As for `arguments`.
        """
        counts = Counter[str]()
        if self.ticks:
            counts["member"] = len(self._selected["leaves"])
            for receipt in self._receipts:
                counts.update(receipt.numbers)
        return counts

    @cached_property
    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the job that erases it.

        If all that holds the text is ticked, the text is looked for again everywhere, in whatever
        was written meanwhile. Otherwise `kept` says how many mentions stay.

        Raises:
            InputError: Somebody leaves with what they said, and something that they said has no
                tick.
        """
        if self._is_all:
            return self._selected
        gone = set[str]()
        for receipt in self._receipts:
            if receipt.judge != self.search.judge.name:
                continue  # whose sentences have the same ids
            gone.update(receipt.cases, receipt.lessons)
            gone.update(map(str, receipt.keys))
        kept = 0
        for mention in self._unticked:
            if not mention.apart and mention.name not in gone:
                kept += 1
        return {**self._selected, "kept": kept}

    @cached_property
    def _selected(self) -> dict[str, Any]:
        _check_leaving(self._ticked, self._unticked)
        return {
            "leaves": _names(self._ticked, "member"),
            "cases_kept": _names(self._unticked, "case"),
            "selections": self._everything if self._is_all else self._named,
        }

    @cached_property
    def _receipts(self) -> list[Receipt]:
        work = Work(
            registry=self.search.registry,
            store=self.search.store,
            judge=self.search.judge.name,
            arguments=self._selected,
            progress=lambda *_: None,
        )
        return planned(work)

    @property
    def _everything(self) -> list[dict[str, Any]]:
        """Select all that holds the text, and all that people of the name said."""
        selections: list[dict[str, Any]] = [{"matching": self.search.text}]
        for name in self.search.sources:
            selections.append({"source": name})
        return selections

    @property
    def _named(self) -> list[dict[str, Any]]:
        """Select the cases, comments and sentences that are ticked."""
        keys = [str(FeedbackKey(case, "")) for case in _names(self._ticked, "case")]
        keys += _names(self._ticked, "comment")
        selections: list[dict[str, Any]] = [{"keys": keys}]
        sentences = _names(self._ticked, "sentence")
        for rule in self.search.judge.memory.guidelines:
            if rule.id in sentences:
                selections.append({"matching": rule.text})
        return selections

    @property
    def _is_all(self) -> bool:
        """Return whether everything is ticked that holds the text."""
        for mention in self._unticked:
            if not mention.apart and mention.kind != "member":
                return False
        return True

    @cached_property
    def _ticked(self) -> list[Mention]:
        """Return what goes; a group's last tick is for all that have none of their own."""
        ticks = set(self.ticks)
        ticked = []
        for apart, rest in _REST.items():
            group = [one for one in self.search.mentions if one.apart is apart]
            for place, mention in enumerate(group):
                goes = mention.tick in ticks
                if rest in ticks and place >= MOST and not mention.inside:
                    goes = True
                if self.whole and not apart:
                    goes = True
                if goes:
                    ticked.append(mention)
        return ticked

    @cached_property
    def _unticked(self) -> list[Mention]:
        ticked = set(self._ticked)
        return [one for one in self.search.mentions if one not in ticked]


def _names(mentions: Sequence[Mention], kind: str) -> list[str]:
    names = []
    for mention in mentions:
        if mention.kind == kind:
            names.append(mention.name)
    return names


def _check_leaving(ticked: Sequence[Mention], unticked: Sequence[Mention]) -> None:
    """Check that nobody leaves of whom a comment stays. Raises InputError."""
    leaving = [mention.line for mention in ticked if mention.kind == "member"]
    for comment in _names(unticked, "comment"):
        source = FeedbackKey.parse(comment).source
        if any(same_person(source, name) for name in leaving):
            raise Refused(
                "{name} leaves with all that they said: tick every comment of theirs, or remove "
                "them under Experts, where their words stay",
                name=source,
            )
