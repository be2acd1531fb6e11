"""Statements about the set-up script: quick the second time, and clear when it cannot go on."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest
from checkout import ROOT


@pytest.fixture
def dev(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """dev.py over an empty checkout, whose environment claims to be this very Python."""
    monkeypatch.syspath_prepend(str(ROOT))
    module = importlib.import_module("dev")
    locks = {"runtime": tmp_path / "runtime.txt", "dev": tmp_path / "dev.txt"}
    packages = [tmp_path / "packages/one", tmp_path / "packages/two"]
    for folder in packages:
        folder.mkdir(parents=True)
        (folder / "pyproject.toml").touch()
    for lock in locks.values():
        lock.touch()
    paths = {
        "PACKAGES": packages,
        "ROOT": tmp_path,
        "VENV": tmp_path / ".venv",
        "LOCKS": locks,
        "PYTHON": Path(sys.executable),
        "STAMP": tmp_path / "stamp.txt",
    }
    for name, value in paths.items():
        monkeypatch.setattr(module, name, value)
    return module


@pytest.fixture
def commands(dev: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that would have been run, which all succeed."""
    seen: list[list[str]] = []

    def call(*words: object) -> int:
        seen.append([*map(str, words)])
        return 0

    monkeypatch.setattr(dev, "call", call)
    return seen


@pytest.mark.parametrize(
    "name", ["runtime.txt", "dev.txt", "packages/two/pyproject.toml"]
)
def test_a_second_run_installs_only_what_changed(
    dev: ModuleType, commands: list[list[str]], tmp_path: Path, name: str
) -> None:
    dev.prepare("dev")
    from_lock, own_packages = commands
    assert "-r" in from_lock
    assert "-r" not in own_packages
    dev.prepare("dev")
    assert len(commands) == 2
    (tmp_path / name).write_text("two==2 --hash=sha256:00\n", "utf-8")
    dev.prepare("dev")
    assert len(commands) == 4


@pytest.mark.parametrize("answer", ["Ctrl+C", 1])
def test_an_install_that_ended_early_does_not_look_finished(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, answer: object
) -> None:
    def call(*_: object) -> object:
        if answer == "Ctrl+C":
            raise KeyboardInterrupt
        return answer

    dev.STAMP.write_text("old dev", "utf-8")
    monkeypatch.setattr(dev, "call", call)
    with pytest.raises((KeyboardInterrupt, SystemExit)) as error:
        dev.prepare("dev")
    assert answer == "Ctrl+C" or "The command was:" in str(error.value)
    assert not dev.STAMP.exists()


def test_every_check_runs_and_failures_are_named(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dev, "prepare", lambda _: None)
    monkeypatch.setattr(dev, "call", lambda *words, **_: "ruff" in words)
    assert dev.test(["-x"]) == 1
    assert "FAILED: ruff check, ruff format" in capsys.readouterr().out


LIVE = ["--model", "local:qwen2.5-coder-1.5b"]


@pytest.mark.parametrize(
    ("terminal", "there", "given", "live"),
    [
        (True, False, [], LIVE),
        (False, True, [], LIVE),
        (False, False, ["--yes"], LIVE),
        (False, False, [], []),
        (False, False, ["--model", "openai:m"], []),
    ],
)
def test_nobody_but_a_person_or_a_flag_agrees_to_a_download(
    dev: ModuleType,
    commands: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
    terminal: bool,
    there: bool,
    given: list[str],
    live: list[str],
) -> None:
    monkeypatch.setattr(dev, "prepare", lambda _: None)
    monkeypatch.setattr(dev, "has_embedded_model", lambda: there)
    monkeypatch.setattr(dev.sys.stdin, "isatty", lambda: terminal, raising=False)
    assert dev.demo(given) == 0
    assert commands == [[sys.executable, "-m", "memalign", "demo", *live, *given]]
