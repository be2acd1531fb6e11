"""Chat with a provider's model, or any OpenAI-compatible server, through pydantic-ai's direct requests.

An answer is a JSON object of a given schema. There are three ways to get one, tried from the strictest down, and what
worked is remembered for the model:

- native: the provider constrains the answer to the schema;
- tool: the model must call a tool whose arguments are the schema;
- prompted: the schema stands in the system text, and the object is found in what the model writes.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec

from memalign.errors import InvalidOutput, ModelError, ModelRefused
from memalign.models.answers import find_object, misfit
from memalign.models.base import ChatReply, ChatRequest, Limits
from memalign.models.concurrency import ConcurrencyLimiter
from memalign.models.list_prices import list_price
from memalign.models.probabilities import ALTERNATIVES, FEWER, label_probabilities, read_tokens
from memalign.models.provider_client import LoopClients, open_chat
from memalign.models.provider_errors import PromptTooLong, Subject, failure_of, status_of, told
from memalign.models.providers import Target
from memalign.models.retry import Retry
from memalign.types import Usage

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.settings import ModelSettings

__all__ = ["ProviderChatModel"]

logger = logging.getLogger(__name__)

Mode = Literal["native", "tool", "prompted"]
MODES: tuple[Mode, ...] = ("native", "tool", "prompted")

# How endpoints word that they do not know a mode: OpenAI, vLLM, llama.cpp, LiteLLM, OpenRouter, Ollama.
_MODE_REFUSED: dict[Mode, re.Pattern[str]] = {
    "native": re.compile(
        r"response_format|json.?schema|json mode|structured.output|guided|grammar|requested parameters", re.IGNORECASE
    ),
    "tool": re.compile(r"\btools?\b|tool_choice|function.call|grammar|requested parameters", re.IGNORECASE),
}
_LOGPROBS = re.compile(r"log.?prob", re.IGNORECASE)
_UNKNOWN_PARAMETER = re.compile(r"unsupported|not supported|unrecogni|unknown|not permitted|extra", re.IGNORECASE)
# How they word that they know a setting and take none, or another value than ours.
_UNWANTED = re.compile(
    rf"{_UNKNOWN_PARAMETER.pattern}|(?:not|n.t) (?:support|allow|accept)|deprecated|cannot|only|must be|out of range",
    re.IGNORECASE,
)

_PROMPTED = "Answer with one JSON object and nothing else: no words before or after it, no fence. Its JSON schema:"

# What a model that reasons by default may think before it answers; it counts as output, and is paid only if used.
FIRST_IN_FLIGHT = 16
_OVERLOAD = (429, 503, 529)  # statuses that say that there is too much at once

_REASONING_TOKENS = 8_192


class _Habits(msgspec.Struct):
    """What we learned about an endpoint by being refused; shared by all calls of a model."""

    mode: Mode | None = None
    unwanted: set[str] = set()  # settings that it rejects: temperature, seed, logprobs
    alternatives: int = ALTERNATIVES  # likeliest tokens that it tells at each place
    old_max_tokens: bool = False  # it wants `max_tokens`, the name before `max_completion_tokens`


class _Trial(_Habits):
    """What one request does otherwise than is known of its endpoint; it becomes known when the request is answered.

    Until then it is a guess: a refusal may name a setting because the judged text does. `learned` is what was given in
    on already: an endpoint that takes neither way is left to refuse.
    """

    learned: set[str] = set()


class _ModeRefused(Exception):
    """The endpoint does not take a structured-output mode."""


class ProviderChatModel:
    """A ChatModel of a provider that pydantic-ai knows, or of any OpenAI-compatible server.

    `timeout` is in seconds for one attempt; `retry` says how often and how patiently to try. With
    `look_up_context` the context window replaces that of `limits` where a price list knows the model. `ceiling` is the most
    calls in flight that a caller may ask for (None: `limits.concurrency`, which is how many it should); 16 are let through
    at first, and more or fewer as the provider takes them. `extra` are settings of pydantic-ai (`top_p`, `extra_headers`, …)
    that go with every request. An answer that is cut or does not fit its schema costs one more call, told what was wrong.
    """

    def __init__(
        self,
        target: Target,
        *,
        retry: Retry | None = None,
        timeout: float = 120.0,
        limits: Limits | None = None,
        look_up_context: bool = False,
        ceiling: int | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        self._target = target
        self._extra = dict(extra or {})
        self._retry = retry or Retry()
        self._timeout = timeout
        self._limits = limits or Limits()
        self._look_up_context = look_up_context
        most = ceiling or self._limits.concurrency
        self._limiter = ConcurrencyLimiter(min(FIRST_IN_FLIGHT, most), most=most)
        self._clients = LoopClients(lambda: open_chat(target))
        # Compatible servers know the older name; only OpenAI's reasoning models insist on the newer one.
        self._habits = _Habits(old_max_tokens=target.provider == "openai" and target.base_url is not None)

    @property
    def name(self) -> str:
        """The resolved name, `openai:gpt-4.1-mini`."""
        return self._target.name

    @property
    def base_url(self) -> str | None:
        """The address of an OpenAI-compatible server that the user named; None for the provider's own."""
        return self._target.base_url

    @cached_property
    def limits(self) -> Limits:
        """What the model can take, its context window from genai-prices where that knows the model."""
        window = _context_window(self._target) if self._look_up_context else None
        return msgspec.structs.replace(self._limits, context_tokens=window) if window else self._limits

    async def complete(self, request: ChatRequest) -> ChatReply:
        """The answer to `request`, its usage summed over every call that was answered.

        Raises ConfigurationError when the provider cannot be opened, otherwise a ModelError whose `usage` holds what
        was spent: ModelUnavailable or RateLimited after the last attempt, ModelRejected, ModelRefused, InvalidOutput.
        """
        async with self._limiter:
            model = await self._clients.get()
            modes = _modes(model, self._habits.mode)
            trial = self._trial()
            spent = Usage()
            reason = ""
            for mode in modes:
                answered_json = False
                try:
                    for attempt in (1, 2):
                        response = await self._ask(model, request, mode, trial, reason if attempt == 2 else "")
                        spent += _usage(response, self._target)
                        if response.finish_reason == "content_filter":
                            raise ModelRefused(f"{self.name} declined to answer", usage=spent)
                        text = _text(response)
                        data = find_object(text)
                        problem = "it held no JSON object" if data is None else misfit(data, request.schema)
                        if data is not None and problem is None:
                            self._habits.mode = mode
                            chances = _probabilities(response, request.labels)
                            return ChatReply(data=data, text=text, usage=spent, probabilities=chances)
                        cut = response.finish_reason == "length"
                        reason = f"it was cut after {request.max_tokens} tokens" if cut else str(problem)
                        answered_json = answered_json or data is not None or cut
                except _ModeRefused as refused:
                    logger.info("%s takes no %s output: %s", self.name, mode, refused)
                    continue
                except ModelError as error:
                    error.usage = spent if error.usage is None else error.usage
                    raise
                if answered_json:
                    break  # the mode works and the model does not: a laxer mode would not help
            raise InvalidOutput(f"{self.name} gave no answer that fits the schema: {reason}", usage=spent)

    async def _ask(
        self, model: Model, request: ChatRequest, mode: Mode, trial: _Trial, correction: str
    ) -> ModelResponse:
        timeout = request.timeout or self._timeout
        subject = Subject(
            model=self.name, base_url=self._target.base_url, key_name=self._target.key_name, timeout=timeout
        )
        system, user = request.system, request.user
        if mode == "prompted":
            system = f"{system}\n\n{_PROMPTED}\n{json.dumps(request.schema, ensure_ascii=False)}"
        if correction:
            user = f"{user}\n\nYour last answer could not be used: {correction}. Answer again, briefly, to the schema."
        parameters = _parameters(request, mode)
        refused_at: float | None = None  # how many slots there were when an attempt before was refused as one too many

        async def attempt() -> ModelResponse:
            nonlocal refused_at
            from pydantic_ai.direct import model_request
            from pydantic_ai.messages import ModelRequest, UserPromptPart

            message = ModelRequest(parts=[UserPromptPart(content=user)], instructions=system)
            began = time.monotonic()
            while True:
                settings = self._settings(model, request, trial, longer=bool(correction))
                try:
                    async with asyncio.timeout(timeout):
                        response = await model_request(
                            model, [message], model_settings=settings, model_request_parameters=parameters
                        )
                    self._limiter.succeeded(began=began, refused_at=refused_at)
                    self._keep(trial)
                    return response
                except Exception as error:
                    if (failed := failure_of(error, subject)) is None:
                        raise
                    if failed.retry and (isinstance(error, TimeoutError) or status_of(error) in _OVERLOAD):
                        refused_at = self._limiter.overloaded(began=began, refused_at=refused_at)
                    text = told(error)
                    if _learn_of_logprobs(trial, text, settings, status_of(error)):
                        continue
                    if status_of(error) in (400, 404, 422, 501) and failed.error is not PromptTooLong:
                        if _learn(trial, text, settings):
                            continue
                        if mode in _MODE_REFUSED and _MODE_REFUSED[mode].search(text):
                            raise _ModeRefused(failed.reason) from error
                    raise failed from error

        return await self._retry.run(attempt, subject=str(subject))

    def _settings(self, model: Model, request: ChatRequest, habits: _Habits, *, longer: bool) -> ModelSettings:
        reasons = _reasons(model)
        tokens = request.max_tokens * (2 if longer else 1) + (_REASONING_TOKENS if reasons else 0)
        settings: dict[str, Any] = {
            "extra_body" if habits.old_max_tokens else "max_tokens": (
                {"max_tokens": tokens} if habits.old_max_tokens else tokens
            )
        }
        if request.temperature is not None and not reasons:
            settings["temperature"] = request.temperature
        if request.seed is not None:
            settings["seed"] = request.seed
        if request.labels and not reasons and self._target.provider == "openai":
            settings |= {"openai_logprobs": True, "openai_top_logprobs": habits.alternatives}
        if self._target.provider == "anthropic":
            settings["anthropic_cache_instructions"] = True  # the others cache long prefixes without being asked
        elif self._target.provider == "cohere":
            settings["max_retries"] = 0  # the others' clients are told once, when they are opened
        body = {**settings.get("extra_body", {}), **self._extra.get("extra_body", {})}
        settings |= self._extra | ({"extra_body": body} if body else {})
        for name in habits.unwanted:
            settings.pop(name, None)
            settings.pop(f"openai_{name}", None)
        return cast("ModelSettings", settings)  # a TypedDict, with keys of several providers

    def _trial(self) -> _Trial:
        known = self._habits
        return _Trial(
            unwanted=set(known.unwanted), alternatives=known.alternatives, old_max_tokens=known.old_max_tokens
        )

    def _keep(self, trial: _Trial) -> None:
        """Remember what an answered request did otherwise."""
        self._habits.unwanted |= trial.unwanted
        if "logprobs" in trial.learned:
            self._habits.alternatives = trial.alternatives
        if "length" in trial.learned:
            self._habits.old_max_tokens = trial.old_max_tokens


