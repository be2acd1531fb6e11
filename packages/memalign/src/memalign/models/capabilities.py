"""What an endpoint takes: which output modes, and which settings. Learned from its refusals, kept for the endpoint.

A refusal may repeat the judged text, so what it seems to say is first tried on one request (`Capabilities.trial`) and
kept only once that request is answered (`Capabilities.keep`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from memalign.models.probabilities import ALTERNATIVES, FEWER

__all__ = ["Capabilities", "Mode", "learn", "learn_of_logprobs", "learn_of_system", "refuses_mode"]

Mode = Literal["native", "tool", "prompted"]
MODES: tuple[Mode, ...] = ("native", "tool", "prompted")
"""From the strictest: the provider holds the answer to the schema; it is a forced tool's; it is in the prompt."""

# How endpoints word that they do not know a mode: OpenAI, vLLM, llama.cpp, LiteLLM, OpenRouter, Ollama.
_MODE_REFUSED = {
    "native": re.compile(
        r"response_format|json.?schema|json mode|structured.output|guided|grammar|requested parameters", re.IGNORECASE
    ),
    "tool": re.compile(r"\btools?\b|tool_choice|function.call|grammar|requested parameters", re.IGNORECASE),
}
_LOGPROBS = re.compile(r"log.?prob", re.IGNORECASE)
# How chat templates and gateways word that they have no system role: Gemma's and Mistral's templates, vLLM, llama.cpp.
_SYSTEM = re.compile(
    r"system[ _-]?(role|message|prompt|instruction)s?\b.{0,80}?(not|n't|un|only|no longer)"
    r"|(not|n't|un)\s*(support|allow|accept|enabl)\w*.{0,60}?\bsystem\b|(unknown|invalid|unexpected) role.{0,20}system"
    r"|developer instruction is not enabled|roles must alternate user",
    re.IGNORECASE | re.DOTALL,
)
_UNKNOWN = re.compile(r"unsupported|not supported|unrecogni|unknown|not permitted|extra", re.IGNORECASE)
# How they word that they know a setting and take none, or another value than ours.
_UNWANTED = re.compile(
    rf"{_UNKNOWN.pattern}|(?:not|n.t) (?:support|allow|accept)|deprecated|cannot|only|must be|out of range",
    re.IGNORECASE,
)


class Capabilities(msgspec.Struct):
    """What is known of one endpoint; shared by all calls of a model.

    `refused` are the output modes that it does not take or ignores, `heeded` those that it was seen to follow when
    asked without judged text. `unwanted` are settings that it rejects, `alternatives` how many likeliest tokens it
    tells, `old_max_tokens` whether it wants `max_tokens` instead of `max_completion_tokens`. `changed` names what a
    trial does otherwise: an endpoint that takes neither way is left to refuse. `no_system` says that it has no system
    role: its text is then put before the user's.
    """

    refused: set[Mode] = set()
    heeded: set[Mode] = set()
    unwanted: set[str] = set()
    alternatives: int = ALTERNATIVES
    old_max_tokens: bool = False
    no_system: bool = False
    changed: set[str] = set()

    def modes(self, profile: Mapping[str, Any]) -> list[Mode]:
        """The output modes to try, from the strictest that pydantic-ai's profile and the endpoint allow."""
        allowed = {
            "native": profile.get("supports_json_schema_output", False),
            "tool": profile.get("supports_tools", True),
            "prompted": True,
        }
        return [mode for mode in MODES if allowed[mode] and mode not in self.refused]

    def trial(self) -> Capabilities:
        """A copy for one request."""
        return Capabilities(
            unwanted=set(self.unwanted),
            alternatives=self.alternatives,
            old_max_tokens=self.old_max_tokens,
            no_system=self.no_system,
        )

    def keep(self, trial: Capabilities) -> None:
        """Remember what an answered request did otherwise."""
        self.refused |= trial.refused
        self.unwanted |= trial.unwanted
        self.no_system = self.no_system or trial.no_system
        if "logprobs" in trial.changed:
            self.alternatives = trial.alternatives
        if "length" in trial.changed:
            self.old_max_tokens = trial.old_max_tokens


def refuses_mode(mode: Mode, text: str) -> bool:
    """Whether the refusal `text` is about the output mode."""
    return mode in _MODE_REFUSED and _MODE_REFUSED[mode].search(text) is not None


def learn_of_logprobs(trial: Capabilities, text: str, settings: Mapping[str, Any], status: int | None) -> bool:
    """Whether a failure is about token probabilities, of which `trial` then asks for fewer, or none.

    Of any status: OpenAI forbids them with 403, servers crash over them with 500, and some tell them in a form that no
    client can read. None of these is worth a verdict.
    """
    if "openai_logprobs" not in settings or not _LOGPROBS.search(text):
        return False
    too_many = settings.get("openai_top_logprobs") == ALTERNATIVES and "logprobs" not in trial.changed
    if too_many and status in (400, 422) and not _UNKNOWN.search(text):
        trial.alternatives = FEWER
        trial.changed.add("logprobs")
    else:
        trial.unwanted |= {"logprobs", "top_logprobs"}
    return True


def learn_of_system(trial: Capabilities, text: str, status: int | None) -> bool:
    """Whether a failure is about the system role, which `trial` then does without. Some templates crash: 500."""
    if trial.no_system or status not in (400, 404, 422, 500, 501) or not _SYSTEM.search(text):
        return False
    trial.no_system = True
    return True


def learn(trial: Capabilities, text: str, settings: Mapping[str, Any]) -> bool:
    """Whether the refusal `text` is about one of `settings` that `trial` can then do without."""
    for name in ("temperature", "seed", "reasoning_effort"):
        requested = name in settings or f"openai_{name}" in settings
        named = requested and name not in trial.changed and re.search(rf"\b{name}\b", text)
        if named and _UNWANTED.search(text):
            trial.unwanted.add(name)
            trial.changed.add(name)
            return True
    old = "max_tokens" not in settings
    sent = "max_tokens" if old else "max_completion_tokens"
    if "length" not in trial.changed and re.search(rf"\b{sent}\b", text) and _UNKNOWN.search(text):
        trial.old_max_tokens = not old
        trial.changed.add("length")
        return True
    return False
