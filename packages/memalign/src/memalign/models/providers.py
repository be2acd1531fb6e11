"""Names of models and providers: parsed without importing a provider's library."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from urllib.parse import urlsplit, urlunsplit

import msgspec

from memalign.errors import ConfigurationError

__all__ = [
    "DECISION_PROVIDERS",
    "DEFAULTS",
    "OPENAI",
    "PROVIDERS",
    "SERVER_KEYS",
    "Target",
    "address_of",
    "parse_name",
    "target_of",
    "whole_number",
    "without_secrets",
]

PROVIDERS: dict[str, tuple[str, ...]] = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "alibaba": ("ALIBABA_API_KEY", "DASHSCOPE_API_KEY"),
    "cohere": ("CO_API_KEY",),
    "huggingface": ("HF_TOKEN",),
    **{
        name: (f"{name.upper()}_API_KEY",)
        for name in (
            "cerebras",
            "deepseek",
            "fireworks",
            "groq",
            "mistral",
            "moonshotai",
            "openrouter",
            "together",
            "xai",
            "zai",
        )
    },
    **dict.fromkeys(("azure", "bedrock", "google-cloud", "ollama"), ()),
    "openai-decisions": ("OPENAI_API_KEY",),
    "system-one": ("SYSTEM_ONE_API_KEY",),
    "typesafe": ("TYPESAFE_API_KEY",),
}
"""Providers of pydantic-ai, with the variables of which one must hold the key; none where it is found in other ways.
Any other that pydantic-ai knows will do, and says itself what it needs."""

DECISION_PROVIDERS = frozenset({"openai-decisions", "system-one", "typesafe"})
"""The providers whose models answer typed questions and write nothing."""

DEFAULTS = (
    ("OPENAI_API_KEY", "openai:gpt-4.1-mini"),
    ("ANTHROPIC_API_KEY", "anthropic:claude-haiku-4-5"),
    ("GOOGLE_API_KEY", "google:gemini-3.1-flash-lite"),
    ("GEMINI_API_KEY", "google:gemini-3.1-flash-lite"),
)
"""The small model that a key stands for when no model is named, in order of preference."""

# Spellings of MLflow and LiteLLM, which users bring along.
_ALIASES = {"gemini": "google", "vertex_ai": "google-cloud", "fireworks_ai": "fireworks"}
_ALIASES |= {"together_ai": "together", "togetherai": "together"}

_NAME = re.compile(r"(?P<provider>gateway/[a-z][a-z0-9_-]*|[A-Za-z][A-Za-z0-9_-]*)(?::/*|/+)(?P<model>[^\s].*)")
_ADDRESS = re.compile(r"(?P<model>.*?)@(?P<url>https?://.*)", re.IGNORECASE)

OPENAI = "https://api.openai.com/v1"

# The providers of which a server may be named, by variables. MLflow, LiteLLM and LangChain read the second of OpenAI's.
_SERVERS = {
    "openai": ("OPENAI_BASE_URL", "OPENAI_API_BASE"),
    "openai-decisions": ("OPENAI_BASE_URL", "OPENAI_API_BASE"),
    "system-one": ("SYSTEM_ONE_BASE_URL",),
    "typesafe": ("TYPESAFE_BASE_URL",),
}

# Their own addresses, to which their keys may go.
_HOMES = {"openai": {OPENAI}, "openai-decisions": {OPENAI}, "typesafe": {"https://api.typesafe.ai"}}

SERVER_KEYS = "MEMALIGN_SERVER_KEYS"
"""The keys of servers of one's own, each as ADDRESS=KEY, separated by blanks. A key goes to its address alone."""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """One model of one provider: all that is needed to open it.

    `base_url` is set for an OpenAI-compatible server. `addressed` says that the model's name holds the address, so that
    it is part of the name.
    """

    provider: str
    model: str
    base_url: str | None = None
    api_key: str | None = None
    addressed: bool = False

    def __str__(self) -> str:
        return f"{self.plain_name} at {self.address}" if self.address else self.plain_name

    @property
    def name(self) -> str:
        """The resolved name, `openai:gpt-4.1-mini` or `openai:qwen3@http://localhost:8000/v1`."""
        return f"{self.plain_name}@{self.address}" if self.addressed else self.plain_name

    @property
    def address(self) -> str | None:
        """The address as it may be written down: without user, password and query."""
        return None if self.base_url is None else without_secrets(self.base_url)

    @property
    def plain_name(self) -> str:
        """The name without an address."""
        return f"{self.provider}:{self.model}"

    @property
    def key_name(self) -> str:
        """What holds its key, for people."""
        if self.addressed and self.api_key is None:
            return f"the server's key ({SERVER_KEYS}=ADDRESS=KEY)"
        names = (*PROVIDERS.get(self.provider, ()), *((SERVER_KEYS,) if self.base_url else ()))
        return " or ".join(names) or "the provider's key"

    @property
    def trusted(self) -> bool:
        """Whether what the environment holds for the provider may go there: no judge alone named the address."""
        servers = {url.rstrip("/") for name in _SERVERS.get(self.provider, ()) if (url := os.environ.get(name))}
        return not self.addressed or self.base_url in (servers or _HOMES.get(self.provider, set()))


def parse_name(name: str) -> tuple[str, str]:
    """Provider and model of `openai:/m`, `openai:m` or `openai/m`. Raises ConfigurationError for anything else.

    The model of `openai:m@URL` keeps its address, in one spelling: see `address_of`.
    """
    match = _NAME.fullmatch(name.strip())
    if match is None:
        raise ConfigurationError(
            f"model {name!r} names no provider; write provider:model, such as openai:{name.strip() or 'gpt-4.1-mini'} "
            "or local:qwen2.5-coder-1.5b"
        )
    provider, model = match["provider"].lower(), match["model"].strip()
    provider = _ALIASES.get(provider, provider)
    if provider == "local":  # a path may hold anything, and begins with a slash of its own
        path = name.strip()[len("local:") :].strip()
        return provider, path if path.endswith(".gguf") else model
    plain, url = address_of(model)
    if url is None:
        return provider, model
    if provider not in _SERVERS:
        raise ConfigurationError(
            f"{provider}:{plain}: an address needs an OpenAI-compatible server, and a model named openai:{plain}@{url}"
        )
    return provider, f"{plain}@{url}"


def address_of(model: str) -> tuple[str, str | None]:
    """`m` and `URL` of `m@URL`, or None. Raises ConfigurationError for what is no address, or not for keeping."""
    if (match := _ADDRESS.fullmatch(model)) is None:
        return model, None
    url = match["url"].strip().rstrip("/")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port  # a port that is no number raises
    except ValueError:
        host, parts = None, None
    if not match["model"] or not host or parts is None or not url.isprintable() or " " in url:
        raise ConfigurationError("after the @ of a model stands an address such as http://localhost:8000/v1")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ConfigurationError(
            f"an address is stored with the judge and holds no user, password or query: https://{host}{parts.path}. A "
            f"key goes into the environment variable {SERVER_KEYS}, as ADDRESS=KEY"
        )
    return match["model"], url


def without_secrets(url: str) -> str:
    """The address as it may be shown: without user, password and query."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment=""))


