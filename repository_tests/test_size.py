"""The house stays small enough to read in a week: each room has a budget of lines, and a name says what a thing is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from checkout import ROOT, tracked_files

WEAK_NAMES = {
    *("each", "found", "said", "given", "told", "kept", "mine", "there"),
    *("held", "gone", "lost", "stood", "known", "left", "shown", "met", "asked"),
}
"""Pronouns and participles: as the name of a variable, a function or a class they say nothing of what it holds."""


def rooms() -> list[tuple[str, int]]:
    """Each place in the repository, and the lines of Python that it may have."""
    lines = (ROOT / "repository_tests" / "budgets.tsv").read_text("utf-8").splitlines()
    cells = [line.split("\t") for line in lines if line and not line.startswith("#")]
    return [(place, int(budget)) for place, budget, _ in cells]


def files_of(place: str) -> list[Path]:
    """The Python files of a room: `folder/*.py` for those of the folder itself, `folder` for all below it."""
    found = ROOT.glob(place) if place.endswith("*.py") else (ROOT / place).rglob("*.py")
    return [path for path in found if "tests" not in path.parts]


def product() -> list[Path]:
    """Every Python file but those of tests."""
    files = [path for path in tracked_files() if path.suffix == ".py"]
    return [path for path in files if not {"tests", "repository_tests"} & set(path.relative_to(ROOT).parts)]


def names_in(path: Path) -> Iterator[str]:
    """The names that a file gives to arguments, variables, functions and classes."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        match node:
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name


@pytest.mark.parametrize(("place", "budget"), rooms())
def test_a_room_keeps_to_its_budget(place: str, budget: int) -> None:
    lines = sum(path.read_text("utf-8").count("\n") for path in files_of(place))
    assert 0 < lines <= budget


def test_every_file_of_the_product_has_a_room() -> None:
    counted = {path for place, _ in rooms() for path in files_of(place)}
    assert set(product()) - counted == set()


def test_no_name_is_a_pronoun_or_a_participle() -> None:
    weak = [f"{path.name}: {name}" for path in product() for name in names_in(path) if name.strip("_") in WEAK_NAMES]
    assert weak == ["receipt.py: left"]
