"""Chat with a provider's model, or any OpenAI-compatible server, through pydantic-ai's direct requests.

An answer is a JSON object of a given schema, to which most endpoints hold it. One that refuses or ignores that before
it has answered anything is asked in a plain form, which then stays: judged text moves no other item's form.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, cast

from memalign.aio import shared
from memalign.errors import InvalidOutput, ModelRefused, ModelRejected
from memalign.models.answers import read_answer
from memalign.models.base import ChatReply, ChatRequest
from memalign.models.provider_errors import PromptTooLong
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

    _plain: bool | None = None  # whether all goes in one message, which every server takes; not known yet

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
            plain, problem, remedy = self._plain or False, "", ""
            for attempt in (1, 2):
                response, plain = await self._ask(model, request, problem, plain=plain)
                spent.append(self._usage(response.usage, response.model_name))
                if response.finish_reason == "content_filter":
                    raise ModelRefused(f"{self.name} declined to answer")
                text = response.text or ""
                data, problem = read_answer(text, request.schema, optional=request.optional)
                if data is not None and not problem:
                    self._plain = plain if self._plain is None else self._plain
                    return ChatReply(data=data, text=text, usage=sum(spent, Usage()))
                if cut := response.finish_reason == "length":
                    problem = f"it was cut after {request.max_tokens * attempt} tokens"
                if cut or not text.strip():
                    remedy = ". Models that think first need room: memalign edit NAME --param max_tokens=N"
                elif data is None and self._plain is None:  # it may be one that ignores a format without a word
                    plain = True
            raise InvalidOutput(f"{self.name} gave no answer that fits the schema: {problem}{remedy}")

    async def _ask(
        self, model: Model, request: ChatRequest, problem: str, *, plain: bool
    ) -> tuple[ModelResponse, bool]:
        """The response, and whether it was asked for in the plain form, as where an endpoint refused the other."""
        from pydantic_ai.direct import model_request
        from pydantic_ai.messages import ModelRequest, UserPromptPart
        from pydantic_ai.models import ModelRequestParameters
        from pydantic_ai.output import OutputObjectDefinition

        system, user = request.system, request.user
        if problem:
            user = f"{user}\n\nYour last answer could not be used: {problem}. Answer again, briefly, to the schema."
        parameters = ModelRequestParameters(output_mode="text")
        if not plain and model.profile.get("supports_json_schema_output", False):
            shape = OutputObjectDefinition(json_schema=request.schema, name=request.schema_name, strict=True)
            parameters = ModelRequestParameters(output_mode="native", output_object=shape)
        else:
            system = f"{system}\n\n{_PROMPTED}\n{json.dumps(request.schema, ensure_ascii=False)}"
        if plain:
            message = ModelRequest(parts=[UserPromptPart(content=f"{system}\n\n{user}")])
        else:
            message = ModelRequest(parts=[UserPromptPart(content=user)], instructions=system)
        settings = self._settings(model, request, plain=plain, longer=bool(problem))

        def send() -> Awaitable[ModelResponse]:
            return model_request(model, [message], model_settings=settings, model_request_parameters=parameters)

        try:
            return await self._call(send, seconds=request.timeout or self.timeout), plain
        except ModelRejected as error:
            if self._plain is not None or plain or error.denied or isinstance(error, PromptTooLong):
                raise
            logger.info("%s; asked again in a plainer form", error)
            return await self._ask(model, request, problem, plain=True)

    def _settings(self, model: Model, request: ChatRequest, *, plain: bool, longer: bool) -> ModelSettings:
        # Whether it thinks before it answers unless told not to; it then takes no temperature.
        thinking = ("thinking_enabled_by_default", "openai_reasoning_enabled_by_default", "thinking_always_enabled")
        reasons = any(model.profile.get(name) for name in thinking)
        tokens = request.max_tokens * (2 if longer else 1) + (_REASONING_TOKENS if reasons else 0)
        settings: dict[str, Any] = {"max_tokens": tokens}
        if self.target.provider == "openai" and self.target.base_url and not reasons:
            # Compatible servers know the older name; only OpenAI's reasoning models insist on the newer one.
            settings = {"extra_body": {"max_tokens": tokens}}
        if not plain and not reasons and request.temperature is not None:
            settings["temperature"] = request.temperature
        if not plain and request.seed is not None:
            settings["seed"] = request.seed
        if self.target.provider == "anthropic":
            settings["anthropic_cache_instructions"] = True  # the others cache long prefixes without being asked
        elif self.target.provider == "cohere":
            settings["max_retries"] = 0  # the others' clients are told once, when they are opened
        body = {**settings.get("extra_body", {}), **self.extra.get("extra_body", {})}
        settings |= {**self.extra} | ({"extra_body": body} if body else {})
        return cast("ModelSettings", settings)  # a TypedDict, with keys of several providers
