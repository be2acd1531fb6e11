"""Decision models through pydantic-ai: whatever it opens as one, such as System One servers and OpenAI's Decisions.

Typed questions about a text go in one request, and a probability for every answer comes back. The same form is asked
of all.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from memalign.aio import shared
from memalign.errors import ModelRefused, ModelRejected
from memalign.models.base import Decision, Question
from memalign.models.provider_model import ProviderModel
from memalign.models.retry import CallClock
from memalign.types import Usage

if TYPE_CHECKING:
    from pydantic_ai.models.decision import (
        DecisionAnswer,
        DecisionModel,
        DecisionModelSettings,
        DecisionQuestion,
    )

    ProviderDecider = DecisionModel[Any]

__all__ = ["ProviderDecisionModel"]

_MOST_LEVELS = 10
"""Levels of one score that Jev and OpenAI's Decisions take; a score of more is asked as a choice between them."""


class ProviderDecisionModel(ProviderModel["ProviderDecider"]):
    """A DecisionModel of a provider, or of a server that speaks System One."""

    attempt = 60.0

    @shared
    async def decide(
        self,
        state: str,
        questions: Sequence[Question],
        *,
        timeout: float | None = None,  # noqa: ASYNC109  # the protocol's
    ) -> Decision:
        """The answers to all `questions` about `state`, in as few requests as the provider takes.

        Where a request is refused, its questions are asked again by halves, until those that it was refused for are
        alone: the others have their answers all the same.

        Raises ConfigurationError when the provider cannot be opened, and as AccessDenied when it refuses key, name or
        account; ModelError when no question has an answer.
        """
        model = await self._client()
        answers: dict[str, dict[str, float]] = {}
        refused: dict[str, str] = {}
        answered_by = ""
        most = model.max_questions or len(questions) or 1
        groups = deque(questions[start : start + most] for start in range(0, len(questions), most))
        clock = self._clock(timeout)
        with self._spending() as spent:
            while groups:
                group = groups.popleft()
                try:
                    found, answered_by = await self._ask(model, state, group, spent, clock)
                    answers |= found
                except (ModelRejected, ModelRefused) as error:
                    if (half := len(group) // 2) and not error.denied:
                        groups.extendleft((group[half:], group[:half]))
                        continue
                    refused[group[0].key] = str(error)
                    if error.denied or (not answers and (len(refused) > 1 or not groups)):
                        raise  # not for one question's sake
        in_order = {q.key: answers[q.key] for q in questions if q.key in answers}
        return Decision(
            probabilities=in_order,
            refused=refused,
            usage=sum(spent, Usage()),
            answered_by=answered_by,
        )

    async def _ask(
        self,
        model: ProviderDecider,
        state: str,
        group: Sequence[Question],
        spent: list[Usage],
        clock: CallClock,
    ) -> tuple[dict[str, dict[str, float]], str]:
        from pydantic_ai.models.decision import DecisionRequest

        request = DecisionRequest(
            state=state, questions={question.key: _typed(question) for question in group}
        )
        # TypeSafe's client is told in every request that it is not to try again; the others are told once.
        once = {"max_retries": 0} if self.target.provider == "typesafe" else {}
        settings = cast("DecisionModelSettings", {**once, **self.extra})

        async def send() -> tuple[dict[str, dict[str, float]], str]:
            response = await model.decide(request, settings)
            answers = {q.key: _probabilities(q, response.answers.get(q.key)) for q in group}
            spent.append(self._usage(response.usage, response.model_name))
            return answers, response.model_name or ""

        return await self._call(send, clock=clock, spent=spent)


def _as_score(question: Question) -> bool:
    return question.kind == "score" and len(question.labels) <= _MOST_LEVELS


def _typed(question: Question) -> DecisionQuestion:
    from pydantic_ai.models.decision import ChoiceQuestion, NoulQuestion, ScoreQuestion

    if _as_score(question):
        return ScoreQuestion(instructions=question.text, criteria=list(question.labels))
    if question.kind == "yes_no":
        return NoulQuestion(instructions=question.text)
    return ChoiceQuestion(
        instructions=question.text, criteria={label: label for label in question.labels}
    )


def _probabilities(question: Question, answer: DecisionAnswer | None) -> dict[str, float]:
    """A probability for each label, adding up to 1: what comes back is rounded.

    Raises UnexpectedModelBehavior for an answer that is none to the question; not every client looks.
    """
    from pydantic_ai.exceptions import UnexpectedModelBehavior

    if question.kind == "yes_no":
        yes = float(getattr(answer, "noul", math.nan))
        if not 0 <= yes <= 1:
            raise UnexpectedModelBehavior(f"no answer to the question {question.key}")
        return {"yes": yes, "no": 1 - yes}
    spread: dict[Any, float] = getattr(answer, "probabilities", {})
    keys = range(len(question.labels)) if _as_score(question) else question.labels
    shares = {
        label: spread.get(key, -1.0) for label, key in zip(question.labels, keys, strict=True)
    }
    total = sum(shares.values())
    if not all(0 <= share <= 1 for share in shares.values()) or abs(total - 1) > 0.01 * len(shares):
        raise UnexpectedModelBehavior(f"no answer to the question {question.key}")
    return {label: share / total for label, share in shares.items()}
