"""The house stays small enough to read in a week: each room has a budget of syntax nodes, tests included.

Nodes of the syntax tree are counted, not lines: air, names and docstrings are free, and packing wins nothing. Many rooms
weigh more than their budget by now. Until they have come down to it, a number beside it says how much they may weigh;
it only falls, and a room that meets it asks for something that can leave.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from checkout import ROOT, tracked_files


def rooms() -> list[tuple[str, int]]:
    """Return each place in the repository, and the syntax nodes that it may have by now."""
    lines = (ROOT / "repository_tests" / "budgets.tsv").read_text("utf-8").splitlines()
    cells = [line.split("\t") for line in lines if line and not line.startswith("#")]
    return [(place, int(most)) for place, most, _, _ in cells]


def is_test(name: str) -> bool:
    """Return whether a file, by its path in the repository, is one of tests."""
    return (
        "/tests/" in name
        or name.startswith("repository_tests")
        or "typing_tests" in name
    )


def belongs(name: str, place: str) -> bool:
    """Return whether a file is of a place: `tests`, `folder/*.py` for the folder
    itself, `folder` for all below it."""
    if place == "tests" or is_test(name):
        return place == "tests" and is_test(name)
    folder = place.removesuffix("*.py").rstrip("/") + "/"
    below = name.removeprefix(folder)
    return name.startswith(folder) and not (place.endswith("*.py") and "/" in below)


def python_files() -> list[str]:
    """Return every tracked Python file, by its path in the repository."""
    return [
        path.relative_to(ROOT).as_posix()
        for path in tracked_files()
        if path.suffix == ".py"
    ]


def nodes_in(name: str) -> int:
    """Return how many syntax nodes a file has."""
    tree = ast.parse((ROOT / Path(name)).read_text("utf-8"))
    return sum(1 for _ in ast.walk(tree))


@pytest.mark.parametrize(("place", "most"), rooms())
def test_a_room_grows_no_more(place: str, most: int) -> None:
    nodes = sum(nodes_in(name) for name in python_files() if belongs(name, place))
    assert 0 < nodes <= most


def test_every_file_of_the_product_has_exactly_one_room() -> None:
    places = [place for place, _ in rooms()]
    product = [
        name for name in python_files() if name.startswith(("packages/", "benchmarks/"))
    ]
    homes = {
        name: [place for place in places if belongs(name, place)] for name in product
    }
    assert {name: found for name, found in homes.items() if len(found) != 1} == {}
