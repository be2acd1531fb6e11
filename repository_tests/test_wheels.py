"""Each package's wheel holds what it needs and no more, and works without the other packages."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BIN = "Scripts" if os.name == "nt" else "bin"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel of each package by the package's name."""
    out = tmp_path_factory.mktemp("wheels")
    folders = [str(ROOT / "packages" / name) for name in ("memalign", "memalign-server")]
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(out), *folders]
    subprocess.run(build, check=True, capture_output=True)
    return {file.name.partition("-")[0].replace("_", "-"): file for file in out.glob("*.whl")}


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """An environment with the dependencies of this one and none of our packages."""
    folder = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (site,) = folder.glob("lib/python*/site-packages") if os.name != "nt" else [folder / "Lib" / "site-packages"]
    for entry in Path(sysconfig.get_paths()["purelib"]).iterdir():
        if "memalign" not in entry.name:
            (site / entry.name).symlink_to(entry)
    return folder


def install(wheel: Path, environment: Path) -> None:
    (site,) = environment.glob("lib/python*/site-packages") if os.name != "nt" else [environment / "Lib/site-packages"]
    to = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(site), str(wheel)]
    subprocess.run(to, check=True, capture_output=True)


def run(environment: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command line in the environment, with a key; our sources are out of its reach."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    variables["OPENAI_API_KEY"] = "not-a-key"
    command = [str(environment / BIN / "python"), "-m", "memalign", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=variables, cwd=environment)


def test_wheels_hold_code_and_its_data_only(wheels: dict[str, Path]) -> None:
    assert set(wheels) == {"memalign", "memalign-server"}
    for name, wheel in wheels.items():
        own = name.replace("-", "_")
        files = zipfile.ZipFile(wheel).namelist()
        assert {file.partition("/")[0].partition("-")[0] for file in files} == {own}
        assert wheel.stat().st_size < 1_000_000  # code alone: neither weights nor results
    files = zipfile.ZipFile(wheels["memalign"]).namelist()
    assert "memalign/py.typed" in files
    assert any(file.endswith(".jinja") for file in files)


def test_the_library_works_alone_and_names_missing_packages(wheels: dict[str, Path], environment: Path) -> None:
    install(wheels["memalign"], environment)
    assert run(environment, "--help").returncode == 0
    words = ("--instructions", "Is it good? {{ outputs }}", "--value-type", "bool", "--model", "openai:gpt-4.1-mini")
    made = run(environment, "create", "tone", *words)
    assert made.returncode == 0, made.stderr
    assert run(environment, "show", "tone").returncode == 0
    missing = run(environment, "serve")
    assert missing.returncode == 2
    assert "memalign-server" in missing.stderr


def test_the_server_adds_its_command(wheels: dict[str, Path], environment: Path) -> None:
    install(wheels["memalign"], environment)
    install(wheels["memalign-server"], environment)
    shown = run(environment, "serve", "--help")
    assert shown.returncode == 0
    assert "--port" in shown.stdout
