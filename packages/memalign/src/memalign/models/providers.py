"""Names of models and providers: parsed without importing a provider's library."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from importlib.util import find_spec
from urllib.parse import urlsplit, urlunsplit

import msgspec

from memalign.errors import ConfigurationError

__all__ = [
    "PROVIDERS",
    "SERVER_KEYS",
    "Provider",
    "Target",
    "address_of",
    "parse_name",
    "target_of",
    "traits_of",
    "whole_number",
    "without_secrets",
]


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be known of a provider before pydantic-ai opens it; of those that are in no table, nothing.

    Attributes:
        keys: The variables of which one must hold its key.
        servers: The variables that may name another server that speaks its protocol.
        home: Its own address, to which its key may go.
        small: The model that its key stands for when no model is named.
        decides: Whether its models answer typed questions and write nothing.
        library: The module that must be installed beside memalign; empty where nothing else is needed.
    """

    keys: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    home: str = ""
    small: str = ""
    decides: bool = False
    library: str = ""

    @property
    def installed(self) -> bool:
        """Whether its library is there; nothing is imported."""
        try:
            return not self.library or find_spec(self.library) is not None
        except ModuleNotFoundError:  # not even the package that would hold it
            return False


# MLflow, LiteLLM and LangChain read the second variable of OpenAI's server.
_OPENAI = Provider(
    keys=("OPENAI_API_KEY",),
    servers=("OPENAI_BASE_URL", "OPENAI_API_BASE"),
    home="https://api.openai.com/v1",
)

PROVIDERS = {
    "openai": msgspec.structs.replace(_OPENAI, small="gpt-4.1-mini"),
    "anthropic": Provider(
        keys=("ANTHROPIC_API_KEY",), small="claude-haiku-4-5", library="anthropic"
    ),
    "google": Provider(
        keys=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
        small="gemini-3.1-flash-lite",
        library="google.genai",
    ),
    "openai-decisions": msgspec.structs.replace(_OPENAI, decides=True),
    "system-one": Provider(
        keys=("SYSTEM_ONE_API_KEY",), servers=("SYSTEM_ONE_BASE_URL",), decides=True
    ),
    "typesafe": Provider(
        keys=("TYPESAFE_API_KEY",),
        servers=("TYPESAFE_BASE_URL",),
        home="https://api.typesafe.ai",
        decides=True,
        library="typesafe_sdk",
    ),
}
"""The first choice of a default comes first. Any other that pydantic-ai knows will do: it finds its key itself."""


def traits_of(provider: str) -> Provider:
    """What is known of a provider."""
    if (known := PROVIDERS.get(provider)) is not None:
        return known
    if (
        base := PROVIDERS.get(provider.removesuffix("-decisions"))
    ) is not None:  # the same account, asked otherwise
        return Provider(keys=base.keys)
    usual = f"{provider.upper()}_API_KEY"  # of pydantic-ai, for most that it knows
    return Provider(keys=(usual,) if usual in os.environ else ())


# Spellings of MLflow and LiteLLM, which users bring along.
_ALIASES = {"gemini": "google", "vertex_ai": "google-cloud", "fireworks_ai": "fireworks"}
_ALIASES |= {"together_ai": "together", "togetherai": "together"}

_NAME = re.compile(
    r"(?P<provider>gateway/[a-z][a-z0-9_-]*|[A-Za-z][A-Za-z0-9_-]*)(?::/*|/+)(?P<model>[^\s].*)"
)
_ADDRESS = re.compile(r"(?P<model>.*?)@(?P<url>https?://.*)", re.IGNORECASE)

SAVED_OBJECT = (
    "If the judge was saved with a model object of that name, pass it: judge.replace(model=…)"
)

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
        names = (*traits_of(self.provider).keys, *((SERVER_KEYS,) if self.base_url else ()))
        return " or ".join(names) or "the provider's key"

    @property
    def trusted(self) -> bool:
        """Whether what the environment holds for the provider may go there: no judge alone named the address."""
        traits = traits_of(self.provider)
        servers = [url.rstrip("/") for name in traits.servers if (url := os.environ.get(name))]
        return not self.addressed or self.base_url in (servers or [traits.home])


