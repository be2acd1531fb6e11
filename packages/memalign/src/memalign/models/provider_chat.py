"""Chat with a provider's model, or any OpenAI-compatible server, through pydantic-ai's direct requests.

An answer is a JSON object of a given schema, asked for in the strictest output mode that the endpoint takes. The mode
belongs to the endpoint: it changes when the endpoint refuses the format, or ignores it in a question without judged
text. An answer that does not fit costs a retry of that item, and moves no other.
"""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from memalign.errors import InvalidOutput, ModelError, ModelRefused
from memalign.models.answers import find_object, read_answer, show_raw
from memalign.models.base import ChatReply, ChatRequest
from memalign.models.capabilities import Capabilities, Mode, refuses_mode
from memalign.models.probabilities import label_probabilities, read_tokens
from memalign.models.provider_client import open_chat
from memalign.models.provider_errors import PromptTooLong, complaint_of, status_of
from memalign.models.provider_model import ProviderModel
from memalign.models.providers import Target
from memalign.models.retry import AttemptFailed
from memalign.types import Usage

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.settings import ModelSettings

__all__ = ["ProviderChatModel"]

logger = logging.getLogger(__name__)

_PROMPTED = "Answer with one JSON object and nothing else: no words before or after it, no fence. Its JSON schema:"

# What a model that reasons by default may think before it answers; it counts as output, and is paid only if used.
_REASONING_TOKENS = 8_192

# Says whether an endpoint follows an output mode: nobody answers a greeting in JSON without being made to.
_GREETING = ChatRequest(
    system="Reply to the user's greeting with a short greeting.",
    user="Hello!",
    schema={
        "type": "object",
        "properties": {"greeting": {"type": "string"}},
        "required": ["greeting"],
        "additionalProperties": False,
    },
    schema_name="greeting",
    max_tokens=256,
)


class _ModeRefused(Exception):
    """The endpoint does not take an output mode."""


class ProviderChatModel(ProviderModel["Model"]):
    """A ChatModel of a provider that pydantic-ai knows, or of any OpenAI-compatible server."""

    def __init__(self, target: Target, **settings: Any) -> None:
        super().__init__(target, open_chat, **settings)
        # Compatible servers know the older name; only OpenAI's reasoning models insist on the newer one.
        self._known = Capabilities(old_max_tokens=target.provider == "openai" and target.base_url is not None)

    async def complete(self, request: ChatRequest) -> ChatReply:
        """The answer to `request`, its usage summed over every call that was answered.

        An answer that is cut or does not fit the schema costs one more call, told what was wrong. Raises
        ConfigurationError when the provider cannot be opened, AccessDenied when it refuses the key, the name or the
        account and has answered nothing yet. Otherwise a ModelError whose `usage` holds what was spent:
        ModelUnavailable or RateLimited after the last attempt, ModelRejected, ModelRefused, InvalidOutput.
        """
        model = await self._clients.get()
        with self._spending() as spent:
            return await self._complete(model, request, spent)

    async def _complete(self, model: Model, request: ChatRequest, spent: list[Usage]) -> ChatReply:
        trial = self._known.trial()
        problem, was_cut, only_thought = "", False, False
        for mode in self._known.modes(model.profile):
            answered_json, problem = False, ""
            try:
                for attempt in (1, 2):
                    response = await self._ask(model, request, mode, trial, problem)
                    spent.append(self._usage(response.usage, response.model_name))
                    if response.finish_reason == "content_filter":
                        raise ModelRefused(f"{self.name} declined to answer")
                    text = _text(response)
                    data, misfit = read_answer(text, request.schema, optional=request.optional)
                    if data is not None and not misfit:
                        chances = _probabilities(response, request.labels)
                        return ChatReply(data=data, text=text, usage=sum(spent, Usage()), probabilities=chances)
                    was_cut = response.finish_reason == "length"
                    only_thought = not text.strip() and bool(_thought(response))
                    cut = f"was cut after {request.max_tokens * attempt} tokens"
                    problem = f"it {cut}" if was_cut else misfit
                    if only_thought:
                        problem = "it held only reasoning and no answer" + (f", and {cut}" if was_cut else "")
                    where = f"{self._target}, {mode} output, attempt {attempt}"
                    show_raw(where, problem, _raw(response), about=request.about)
                    answered_json = answered_json or data is not None or was_cut or only_thought
            except _ModeRefused as refused:
                logger.info("%s takes no %s output: %s", self.name, mode, refused)
                trial.refused.add(mode)
                continue
            if answered_json or await self._heeds(model, mode, spent):
                break  # the mode works and the model does not: a laxer mode would not help
        remedy = ""
        if was_cut or only_thought:
            remedy = ". Models that think first need room: memalign edit NAME --param max_tokens=N"
        if only_thought:
            remedy += ", or less thought: --param reasoning_effort=low"
        raise InvalidOutput(f"{self.name} gave no answer that fits the schema: {problem}{remedy}")

    async def _heeds(self, model: Model, mode: Mode, spent: list[Usage]) -> bool:
        """Whether the endpoint follows the output mode: asked once, in a question without judged text."""
        if mode == "prompted":
            return True
        async with self._asking:  # calls that were answered in prose side by side ask one question
            if mode not in self._known.heeded | self._known.refused:
                heeds = False
                with suppress(_ModeRefused):
                    try:
                        response = await self._ask(model, _GREETING, mode, self._known.trial(), "")
                    except ModelError:
                        return True  # not known: this item fails alone, and the next one in prose asks again
                    spent.append(self._usage(response.usage, response.model_name))
                    heeds = find_object(_text(response)) is not None
                (self._known.heeded if heeds else self._known.refused).add(mode)
            return mode in self._known.heeded

    async def _ask(
        self, model: Model, request: ChatRequest, mode: Mode, trial: Capabilities, correction: str
    ) -> ModelResponse:
        system, user = request.system, request.user
        if mode == "prompted":
            system = f"{system}\n\n{_PROMPTED}\n{json.dumps(request.schema, ensure_ascii=False)}"
        if correction:
            user = f"{user}\n\nYour last answer could not be used: {correction}. Answer again, briefly, to the schema."
        parameters = _parameters(request, mode)
        seconds = request.timeout or self._timeout

        async def attempt(number: int) -> ModelResponse:
            from pydantic_ai.direct import model_request
            from pydantic_ai.messages import ModelRequest, UserPromptPart

            while True:
                settings = self._settings(model, request, trial, longer=bool(correction))
                if trial.no_system:
                    message = ModelRequest(parts=[UserPromptPart(content=f"{system}\n\n{user}")])
                else:
                    message = ModelRequest(parts=[UserPromptPart(content=user)], instructions=system)
                try:
                    async with self._attempt(model, number, seconds=seconds, about=request.about):
                        response = await model_request(
                            model, [message], model_settings=settings, model_request_parameters=parameters
                        )
                except AttemptFailed as failed:
                    complaint, status = complaint_of(failed.__cause__), status_of(failed.__cause__)
                    if failed.error is PromptTooLong:
                        raise
                    if not trial.learn(complaint, settings, status):
                        if refuses_mode(mode, complaint, status):
                            raise _ModeRefused(failed.reason) from failed
                        raise
                else:
                    self._known.keep(trial)
                    return response

        return await self._retry.run(attempt, subject=str(self._target))

    def _settings(self, model: Model, request: ChatRequest, trial: Capabilities, *, longer: bool) -> ModelSettings:
        reasons = _reasons(model)
        tokens = request.max_tokens * (2 if longer else 1) + (_REASONING_TOKENS if reasons else 0)
        settings: dict[str, Any] = {
            "extra_body" if trial.old_max_tokens else "max_tokens": (
                {"max_tokens": tokens} if trial.old_max_tokens else tokens
            )
        }
        if request.temperature is not None and not reasons:
            settings["temperature"] = request.temperature
        if request.seed is not None:
            settings["seed"] = request.seed
        if request.labels and not reasons and self._target.provider == "openai":
            settings |= {"openai_logprobs": True, "openai_top_logprobs": trial.alternatives}
        if self._target.provider == "anthropic":
            settings["anthropic_cache_instructions"] = True  # the others cache long prefixes without being asked
        elif self._target.provider == "cohere":
            settings["max_retries"] = 0  # the others' clients are told once, when they are opened
        body = {**settings.get("extra_body", {}), **self._extra.get("extra_body", {})}
        settings |= self._extra | ({"extra_body": body} if body else {})
        for name in trial.unwanted:
            settings.pop(name, None)
            settings.pop(f"openai_{name}", None)
        return cast("ModelSettings", settings)  # a TypedDict, with keys of several providers


