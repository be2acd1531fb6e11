"""Decision models through pydantic-ai: whatever it opens as one, such as System One servers.

Typed questions about a text go in one request, and a probability for every answer comes back. All
models are asked in the same form.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from memalign.aio import shared
from memalign.errors import ModelRefused, ModelRejected
from memalign.models.base import Decision, Question
from memalign.models.provider_model import ProviderModel
from memalign.models.retry import Call
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
"""Levels of a score that Jev and OpenAI's Decisions take; a score of more is asked as a choice."""

Probabilities = dict[str, dict[str, float]]


@dataclass(frozen=True)
class _Deciding:
    """One call under way.

    Attributes:
        model: pydantic-ai's model.
        state: The text that is asked about.
        call: The time of the call, and what it costs.
        answers: Receives the answers.
        names: Receives the names that answered.
    """

    model: ProviderDecider
    state: str
    call: Call
    answers: Probabilities = field(default_factory=dict)
    names: list[str] = field(default_factory=list)


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
        """Answer all questions about a text, in as few requests as the provider takes.

        If a request is refused, its questions are asked again by halves, until those that it was
        refused for are alone: the others have their answers all the same.

        Args:
            state: The text.
            questions: What is asked about it.
            timeout: Seconds for the whole call.

        Raises:
            ConfigurationError: The provider cannot be opened; as AccessDenied: it refuses key, name
                or account.
            ModelError: No question has an answer.
        """
        model = await self._client()
        refused: dict[str, str] = {}
        groups = deque(_grouped(questions, model.max_questions))
        with self._spending(timeout) as call:
            deciding = _Deciding(model, state, call)
            while groups:
                group = groups.popleft()
                try:
                    await self._ask(deciding, group)
                except (ModelRejected, ModelRefused) as error:
                    half = len(group) // 2
                    if half and not error.denied:
                        groups.extendleft((group[half:], group[:half]))
                        continue
                    refused[group[0].key] = str(error)
                    alone = len(refused) == 1 and groups
                    if error.denied or not (deciding.answers or alone):
                        raise  # not for one question's sake
        return Decision(
            probabilities=_in_order(deciding.answers, questions),
            refused=refused,
            usage=sum(call.spent, Usage()),
            answered_by="".join(deciding.names[-1:]),
        )

    async def _ask(self, deciding: _Deciding, group: Sequence[Question]) -> None:
        from pydantic_ai.models.decision import DecisionRequest

        typed = {question.key: _typed(question) for question in group}
        request = DecisionRequest(state=deciding.state, questions=typed)
        settings = dict(self.extra)
        if self.target.provider == "typesafe":
            # Its client is told in every request not to try again; the others are told once.
            settings.setdefault("max_retries", 0)

        async def send() -> Probabilities:
            response = await deciding.model.decide(
                request, cast("DecisionModelSettings", settings)
            )
            found = {
                q.key: _probabilities(q, response.answers.get(q.key)) for q in group
            }
            deciding.call.spent.append(self._usage(response.usage, response.model_name))
            deciding.names.append(response.model_name or "")
            return found

        deciding.answers.update(await self._answered(send, deciding.call))


def _grouped(
    questions: Sequence[Question], most: int | None
) -> list[Sequence[Question]]:
    size = most or len(questions) or 1
    return [questions[start : start + size] for start in range(0, len(questions), size)]


def _in_order(answers: Probabilities, questions: Sequence[Question]) -> Probabilities:
    return {q.key: answers[q.key] for q in questions if q.key in answers}


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


def _probabilities(
    question: Question, answer: DecisionAnswer | None
) -> dict[str, float]:
    """Return a probability for each label, adding up to 1: what comes back is rounded.

    Raises:
        UnexpectedModelBehavior: It is no answer to the question; not every client looks.
    """
    from pydantic_ai.exceptions import UnexpectedModelBehavior

    labels = question.labels
    if question.kind == "yes_no":
        yes = float(getattr(answer, "noul", math.nan))
        shares = [yes, 1 - yes]
    else:
        spread: dict[Any, float] = getattr(answer, "probabilities", {})
        keys = range(len(labels)) if _as_score(question) else labels
        shares = [spread.get(key, -1.0) for key in keys]
    total = sum(shares)
    whole = abs(total - 1) <= 0.01 * len(shares)
    if not whole or not all(0 <= share <= 1 for share in shares):
        raise UnexpectedModelBehavior(f"no answer to the question {question.key}")
    return {label: share / total for label, share in zip(labels, shares, strict=True)}
