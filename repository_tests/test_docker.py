"""The image's recipe: what it copies is there and enough, whoever runs it has no rights, and its commands are dev.py's.

No image is built here. Its steps are run in a folder that holds what the build context would hold, and nothing else.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")


def steps() -> list[tuple[str, str]]:
    """The instructions and their arguments, in order."""
    lines = [line for line in DOCKERFILE.replace("\\\n", " ").splitlines() if line and not line.startswith("#")]
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in lines]


def of(instruction: str) -> list[str]:
    return [said for name, said in steps() if name == instruction]


def in_context(path: str) -> bool:
    """Whether .dockerignore lets the build see a file: the last pattern that meets it, or a folder of it, decides."""
    seen = True
    for line in (ROOT / ".dockerignore").read_text("utf-8").split():
        pattern = line.removeprefix("!")
        parents = [path, *(str(parent) for parent in PurePosixPath(path).parents if str(parent) != ".")]
        if any(_meets(each, pattern) for each in parents):
            seen = line.startswith("!")
    return seen


def _meets(path: str, pattern: str) -> bool:
    written = re.escape(pattern).replace(r"\*\*/", "(.*/)?").replace(r"\*", "[^/]*")
    return bool(re.fullmatch(written, path))


def test_it_is_small_and_runs_without_rights() -> None:
    assert {each.split()[0] for each in of("FROM")} == {"python:3.12-slim"}
    names = [name for name, _ in steps()]
    assert of("USER") == ["memalign"]
    assert names.index("USER") < names.index("ENTRYPOINT")
    assert "RUN" not in names[names.index("USER") :]
    assert of("ENTRYPOINT") == ['["memalign"]']
    assert of("VOLUME") == ["/data"]
    assert "MEMALIGN_REGISTRY=sqlite:////data/memalign.db" in of("ENV")[0]


def test_it_installs_what_dev_py_installs() -> None:
    flags = ("--no-deps", "--require-hashes", "-r requirements/runtime.txt")
    install, ours = (run for run in of("RUN") if "pip install" in run)
    assert all(flag in install for flag in flags)
    assert all(flag in ours for flag in ("--no-deps", "--no-build-isolation", "./packages/memalign"))
    assert re.search(r"^hatchling==", (ROOT / "requirements" / "runtime.txt").read_text("utf-8"), re.MULTILINE)
    # docker build of another Python than the lock was made for would find no wheels
    assert 'requires-python = ">=3.11"' in (ROOT / "packages" / "memalign" / "pyproject.toml").read_text("utf-8")


def test_the_image_copies_exactly_its_build_context() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    seen = [path for path in tracked if path and in_context(path)]
    copied = [each.split()[0] for each in of("COPY") if not each.startswith("--from")]
    for source in copied:
        assert any(path == source or path.startswith(f"{source}/") for path in seen), source
    assert all(any(path.startswith(source) for source in copied) for path in seen)
    assert not any("/tests/" in path or path.startswith((".git", "docs")) for path in seen)


def test_the_package_builds_and_runs_from_context(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    context, site = tmp_path / "src", tmp_path / "site"
    for file in (ROOT / "packages" / "memalign").rglob("*"):
        path = file.relative_to(ROOT).as_posix()
        if file.is_file() and in_context(path):
            (context / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, context / path)
    (install,) = (run for run in of("RUN") if "./packages/memalign" in run)
    words = install.replace("/opt/memalign/bin/python", sys.executable).split()
    subprocess.run([*words, "-q", "--target", str(site)], cwd=context, check=True, capture_output=True)
    assert "RUN /opt/memalign/bin/memalign --version" in DOCKERFILE
    told = subprocess.run(
        [sys.executable, "-m", "memalign", "--version"],
        env={**os.environ, "PYTHONPATH": str(site)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.stdout.startswith("memalign ")
    found = subprocess.run(
        [sys.executable, "-c", "import memalign.prompts; print(memalign.prompts.__file__)"],
        env={**os.environ, "PYTHONPATH": str(site)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip().startswith(str(site))
