"""What an endpoint takes: which output modes, and which settings. Learned from its refusals, kept for the endpoint.

A refusal may repeat the judged text, so what it seems to say is first tried on one request (`Capabilities.trial`) and
kept only once that request is answered (`Capabilities.keep`).
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from memalign.models.probabilities import ALTERNATIVES, FEWER

__all__ = ["Capabilities", "Mode", "refuses_mode"]

Mode = Literal["native", "tool", "prompted"]
MODES: tuple[Mode, ...] = ("native", "tool", "prompted")
"""From the strictest: the provider holds the answer to the schema; it is a forced tool's; it is in the prompt."""

_REFUSALS = (400, 404, 422, 501)  # statuses of an endpoint that does not take a request

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
        return msgspec.structs.replace(copy.deepcopy(self), changed=set())

    def keep(self, trial: Capabilities) -> None:
        """Remember what an answered request did otherwise."""
        self.refused |= trial.refused
        self.unwanted |= trial.unwanted
        self.no_system = self.no_system or trial.no_system
        if "logprobs" in trial.changed:
            self.alternatives = trial.alternatives
        if "length" in trial.changed:
            self.old_max_tokens = trial.old_max_tokens

    def learn(self, text: str, settings: Mapping[str, Any], status: int | None) -> bool:
        """Whether a failure names something that this trial can then do without.

        Args:
            text: What the endpoint says is wrong.
            settings: What the request was sent with.
            status: The HTTP status.
        """
        if "openai_logprobs" in settings and _LOGPROBS.search(text):
            # Of any status: OpenAI forbids them with 403, servers crash over them with 500, and some tell them in a
            # form that no client can read. None of these is worth a verdict.
            too_many = settings.get("openai_top_logprobs") == ALTERNATIVES and "logprobs" not in self.changed
            if too_many and status in (400, 422) and not _UNKNOWN.search(text):
                self.alternatives = FEWER
                self.changed.add("logprobs")
            else:
                self.unwanted |= {"logprobs", "top_logprobs"}
            return True
        if not self.no_system and status in (*_REFUSALS, 500) and _SYSTEM.search(text):  # some templates crash: 500
            self.no_system = True
            return True
        if status not in _REFUSALS:
            return False
        for name in ("temperature", "seed", "reasoning_effort"):
            sent = name in settings or f"openai_{name}" in settings
            if sent and name not in self.changed and re.search(rf"\b{name}\b", text) and _UNWANTED.search(text):
                self.unwanted.add(name)
                self.changed.add(name)
                return True
        limit = "max_completion_tokens" if "max_tokens" in settings else "max_tokens"
        if "length" not in self.changed and re.search(rf"\b{limit}\b", text) and _UNKNOWN.search(text):
            self.old_max_tokens = limit == "max_completion_tokens"
            self.changed.add("length")
            return True
        return False


def refuses_mode(mode: Mode, text: str, status: int | None) -> bool:
    """Whether a refusal is about the output mode."""
    return status in _REFUSALS and mode in _MODE_REFUSED and _MODE_REFUSED[mode].search(text) is not None
