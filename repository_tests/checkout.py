"""What is in the repository: its folder, the files that git tracks or would track, and the benchmarks, to be run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def tracked_files() -> list[Path]:
    """In a copy without .git, everything outside the environment."""
    if (ROOT / ".git").exists() and shutil.which("git"):
        command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
        names = subprocess.run(command, capture_output=True, check=True).stdout.decode().split("\0")
        return [ROOT / name for name in names if name and (ROOT / name).is_file()]
    return [path for path in ROOT.rglob("*") if path.is_file() and ".venv" not in path.parts]


def benchmark(name: str, *arguments: object, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a script of benchmarks/."""
    command = [sys.executable, str(ROOT / "benchmarks" / name), *map(str, arguments)]
    environment = {**os.environ, "OPENAI_API_KEY": "not-needed"}
    return subprocess.run(command, capture_output=True, text=True, check=check, timeout=600, env=environment)