def target_of(name: str) -> Target:
    """The model that `name` means in this environment. Raises ConfigurationError for an unknown provider or no key."""
    provider, model = parse_name(name)
    if provider not in PROVIDERS and not _known_upstream(provider):
        raise ConfigurationError(
            f"model {name!r}: unknown provider {provider!r}; known are local, {', '.join(PROVIDERS)}. For any other "
            "OpenAI-compatible server write openai:MODEL@URL, or openai:MODEL and set OPENAI_BASE_URL"
        )
    names = PROVIDERS.get(provider, ())
    model, address = address_of(model) if provider in _SERVERS else (model, None)
    base_url = address or next((url for name in _SERVERS.get(provider, ()) if (url := os.environ.get(name))), None)
    target = Target(provider=provider, model=model, base_url=base_url, addressed=address is not None)
    # A key goes where it is meant to go, and nowhere else.
    if (key := _server_keys().get((base_url or "").rstrip("/"))) is None and target.trusted:
        key = next((key for name in names if (key := os.environ.get(name))), None)
    if key is not None and not (key.isascii() and key.isprintable()):
        raise ConfigurationError(f"{target.key_name} holds a line break or a character that no key has: set it anew")
    if provider == "system-one" and base_url is None:
        raise ConfigurationError(
            f"{provider}:{model} needs its server's address: write {provider}:{model}@http://localhost:11434, or set "
            "SYSTEM_ONE_BASE_URL"
        )
    if names and key is None and base_url is None:
        server = _SERVERS.get(provider)
        other = f", or name a compatible server's address ({provider}:NAME@URL, {server[0]})" if server else ""
        raise ConfigurationError(
            f"{provider}:{model} needs a key: set {' or '.join(names)}{other}. Without a key: run "
            "`memalign models pull` and use --model local:qwen2.5-coder-1.5b"
        )
    return msgspec.structs.replace(target, api_key=key)


def _server_keys() -> dict[str, str]:
    entries = [entry.partition("=") for entry in os.environ.get(SERVER_KEYS, "").split()]
    if not all(key and re.match("https?://.", address) for address, _, key in entries):
        raise ConfigurationError(f"{SERVER_KEYS} holds what is not ADDRESS=KEY, such as http://localhost:8000/v1=KEY")
    return {address.rstrip("/"): key for address, _, key in entries}


def _known_upstream(provider: str) -> bool:
    """Whether pydantic-ai knows a provider that our table lacks. Slow (it is imported), hence asked last."""
    from pydantic_ai.providers import infer_provider_class

    with suppress(ValueError, RuntimeError):  # "Unknown provider", and pydantic-ai's UserError for a bad gateway route
        with suppress(ImportError):  # known; opening it will name what to install
            infer_provider_class(provider)
        return True
    return False


def whole_number(variable: str) -> int | None:
    """The number from 1 up that the environment's `variable` holds; None without one. Raises ConfigurationError."""
    raw = os.environ.get(variable, "").strip()
    if raw and not (raw.isascii() and raw.isdigit() and int(raw)):
        raise ConfigurationError(f"{variable}={raw!r}: a whole number from 1 up is needed")
    return int(raw) if raw else None
