"""The shell completes commands, options and judges' names."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")

ASK = """
eval "$(memalign --show-completion)"
COMP_WORDS=({words}) COMP_CWORD={place}
_memalign_completion memalign
echo "${{COMPREPLY[@]}}"
"""


def bash(script: str, home: Path) -> str:
    """What a script prints, where `memalign` is the program of this environment."""
    folder = home / "bin"
    folder.mkdir(exist_ok=True)
    (folder / "memalign").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m memalign "$@"\n', "utf-8")
    (folder / "memalign").chmod(0o755)
    variables = {"HOME": str(home), "PATH": f"{folder}:{os.environ['PATH']}"}
    run = subprocess.run(
        ["bash", "-c", script], env={**os.environ, **variables}, cwd=home, capture_output=True, text=True, check=True
    )
    return run.stdout


@pytest.mark.parametrize(
    ("words", "place", "completed"),
    [
        ("memalign ju", 1, "judge"),
        ("memalign judge tone x.jsonl --max", 4, "--max-cost"),
        ("memalign judge to", 2, "tone"),
        ("memalign judge --registry nowhere.db to", 4, ""),
    ],
)
def test_the_shell_completes(tone: str, tmp_path: Path, words: str, place: int, completed: str) -> None:
    assert tone == "tone"
    assert bash(ASK.format(words=words, place=place), tmp_path).strip() == completed
    assert not (tmp_path / "nowhere.db").exists()


def test_completion_is_installed_for_the_shell_that_asks(tmp_path: Path) -> None:
    assert "bash completion installed" in bash("memalign --install-completion; true", tmp_path)
    assert ".bash_completions/memalign.sh" in (tmp_path / ".bashrc").read_text("utf-8")
    assert "_memalign_completion" in (tmp_path / ".bash_completions" / "memalign.sh").read_text("utf-8")
