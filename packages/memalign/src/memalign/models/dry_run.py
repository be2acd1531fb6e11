"""What a run would ask and cost: the same run, with made-up answers in the place of a model's.

Answers are of the usual length, and nothing comes out of a provider's cache: the estimate is rather
too high.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from memalign.content.encoding import estimate_tokens
from memalign.models.base import (
    ChatModel,
    ChatReply,
    ChatRequest,
    DecisionModel,
    PricedModel,
    Question,
)
from memalign.types import Usage

if TYPE_CHECKING:
    from memalign.models.base import Vectors

__all__ = ["DryRun"]

GENEROUS = 3 / 4
"""estimate_tokens counts three bytes a token, to be safe; most texts are nearer four."""

RATIONALE = (
    "what the reply says about it, measured by the guidelines, and what they ask for in a case "
    "such as this one, "
) * 2

RULE = (
    "Matter {number}: next step, responsible person, exact date, plain words, apology, "
    "alternative offer, follow-up."
)


class DryRun:
    """A stand-in for every model of a run."""

    def __init__(self, *, dimensions: int = 8) -> None:
        """Begin with nothing asked.

        Args:
            dimensions: The length of a provider's vectors, if the memory has some.
        """
        self.dimensions = dimensions
        self.kept = 0
        """Answers that an earlier run paid for and that are kept."""
        self._spent: dict[str, tuple[ChatModel | DecisionModel, Usage]] = {}
        self._numbers = itertools.count(1)

    @property
    def usage(self) -> Usage:
        """The calls, tokens and cost of the run; the cost is None if a model's price is unknown."""
        total = Usage()
        for model, spent in self._spent.values():
            price = model.price_of(spent) if isinstance(model, PricedModel) else None
            total += replace(spent, cost=price)
        return total

    def reply(self, model: ChatModel, request: ChatRequest) -> ChatReply:
        """Return an answer of the form that the request's schema asks for."""
        changes = request.schema_name == "changes"
        data = self._changes(request) if changes else _filled(request.schema)
        text = json.dumps(data, ensure_ascii=False)
        # A schema goes with the request, and is billed as input.
        self._count(
            model, [request.system, request.user, json.dumps(request.schema)], text
        )
        return ChatReply(data=data, text=text, usage=Usage())

    def decision(
        self, model: DecisionModel, state: str, questions: Sequence[Question]
    ) -> dict[str, dict[str, float]]:
        """Return answers in which every label of a question is as probable as the others."""
        texts = [state]
        answers = {}
        for question in questions:
            texts += [question.text, *question.labels]
            answers[question.key] = dict.fromkeys(
                question.labels, 1 / len(question.labels)
            )
        self._count(model, texts, "")
        return answers

    def vectors(self, count: int) -> Vectors:
        """Return zeros, as of texts without a word: all texts are equally far from each other."""
        import numpy as np

        return np.zeros((count, self.dimensions), dtype=np.float32)

    def _count(
        self, model: ChatModel | DecisionModel, texts: list[str], answered: str
    ) -> None:
        _, spent = self._spent.get(model.name, (model, Usage()))
        read = round(estimate_tokens("".join(texts)) * GENEROUS)
        written = round(estimate_tokens(answered) * GENEROUS)
        call = Usage(calls=1, input_tokens=read, output_tokens=written)
        self._spent[model.name] = (model, spent + call)

    def _changes(self, request: ChatRequest) -> dict[str, Any]:
        """Return an answer that adds one guideline for each piece of feedback."""
        change = request.schema["properties"]["changes"]["items"]["properties"]
        changes = []
        for label in change["feedback"]["items"]["enum"]:
            text = RULE.format(number=next(self._numbers))
            changes.append(
                {"action": "ADD", "feedback": [label], "text": text, "guideline": ""}
            )
        return {"changes": changes}


def _filled(schema: dict[str, Any]) -> Any:
    """Return a value of a schema; of several words the last, which asks for nothing more."""
    if "enum" in schema:
        return schema["enum"][-1]
    match schema.get("type"):
        case "object":
            return {
                name: _filled(part)
                for name, part in schema.get("properties", {}).items()
            }
        case "array":
            return [_filled(schema["items"])]
        case "string":
            return RATIONALE[: schema.get("maxLength")].strip(" ,")
        case "boolean":
            return True
        case _:
            return schema.get("minimum") or 0
