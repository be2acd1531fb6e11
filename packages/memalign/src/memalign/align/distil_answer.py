"""What a distillation call answers: the JSON schema that it is held to, and how it is read, whatever its form."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, get_args

from msgspec.structs import replace

from memalign.align.deltas import CallAnswer, Delta
from memalign.align.learned_tests import proposed_tests
from memalign.content import judged_texts
from memalign.content.json_values import opened
from memalign.judge import Judge
from memalign.judge.borne_out import LabelledCase, labelled_cases
from memalign.memory import FeedbackConflict
from memalign.memory.guard import JudgedTexts, guideline_fault, tidy
from memalign.types import FeedbackKey, Guideline, TestKind

__all__ = ["AnswerReader", "changes_schema", "merge_schema", "merged_rules"]

# -- the schemas -------------------------------------------------------------------------------------------------------


def _object(properties: dict[str, Any], required: Collection[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _array(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": _object(properties, properties)}


def _one_of(*words: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(words)}


def changes_schema(
    labels: Sequence[str], guideline_ids: Sequence[str], fields: Sequence[str]
) -> dict[str, Any]:
    """Return the JSON schema of an answer; tests are asked for where they have `fields` to read.

    Only the call's own feedback and guidelines can be named.
    """
    feedback, text = {"type": "array", "items": _one_of(*labels)}, {"type": "string"}
    bound, kinds = {"type": ["number", "null"]}, get_args(TestKind)
    test = {
        "kind": _one_of(*kinds),
        "field": _one_of(*fields),
        "text": text,
        "low": bound,
        "high": bound,
    }
    test["holds"] = {"type": "boolean"}
    change = {
        "action": _one_of("ADD", "SUPPORT", "REVISE", "NOOP")
        if guideline_ids
        else _one_of("ADD", "NOOP"),
        "feedback": feedback,
        "text": text,
        "guideline": _one_of("", *guideline_ids),
        **({"tests": _array(test)} if fields else {}),
    }
    conflicts = _array({"feedback": feedback, "about": text})
    # An answer without tests or conflicts is an answer; where a provider holds to a schema, all are required.
    needed = [name for name in change if name != "tests"]
    changes = {"type": "array", "items": _object(change, needed)}
    return _object({"changes": changes, "conflicts": conflicts}, ["changes"])


def merge_schema(ids: Sequence[str]) -> dict[str, Any]:
    """The JSON schema of an answer that merges the guidelines of these ids."""
    sources = {"type": "array", "items": _one_of(*ids)}
    return _object(
        {"guidelines": _array({"text": {"type": "string"}, "from": sources})}, ["guidelines"]
    )


# -- reading -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class AnswerReader:
    """Reads what a model wrote about the records of one call. Never raises for what it wrote."""

    judge: Judge
    call: CallAnswer

    @cached_property
    def labels(self) -> dict[str, FeedbackKey]:
        """The key of each record, by its name in the prompt."""
        return {f"F{n}": key for n, key in enumerate(self.call.keys, start=1)}

    def read(self, data: Mapping[str, Any]) -> CallAnswer:
        """What the call gave: changes and conflicts, labels turned into keys and tests read."""
        entries = map(opened, _entries(data.get("changes")))
        changes = [_whole(change) for change in entries if isinstance(change, dict)]
        tried = sum(len(_entries(change.get("tests"))) for change in changes)
        deltas = tuple(self._delta(change, tried) for change in changes)
        conflicts = filter(None, map(self._conflict, _entries(data.get("conflicts"))))
        return replace(self.call, deltas=deltas, conflicts=tuple(conflicts))

    def _delta(self, change: Mapping[str, Any], tried: int) -> Delta:
        text, keys = tidy(change["text"]), self._keys(change.get("feedback"))
        delta = Delta(action=change["action"], feedback=keys, guideline=change["guideline"])
        if delta.action == "REVISE" and not self.call.guideline_ids:  # there was nothing to revise
            delta = replace(delta, action="ADD")
        if delta.action not in ("ADD", "REVISE"):
            return delta
        tests = proposed_tests(
            self.judge, change.get("tests"), keys, self.cases, tried=tried, judged=self._judged
        )
        return replace(delta, text=text, fault=self._fault(text, keys), tests=tests)

    def _conflict(self, entry: object) -> FeedbackConflict | None:
        """Feedback that contradicts other feedback. What it is about may say nothing that a guideline may not."""
        keys = tuple(
            sorted({key for key in self._keys(_field(entry, "feedback")) if key in self.call.keys})
        )
        about = tidy(_word(_field(entry, "about")))
        about = about if self._fault(about, keys) is None else ""
        return (
            FeedbackConflict(feedback=keys, about=about, exposed_to=self.call.exposed_to)
            if len(keys) > 1
            else None
        )

    def _fault(self, text: str, keys: Sequence[FeedbackKey]) -> str | None:
        """Why a text about the feedback of `keys` may not enter a prompt, or None."""
        return guideline_fault(text, self._judged, self._comments(keys))

    def _comments(self, keys: Collection[FeedbackKey]) -> list[str]:
        annotations = (self.judge.memory.annotation(key) for key in keys)
        return [
            annotation.rationale
            for annotation in annotations
            if annotation and annotation.rationale
        ]

    def _keys(self, labels: object) -> tuple[FeedbackKey, ...]:
        """Return the keys of labels. Invented ones are left out; a change that names only such is about nothing."""
        named = [str(label).strip().upper() for label in _names(labels)]
        spelled = [f"F{name}" if name.isdecimal() else name for name in named]
        return tuple(self.labels[name] for name in dict.fromkeys(spelled) if name in self.labels)

    @cached_property
    def cases(self) -> list[LabelledCase]:
        """The labelled cases that the prompt held something of: they admit tests."""
        return labelled_cases(
            self.judge.memory, self.judge.value_type, {key.id for key in self.call.exposed_to}
        )

    @cached_property
    def _judged(self) -> JudgedTexts:
        cases = (self.judge.memory.record(key)[1] for key in self.call.keys)
        return JudgedTexts(text for case in cases for text in judged_texts(case.example.content))


def _entries(value: object) -> list[Any]:
    return value if isinstance(value, list) else [value] if isinstance(value, dict) else []


def _names(value: object) -> list[Any]:
    """Return the names in a list, or in a text that lists them."""
    if isinstance(value, str):
        return re.split(r"[\s,;]+", value.strip(" []"))
    return value if isinstance(value, list) else [value] if isinstance(value, int) else []


def _word(value: object) -> str:
    """Return the text of a field; "" for what is none."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value if isinstance(value, str) else ""