def parse_name(name: str) -> tuple[str, str]:
    """Provider and model of `openai:/m`, `openai:m` or `openai/m`. Raises ConfigurationError for anything else.

    The model of `openai:m@URL` keeps its address, in one spelling: see `address_of`.
    """
    match = _NAME.fullmatch(name.strip())
    if match is None:
        raise ConfigurationError(
            f"model {name!r} names no provider; write provider:model, such as openai:{name.strip() or 'gpt-4.1-mini'} "
            f"or local:qwen2.5-coder-1.5b. {SAVED_OBJECT}"
        )
    provider, model = match["provider"].lower(), match["model"].strip()
    provider = _ALIASES.get(provider, provider)
    if provider == "local":  # a path may hold anything, and begins with a slash of its own
        path = name.strip()[len("local:") :].strip()
        return provider, path if path.endswith(".gguf") else model
    plain, url = address_of(model)
    if url is not None and not traits_of(provider).servers:
        raise ConfigurationError(
            f"{provider}:{plain}: an address needs an OpenAI-compatible server, and a model named openai:{plain}@{url}"
        )
    return provider, model if url is None else f"{plain}@{url}"


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
        raise ConfigurationError(
            "after the @ of a model stands an address such as http://localhost:8000/v1"
        )
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
    """The model that `name` means in this environment. Raises ConfigurationError where it lacks a key or an address."""
    provider, model = parse_name(name)
    traits = traits_of(provider)
    model, address = address_of(model) if traits.servers else (model, None)
    base_url = address or _server_of(traits)
    target = Target(
        provider=provider, model=model, base_url=base_url, addressed=address is not None
    )
    # A key goes where it is meant to go, and nowhere else.
    if (key := _server_keys().get((base_url or "").rstrip("/"))) is None and target.trusted:
        key = _first(traits.keys)
    if key is not None and not (key.isascii() and key.isprintable()):
        raise ConfigurationError(
            f"{target.key_name} holds a line break or a character that no key has: set it anew"
        )
    if provider == "system-one" and base_url is None:
        raise ConfigurationError(
            f"{provider}:{model} needs its server's address: write {provider}:{model}@http://localhost:11434, or set "
            "SYSTEM_ONE_BASE_URL"
        )
    if traits.keys and key is None and base_url is None:
        other = (
            f", or name another server ({provider}:NAME@URL, {traits.servers[0]})"
            if traits.servers
            else ""
        )
        raise ConfigurationError(
            f"{provider}:{model} needs a key: set {' or '.join(traits.keys)}{other}. Without a key: run "
            "`memalign models pull` and use --model local:qwen2.5-coder-1.5b"
        )
    return msgspec.structs.replace(target, api_key=key)


def _server_of(traits: Provider) -> str | None:
    """Return the address that the environment names. Raises ConfigurationError for one that is none."""
    for name in traits.servers:
        url = os.environ.get(name, "").strip()
        if url and not re.match(r"https?://[^\s/]", url, re.IGNORECASE):
            raise ConfigurationError(
                f"{name} is no address: it begins with http:// or https://, such as http://HOST/v1"
            )
        if url:
            return url
    return None


def _first(variables: Iterable[str]) -> str | None:
    """What the first of the variables holds that holds anything."""
    return next((value for name in variables if (value := os.environ.get(name))), None)


def _server_keys() -> dict[str, str]:
    entries = [entry.partition("=") for entry in os.environ.get(SERVER_KEYS, "").split()]
    if not all(key and re.match("https?://.", address) for address, _, key in entries):
        raise ConfigurationError(
            f"{SERVER_KEYS} holds what is not ADDRESS=KEY, such as http://localhost:8000/v1=KEY"
        )
    return {address.rstrip("/"): key for address, _, key in entries}


def whole_number(variable: str) -> int | None:
    """The number from 1 up that the environment's `variable` holds; None without one. Raises ConfigurationError."""
    raw = os.environ.get(variable, "").strip()
    if raw and not (raw.isascii() and raw.isdigit() and int(raw)):
        raise ConfigurationError(f"{variable}={raw!r}: a whole number from 1 up is needed")
    return int(raw) if raw else None
