"""What a run would ask and cost: the same run, with made-up answers in the place of a model's.

Answers are of the usual length, and nothing comes out of a provider's cache: the estimate is rather too high.
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
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["DryRun"]

GENEROUS = 3 / 4
"""estimate_tokens counts three bytes a token, to be safe; most texts are nearer four."""
RATIONALE = (
    "what the reply says about it, measured by the guidelines, and what they ask for in a case such as this one, "
    * 2
)
RULE = "Matter {number}: next step, responsible person, exact date, plain words, apology, alternative offer, follow-up."


class DryRun:
    """Stands in for every model of a run; `dimensions` is the length of a provider's vectors, where memory has some."""

    def __init__(self, *, dimensions: int = 8) -> None:
        self.dimensions = dimensions
        self.kept = 0
        """Answers that an earlier run paid for and that are kept."""
        self._spent: dict[str, tuple[ChatModel | DecisionModel, Usage]] = {}
        self._numbers = itertools.count(1)

    @property
    def usage(self) -> Usage:
        """What the models would have been asked, and cost: None where the price of one of them is not known."""
        total = Usage()
        for model, spent in self._spent.values():
            total += replace(
                spent, cost=model.price_of(spent) if isinstance(model, PricedModel) else None
            )
        return total

    def reply(self, model: ChatModel, request: ChatRequest) -> ChatReply:
        """An answer as the request's schema wants it."""
        data = (
            self._changes(request) if request.schema_name == "changes" else _filled(request.schema)
        )
        text = json.dumps(data, ensure_ascii=False)
        # A schema goes with the request, and is billed as input.
        self._count(model, request.system + request.user + json.dumps(request.schema), text)
        return ChatReply(data=data, text=text, usage=Usage())

    def decision(
        self, model: DecisionModel, state: str, questions: Sequence[Question]
    ) -> dict[str, dict[str, float]]:
        """Every label of every question as probable as the others: it cannot be told."""
        labels = [label for question in questions for label in question.labels]
        self._count(
            model, "\n".join([state, *(question.text for question in questions), *labels]), ""
        )
        return {
            question.key: dict.fromkeys(question.labels, 1 / len(question.labels))
            for question in questions
        }

    def vectors(self, count: int) -> NDArray[np.float32]:
        """All zeros, as of texts without a word: every text is as far from every other."""
        import numpy as np

        return np.zeros((count, self.dimensions), dtype=np.float32)

    def _count(self, model: ChatModel | DecisionModel, prompt: str, answered: str) -> None:
        _, spent = self._spent.get(model.name, (model, Usage()))
        tokens, written = (round(estimate_tokens(text) * GENEROUS) for text in (prompt, answered))
        self._spent[model.name] = (
            model,
            spent + Usage(calls=1, input_tokens=tokens, output_tokens=written),
        )

    def _changes(self, request: ChatRequest) -> dict[str, Any]:
        labels = request.schema["properties"]["changes"]["items"]["properties"]["feedback"][
            "items"
        ]["enum"]
        changes = []
        for label, number in zip(labels, self._numbers, strict=False):
            rule = {
                "action": "ADD",
                "feedback": [label],
                "text": RULE.format(number=number),
                "guideline": "",
            }
            changes.append(rule)
        return {"changes": changes}


def _filled(schema: dict[str, Any]) -> Any:
    """A value of the schema. Of several words the last: it is the one that asks for nothing more."""
    if "enum" in schema:
        return schema["enum"][-1]
    match schema.get("type"):
        case "object":
            return {name: _filled(part) for name, part in schema.get("properties", {}).items()}
        case "array":
            return [_filled(schema["items"])]
        case "string":
            return RATIONALE[: schema.get("maxLength")].strip(" ,")
        case "boolean":
            return True
        case _:
            return schema.get("minimum") or 0
