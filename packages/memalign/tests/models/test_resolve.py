"""From names to models."""

from __future__ import annotations

import os
import subprocess
import sys

import msgspec
import pytest

from memalign import Judge
from memalign.errors import ConfigurationError
from memalign.models import default_model_name, resolve, resolve_embedding
from memalign.models.judge_models import open_model


@pytest.mark.parametrize(
    ("given", "variable", "resolved"),
    [
        (
            "anthropic:claude-haiku-4-5",
            "ANTHROPIC_API_KEY",
            "anthropic:claude-haiku-4-5",
        ),
        (
            "gemini:/gemini-3.1-flash-lite",
            "GEMINI_API_KEY",
            "google:gemini-3.1-flash-lite",
        ),
        (
            "google:gemini-3.1-flash-lite",
            "GOOGLE_API_KEY",
            "google:gemini-3.1-flash-lite",
        ),
    ],
)
def test_a_provider_needs_only_its_key(monkeypatch, given, variable, resolved):
    with pytest.raises(ConfigurationError, match=variable):
        resolve(given)
    monkeypatch.setenv(variable, "test")
    assert resolve(given).name == resolved


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        (
            "openai:gpt-4.1-mini",
            r"OPENAI_API_KEY.*OPENAI_BASE_URL.*local:qwen2\.5-coder-1\.5b",
        ),
        (None, r"OPENAI_API_KEY.*memalign models pull.*--model local:"),
        ("gpt-4.1-mini", "provider:model, such as openai:"),
        ("", "provider:model, such as openai:"),
        ("openai:", "provider:model, such as openai:"),
        (":m", "provider:model, such as openai:"),
        ("open ai:m", "provider:model, such as openai:"),
    ],
)
def test_a_name_that_will_not_do_names_the_remedy(name, remedy):
    assert default_model_name() is None
    with pytest.raises(ConfigurationError, match=remedy):
        resolve(name)


def test_name_address_and_key_make_one_model(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    first = resolve("openai:qwen")  # a server of one's own needs no key
    assert first.name == "openai:qwen"
    assert resolve("openai/qwen") is resolve(first) is first
    monkeypatch.setenv("OPENAI_API_KEY", "the right one, at last")
    second = resolve("openai:qwen")
    assert second is not first
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:2/v1")
    assert resolve("openai:qwen") is not second
    monkeypatch.setenv("DEEPSEEK_API_KEY", "wrong")
    wrong = resolve("deepseek:m")
    monkeypatch.setenv("DEEPSEEK_API_KEY", "right")
    assert resolve("deepseek:m") is not wrong


def test_an_encoder_finds_no_key_in_a_model(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "hidden")
    with pytest.raises(TypeError, match="unsupported"):
        msgspec.json.encode(resolve("openai:m"))


def test_a_model_without_a_name_is_not_the_judges_own(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    judge = Judge(
        name="j",
        instructions="Is {{ outputs }} kind?",
        feedback_value_type=bool,
        model="openai:m",
    )
    with pytest.raises(ConfigurationError, match="names no provider"):
        open_model(judge, "")


@pytest.mark.parametrize(
    ("variables", "model"),
    [
        ({"OPENAI_API_KEY": "test"}, "openai:gpt-4.1-mini"),
        ({"ANTHROPIC_API_KEY": "test"}, "anthropic:claude-haiku-4-5"),
        ({"GEMINI_API_KEY": "test"}, "google:gemini-3.1-flash-lite"),
        (
            {"OPENAI_API_KEY": "test", "MEMALIGN_MODEL": "openai:/gpt-4.1-nano"},
            "openai:gpt-4.1-nano",
        ),
    ],
)
def test_a_key_stands_for_its_providers_small_model(monkeypatch, variables, model):
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    assert default_model_name() == model
    assert resolve(None).name == resolve().name == model


def test_limits_come_from_the_environment_and_the_price_list(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    assert resolve("openai:gpt-4o-mini").limits.context_tokens == 128_000
    assert resolve("openai:unknown").limits.context_tokens == 128_000
    assert resolve("openai:gpt-4.1-mini").limits.context_tokens >= 1_000_000
    monkeypatch.setenv("MEMALIGN_CONCURRENCY", "7")
    assert resolve("openai:gpt-4.1-mini").limits.concurrency == 7
    monkeypatch.setenv("MEMALIGN_CONCURRENCY", "many")
    with pytest.raises(ConfigurationError, match="MEMALIGN_CONCURRENCY='many'"):
        resolve("openai:gpt-4.1-mini")


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        (
            "oponai:gpt-4.1-mini",
            "oponai:gpt-4.1-mini cannot be used: Unknown provider: oponai; did you mean "
            r"openai:gpt-4.1-mini\? Any other",
        ),
        ("zzz:m", "zzz:m cannot be used: Unknown provider: zzz. Any other"),
        ("claude-haiku-4-5", "such as anthropic:claude-haiku-4-5 or"),
        ("gemini-3.1-pro", "such as google:gemini-3.1-pro or"),
        ("qwen3", "such as openai:qwen3 or"),
        (
            "openrouter/meta-llama/llama-3:free",
            "openrouter:meta-llama/llama-3:free cannot .*OPENROUTER_API_KEY",
        ),
        ("deepseek:deepseek-chat", "DEEPSEEK_API_KEY"),
        (
            "ollama:llama3.1",
            r"OLLAMA_BASE_URL` environment variable to .*openai:llama3.1@URL",
        ),
    ],
)
@pytest.mark.parametrize("by_name", [resolve, resolve_embedding])
def test_what_a_provider_lacks_is_named_before_any_call(by_name, name, remedy):
    with pytest.raises(ConfigurationError, match=remedy):
        by_name(name)


def test_a_server_without_a_models_name_is_told_what_is_missing(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:11434/v1")
    said = r"names a server.*MEMALIGN_MODEL=openai:NAME"
    with pytest.raises(ConfigurationError, match=said):
        resolve()


@pytest.mark.parametrize(
    ("name", "library", "extra"),
    [
        ("anthropic:unasked", "anthropic", "anthropic"),
        ("google:unasked", "google.genai", "google"),
        ("groq:unasked", "groq", "groq"),
    ],
)
def test_a_missing_library_is_named_before_any_call(monkeypatch, name, library, extra):
    monkeypatch.setenv(f"{extra.upper()}_API_KEY", "test")
    # What `import` sees without the package.
    monkeypatch.setitem(sys.modules, library, None)
    for module in list(sys.modules):
        provider = module.startswith("pydantic_ai.providers.")
        if provider or module.endswith(f"models.{extra}"):
            monkeypatch.delitem(sys.modules, module)
    remedy = rf'{name} needs a library .*Run: pip install "pydantic-ai-slim\[{extra}\]"'
    with pytest.raises(ConfigurationError, match=remedy):
        resolve(name)


RESOLVE = """
import sys
from memalign.models import resolve, resolve_embedding
resolve("anthropic:claude-haiku-4-5")
resolve("openai:m")
resolve_embedding("openai:e")
heavy = {"pydantic_ai", "openai", "anthropic", "genai_prices", "numpy", "httpx2"}
loaded = heavy & set(sys.modules)
sys.exit(f"loaded {loaded}" if loaded else 0)
"""


def test_names_are_resolved_without_a_providers_library():
    keys = {**os.environ, "ANTHROPIC_API_KEY": "test", "OPENAI_API_KEY": "test"}
    done = subprocess.run(
        [sys.executable, "-c", RESOLVE],
        env=keys,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
