"""The image's recipe: what it copies is there and enough, whoever runs it has no rights, and its commands are dev.py's.

No image is built here; `test_wheels` builds and runs the packages.
"""

from __future__ import annotations

import re
import subprocess
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
