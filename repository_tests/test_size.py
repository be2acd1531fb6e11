"""The house stays small enough to read in a week: each room has a budget of lines, and a name says what a thing is."""

from __future__ import annotations

import ast
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
BUDGETS = ROOT / "repository_tests" / "budgets.tsv"

LONGEST_LINE = 120  # characters
MOST_LONG_LINES = 0
MOST_WEAK_NAMES = 1
WEAK_NAMES = frozenset(
    (
        *("each", "found", "said", "given", "told", "kept", "mine", "there"),
        *("held", "gone", "lost", "stood", "known", "left", "shown", "met", "asked"),
    )
)
"""Pronouns and participles: as the name of a variable, a function or a class they say nothing of what it holds."""


class Room(NamedTuple):
    """A place in the repository and the lines of Python that it may have."""

    pattern: str
    budget: int
    purpose: str


def rooms() -> list[Room]:
    lines = [line.split("\t") for line in BUDGETS.read_text("utf-8").splitlines() if line and not line.startswith("#")]
    return [Room(pattern, int(budget), purpose) for pattern, budget, purpose in lines]


def files_of(pattern: str) -> list[Path]:
    """The Python files of a room: `folder/*.py` for those of the folder itself, `folder` for all below it."""
    if pattern.endswith("*.py"):
        return sorted((ROOT / pattern.removesuffix("*.py")).glob("*.py"))
    place = ROOT / pattern
    return [place] if place.is_file() else [path for path in sorted(place.rglob("*.py")) if "tests" not in path.parts]


def lines_of(pattern: str) -> int:
    return sum(path.read_text("utf-8").count("\n") for path in files_of(pattern))


def product() -> list[Path]:
    """Every Python file that git tracks, or would track, but those of tests."""
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        return [path for room in rooms() for path in files_of(room.pattern)]
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", "-z", "*.py"]
    names = subprocess.run(command, capture_output=True, check=True).stdout.decode().split("\0")
    paths = [ROOT / name for name in names if name and "tests" not in Path(name).parts]
    return [path for path in paths if path.is_file() and "repository_tests" not in path.parts]


def names_in(path: Path) -> Iterator[str]:
    """The names that a file gives to arguments, variables, functions and classes."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        match node:
            case ast.arg():
                yield node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.id
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name


@pytest.mark.parametrize("room", rooms(), ids=lambda room: room.pattern)
def test_a_room_keeps_to_its_budget(room: Room) -> None:
    assert files_of(room.pattern), f"{room.pattern} has no Python file; mend {BUDGETS.name}"
    lines = lines_of(room.pattern)
    assert lines <= room.budget, f"{room.pattern} ({room.purpose}) has {lines:,} lines and may have {room.budget:,}"


def test_every_file_of_the_product_has_a_room() -> None:
    counted = {path for room in rooms() for path in files_of(room.pattern)}
    assert {path.relative_to(ROOT).as_posix() for path in set(product()) - counted} == set()


def test_weak_names_only_become_fewer() -> None:
    count = Counter(name.strip("_") for path in product() for name in names_in(path) if name.strip("_") in WEAK_NAMES)
    listed = ", ".join(f"{name} {times}" for name, times in count.most_common())
    assert count.total() <= MOST_WEAK_NAMES, f"{count.total()} names say nothing of what they hold: {listed}"


def test_long_lines_only_become_fewer() -> None:
    long = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in product()
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if len(line) > LONGEST_LINE
    ]
    assert len(long) <= MOST_LONG_LINES, f"{len(long)} lines have more than {LONGEST_LINE} characters: {long[:10]}"
