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
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

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
    if (ROOT / ".git").exists() and shutil.which("git"):
        command = [
            "git",
            "-C",
            str(ROOT),
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
            "-z",
        ]
        names = (
            subprocess.run(command, capture_output=True, check=True)
            .stdout.decode()
            .split("\0")
        )
        return [ROOT / name for name in names if name and (ROOT / name).is_file()]
    return [
        path for path in ROOT.rglob("*") if path.is_file() and ".venv" not in path.parts
    ]


def commands(block: str) -> Iterator[list[str]]:
    """The words of every `memalign …` and `export …` in a block for a shell, without
    comments and pipes."""
    for line in block.replace("\\\n", " ").splitlines():
        command = line.strip().removeprefix("$ ")
        if command.startswith(("memalign ", "export ")):
            words = shlex.split(command, comments=True)
            yield words[
                : next(
                    (
                        place
                        for place, word in enumerate(words)
                        if word in ("|", ">", "&&")
                    ),
                    len(words),
                )
            ]


def commands_of(page: Path) -> list[list[str]]:
    """Every `memalign …` command of a page."""
    blocks = [
        fence[3]
        for fence in FENCE.finditer(page.read_text("utf-8"))
        if fence[2] in ("sh", "bash", "console")
    ]
    return [
        words for block in blocks for words in commands(block) if words[0] == "memalign"
    ]


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