def _whole(change: dict[str, Any]) -> dict[str, Any]:
    """Return a change with texts where texts belong, and with the action that its parts are if it names none."""
    text, guideline = _word(change.get("text")), _word(change.get("guideline")).strip().upper()
    action = _word(change.get("action")).strip().upper()
    if not action and text:
        action = "REVISE" if guideline else "ADD"
    elif not action:
        action = "SUPPORT" if guideline else "NOOP"
    return change | {"action": action, "text": text, "guideline": guideline}


def _field(entry: object, name: str) -> Any:
    return entry.get(name) if isinstance(entry, dict) else None


def merged_rules(
    data: Mapping[str, Any], guidelines: Sequence[Guideline]
) -> Iterator[tuple[str, list[Guideline]]]:
    """The texts of a merge, each with the guidelines, two or more, that no text before it took."""
    free = {guideline.id: guideline for guideline in guidelines}
    for entry in _entries(data.get("guidelines")):
        text = tidy(_word(_field(entry, "text")))
        named = dict.fromkeys(str(name).strip().upper() for name in _names(_field(entry, "from")))
        sources = [free[name] for name in named if name in free]
        if len(sources) > 1 and guideline_fault(text) is None:  # one rule alone stays as it is
            free = {name: guideline for name, guideline in free.items() if guideline not in sources}
            yield text, sources