def _learn_of_logprobs(trial: _Trial, text: str, settings: ModelSettings, status: int | None) -> bool:
    """Whether a failure is about token probabilities, of which fewer will do, or none; `trial` goes on so.

    Of any status: OpenAI forbids them with 403, servers crash over them with 500, and some tell them in a form that no
    client can read. None of these is worth a verdict.
    """
    if "openai_logprobs" not in settings or not _LOGPROBS.search(text):
        return False
    too_many = settings.get("openai_top_logprobs") == ALTERNATIVES and "logprobs" not in trial.learned
    if too_many and status in (400, 422) and not _UNKNOWN_PARAMETER.search(text):
        trial.alternatives = FEWER
        trial.learned.add("logprobs")
    else:
        trial.unwanted |= {"logprobs", "top_logprobs"}
    return True


def _learn(trial: _Trial, text: str, settings: ModelSettings) -> bool:
    """Whether the refusal `text` is about one of `settings` that we can do without; `trial` goes on so."""
    for name in ("temperature", "seed"):
        named = name in settings and name not in trial.learned and re.search(rf"\b{name}\b", text)
        if named and _UNWANTED.search(text):
            trial.unwanted.add(name)
            trial.learned.add(name)
            return True
    old = "max_tokens" not in settings
    sent = "max_tokens" if old else "max_completion_tokens"
    if "length" not in trial.learned and re.search(rf"\b{sent}\b", text) and _UNKNOWN_PARAMETER.search(text):
        trial.old_max_tokens = not old
        trial.learned.add("length")
        return True
    return False


