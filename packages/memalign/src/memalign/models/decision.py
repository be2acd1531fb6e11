"""Decision models through pydantic-ai: System One servers, TypeSafe's Jev, OpenAI's Decisions.

Typed questions about a text go in one request, and a probability for every answer comes back. The same form is asked
of all: a yes/no question is a choice between yes, no and n/a, so that a question that does not apply counts as no "no".
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from memalign.errors import AccessDenied, InvalidOutput, ModelError, ModelRefused, ModelRejected
from memalign.models.answers import show_raw
from memalign.models.base import Decision, Question
from memalign.models.provider_client import open_decision
from memalign.models.provider_errors import failure_of, raw_of, status_of
from memalign.models.provider_model import ProviderModel
from memalign.models.providers import Target
from memalign.models.retry import AttemptFailed
from memalign.types import Usage

if TYPE_CHECKING:
    from pydantic_ai.models.decision import DecisionAnswer, DecisionModel, DecisionModelSettings, DecisionQuestion

    ProviderDecider = DecisionModel[Any]

__all__ = ["ProviderDecisionModel"]

_MOST_OPTIONS = 255
"""Answers of one question that Jev and OpenAI's Decisions take (https://docs.typesafe.ai/model-jaggedness/jev-1.13)."""

_MOST_LEVELS = 10
"""Levels of one score that they take; a score of more levels is asked as a choice between them."""

_MEANINGS = {"yes": "Yes.", "no": "No.", "n/a": "The question does not apply to the text."}

# Words of a refusal that is about the kind of a question: some servers take yes/no questions of their own kind alone.
_KIND = re.compile(r"\bchoice\b|question type", re.IGNORECASE)


class _Declined(Exception):
    """The model declined to answer some questions by name."""

    def __init__(self, keys: set[str]) -> None:
        super().__init__("declined")
        self.keys = keys


class ProviderDecisionModel(ProviderModel["ProviderDecider"]):
    """A DecisionModel of a provider, or of a server that speaks System One."""

    def __init__(self, target: Target, *, timeout: float = 60.0, **settings: Any) -> None:
        super().__init__(target, open_decision, timeout=timeout, **settings)
        self._bare = False  # whether it takes yes/no questions only without n/a

    async def decide(
        self,
        state: str,
        questions: Sequence[Question],
        *,
        timeout: float | None = None,  # noqa: ASYNC109  # of each attempt
    ) -> Decision:
        """The answers to all `questions` about `state`, in as few requests as the provider takes.

        Where a request is refused, its questions are asked again by halves, until those that it was refused for are
        alone: the others have their answers all the same.

        Args:
            state: The text that the questions are about.
            questions: With a key each of its own.
            timeout: Seconds for one attempt; None for the model's.

        Returns:
            The probabilities by key, and why the others have none.

        Raises:
            ConfigurationError: The provider cannot be opened; as AccessDenied, it refuses key, name or account.
            ModelError: No answer, with what was spent: ModelUnavailable or RateLimited after the last attempt;
                ModelRejected, ModelRefused or InvalidOutput where every question was refused.
        """
        model = await self._clients.get()
        answers: dict[str, dict[str, float]] = {}
        refused = {question.key: why for question in questions if (why := _too_long(question))}
        spent: list[Usage] = []
        last: ModelError | None = None
        groups = deque(_parts([question for question in questions if question.key not in refused], model.max_questions))
        try:
            while groups:
                group = groups.popleft()
                try:
                    answers |= await self._answers(model, state, group, spent, timeout or self._timeout)
                except _Declined as declined:
                    last = ModelRefused(f"{self.name} declined to answer")
                    refused |= dict.fromkeys(declined.keys, "the model declined to answer it")
                    groups.extendleft(_parts([question for question in group if question.key not in declined.keys]))
                except (ModelRejected, ModelRefused, InvalidOutput) as error:
                    last = error
                    if len(group) > 1 and not error.denied:
                        half = len(group) // 2
                        groups.extendleft((group[half:], group[:half]))
                        continue
                    refused[group[0].key] = str(error)
                    if error.denied or (len(refused) > 1 and not answers):
                        raise  # not for one question's sake
            if questions and not answers:
                raise last or ModelRejected("; ".join(f"{key}: {why}" for key, why in refused.items()))
        except ModelError as error:
            if error.denied and not self._has_answered:
                raise AccessDenied(str(error)) from error
            error.usage = sum(spent, Usage())
            raise
        in_order = {question.key: answers[question.key] for question in questions if question.key in answers}
        return Decision(probabilities=in_order, refused=refused, usage=sum(spent, Usage()))

    async def _answers(
        self, model: ProviderDecider, state: str, group: Sequence[Question], spent: list[Usage], seconds: float
    ) -> dict[str, dict[str, float]]:
        """The probabilities of one request's answers. A server that takes no choice is asked for yes or no."""
        bare = self._bare
        try:
            answers = await self._ask(model, state, group, spent, seconds, bare=bare)
        except ModelRejected as error:
            if (
                bare
                or error.denied
                or not _KIND.search(str(error))
                or all(question.kind != "yes_no" for question in group)
            ):
                raise
            bare = True
            answers = await self._ask(model, state, group, spent, seconds, bare=bare)
        self._bare = bare
        return answers

    async def _ask(
        self,
        model: ProviderDecider,
        state: str,
        group: Sequence[Question],
        spent: list[Usage],
        seconds: float,
        *,
        bare: bool,
    ) -> dict[str, dict[str, float]]:
        from pydantic_ai.exceptions import ContentFilterError, UnexpectedModelBehavior
        from pydantic_ai.models.decision import DecisionRequest

        subject = self._subject(seconds)
        request = DecisionRequest(
            state=state, questions={question.key: _typed(question, bare=bare) for question in group}
        )
        misfits = 0

        async def attempt(number: int) -> dict[str, dict[str, float]]:
            nonlocal misfits
            try:
                async with self._attempt(subject, again=number > 1), asyncio.timeout(seconds):
                    response = await model.decide(request, self._settings())
                answers = {
                    question.key: _probabilities(question, response.answers.get(question.key)) for question in group
                }
            except Exception as error:
                if isinstance(error, ContentFilterError) and (declined := self._declined(error, spent)):
                    raise declined from error
                if (failed := failure_of(error, subject)) is None:
                    raise
                show_raw(str(subject), failed.reason, raw_of(error), about=" ".join(state[:200].split()))
                if isinstance(error, UnexpectedModelBehavior) and failed.error is not ModelRefused:
                    misfits += 1  # once may be an accident, as of a proxy that cuts
                    failed = AttemptFailed(InvalidOutput, failed.reason, retry=misfits == 1)
                if status_of(error) == 404 and not self._has_answered:
                    failed.advice = await self._what_is_there(model) or failed.advice
                raise failed from error
            self._has_answered = True
            spent.append(self._usage(response.usage, response.model_name))
            return answers

        return await self._retry.run(attempt, subject=str(subject))

    def _declined(self, error: Exception, spent: list[Usage]) -> _Declined | None:
        """Which questions were declined, by the body in pydantic-ai's error; None where it does not say."""
        from pydantic_ai.usage import RequestUsage

        try:
            body = json.loads(getattr(error, "body", None) or "")
            keys = {str(answer["name"]) for answer in body["answers"] if answer["type"] == "refusal"}
        except (ValueError, KeyError, TypeError):
            return None
        url = self._target.url
        used = RequestUsage.extract(
            body, provider=self._target.provider, provider_url=url, provider_fallback="openai", api_flavor="responses"
        )
        spent.append(self._usage(used, str(body.get("model") or self._target.model)))
        self._has_answered = True
        return _Declined(keys) if keys else None

    def _settings(self) -> DecisionModelSettings:
        # TypeSafe's client is told in every request that it is not to try again; the others are told once.
        once = {"max_retries": 0} if self._target.provider == "typesafe" else {}
        return cast("DecisionModelSettings", {**once, **self._extra})


