"""Names of models and providers: parsed without importing a provider's library."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from importlib.util import find_spec
from urllib.parse import SplitResult, urlsplit, urlunsplit

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
    """What must be known of a provider before pydantic-ai opens it; mostly nothing.

    Attributes:
        keys: The variables of which one must hold its key.
        servers: The variables that may name another server that speaks its protocol.
        home: Its own address, to which its key may go.
        small: The model that its key implies if no model is named.
        decides: Whether its models answer typed questions and write nothing.
        library: The module that must be installed beside memalign; empty if none is needed.
    """

    keys: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    home: str = ""
    small: str = ""
    decides: bool = False
    library: str = ""

    @property
    def installed(self) -> bool:
        """True if its library is there; nothing is imported."""
        try:
            return not self.library or find_spec(self.library) is not None
        except ModuleNotFoundError:  # not even the package that would hold it
            return False


_OPENAI = Provider(
    keys=("OPENAI_API_KEY",),
    servers=(
        "OPENAI_BASE_URL",
        "OPENAI_API_BASE",
    ),  # the second of MLflow, LiteLLM, LangChain
    home="https://api.openai.com/v1",
)

PROVIDERS = {
    "openai": msgspec.structs.replace(_OPENAI, small="gpt-4.1-mini"),
    "anthropic": Provider(
        keys=("ANTHROPIC_API_KEY",),
        small="claude-haiku-4-5",
        library="anthropic",
    ),
    "google": Provider(
        keys=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
        small="gemini-3.1-flash-lite",
        library="google.genai",
    ),
    "openai-decisions": msgspec.structs.replace(_OPENAI, decides=True),
    "system-one": Provider(
        keys=("SYSTEM_ONE_API_KEY",),
        servers=("SYSTEM_ONE_BASE_URL",),
        decides=True,
    ),
    "typesafe": Provider(
        keys=("TYPESAFE_API_KEY",),
        servers=("TYPESAFE_BASE_URL",),
        home="https://api.typesafe.ai",
        decides=True,
        library="typesafe_sdk",
    ),
}
"""The first choice of a default comes first. Any other provider that pydantic-ai knows will do, and
finds its key itself."""


def traits_of(provider: str) -> Provider:
    """Return what is known of a provider."""
    if provider in PROVIDERS:
        return PROVIDERS[provider]
    account = PROVIDERS.get(provider.removesuffix("-decisions"))
    if account is not None:  # the same account, asked otherwise
        return Provider(keys=account.keys)
    usual = f"{provider.upper()}_API_KEY"  # of pydantic-ai, for most that it knows
    return Provider(keys=(usual,) if usual in os.environ else ())


_ALIASES = {
    "gemini": "google",
    "vertex_ai": "google-cloud",
    "fireworks_ai": "fireworks",
    "together_ai": "together",
    "togetherai": "together",
}
"""Spellings of MLflow and LiteLLM, which users bring along."""

_NAME = re.compile(
    r"(?P<provider>gateway/[a-z][a-z0-9_-]*|[A-Za-z][A-Za-z0-9_-]*)(?::/*|/+)(?P<model>[^\s].*)"
)
_ADDRESS = re.compile(r"(?P<model>.*?)@(?P<url>https?://.*)", re.IGNORECASE)

SAVED_OBJECT = (
    "If the judge was saved with a model object of that name, pass it: "
    "judge.replace(model=…)"
)

SERVER_KEYS = "MEMALIGN_SERVER_KEYS"
"""The variable with the keys of one's own servers, each as ADDRESS=KEY, separated by blanks. A key
goes to its address alone."""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """One model of one provider: all that is needed to open it.

    Attributes:
        provider: As pydantic-ai names it.
        model: The provider's name of the model.
        base_url: The address of an OpenAI-compatible server.
        api_key: Its key.
        addressed: Whether the model's name holds the address, so that it is part of the name.
    """

    provider: str
    model: str
    base_url: str | None = None
    api_key: str | None = None
    addressed: bool = False

    def __str__(self) -> str:
        return (
            f"{self.plain_name} at {self.address}" if self.address else self.plain_name
        )

    @property
    def name(self) -> str:
        """The resolved name, `openai:gpt-4.1-mini` or `openai:qwen3@http://localhost:8000/v1`."""
        return (
            f"{self.plain_name}@{self.address}" if self.addressed else self.plain_name
        )

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
        """The variables that hold its key, for people."""
        if self.addressed and self.api_key is None:
            return f"the server's key ({SERVER_KEYS}=ADDRESS=KEY)"
        names = [*traits_of(self.provider).keys]
        if self.base_url:
            names.append(SERVER_KEYS)
        return " or ".join(names) or "the provider's key"

    @property
    def trusted(self) -> bool:
        """True if the provider's own key may go there: no judge alone named the address."""
        traits = traits_of(self.provider)
        servers = [os.environ.get(name, "").rstrip("/") for name in traits.servers]
        homes = [*filter(None, servers)] or [traits.home]
        return not self.addressed or self.base_url in homes


