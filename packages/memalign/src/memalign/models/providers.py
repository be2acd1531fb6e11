"""Names of models and providers: parsed without importing a provider's library."""

from __future__ import annotations

import os
import re

import msgspec

from memalign.errors import ConfigurationError

__all__ = ["DEFAULTS", "PROVIDERS", "Target", "parse_name", "target_of"]

PROVIDERS: dict[str, tuple[str, ...]] = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "alibaba": ("ALIBABA_API_KEY", "DASHSCOPE_API_KEY"),
    "azure": (),
    "bedrock": (),
    "cerebras": ("CEREBRAS_API_KEY",),
    "cohere": ("CO_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "fireworks": ("FIREWORKS_API_KEY",),
    "github": ("GITHUB_API_KEY",),
    "google-cloud": (),
    "groq": ("GROQ_API_KEY",),
    "heroku": ("HEROKU_INFERENCE_KEY",),
    "huggingface": ("HF_TOKEN",),
    "litellm": (),
    "mistral": ("MISTRAL_API_KEY",),
    "moonshotai": ("MOONSHOTAI_API_KEY",),
    "nebius": ("NEBIUS_API_KEY",),
    "ollama": (),
    "openrouter": ("OPENROUTER_API_KEY",),
    "ovhcloud": ("OVHCLOUD_API_KEY",),
    "sambanova": ("SAMBANOVA_API_KEY",),
    "together": ("TOGETHER_API_KEY",),
    "vercel": (),
    "voyageai": ("VOYAGE_API_KEY",),
    "xai": ("XAI_API_KEY",),
    "zai": ("ZAI_API_KEY",),
}
"""pydantic-ai's providers, with the variables of which one must hold the key; none where it is found in other ways."""

DEFAULTS = (
    ("OPENAI_API_KEY", "openai:gpt-4.1-mini"),
    ("ANTHROPIC_API_KEY", "anthropic:claude-haiku-4-5"),
    ("GOOGLE_API_KEY", "google:gemini-3.1-flash-lite"),
    ("GEMINI_API_KEY", "google:gemini-3.1-flash-lite"),
)
"""The small model that a key stands for when no model is named, in order of preference."""

_EXTRAS = ("anthropic", "bedrock", "cohere", "google", "groq", "huggingface", "mistral", "voyageai", "xai")
"""Of pydantic-ai-slim; all other providers speak OpenAI's API."""

# Spellings of MLflow, LiteLLM and older pydantic-ai, which users bring along.
_ALIASES = {
    "openai-chat": "openai",
    "gemini": "google",
    "google-gla": "google",
    "google-vertex": "google-cloud",
    "vertex_ai": "google-cloud",
    "together_ai": "together",
    "fireworks_ai": "fireworks",
}

_NAME = re.compile(r"(?P<provider>gateway/[a-z][a-z0-9_-]*|[A-Za-z][A-Za-z0-9_-]*)(?::/*|/+)(?P<model>[^\s].*)")


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """One model of one provider: all that is needed to open it. `base_url` is set for an OpenAI-compatible server."""

    provider: str
    model: str
    base_url: str | None = None
    api_key: str | None = None

    @property
    def name(self) -> str:
        """The resolved name, `openai:gpt-4.1-mini`."""
        return f"{self.provider}:{self.model}"

    @property
    def url(self) -> str:
        """The address of an OpenAI-compatible API, OpenAI's own by default."""
        return self.base_url or "https://api.openai.com/v1"

    @property
    def key_name(self) -> str | None:
        """The environment variable that holds the key, where we know it."""
        names = PROVIDERS.get(self.provider, ())
        return next((name for name in names if os.environ.get(name)), names[0] if names else None)

    @property
    def install(self) -> str:
        """The command that installs the provider's library, whether memalign came from a package or a checkout."""
        kind = self.provider.removeprefix("gateway/").replace("google-cloud", "google")
        return f'pip install "pydantic-ai-slim[{kind if kind in _EXTRAS else "openai"}]"'


def parse_name(name: str) -> tuple[str, str]:
    """Provider and model of `openai:/m`, `openai:m` or `openai/m`. Raises ConfigurationError for anything else."""
    found = _NAME.fullmatch(name.strip())
    if found is None:
        raise ConfigurationError(
            f"model {name!r} names no provider; write provider:model, such as openai:{name.strip() or 'gpt-4.1-mini'} "
            "or local:qwen2.5-coder-1.5b"
        )
    provider = found["provider"].lower()
    return _ALIASES.get(provider, provider), found["model"].strip()


def target_of(name: str) -> Target:
    """The model that `name` means in this environment.

    Raises ConfigurationError for a provider that nobody knows (with those that are) and for a missing key (with the
    variable to set).
    """
    provider, model = parse_name(name)
    if provider not in PROVIDERS and not _known_upstream(provider):
        raise ConfigurationError(
            f"model {name!r}: unknown provider {provider!r}; known are local, {', '.join(PROVIDERS)}. For any other "
            "OpenAI-compatible server set OPENAI_BASE_URL and write openai:MODEL"
        )
    names = PROVIDERS.get(provider, ())
    key = next((value for each in names if (value := os.environ.get(each))), None)
    base_url = (os.environ.get("OPENAI_BASE_URL") or None) if provider == "openai" else None
    if names and key is None and base_url is None:
        other = ", or OPENAI_BASE_URL to a compatible server" if provider == "openai" else ""
        raise ConfigurationError(
            f"{provider}:{model} needs a key: set {' or '.join(names)}{other}. Without a key: run "
            "`memalign models pull` and use --model local:qwen2.5-coder-1.5b"
        )
    return Target(provider=provider, model=model, base_url=base_url, api_key=key)


def _known_upstream(provider: str) -> bool:
    """Whether pydantic-ai knows a provider that our table lacks. Slow (it is imported), hence asked last."""
    from pydantic_ai.providers import infer_provider_class

    try:
        infer_provider_class(provider)
    except ImportError:
        return True  # known; opening it will name what to install
    except (ValueError, RuntimeError):  # "Unknown provider", and pydantic-ai's UserError for a bad gateway route
        return False
    return True
