"""The house stays small enough to read in a week: each room has a budget of syntax nodes.

Nodes of the syntax tree are counted, not lines: air, names and docstrings are free, and packing
wins nothing. Many rooms weigh more than their budget by now. Until they have come down to it, a
number beside it says how much they may weigh; it only falls, and a room that meets it asks for
something that can leave.
"""

from __future__ import annotations

import ast
from functools import cache

import pytest
from checkout import ROOT, text_of, tracked_files


def rooms() -> dict[str, int]:
    """Return each place in the repository, and the syntax nodes that it may have by now."""
    rooms = {}
    for line in text_of("repository_tests/budgets.tsv").splitlines():
        if line and not line.startswith("#"):
            place, most, _, _ = line.split("\t")
            rooms[place] = int(most)
    return rooms


def belongs(name: str, place: str) -> bool:
    """Return whether a file is of a place: `tests`, `folder/*.py` for the folder
    itself, `folder` for all below it."""
    is_test = (
        "/tests/" in name
        or name.startswith("repository_tests")
        or "typing_tests" in name
    )
    if place == "tests" or is_test:
        return place == "tests" and is_test
    folder = place.removesuffix("*.py").rstrip("/") + "/"
    below = name.removeprefix(folder)
    return name.startswith(folder) and not (place.endswith("*.py") and "/" in below)


@cache
def weights() -> dict[str, int]:
    """Return how many syntax nodes each tracked Python file has, by its path."""
    weights = {}
    for path in tracked_files():
        if path.suffix == ".py":
            name = path.relative_to(ROOT).as_posix()
            weights[name] = len([*ast.walk(ast.parse(text_of(name)))])
    return weights


@pytest.mark.parametrize(("place", "most"), rooms().items())
def test_a_room_grows_no_more(place: str, most: int) -> None:
    mine = [nodes for name, nodes in weights().items() if belongs(name, place)]
    assert 0 < sum(mine) <= most


def test_every_file_of_the_product_has_exactly_one_room() -> None:
    for name in weights():
        if name.startswith(("packages/", "benchmarks/")):
            homes = [place for place in rooms() if belongs(name, place)]
            assert len(homes) == 1, name
