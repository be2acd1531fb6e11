"""Chat with a provider's model, or any OpenAI-compatible server, through pydantic-ai.

An answer is a JSON object of a given schema, to which most endpoints hold it. An endpoint that
refuses or ignores the schema before it has answered anything is asked in a plain form, which then
stays: judged text changes no other item's form. So do changes of parameters that it refuses by
name, which are renamed, left out or lowered.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from memalign.aio import shared
from memalign.errors import InvalidOutput, ModelRefused, ModelRejected
from memalign.models.answers import answer_object
from memalign.models.base import ChatReply, ChatRequest
from memalign.models.parameters import Changes, Settings, adapted, change_for
from memalign.models.provider_errors import PromptTooLong, field_of, message_of
from memalign.models.provider_model import ProviderModel
from memalign.models.retry import Call
from memalign.types import Usage

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import Model
    from pydantic_ai.settings import ModelSettings

__all__ = ["ProviderChatModel"]

logger = logging.getLogger(__name__)

_PROMPTED = (
    "Answer with one JSON object and nothing else: no words before or after it, no fence. "
    "Its JSON schema:"
)

_AGAIN = "Your last answer could not be used: {}. Answer again, briefly, to the schema."

_MORE_ROOM = (
    ". Models that think first need room: memalign edit NAME --param max_tokens=N"
)

_REASONING_TOKENS = 8_192
"""What a model that reasons by default may think before it answers. It counts as output, and is
paid only if used."""

_OWN_SETTINGS: dict[str, Settings] = {
    "anthropic": {"anthropic_cache_instructions": True},
    "cohere": {"max_retries": 0},
}
"""Other providers cache long prefixes without being asked, and their clients are told once, when
they are opened, not to try again."""

_REASONS = (
    "thinking_enabled_by_default",
    "openai_reasoning_enabled_by_default",
    "thinking_always_enabled",
)
"""The traits in pydantic-ai's profiles of models that think before they answer unless told not to.
They take no temperature."""


@dataclass(frozen=True)
class _Form:
    """How requests are put: all in one message or not, and with which changes of parameters."""

    plain: bool = False
    changes: Changes = field(default_factory=dict)


@dataclass(frozen=True)
class _Asking:
    """One call under way.

    Attributes:
        model: pydantic-ai's model.
        request: What is asked.
        call: The time of the call, and what it costs.
    """

    model: Model
    request: ChatRequest
    call: Call


class ProviderChatModel(ProviderModel["Model"]):
    """A ChatModel of a provider that pydantic-ai knows, or of any OpenAI-compatible server."""

    _form: _Form | None = (
        None  # the one that was answered first; plain is what every server takes
    )

    @shared
    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer the request; an answer that cannot be used costs one more, told what was wrong.

        Args:
            request: What is asked.

        Returns:
            The answer, its usage summed over every request that was answered.

        Raises:
            ConfigurationError: The provider cannot be opened. As AccessDenied: it refuses the key,
                the name or the account, and has answered nothing yet.
            ModelError: Whose `usage` holds what was spent: ModelUnavailable or RateLimited after
                the last attempt, ModelRejected, ModelRefused, InvalidOutput.
        """
        model = await self._client()
        with self._spending(request.timeout) as call:
            asking = _Asking(model, request, call)
            form = self._form or _Form()
            problem = ""
            remedy = ""
            for attempt in (1, 2):
                response, form = await self._ask(asking, form, problem)
                text = response.text or ""
                data, problem = answer_object(
                    text, request.schema, optional=request.optional
                )
                if data is not None and not problem:
                    self._form = self._form or form
                    name = response.model_name or ""
                    usage = sum(call.spent, Usage())
                    return ChatReply(
                        data=data, text=text, usage=usage, answered_by=name
                    )
                if response.finish_reason == "length":
                    problem = f"it was cut after {request.max_tokens * attempt} tokens"
                    remedy = _MORE_ROOM
                elif not text.strip():
                    remedy = _MORE_ROOM
                elif data is None and self._form is None:
                    # It may be an endpoint that ignores the schema without a word.
                    form = replace(form, plain=True)
            fault = f"gave no answer that fits the schema: {problem}{remedy}"
            raise InvalidOutput(f"{self.name} {fault}")

    async def _ask(
        self, asking: _Asking, form: _Form, problem: str
    ) -> tuple[ModelResponse, _Form]:
        """Return the response, and the form in which the endpoint took the request."""
        informed = False
        while True:
            settings = self._settings(asking, form, longer=bool(problem))
            try:
                return await self._send(asking, form, problem, settings), form
            except ModelRejected as error:
                known = self._form
                if known is not None and form != known and not informed:
                    informed = True  # by another request, which found out meanwhile
                    form = known
                else:
                    form = self._otherwise(error, settings, form)

    def _otherwise(
        self, error: ModelRejected, settings: Settings, form: _Form
    ) -> _Form:
        """Return another form for a request that was refused, or raise the refusal."""
        if error.denied or isinstance(error, PromptTooLong):
            raise error
        refusal = error.__cause__ or error
        named = field_of(refusal, "param")
        change = change_for(message_of(refusal), named, settings, form.changes)
        if change is not None:
            logger.info("%s; asked again with other parameters: %s", error, change)
            return replace(form, changes=form.changes | change)
        if self._form is not None or form.plain:
            raise error
        logger.info("%s; asked again in a plainer form", error)
        return replace(form, plain=True)

    async def _send(
        self, asking: _Asking, form: _Form, problem: str, settings: Settings
    ) -> ModelResponse:
        from pydantic_ai.direct import model_request
        from pydantic_ai.messages import ModelRequest, UserPromptPart
        from pydantic_ai.models import ModelRequestParameters
        from pydantic_ai.output import OutputObjectDefinition

        request = asking.request
        system = request.system
        user = request.user
        if problem:
            user = f"{user}\n\n{_AGAIN.format(problem)}"
        parameters = ModelRequestParameters(output_mode="text")
        if not form.plain and asking.model.profile.get(
            "supports_json_schema_output", False
        ):
            shape = OutputObjectDefinition(
                json_schema=request.schema, name=request.schema_name, strict=True
            )
            parameters = ModelRequestParameters(
                output_mode="native", output_object=shape
            )
        else:
            system = f"{system}\n\n{_PROMPTED}\n{json.dumps(request.schema, ensure_ascii=False)}"
        if form.plain:
            message = ModelRequest(
                parts=[UserPromptPart(content=f"{system}\n\n{user}")]
            )
        else:
            message = ModelRequest(
                parts=[UserPromptPart(content=user)], instructions=system
            )

        def send() -> Awaitable[ModelResponse]:
            return model_request(
                asking.model,
                [message],
                model_settings=cast("ModelSettings", settings),
                model_request_parameters=parameters,
            )

        response = await self._answered(send, asking.call)
        asking.call.spent.append(self._usage(response.usage, response.model_name))
        if response.finish_reason == "content_filter":
            raise ModelRefused(f"{self.name} declined to answer")
        return response

    def _settings(self, asking: _Asking, form: _Form, *, longer: bool) -> Settings:
        """Return the settings of a request in a form."""
        request = asking.request
        provider = self.target.provider
        reasons = any(asking.model.profile.get(name) for name in _REASONS)
        tokens = request.max_tokens * 2 if longer else request.max_tokens
        if reasons or "tokens" in form.changes:
            # A name that only models that think insist on.
            tokens += _REASONING_TOKENS
        settings: Settings = {}
        body = dict(self.extra.get("extra_body", {}))
        if provider == "openai" and self.target.base_url and not reasons:
            # Compatible servers know the older name; only OpenAI's reasoning models need the newer.
            body = {"max_tokens": tokens, **body}
        else:
            settings["max_tokens"] = tokens
        if not form.plain:
            sampling = {"temperature": None if reasons else request.temperature}
            sampling["seed"] = request.seed
            settings |= {
                name: value for name, value in sampling.items() if value is not None
            }
        own = _OWN_SETTINGS.get(provider, {})
        return adapted(
            {**settings, **own, **self.extra, "extra_body": body}, form.changes
        )