def parse_name(name: str) -> tuple[str, str]:
    """Return provider and model of `openai:/m`, `openai:m` or `openai/m`.

    The model of `openai:m@URL` keeps its address, in one spelling: see `address_of`.

    Raises:
        ConfigurationError: The name is none of those.
    """
    match = _NAME.fullmatch(name.strip())
    if match is None:
        example = name.strip() or "gpt-4.1-mini"
        raise ConfigurationError(
            f"model {name!r} names no provider; write provider:model, such as "
            f"{_maker_of(example)}:{example} "
            f"or local:qwen2.5-coder-1.5b. {SAVED_OBJECT}"
        )
    provider = match["provider"].lower()
    provider = _ALIASES.get(provider, provider)
    model = match["model"].strip()
    if provider == "local":
        # A path may hold anything, and begins with a slash of its own.
        path = name.strip()[len("local:") :].strip()
        return provider, path if path.endswith(".gguf") else model
    plain, url = address_of(model)
    if url is None:
        return provider, model
    if not traits_of(provider).servers:
        raise ConfigurationError(
            f"{provider}:{plain}: an address needs an OpenAI-compatible server, and a model named "
            f"openai:{plain}@{url}"
        )
    return provider, f"{plain}@{url}"


def _maker_of(model: str) -> str:
    """Return the provider that a model's bare name suggests; `openai` if none."""
    for start, provider in {"claude": "anthropic", "gemini": "google"}.items():
        if model.lower().startswith(start):
            return provider
    return "openai"


def address_of(model: str) -> tuple[str, str | None]:
    """Return `m` and `URL` of `m@URL`, or the model and None.

    Raises:
        ConfigurationError: It is no address, or holds what must not be kept.
    """
    match = _ADDRESS.fullmatch(model)
    if match is None:
        return model, None
    url = match["url"].strip().rstrip("/")
    parts = _parts_of(url)
    if not match["model"] or parts is None:
        raise ConfigurationError(
            "after the @ of a model stands an address such as http://localhost:8000/v1"
        )
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ConfigurationError(
            "an address is stored with the judge and holds no user, password or query: "
            f"https://{parts.hostname}{parts.path}. A key goes into the environment variable "
            f"{SERVER_KEYS}, as ADDRESS=KEY"
        )
    return match["model"], url


def _parts_of(url: str) -> SplitResult | None:
    """Return the parts of an address, or None if it is none."""
    try:
        parts = urlsplit(url)
        whole = (
            bool(parts.hostname) and parts.port != 0
        )  # a port that is no number raises
    except ValueError:
        return None
    return parts if whole and url.isprintable() and " " not in url else None


def without_secrets(url: str) -> str:
    """Return an address as it may be shown: without user, password and query."""
    parts = urlsplit(url)
    return urlunsplit(
        parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="")
    )


def target_of(name: str) -> Target:
    """Return the model that a name means in this environment.

    Raises:
        ConfigurationError: It lacks a key or an address.
    """
    provider, model = parse_name(name)
    traits = traits_of(provider)
    address = None
    if traits.servers:
        model, address = address_of(model)
    base_url = address or _server_of(traits)
    addressed = address is not None
    target = Target(
        provider=provider, model=model, base_url=base_url, addressed=addressed
    )
    if provider == "system-one" and base_url is None:
        raise ConfigurationError(
            f"{provider}:{model} needs its server's address: write "
            f"{provider}:{model}@http://localhost:11434, or set SYSTEM_ONE_BASE_URL"
        )
    key = _key_of(target)
    if traits.keys and key is None and base_url is None:
        other = ""
        if traits.servers:
            other = (
                f", or name another server ({provider}:NAME@URL, {traits.servers[0]})"
            )
        raise ConfigurationError(
            f"{provider}:{model} needs a key: set {' or '.join(traits.keys)}{other}. Without a "
            "key: run `memalign models pull` and use --model local:qwen2.5-coder-1.5b"
        )
    return msgspec.structs.replace(target, api_key=key)


def _key_of(target: Target) -> str | None:
    """Return the key for a target, which goes where it is meant to go, and nowhere else.

    Raises:
        ConfigurationError: It holds what no key has.
    """
    key = _server_keys().get((target.base_url or "").rstrip("/"))
    if key is None and target.trusted:
        key = _first(traits_of(target.provider).keys)
    if key is not None and not (key.isascii() and key.isprintable()):
        raise ConfigurationError(
            f"{target.key_name} holds a line break or a character that no key has: set it again"
        )
    return key


def _server_of(traits: Provider) -> str | None:
    """Return the address that the environment names.

    Raises:
        ConfigurationError: It is no address.
    """
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
    """Return the first of the variables that is set."""
    return next(filter(None, map(os.environ.get, variables)), None)


def _server_keys() -> dict[str, str]:
    keys = {}
    for entry in os.environ.get(SERVER_KEYS, "").split():
        address, _, key = entry.partition("=")
        if not key or not re.match("https?://.", address):
            raise ConfigurationError(
                f"{SERVER_KEYS} holds what is not ADDRESS=KEY, such as http://localhost:8000/v1=KEY"
            )
        keys[address.rstrip("/")] = key
    return keys


def whole_number(variable: str) -> int | None:
    """Return the number from 1 up that a variable of the environment holds, or None if unset.

    Raises:
        ConfigurationError: It holds something else.
    """
    raw = os.environ.get(variable, "").strip()
    if not raw:
        return None
    if not (raw.isascii() and raw.isdigit() and int(raw)):
        raise ConfigurationError(
            f"{variable}={raw!r}: a whole number from 1 up is needed"
        )
    return int(raw)