def _parts(questions: Sequence[Question], most: int | None = None) -> list[Sequence[Question]]:
    size = most or len(questions) or 1
    return [questions[start : start + size] for start in range(0, len(questions), size)]


def _too_long(question: Question) -> str | None:
    """Why a question cannot be asked; None where it can."""
    if len(question.labels) > _MOST_OPTIONS:
        return f"it has {len(question.labels)} answers to choose from, and decision models take {_MOST_OPTIONS}"
    return None


def _as_score(question: Question) -> bool:
    return question.kind == "score" and len(question.labels) <= _MOST_LEVELS


def _typed(question: Question, *, bare: bool) -> DecisionQuestion:
    """The question as pydantic-ai has it; `bare` for a yes/no question without n/a."""
    from pydantic_ai.models.decision import ChoiceQuestion, NoulQuestion, ScoreQuestion

    if question.kind == "yes_no":
        if bare:
            return NoulQuestion(instructions=question.text)
        return ChoiceQuestion(instructions=question.text, criteria=dict(_MEANINGS))
    if _as_score(question):
        return ScoreQuestion(instructions=question.text, criteria=list(question.labels))
    return ChoiceQuestion(instructions=question.text, criteria={label: label for label in question.labels})


def _probabilities(question: Question, answer: DecisionAnswer | None) -> dict[str, float]:
    """A probability for each label, adding up to 1: what comes back is rounded.

    Raises UnexpectedModelBehavior for an answer that is none to the question; not every client looks.
    """
    from pydantic_ai.exceptions import UnexpectedModelBehavior
    from pydantic_ai.models.decision import ChoiceAnswer, NoulAnswer, ScoreAnswer

    shares: dict[str, float] = {}
    if isinstance(answer, NoulAnswer) and question.kind == "yes_no":
        shares = {"yes": answer.noul, "no": 1 - answer.noul, "n/a": 0.0}
    elif isinstance(answer, ScoreAnswer) and _as_score(question):
        shares = {label: answer.probabilities.get(level, -1.0) for level, label in enumerate(question.labels)}
    elif isinstance(answer, ChoiceAnswer):
        shares = {label: answer.probabilities.get(label, -1.0) for label in question.labels}
    total = sum(shares.values())
    if not all(0 <= probability <= 1 for probability in shares.values()) or abs(total - 1) > 0.01 * max(len(shares), 2):
        raise UnexpectedModelBehavior(f"no answer to the question {question.key}")
    return {label: probability / total for label, probability in shares.items()}
