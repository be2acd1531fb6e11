"""What is in the repository: its folder, the files that git tracks or would track, its
pages, and the benchmarks."""

from __future__ import annotations

import io
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^( *)```([\w.-]*)[^\n]*\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
"""A block of a page: what stands before it, its language, its text."""
PROGRAM = re.compile(
    r"^<!-- test -->\n+```python\n(.*?)^```\n+```text\n(.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
"""The README's program and what it prints."""


def tracked_files() -> list[Path]:
    """In a copy without .git, everything outside the environment."""
    paths: Iterable[Path] = ROOT.rglob("*")
    if (ROOT / ".git").exists() and shutil.which("git"):
        options = ["--cached", "--others", "--exclude-standard", "-z"]
        listed = subprocess.check_output(["git", "ls-files", *options], cwd=ROOT)
        paths = map(ROOT.joinpath, listed.decode().split("\0"))
    return [path for path in paths if path.is_file() and ".venv" not in path.parts]


def text_of(name: str) -> str:
    """The text of a file, named by its path in the repository."""
    return (ROOT / name).read_text("utf-8")


def toml_of(name: str) -> dict[str, Any]:
    """The settings in a file of TOML, named by its path in the repository."""
    return tomllib.loads(text_of(name))


def section_of(page: str, heading: str) -> str:
    """What a page says below a heading of the second level."""
    return page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def rows_of(text: str) -> list[list[str]]:
    """The cells of each row of the tables in a text, heads and lines below them too."""
    rows = list[list[str]]()
    for line in text.splitlines():
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def python_after(mark: str, text: str) -> list[str]:
    """The blocks of Python that follow the comment with these words, a pattern, at once."""
    block = rf"^<!-- {mark} -->\n+```python\n(.*?)^```$"
    return re.findall(block, text, re.MULTILINE | re.DOTALL)


def missing(text: str, parts: Iterable[str]) -> set[str]:
    """The parts that are not in a text."""
    return {part for part in parts if part not in text}


def python(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """What came of a command line of this Python, which may fail."""
    command = [sys.executable, *map(str, words)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, **options
    )


def commands(block: str) -> Iterator[list[str]]:
    """The words of every `memalign …` and `export …` in a block for a shell, without
    comments and pipes."""
    for line in block.replace("\\\n", " ").splitlines():
        command = line.strip().removeprefix("$ ")
        if command.startswith(("memalign ", "export ")):
            words = shlex.split(command, comments=True)
            for mark in ("|", ">", "&&"):
                if mark in words:
                    words = words[: words.index(mark)]
            yield words


def commands_of(page: str) -> list[list[str]]:
    """The words of every `memalign …` command of a page."""
    found = list[list[str]]()
    for fence in FENCE.finditer(text_of(page)):
        if fence[2] in ("sh", "bash", "console"):
            found += commands(fence[3])
    return [words for words in found if words[0] == "memalign"]


def benchmark(
    name: str, *arguments: object, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run a script of benchmarks/ as a command would, in this process, which has all
    libraries at hand."""
    script = ROOT / "benchmarks" / name
    command = [str(script), *map(str, arguments)]
    out = io.StringIO()
    err = io.StringIO()
    status: object = None
    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        patch.setattr(sys, "argv", command)
        patch.syspath_prepend(script.parent)
        patch.setenv("OPENAI_API_KEY", "not-needed")
        try:
            runpy.run_path(str(script), run_name="__main__")
        except SystemExit as end:
            status = end.code
    ended = subprocess.CompletedProcess(
        command, int(bool(status)), out.getvalue(), err.getvalue()
    )
    if check:
        ended.check_returncode()
    return ended
