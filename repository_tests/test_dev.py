"""Statements about the set-up script: quick the second time, and clear when it cannot go on."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

DEV = Path(__file__).resolve().parent.parent / "dev.py"


@pytest.fixture
def dev(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """dev.py over an empty checkout, whose environment claims to be this very Python."""
    spec = importlib.util.spec_from_file_location("dev_under_test", DEV)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    locks = {kind: tmp_path / f"{kind}.txt" for kind in ("runtime", "dev")}
    packages = [tmp_path / "packages" / name for name in ("one", "two")]
    for folder in packages:
        folder.mkdir(parents=True)
    for lock in [*locks.values(), *(folder / "pyproject.toml" for folder in packages)]:
        lock.write_text("one==1 --hash=sha256:00\n", "utf-8")
    monkeypatch.setattr(module, "PACKAGES", packages)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(module, "PYTHON", Path(sys.executable))
    monkeypatch.setattr(module, "STAMP", tmp_path / "stamp.txt")
    monkeypatch.setattr(module, "LOCKS", locks)
    return module


@pytest.fixture
def installs(dev: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that pip would have been given."""
    commands: list[list[str]] = []
    monkeypatch.setattr(dev, "_install", commands.append)
    monkeypatch.setattr(dev, "_make_venv", lambda: None)
    return commands


def test_a_second_run_installs_nothing(dev: ModuleType, installs: list[list[str]]) -> None:
    dev.prepare("runtime")
    assert len(installs) == 2
    dev.prepare("runtime")
    assert len(installs) == 2


def test_the_tools_environment_also_serves_the_demo(dev: ModuleType, installs: list[list[str]]) -> None:
    dev.prepare("dev")
    dev.prepare("runtime")
    assert len(installs) == 2


def test_the_demo_environment_is_not_enough_for_tests(dev: ModuleType, installs: list[list[str]]) -> None:
    dev.prepare("runtime")
    dev.prepare("dev")
    assert len(installs) == 4


@pytest.mark.parametrize("name", ["runtime.txt", "dev.txt", "packages/two/pyproject.toml"])
def test_a_changed_lock_or_project_is_installed_again(
    dev: ModuleType, installs: list[list[str]], tmp_path: Path, name: str
) -> None:
    dev.prepare("dev")
    (tmp_path / name).write_text("two==2 --hash=sha256:00\n", "utf-8")
    dev.prepare("dev")
    assert len(installs) == 4


def test_a_stopped_install_does_not_look_finished(dev: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(command: list[str]) -> None:
        raise KeyboardInterrupt

    dev.STAMP.write_text("old dev", "utf-8")
    monkeypatch.setattr(dev, "_install", stopped)
    monkeypatch.setattr(dev, "_make_venv", lambda: None)
    with pytest.raises(KeyboardInterrupt):
        dev.prepare("dev")
    assert not dev.STAMP.exists()


def test_a_failing_pip_is_shown_in_full(dev: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    script = "import sys; print('Collecting one==1'); print('no space left', file=sys.stderr); sys.exit(1)"
    with pytest.raises(SystemExit, match="pip failed"):
        dev._install([sys.executable, "-c", script])
    out = capsys.readouterr().out
    assert "Collecting one==1" in out
    assert "no space left" in out


def test_a_python_without_venv_names_what_to_install(
    dev: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dev, "PYTHON", tmp_path / "nothing")
    monkeypatch.setattr(dev.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(SystemExit, match="apt install python3"):
        dev.prepare("runtime")


def test_an_unknown_command_names_the_known_ones() -> None:
    done = subprocess.run([sys.executable, str(DEV), "dmeo"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "demo, test, endure, lint" in done.stdout


@pytest.mark.parametrize(
    ("given", "seed", "rest"),
    [(["--random", "7", "-x"], "7", ["-x"]), (["-k", "one", "--random"], None, ["-k", "one"])],
)
def test_drawn_tests_name_their_seed(
    dev: ModuleType, capsys: pytest.CaptureFixture[str], given: list[str], seed: str | None, rest: list[str]
) -> None:
    arguments, environment = dev._drawn(given)
    drawn = environment["MEMALIGN_TEST_SEED"]
    assert seed in (None, drawn)
    assert arguments == ["--hypothesis-profile=random", f"--hypothesis-seed={drawn}", *rest]
    assert f"python3 dev.py test --random {drawn}" in capsys.readouterr().out


def test_without_random_nothing_is_drawn(dev: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MEMALIGN_TEST_SEED", raising=False)
    arguments, environment = dev._drawn(["-x"])
    assert arguments == ["-x"]
    assert "MEMALIGN_TEST_SEED" not in environment


@pytest.mark.parametrize("given", [["soon"], ["1", "2"], ["-5"]])
def test_endure_asks_for_minutes(
    dev: ModuleType, installs: list[list[str]], capsys: pytest.CaptureFixture[str], given: list[str]
) -> None:
    assert dev.endure(given) == 2
    assert "how many minutes" in capsys.readouterr().out


def test_endure_stops_at_the_first_failure(
    dev: ModuleType, installs: list[list[str]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    codes = iter([0, 0, 1])
    asked: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        return subprocess.CompletedProcess(command, next(codes))

    monkeypatch.setattr(dev.subprocess, "run", run)
    assert dev.endure(["20"]) == 1
    assert "3 rounds, the last one FAILED" in capsys.readouterr().out
    drawn = [word for command in asked for word in command if word.startswith("--hypothesis-seed=")]
    assert len(set(drawn)) == 3, "each round draws anew"


def test_checks_beside_the_tests_are_told_after(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dev, "checks", lambda log: [str(print("ruff says no", file=log) or "ruff check")])
    beside = dev._Beside()
    assert beside.wait() == ["ruff check"]
    assert "ruff says no" in capsys.readouterr().out


def test_the_closing_line_is_told_again(dev: ModuleType, capfd: pytest.CaptureFixture[str]) -> None:
    script = "import sys; print('....'); print('4 passed in 1 s'); sys.exit(3)"
    assert dev._told([sys.executable, "-c", script], dict(os.environ)) == (3, "4 passed in 1 s")
