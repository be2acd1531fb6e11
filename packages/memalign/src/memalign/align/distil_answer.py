"""The answer of a distillation call: its JSON schema, and how it is read, whatever its form."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, get_args

from msgspec.structs import replace

from memalign.align.deltas import CallAnswer, Delta
from memalign.align.learned_tests import proposed_tests
from memalign.content import judged_texts, texts_in
from memalign.content.json_values import opened
from memalign.judge import Judge
from memalign.judge.borne_out import LabelledCase, labelled_cases
from memalign.judge.prompt import object_schema
from memalign.memory import FeedbackConflict
from memalign.memory.guard import JudgedTexts, guideline_fault, tidy
from memalign.types import FeedbackKey, Guideline, TestKind

__all__ = ["AnswerReader", "changes_schema", "merge_schema", "merged_rules"]

# -- the schemas -----------------------------------------------------------------------------------

_TEXT = {"type": "string"}
_BOUND = {"type": ["number", "null"]}


def _array(
    properties: dict[str, Any], required: Sequence[str] | None = None
) -> dict[str, Any]:
    return {"type": "array", "items": object_schema(properties, required)}


def _one_of(*words: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(words)}


def changes_schema(
    labels: Sequence[str], guideline_ids: Sequence[str], fields: Sequence[str]
) -> dict[str, Any]:
    """Return the JSON schema of an answer.

    Args:
        labels: The names of the call's records; no others can be named.
        guideline_ids: The guidelines that the call shows; no others can be named.
        fields: The fields that tests can read. Without any, no tests are asked for.
    """
    feedback = {"type": "array", "items": _one_of(*labels)}
    actions = ["ADD", "NOOP"]
    if guideline_ids:
        actions = ["ADD", "SUPPORT", "REVISE", "NOOP"]
    change = {
        "action": _one_of(*actions),
        "feedback": feedback,
        "text": _TEXT,
        "guideline": _one_of("", *guideline_ids),
    }
    # An answer without tests or conflicts is an answer too.
    needed = list(change)
    if fields:
        test = {
            "kind": _one_of(*get_args(TestKind)),
            "field": _one_of(*fields),
            "text": _TEXT,
            "low": _BOUND,
            "high": _BOUND,
            "holds": {"type": "boolean"},
        }
        change["tests"] = _array(test)
    answer = {
        "changes": _array(change, needed),
        "conflicts": _array({"feedback": feedback, "about": _TEXT}),
    }
    return object_schema(answer, ["changes"])


def merge_schema(ids: Sequence[str]) -> dict[str, Any]:
    """Return the JSON schema of an answer that merges the guidelines of these ids."""
    sources = {"type": "array", "items": _one_of(*ids)}
    guidelines = _array({"text": _TEXT, "from": sources})
    return object_schema({"guidelines": guidelines})


# -- reading ---------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class AnswerReader:
    """Reads what a model wrote about the records of one call, and never raises for it.

    Attributes:
        judge: The judge that learns.
        call: The call, without an answer.
    """

    judge: Judge
    call: CallAnswer

    @cached_property
    def labels(self) -> dict[str, FeedbackKey]:
        """The key of each record, by its name in the prompt."""
        return {f"F{n}": key for n, key in enumerate(self.call.keys, start=1)}

    @cached_property
    def cases(self) -> list[LabelledCase]:
        """The labelled cases that the prompt was exposed to: proposed tests must fit them."""
        ids = {key.id for key in self.call.exposed_to}
        return labelled_cases(self.judge.memory, self.judge.value_type, ids)

    def read(self, data: Mapping[str, Any]) -> CallAnswer:
        """Return the answer with its changes and conflicts, names turned into keys and tests read.

        A bad entry costs itself, never the answer.

        Args:
            data: The JSON object that the model wrote.
        """
        changes = []
        tried = 0
        for entry in _entries(data.get("changes")):
            if isinstance(entry, dict):
                change = {name.lower().strip(): part for name, part in entry.items()}
                changes.append(change)
                tried += len(_entries(change.get("tests")))
        deltas = [self._delta(change, tried) for change in changes]
        named = map(self._conflict, _entries(data.get("conflicts")))
        conflicts = [conflict for conflict in named if conflict is not None]
        return replace(self.call, deltas=tuple(deltas), conflicts=tuple(conflicts))

    def _delta(self, change: Mapping[str, Any], tried: int) -> Delta:
        """Read one change; `tried` is the number of tests in the whole answer."""
        keys = self._keys(change.get("feedback"))
        guideline = _word(change.get("guideline")).strip().upper()
        action = _action(change)
        if action == "REVISE" and not self.call.guideline_ids:
            action = "ADD"  # there was nothing to revise
        delta = Delta(action=action, feedback=keys, guideline=guideline)
        if action not in ("ADD", "REVISE"):
            return delta
        text = tidy(_word(change.get("text")))
        tests = proposed_tests(
            self.judge,
            change.get("tests"),
            keys,
            self.cases,
            tried=tried,
            judged=self._judged,
        )
        return replace(delta, text=text, fault=self._fault(text, keys), tests=tests)

    def _conflict(self, entry: object) -> FeedbackConflict | None:
        """Read one conflict; its words may say nothing that a guideline may not."""
        keys = sorted(set(self._keys(_field(entry, "feedback"))))
        if len(keys) < 2:
            return None
        about = tidy(_word(_field(entry, "about")))
        if self._fault(about, keys) is not None:
            about = ""
        return FeedbackConflict(
            feedback=tuple(keys),
            about=about,
            exposed_to=self.call.exposed_to,
        )

    def _fault(self, text: str, keys: Collection[FeedbackKey]) -> str | None:
        """Return why a text about this feedback may not enter a prompt, or None."""
        comments = []
        for key in keys:
            annotation, _ = self.judge.memory.record(key)
            if annotation.rationale:
                comments.append(annotation.rationale)
        return guideline_fault(text, self._judged, comments)

    def _keys(self, names: object) -> tuple[FeedbackKey, ...]:
        """Return the keys of records by their names; invented names are left out."""
        keys = []
        for name in _names(names):
            label = f"F{name}" if name.isdecimal() else name
            if label in self.labels:
                keys.append(self.labels[label])
        return tuple(dict.fromkeys(keys))

    @cached_property
    def _judged(self) -> JudgedTexts:
        texts: list[tuple[str, str]] = []
        for key in self.call.keys:
            _, case = self.judge.memory.record(key)
            texts.extend(judged_texts(case.example.content))
        return JudgedTexts(texts)


def merged_rules(
    data: Mapping[str, Any], guidelines: Sequence[Guideline]
) -> Iterator[tuple[str, list[Guideline]]]:
    """Yield each merged text with the guidelines it replaces: at least two, each used once.

    Args:
        data: The JSON object that the model wrote.
        guidelines: The guidelines that it was shown.
    """
    free = {guideline.id: guideline for guideline in guidelines}
    for entry in _entries(data.get("guidelines")):
        text = tidy(_word(_field(entry, "text")))
        named = _names(_field(entry, "from"))
        ids = [name for name in dict.fromkeys(named) if name in free]
        if len(ids) < 2 or guideline_fault(text) is not None:
            continue
        sources = [free.pop(name) for name in ids]
        yield text, sources


# -- odd forms -------------------------------------------------------------------------------------


def _entries(value: object) -> list[Any]:
    """Return the entries of a list, also of lists in it; an object alone is one entry."""
    value = opened(value)
    if isinstance(value, dict):
        return [value]
    entries: list[Any] = []
    if isinstance(value, list):
        for part in map(opened, value):
            entries.extend(part if isinstance(part, list) else [part])
    return entries


def _field(entry: object, name: str) -> Any:
    if not isinstance(entry, dict):
        return None
    return entry.get(name)


def _word(value: object) -> str:
    """Return a text, or the texts in a list or an object; "" for anything else."""
    return " ".join(texts_in(value, keys=False))


def _names(value: object) -> list[str]:
    """Return the names in a list or a text: `F1`, `[F1]`, `F1 and F2`, or a number alone."""
    names: list[str] = []
    for text in texts_in(value, keys=False, numbers=True):
        found = re.findall(r"[^\W\d_]+\d+", text)
        names += found or re.findall(r"\d+", text)
    return [name.upper() for name in names]


_ACTIONS = {
    "CREATE": "ADD",
    "NEW": "ADD",
    "UPDATE": "REVISE",
    "EDIT": "REVISE",
    "CONFIRM": "SUPPORT",
    "NONE": "NOOP",
    "SKIP": "NOOP",
}
"""What models call an action."""


def _action(change: Mapping[str, Any]) -> str:
    """Return the action of a change; if it names none, the one that its other parts mean."""
    action = "".join(filter(str.isalpha, _word(change.get("action")))).upper()
    if action:
        return _ACTIONS.get(action, action)
    guideline = _word(change.get("guideline")).strip()
    text = _word(change.get("text"))
    if guideline:
        return "REVISE" if text else "SUPPORT"
    return "ADD" if text else "NOOP"
