"""Task: what a judge asks of an item, derived once from its settings.

The steps of a judgment take `(task, memory, item)`. They never ask a judge again for the parts of
an item that its instructions name, the value type, the fingerprints or the models.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from memalign.content import Part, check_parts, first_lacking, parts_in
from memalign.errors import InputError
from memalign.judge.code_tests import Reading
from memalign.judge.spec import AnyModel, ModelT, known_name, name_of, named_parts
from memalign.memory import Memory
from memalign.models.judge_models import open_judging_model
from memalign.models.resolve import default_model_name
from memalign.prompts.rendering import judging_prompts_hash
from memalign.types import Example, Feedback, canonical_json
from memalign.values import ValueType

__all__ = ["Item", "Task"]

_NOT_JUDGING = frozenset({"models", "reflection_model"})
"""Parameters that change no verdict: prices, sizes, and who writes the guidelines."""


@dataclass(frozen=True, kw_only=True)
class Item:
    """One example as a judge reads it.

    Attributes:
        example: The example.
        seen: The parts that the instructions name, in the order of the prompt.
    """

    example: Example
    seen: Mapping[str, Any]

    @cached_property
    def reading(self) -> Reading:
        """The item in the normal form that tests of code compare."""
        return Reading(self.example.content)


@dataclass(frozen=True, kw_only=True, eq=False)
class Task:
    """What a judge asks about each item; the same for every item and every memory.

    Attributes:
        name: The judge's name.
        instructions: The author's text.
        value_type: What may be answered.
        model: Who is asked: a name, an object, or None for the environment's.
        embedding_model: Finds similar cases; None for the one in this process.
        retrieval_k: How many similar cases are shown; None for as many as suit the model.
        parameters: The judge's parameters.
        parts: The parts of an item that the instructions name, such as `inputs.question`.
        fields: The fields that have these parts.
    """

    name: str
    instructions: str
    value_type: ValueType
    model: ModelT
    embedding_model: Any
    retrieval_k: int | None
    parameters: Mapping[str, Any]

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """The parts of an item that the instructions name, in the order of the prompt."""
        return named_parts(self.instructions)

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """The fields of an item that the instructions name, whole or in part."""
        return tuple(dict.fromkeys(Part.parse(name).field for name in self.parts))

    @property
    def model_name(self) -> str | None:
        """The model's name, or None while it is left to the environment."""
        return name_of(self.model)

    # -- items ---------------------------------------------------------------------------------

    def item(self, example: Example) -> Item:
        """Return an example as the judge reads it.

        Args:
            example: What is to be judged.

        Raises:
            InputError: It lacks a part that the instructions name, or holds what no prompt can.
        """
        content = example.content
        seen = self.seen(content)
        try:
            check_parts(example, seen)
        except InputError as error:
            raise InputError(f"{example.id}: {error}") from None
        if None in seen.values():
            lacking = self.lacks(content, "the item")
            if lacking is not None:
                raise InputError(f"{example.id}: {lacking}")
        return Item(example=example, seen=seen)

    def seen(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parts of an item that the instructions name, None for a missing one."""
        return parts_in(content, self.parts)

    def shown(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parts of a case that the instructions name, without those it lacks."""
        seen = self.seen(content)
        return {name: value for name, value in seen.items() if value is not None}

    def lacks(self, content: Mapping[str, Any], what: str) -> str | None:
        """Return why an item has not all that the instructions name, or None if it has.

        Args:
            content: The item's content fields.
            what: What the sentence calls it, such as "the item".
        """
        lacking = first_lacking(content, self.parts)
        if lacking is None:
            return None
        name, where = lacking
        return f"the instructions name {{{{ {name} }}}}, and {what} has {where}"

    def misfit(self, memory: Memory, row: Feedback) -> str | None:
        """Return why the judge could never be asked about a row's case, or None if it could.

        Args:
            memory: Knows the case if the row has no content of its own.
            row: A row of feedback.
        """
        content = row.content
        if not content:
            case = memory.case(row.id)
            content = case.example.content if case else {}
        reason = self.lacks(content, "the row")
        return None if reason is None else f"the judge's {reason.removeprefix('the ')}"

    # -- fingerprints --------------------------------------------------------------------------

    def fingerprint(self, memory: Memory) -> str:
        """Return 16 hex digits over all that can change a verdict, a memory included."""
        return _digest(self._settings(memory) | {"memory": memory.hash})

    @cached_property
    def base_fingerprint(self) -> str:
        """16 hex digits over what a verdict without memory is made with."""
        return self.fingerprint(Memory())

    def signature(self, memory: Memory) -> str:
        """Return who gives a judgment: `NAME@SETTINGS-MEMORY-PROMPTS`, each part a hash.

        A model that is left to the environment may be another one when a file of judgments is
        resumed, and so may the wording of memalign's prompts. No key is needed.

        Raises:
            ConfigurationError: Neither the judge nor the environment names a model.
        """
        settings = self._settings(memory)
        if settings["model"] is None:
            settings["model"] = default_model_name() or open_judging_model(self).name
        prompts = judging_prompts_hash()[:6]
        return f"{self.name}@{_digest(settings)}-{memory.hash}-{prompts}"

    def _settings(self, memory: Memory) -> dict[str, Any]:
        """Return what can change a verdict beside the memory, which retrieval needs to matter."""
        parameters = {
            name: value
            for name, value in self.parameters.items()
            if name not in _NOT_JUDGING
        }
        settings = {
            "instructions": self.instructions,
            "value_type": self.value_type.spec,
            "model": _canonical(self.model),
            "retrieval_k": self.retrieval_k if memory else None,
            "parameters": parameters,
        }
        if memory and self.embedding_model is not None:
            settings["embedding_model"] = _canonical(self.embedding_model)
        return settings


def _canonical(model: AnyModel | None) -> str | None:
    name = name_of(model)
    return None if name is None else known_name(name)


def _digest(parts: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical_json(parts).encode()).hexdigest()[:16]
