"""Chat with a provider's model, or any OpenAI-compatible server, through pydantic-ai's direct requests.

An answer is a JSON object of a given schema, asked for in the strictest output mode that the endpoint takes. The mode
belongs to the endpoint: it changes when the endpoint refuses the format, or ignores it in a question without judged text.
An answer that does not fit costs a retry of that item, and moves no other.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Mapping
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import msgspec

from memalign.errors import AccessDenied, InvalidOutput, ModelError, ModelRefused
from memalign.models.answers import find_object, fitted
from memalign.models.base import ChatReply, ChatRequest, Limits
from memalign.models.capabilities import Capabilities, Mode, learn, learn_of_logprobs, learn_of_system, refuses_mode
from memalign.models.concurrency import ConcurrencyLimiter
from memalign.models.list_prices import Prices, context_window, list_price, list_price_of
from memalign.models.probabilities import label_probabilities, read_tokens
from memalign.models.provider_address import what_it_serves
from memalign.models.provider_client import LoopClients, open_chat, open_chat_by
from memalign.models.provider_errors import OVERLOAD, PromptTooLong, Subject, failure_of, raw_of, status_of, told
from memalign.models.providers import Target
from memalign.models.raw_answers import show_raw
from memalign.models.retry import Retry
from memalign.types import Usage

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.settings import ModelSettings

__all__ = ["ProviderChatModel"]

logger = logging.getLogger(__name__)

_PROMPTED = "Answer with one JSON object and nothing else: no words before or after it, no fence. Its JSON schema:"

_FIRST_IN_FLIGHT = 16

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


class ProviderChatModel:
    """A ChatModel of a provider that pydantic-ai knows, or of any OpenAI-compatible server.

    `timeout` is in seconds for one attempt; `retry` says how often and how patiently to try. With `look_up_context` the
    context window replaces that of `limits` where a price list knows the model. `max_concurrency` is the most calls in
    flight that a caller may ask for (None: `limits.concurrency`); 16 are let through at first, and more or fewer as the
    provider takes them. `prices` go before those of the price list. `extra` are settings of pydantic-ai (`top_p`, `extra_headers`, …) that go with every request.
    """

    def __init__(
        self,
        target: Target,
        *,
        retry: Retry | None = None,
        timeout: float = 120.0,
        limits: Limits | None = None,
        look_up_context: bool = False,
        max_concurrency: int | None = None,
        prices: Prices | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        self._target = target
        self._prices = prices
        self._extra = dict(extra or {})
        self._retry = retry or Retry()
        self._timeout = timeout
        self._limits = limits or Limits()
        self._look_up_context = look_up_context
        most = max_concurrency or self._limits.concurrency
        self._limiter = ConcurrencyLimiter(min(_FIRST_IN_FLIGHT, most), most=most)
        self._asking = ConcurrencyLimiter(1)
        self._clients = LoopClients(lambda: open_chat(target))
        self._has_answered = False
        self._served: str | None = None  # what the server said of itself; None: not asked yet
        # Compatible servers know the older name; only OpenAI's reasoning models insist on the newer one.
        self._known = Capabilities(old_max_tokens=target.provider == "openai" and target.base_url is not None)

    def with_client(self, make_client: Callable[[], httpx2.AsyncClient]) -> ProviderChatModel:
        """The same model, asked through an HTTP client of its own; what is known of the endpoint is shared."""
        made = copy(self)
        made._clients = LoopClients(lambda: open_chat_by(self._target, make_client()))  # it is one of us
        return made

    async def client(self) -> Any:
        """The provider's own client in the running loop, AsyncOpenAI or AsyncAnthropic, for what is no chat."""
        return cast("Any", await self._clients.get()).client

    @property
    def provider(self) -> str:
        """The provider's name, such as `openai`."""
        return self._target.provider

    @property
    def retry(self) -> Retry:
        """How often and how patiently a request is tried."""
        return self._retry

    @property
    def subject(self) -> Subject:
        """Whom we talk to, for messages."""
        return self._subject()

    @property
    def name(self) -> str:
        """The resolved name, `openai:gpt-4.1-mini`, with the address that was given in it."""
        return self._target.name

    @property
    def base_url(self) -> str | None:
        """The address of an OpenAI-compatible server that the user named; None for the provider's own."""
        return self._target.base_url

    @property
    def extra(self) -> Mapping[str, Any]:
        """The settings that go with every request."""
        return self._extra

    @cached_property
    def limits(self) -> Limits:
        """What the model can take, its context window from genai-prices where that knows the model."""
        window = context_window(self._target) if self._look_up_context else None
        return msgspec.structs.replace(self._limits, context_tokens=window) if window else self._limits

    def price_of(self, usage: Usage) -> float | None:
        """US dollars for a usage, before anything is asked; None where no price is known."""
        return list_price_of(usage, self._target) if self._prices is None else self._prices.cost(usage)

    async def complete(self, request: ChatRequest) -> ChatReply:
        """The answer to `request`, its usage summed over every call that was answered.

        An answer that is cut or does not fit the schema costs one more call, told what was wrong. Raises
        ConfigurationError when the provider cannot be opened, AccessDenied when it refuses the key, the name or the
        account and has answered nothing yet. Otherwise a ModelError whose `usage` holds what was spent: ModelUnavailable
        or RateLimited after the last attempt, ModelRejected, ModelRefused, InvalidOutput.
        """
        async with self._limiter:
            model = await self._clients.get()
            spent: list[Usage] = []
            try:
                return await self._complete(model, request, spent)
            except ModelError as error:
                if error.denied and not self._has_answered:
                    raise AccessDenied(str(error)) from error
                error.usage = sum(spent, Usage())
                raise

    async def _complete(self, model: Model, request: ChatRequest, spent: list[Usage]) -> ChatReply:
        trial = self._known.trial()
        problem, was_cut, only_thought = "", False, False
        for mode in self._known.modes(model.profile):
            answered_json, problem = False, ""
            try:
                for attempt in (1, 2):
                    response = await self._ask(model, request, mode, trial, problem)
                    spent.append(_usage(response, self._target, self._prices))
                    if response.finish_reason == "content_filter":
                        raise ModelRefused(f"{self.name} declined to answer")
                    text = _text(response)
                    data, found = _read(text, request)
                    if data is not None and found is None:
                        chances = _probabilities(response, request.labels)
                        return ChatReply(data=data, text=text, usage=sum(spent, Usage()), probabilities=chances)
                    was_cut = response.finish_reason == "length"
                    only_thought = not text.strip() and bool(_thought(response))
                    cut = f"was cut after {request.max_tokens * attempt} tokens"
                    problem = f"it {cut}" if was_cut else str(found)
                    if only_thought:
                        problem = "it held only reasoning and no answer" + (f", and {cut}" if was_cut else "")
                    show_raw(f"{self._subject()}, {mode} output, attempt {attempt}", problem, _raw(response))
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
            if mode in self._known.heeded | self._known.refused:
                return mode in self._known.heeded
            try:
                response = await self._ask(model, _GREETING, mode, self._known.trial(), "")
            except _ModeRefused:
                self._known.refused.add(mode)
                return False
            except ModelError:
                return True  # not known: this item fails alone, and the next one in prose asks again
            spent.append(_usage(response, self._target, self._prices))
            heeds = find_object(_text(response)) is not None
            (self._known.heeded if heeds else self._known.refused).add(mode)
            return heeds

    async def _ask(
        self, model: Model, request: ChatRequest, mode: Mode, trial: Capabilities, correction: str
    ) -> ModelResponse:
        timeout = request.timeout or self._timeout
        subject = self._subject(timeout)
        system, user = request.system, request.user
        if mode == "prompted":
            system = f"{system}\n\n{_PROMPTED}\n{json.dumps(request.schema, ensure_ascii=False)}"
        if correction:
            user = f"{user}\n\nYour last answer could not be used: {correction}. Answer again, briefly, to the schema."
        parameters = _parameters(request, mode)
        refused_at: float | None = None  # the limit when an attempt before was refused as one too many

        async def attempt() -> ModelResponse:
            nonlocal refused_at
            from pydantic_ai.direct import model_request
            from pydantic_ai.messages import ModelRequest, UserPromptPart

            began = time.monotonic()
            while True:
                settings = self._settings(model, request, trial, longer=bool(correction))
                if trial.no_system:
                    message = ModelRequest(parts=[UserPromptPart(content=f"{system}\n\n{user}")])
                else:
                    message = ModelRequest(parts=[UserPromptPart(content=user)], instructions=system)
                try:
                    async with asyncio.timeout(timeout):
                        response = await model_request(
                            model, [message], model_settings=settings, model_request_parameters=parameters
                        )
                    self._has_answered = True
                    self._limiter.succeeded(began=began, refused_at=refused_at)
                    self._known.keep(trial)
                    return response
                except Exception as error:
                    if (failed := failure_of(error, subject)) is None:
                        raise
                    if failed.retry and (isinstance(error, TimeoutError) or status_of(error) in OVERLOAD):
                        refused_at = self._limiter.overloaded(began=began, refused_at=refused_at)
                    text = told(error)
                    show_raw(str(subject), failed.reason, raw_of(error))
                    if learn_of_logprobs(trial, text, settings, status_of(error)):
                        continue
                    if learn_of_system(trial, text, status_of(error)):
                        continue
                    if status_of(error) in (400, 404, 422, 501) and failed.error is not PromptTooLong:
                        if learn(trial, text, settings):
                            continue
                        if refuses_mode(mode, text):
                            raise _ModeRefused(failed.reason) from error
                    if status_of(error) == 404 and not self._has_answered:
                        failed.advice = await self._what_is_there(model) or failed.advice
                    raise failed from error

        return await self._retry.run(attempt, subject=str(subject))

    def _subject(self, timeout: float | None = None) -> Subject:
        target = self._target
        return Subject(
            model=target.plain_name,
            base_url=target.address,
            key_name=target.key_name,
            timeout=timeout or self._timeout,
        )

    async def _what_is_there(self, model: Model) -> str | None:
        """What the user's own server says of its address and models: asked once, for all calls that failed alike."""
        if self._target.base_url is None:
            return None
        async with self._asking:
            if self._served is None:
                headers = self._extra.get("extra_headers", {})
                self._served = await what_it_serves(model, self._target.base_url, self._target.model, headers) or ""
        return self._served

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


def _read(text: str, request: ChatRequest) -> tuple[dict[str, Any] | None, str | None]:
    """The object that was answered, if there is one, and why it does not do."""
    found = find_object(text)
    return (
        (None, "it held no JSON object") if found is None else fitted(found, request.schema, optional=request.optional)
    )


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


def _usage(response: ModelResponse, target: Target, prices: Prices | None = None) -> Usage:
    used = response.usage
    counted = Usage(
        calls=1,
        input_tokens=used.input_tokens,
        cached_tokens=used.cache_read_tokens,
        output_tokens=used.output_tokens,
    )
    counts = bool(used.input_tokens or used.output_tokens)
    cost = prices.cost(counted) if prices is not None and counts else _cost(response, target)
    return msgspec.structs.replace(counted, cost=cost)


def _cost(response: ModelResponse, target: Target) -> float | None:
    """US dollars by genai-prices' bundled list (no network); None where it does not know model or address."""
    used = response.usage
    if not used.input_tokens and not used.output_tokens:  # the endpoint does not count
        return None
    return list_price(target, used, model=response.model_name)
