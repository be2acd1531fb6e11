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
PACKAGES = ("memalign", "memalign-server")


def stages() -> list[list[tuple[str, str]]]:
    """Of each stage the instructions and their arguments, in order."""
    lines = [line for line in DOCKERFILE.replace("\\\n", " ").splitlines() if line and not line.startswith("#")]
    found: list[list[tuple[str, str]]] = []
    for line in lines:
        if line.startswith("FROM"):
            found.append([])
        found[-1].append((line.partition(" ")[0], line.partition(" ")[2]))
    return found


def of(instruction: str) -> list[str]:
    return [said for stage in stages() for name, said in stage if name == instruction]


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
    named = {each.partition(" AS ")[2] for each in of("FROM")}
    assert {each.split()[0] for each in of("FROM")} - named == {"python:3.12-slim"}
    for stage in (stages()[-1], next(each for each in stages() if each[0][1].endswith(" AS server"))):
        names = [name for name, _ in stage]
        assert ("USER", "memalign") in stage
        assert names.index("USER") < names.index("ENTRYPOINT")
        assert "RUN" not in names[names.index("USER") :]
        assert ("ENTRYPOINT", '["memalign"]') in stage
        assert ("VOLUME", "/data") in stage
    assert ("CMD", '["--help"]') in stages()[-1]
    assert "MEMALIGN_REGISTRY=sqlite:////data/memalign.db" in of("ENV")[0]


@pytest.mark.parametrize(("lock", "package"), [*zip(("runtime", "server"), PACKAGES, strict=True)])
def test_it_installs_what_dev_py_installs(lock: str, package: str) -> None:
    (install,) = (run for run in of("RUN") if f"-r requirements/{lock}.txt" in run)
    assert all(flag in install for flag in ("--no-deps", "--require-hashes"))
    (ours,) = (run for run in of("RUN") if run.endswith(f"./packages/{package}"))
    assert all(flag in ours for flag in ("--no-deps", "--no-build-isolation"))
    assert re.search(r"^hatchling==", (ROOT / "requirements" / f"{lock}.txt").read_text("utf-8"), re.MULTILINE)
    # docker build of another Python than the lock was made for would find no wheels
    assert 'requires-python = ">=3.11"' in (ROOT / "packages" / package / "pyproject.toml").read_text("utf-8")


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


def test_the_packages_build_and_run_from_context(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    context, site = tmp_path / "src", tmp_path / "site"
    for package in PACKAGES:
        for file in (ROOT / "packages" / package).rglob("*"):
            path = file.relative_to(ROOT).as_posix()
            if file.is_file() and in_context(path):
                (context / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, context / path)
        (install,) = (run for run in of("RUN") if run.endswith(f"./packages/{package}"))
        words = install.replace("/opt/memalign/bin/python", sys.executable).split()
        subprocess.run([*words, "-q", "--target", str(site)], cwd=context, check=True, capture_output=True)
    assert (site / "memalign_server" / "templates" / "review.html").is_file()
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