def _parameters(request: ChatRequest, mode: Mode) -> ModelRequestParameters:
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.output import OutputObjectDefinition
    from pydantic_ai.tools import ToolDefinition

    if mode == "native":
        shape = OutputObjectDefinition(json_schema=request.schema, name=request.schema_name, strict=True)
        return ModelRequestParameters(output_mode="native", output_object=shape)
    if mode == "tool":
        tool = ToolDefinition(
            name=request.schema_name,
            description="Gives the answer.",
            parameters_json_schema=request.schema,
            strict=True,
            kind="output",
        )
        return ModelRequestParameters(output_mode="tool", output_tools=[tool], allow_text_output=False)
    return ModelRequestParameters(output_mode="text")


def _text(response: ModelResponse) -> str:
    """What the model answered: a tool call's arguments, else its text (some ignore that a tool was forced)."""
    from pydantic_ai.messages import TextPart, ToolCallPart

    calls = [part.args_as_json_str() for part in response.parts if isinstance(part, ToolCallPart)]
    return calls[-1] if calls else "".join(part.content for part in response.parts if isinstance(part, TextPart))


def _thought(response: ModelResponse) -> str:
    """What the model thought before it answered, where the endpoint tells."""
    from pydantic_ai.messages import ThinkingPart

    return "\n".join(part.content for part in response.parts if isinstance(part, ThinkingPart) and part.content)


def _raw(response: ModelResponse) -> str:
    """All that was answered, for a person who looks for what went wrong."""
    thought = _thought(response)
    parts = [f"(reasoning) {thought}" if thought else "", _text(response) or "(no text)"]
    return "\n".join([*filter(None, parts), f"(finish reason: {response.finish_reason})"])


def _probabilities(response: ModelResponse, labels: tuple[str, ...]) -> dict[str, float] | None:
    tokens = (response.provider_details or {}).get("logprobs") if labels else None
    return label_probabilities(read_tokens(tokens), labels) if tokens else None


def _reasons(model: Model) -> bool:
    """Whether the model thinks before it answers unless told not to; it then takes no temperature."""
    profile: dict[str, Any] = dict(model.profile)
    by_default = profile.get("thinking_enabled_by_default", profile.get("openai_reasoning_enabled_by_default"))
    if by_default is None:  # an older pydantic-ai, which knows only what OpenAI's models can switch off
        switch = profile.get("openai_supports_reasoning_effort_none", False)
        by_default = profile.get("openai_supports_reasoning", False) and not switch
    return bool(by_default or profile.get("thinking_always_enabled", False))
