"""Chat with a provider's model, or any OpenAI-compatible server, through pydantic-ai's direct requests.

An answer is a JSON object of a given schema, to which most endpoints hold it. One that refuses or ignores that before
it has answered anything is asked in a plain form, which then stays: judged text moves no other item's form. So do
parameters that it refuses by name, which are renamed, left out or lowered.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from memalign.aio import shared
from memalign.errors import InvalidOutput, ModelRefused, ModelRejected
from memalign.models.answers import answer_object
from memalign.models.base import ChatReply, ChatRequest
from memalign.models.parameters import Changes, adapted, change_for
from memalign.models.provider_errors import PromptTooLong, field_of, message_of
from memalign.models.provider_model import ProviderModel
from memalign.types import Usage

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import Model
    from pydantic_ai.settings import ModelSettings

__all__ = ["ProviderChatModel"]

logger = logging.getLogger(__name__)

_PROMPTED = "Answer with one JSON object and nothing else: no words before or after it, no fence. Its JSON schema:"

# What a model that reasons by default may think before it answers; it counts as output, and is paid only if used.
_REASONING_TOKENS = 8_192


class ProviderChatModel(ProviderModel["Model"]):
    """A ChatModel of a provider that pydantic-ai knows, or of any OpenAI-compatible server."""

    _plain: bool | None = (
        None  # whether all goes in one message, which every server takes; not known yet
    )
    _changes: Changes = {}  # noqa: RUF012  # what its server refused by name; replaced, never changed

    @shared
    async def complete(self, request: ChatRequest) -> ChatReply:
        """The answer to `request`, its usage summed over every call that was answered.

        An answer that is cut or does not fit the schema costs one more call, told what was wrong. Raises
        ConfigurationError when the provider cannot be opened, AccessDenied when it refuses the key, the name or the
        account and has answered nothing yet. Otherwise a ModelError whose `usage` holds what was spent:
        ModelUnavailable or RateLimited after the last attempt, ModelRejected, ModelRefused, InvalidOutput.
        """
        model = await self._client()
        with self._spending() as spent:
            asked = _Asked(plain=self._plain or False, changes=self._changes)
            problem = remedy = ""
            for attempt in (1, 2):
                response, asked = await self._ask(model, request, problem, asked, spent)
                spent.append(self._usage(response.usage, response.model_name))
                if response.finish_reason == "content_filter":
                    raise ModelRefused(f"{self.name} declined to answer")
                text = response.text or ""
                data, problem = answer_object(text, request.schema, optional=request.optional)
                if data is not None and not problem:
                    self._settle(asked)
                    usage, name = sum(spent, Usage()), response.model_name or ""
                    return ChatReply(data=data, text=text, usage=usage, answered_by=name)
                if cut := response.finish_reason == "length":
                    problem = f"it was cut after {request.max_tokens * attempt} tokens"
                if cut or not text.strip():
                    remedy = ". Models that think first need room: memalign edit NAME --param max_tokens=N"
                elif (
                    data is None and self._plain is None
                ):  # it may be one that ignores a format without a word
                    asked = replace(asked, plain=True)
            raise InvalidOutput(
                f"{self.name} gave no answer that fits the schema: {problem}{remedy}"
            )

    def _settle(self, asked: _Asked) -> None:
        """Keep how the first answer was asked for: judged text moves it no more."""
        if self._plain is None:
            self._plain = asked.plain
            self._changes = asked.changes

    async def _ask(
        self, model: Model, request: ChatRequest, problem: str, asked: _Asked, spent: list[Usage]
    ) -> tuple[ModelResponse, _Asked]:
        """Return the response, and how it was asked for: as the endpoint takes it."""
        informed = False
        while True:
            try:
                return await self._send(model, request, problem, asked, spent), asked
            except ModelRejected as error:
                known = _Asked(plain=self._plain or False, changes=self._changes)
                if self._plain is not None and asked != known and not informed:
                    informed = True  # by another request, which found out meanwhile
                    asked = known
                    continue
                settings = self._settings(model, request, asked, longer=bool(problem))
                asked = self._otherwise(error, settings, asked)

    def _otherwise(self, error: ModelRejected, settings: dict[str, Any], asked: _Asked) -> _Asked:
        """Return how else to put a request that was refused. Raises the refusal where nothing else may do."""
        if error.denied or isinstance(error, PromptTooLong):
            raise error
        refusal = error.__cause__ or error
        change = change_for(
            message_of(refusal), field_of(refusal, "param"), settings, asked.changes
        )
        if change is not None:
            logger.info("%s; asked again with other parameters: %s", error, change)
            return replace(asked, changes=asked.changes | change)
        if self._plain is not None or asked.plain:
            raise error
        logger.info("%s; asked again in a plainer form", error)
        return replace(asked, plain=True)

    async def _send(
        self, model: Model, request: ChatRequest, problem: str, asked: _Asked, spent: list[Usage]
    ) -> ModelResponse:
        from pydantic_ai.direct import model_request
        from pydantic_ai.messages import ModelRequest, UserPromptPart
        from pydantic_ai.models import ModelRequestParameters
        from pydantic_ai.output import OutputObjectDefinition

        system, user = request.system, request.user
        if problem:
            user = f"{user}\n\nYour last answer could not be used: {problem}. Answer again, briefly, to the schema."
        parameters = ModelRequestParameters(output_mode="text")
        if not asked.plain and model.profile.get("supports_json_schema_output", False):
            shape = OutputObjectDefinition(
                json_schema=request.schema, name=request.schema_name, strict=True
            )
            parameters = ModelRequestParameters(output_mode="native", output_object=shape)
        else:
            system = f"{system}\n\n{_PROMPTED}\n{json.dumps(request.schema, ensure_ascii=False)}"
        if asked.plain:
            message = ModelRequest(parts=[UserPromptPart(content=f"{system}\n\n{user}")])
        else:
            message = ModelRequest(parts=[UserPromptPart(content=user)], instructions=system)
        settings = cast(
            "ModelSettings", self._settings(model, request, asked, longer=bool(problem))
        )

        def send() -> Awaitable[ModelResponse]:
            return model_request(
                model, [message], model_settings=settings, model_request_parameters=parameters
            )

        return await self._call(send, seconds=request.timeout or self.timeout, spent=spent)

    def _settings(
        self, model: Model, request: ChatRequest, asked: _Asked, *, longer: bool
    ) -> dict[str, Any]:
        # Whether it thinks before it answers unless told not to; it then takes no temperature.
        thinking = (
            "thinking_enabled_by_default",
            "openai_reasoning_enabled_by_default",
            "thinking_always_enabled",
        )
        reasons = any(model.profile.get(name) for name in thinking)
        roomy = reasons or "tokens" in asked.changes  # a name that only models that think insist on
        tokens = request.max_tokens * (2 if longer else 1) + (_REASONING_TOKENS if roomy else 0)
        settings: dict[str, Any] = {"max_tokens": tokens}
        if self.target.provider == "openai" and self.target.base_url and not reasons:
            # Compatible servers know the older name; only OpenAI's reasoning models insist on the newer one.
            settings = {"extra_body": {"max_tokens": tokens}}
        if not asked.plain and not reasons and request.temperature is not None:
            settings["temperature"] = request.temperature
        if not asked.plain and request.seed is not None:
            settings["seed"] = request.seed
        if self.target.provider == "anthropic":
            settings["anthropic_cache_instructions"] = (
                True  # the others cache long prefixes without being asked
            )
        elif self.target.provider == "cohere":
            settings["max_retries"] = 0  # the others' clients are told once, when they are opened
        body = {**settings.get("extra_body", {}), **self.extra.get("extra_body", {})}
        settings |= {**self.extra} | ({"extra_body": body} if body else {})
        return adapted(settings, asked.changes)  # of a TypedDict, with keys of several providers


@dataclass(frozen=True)
class _Asked:
    """How a request is put: all in one message or not, and with which changes of its parameters."""

    plain: bool
    changes: Changes
