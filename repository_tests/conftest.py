"""A folder with the files that the pages speak of, and a server that stands for a provider."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from checkout import ROOT

from tests.support.attentive import attentive
from tests.support.endpoint import Endpoint


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The working directory, with a copy of examples/support."""
    return Path(
        shutil.copytree(ROOT / "examples" / "support", tmp_path, dirs_exist_ok=True)
    )


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    """Every model of OpenAI is on it."""
    with Endpoint(attentive) as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "not-a-key")
        yield endpoint