def _modes(model: Model, known: Mode | None) -> tuple[Mode, ...]:
    """The modes to try, in order: from the one that worked, else from the strictest that the model's profile allows."""
    if known is not None:
        return MODES[MODES.index(known) :]
    allowed = {
        "native": model.profile.get("supports_json_schema_output", False),
        "tool": model.profile.get("supports_tools", True),
        "prompted": True,
    }
    return tuple(mode for mode in MODES if allowed[mode])


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


def _usage(response: ModelResponse, target: Target) -> Usage:
    used = response.usage
    return Usage(
        calls=1,
        input_tokens=used.input_tokens,
        cached_tokens=used.cache_read_tokens,
        output_tokens=used.output_tokens,
        cost=_cost(response, target),
    )


def _cost(response: ModelResponse, target: Target) -> float | None:
    """US dollars by genai-prices' bundled list (no network); None where it does not know model or address."""
    used = response.usage
    if not used.input_tokens and not used.output_tokens:  # the endpoint does not count
        return None
    try:
        if target.base_url is None:
            return float(response.cost().total_price)
        return list_price(target, used, model=response.model_name)
    except Exception:  # whatever goes wrong in a price list, the answer is there and paid for
        logger.debug("no price for %s", target.name, exc_info=True)
        return None


def _context_window(target: Target) -> int | None:
    from genai_prices.data_snapshot import get_snapshot

    by_url = target.base_url is not None
    try:
        _, model = get_snapshot().find_provider_model(
            target.model,
            provider=None,
            provider_id=None if by_url else target.provider,
            provider_api_url=target.base_url,
        )
    except LookupError:
        return None
    return model.context_window
